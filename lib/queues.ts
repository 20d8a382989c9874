import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Queue, QueueEncryption, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { drainQueue, faultQueue } from '../lambdas/shared/limits/numbers.ts';
import type { StageConfig } from './stage-config.ts';

/**
 * The four queues. Crashes leave the delivery queue for the fault queue; what consumers refused is sent to the dead-letter queue by code.
 * All four keep their messages when the stack is deleted, except in the local stage.
 */
export class Queues extends Construct {
  readonly delivery: Queue;
  readonly deadLetter: Queue;
  readonly fault: Queue;
  readonly drain: Queue;

  constructor(scope: Construct, id: string, stage: StageConfig) {
    super(scope, id);
    const common = {
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      removalPolicy: stage.name === 'local' ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
    } satisfies QueueProps;

    this.deadLetter = new Queue(this, 'DeadLetter', {
      ...common,
      retentionPeriod: Duration.seconds(stage.deadLetterQueue.retentionS),
      maxMessageSizeBytes: stage.deadLetterQueue.maxMessageBytes,
    });

    // The console starts a redrive only from a queue that some queue names as its DLQ; this policy is what makes the DLQ one.
    this.fault = new Queue(this, 'Fault', {
      ...common,
      retentionPeriod: Duration.seconds(stage.faultQueue.retentionS),
      maxMessageSizeBytes: stage.faultQueue.maxMessageBytes,
      deadLetterQueue: { queue: this.deadLetter, maxReceiveCount: faultQueue.maxReceiveCount },
    });

    this.delivery = new Queue(this, 'Delivery', {
      ...common,
      retentionPeriod: Duration.seconds(stage.deliveryQueue.retentionS),
      maxMessageSizeBytes: stage.deliveryQueue.maxMessageBytes,
      visibilityTimeout: Duration.seconds(stage.deliveryQueue.visibilityTimeoutS),
      deadLetterQueue: { queue: this.fault, maxReceiveCount: stage.deliveryQueue.maxReceiveCount },
    });

    // No redrive policy: a lost wake-up costs a minute, for the sweep finds what is due.
    this.drain = new Queue(this, 'Drain', {
      ...common,
      retentionPeriod: Duration.seconds(stage.drainQueue.retentionS),
      maxMessageSizeBytes: drainQueue.maxBytes,
      visibilityTimeout: Duration.seconds(stage.drainQueue.visibilityTimeoutS),
    });
  }
}
