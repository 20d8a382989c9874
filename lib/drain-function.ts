import type { Construct } from 'constructs';
import { attentionIndex } from '../lambdas/shared/limits/names.ts';
import { allow } from './function.ts';
import { SenderFunction, type SenderFunctionProps } from './sender-function.ts';
import { indexArn } from './tables.ts';

/** The drain function with its role, log group and event source. */
export class DrainFunction extends SenderFunction {
  constructor(scope: Construct, id: string, props: SenderFunctionProps) {
    const { stage, queues, tables } = props;
    super(scope, id, props, {
      name: 'drain',
      entry: 'lambdas/drain/handler.ts',
      description: 'Sluice: delivers what is held, endpoint by endpoint',
      config: stage.drain,
      source: queues.drain,
      statements: [
        allow(['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], queues.drain.queueArn),
        allow(['dynamodb:BatchGetItem', 'dynamodb:DeleteItem'], tables.payloads.tableArn),
        allow(['dynamodb:Query'], indexArn(tables.deliveries, attentionIndex)),
      ],
    });
  }
}
