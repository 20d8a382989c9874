/** Queues for the SQS suites. */
import * as Q from '@aws-sdk/client-sqs';
import { type Subject, isAws, until } from './fidelity-subject.ts';

/** Queues of one suite, deleted at its end: a real account should look as it did before. */
export class Queues {
  readonly client: Q.SQSClient;
  private readonly made: string[] = [];
  private readonly prefix = `sluice-fidelity-${Date.now()}`;

  constructor(subject: Subject) {
    this.client = new Q.SQSClient(subject.config());
  }

  async make(Attributes: Record<string, string> = {}, suffix = ''): Promise<string> {
    const QueueName = `${this.prefix}-${this.made.length}${suffix}`;
    const { QueueUrl = '' } = await this.client.send(new Q.CreateQueueCommand({ QueueName, Attributes }));
    this.made.push(QueueUrl);
    return QueueUrl;
  }

  async attributes(QueueUrl: string): Promise<Record<string, string>> {
    return (await this.client.send(new Q.GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }))).Attributes ?? {};
  }

  async arn(QueueUrl: string): Promise<string> {
    return (await this.attributes(QueueUrl))['QueueArn'] ?? '';
  }

  redrivePolicy = async (deadLetterUrl: string, maxReceiveCount = 1) => ({
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn: await this.arn(deadLetterUrl), maxReceiveCount }),
  });

  send(QueueUrl: string, MessageBody: string, more: Partial<Q.SendMessageCommandInput> = {}): Promise<Q.SendMessageCommandOutput> {
    return this.client.send(new Q.SendMessageCommand({ QueueUrl, MessageBody, ...more }));
  }

  async receive(QueueUrl: string, more: Partial<Q.ReceiveMessageCommandInput> = {}): Promise<Q.Message[]> {
    const all = { MaxNumberOfMessages: 10, MessageSystemAttributeNames: ['All' as const], MessageAttributeNames: ['All'] };
    return (await this.client.send(new Q.ReceiveMessageCommand({ QueueUrl, ...all, ...more }))).Messages ?? [];
  }

  /** One message, waited for: a queue is spread over many servers, and a short poll asks only some of them. */
  async receiveOne(QueueUrl: string, more: Partial<Q.ReceiveMessageCommandInput> = {}): Promise<Q.Message & { ReceiptHandle: string }> {
    const wait = isAws ? { WaitTimeSeconds: 5 } : {};
    const message = await until(async () => (await this.receive(QueueUrl, { MaxNumberOfMessages: 1, ...wait, ...more }))[0]);
    return { ...message, ReceiptHandle: message.ReceiptHandle ?? '' };
  }

  hide(QueueUrl: string, ReceiptHandle: string, VisibilityTimeout: number): Promise<unknown> {
    return this.client.send(new Q.ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout }));
  }

  delete(QueueUrl: string, ReceiptHandle: string): Promise<unknown> {
    return this.client.send(new Q.DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  }

  async counts(QueueUrl: string): Promise<[visible: number, hidden: number, delayed: number]> {
    const attributes = await this.attributes(QueueUrl);
    const count = (suffix: string) => Number(attributes[`ApproximateNumberOfMessages${suffix}`]);
    return [count(''), count('NotVisible'), count('Delayed')];
  }

  async close(): Promise<void> {
    for (const QueueUrl of this.made) await this.client.send(new Q.DeleteQueueCommand({ QueueUrl })).catch(() => undefined);
    this.client.destroy();
  }
}

/** Codes differ between protocols by namespace and an "Exception" at the end, so they are matched, with the text. */
export const said = (error: Error) => `${error.name} ${error.message}`;
