/** The events of a benchmark, and how a producer sends them. */
import { randomBytes } from 'node:crypto';
import { SendMessageBatchCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { ulid } from '../lambdas/shared/core/version.ts';
import { outputs } from '../lambdas/shared/limits/names.ts';
import type { Installation } from './installation.ts';

export interface Event {
  readonly endpointId: string;
  readonly eventId: string;
  /** Bytes of chance in its payload, beside what others have: bodies are stored compressed, and these do not shrink. */
  readonly moreBytes?: number;
}

export const newEvent = (endpointId: string): Event => ({ endpointId, eventId: `evt_${ulid(Date.now(), randomBytes(10))}` });

/** As a producer sends: the endpoint is the message group; one event by SendMessage, several (at most ten) in one batch. */
export async function send({ producer, output }: Pick<Installation, 'producer' | 'output'>, events: readonly Event[]): Promise<void> {
  const QueueUrl = output(outputs.deliveryQueueUrl);
  const messages = events.map((event) => ({ MessageBody: messageOf(event), MessageGroupId: event.endpointId }));
  const [only] = messages;
  if (only !== undefined && messages.length === 1) {
    await producer.send(new SendMessageCommand({ QueueUrl, ...only }));
    return;
  }
  const { Failed = [] } = await producer.send(new SendMessageBatchCommand({ QueueUrl, Entries: messages.map((message, i) => ({ Id: String(i), ...message })) }));
  if (Failed.length > 0) throw new Error(`SQS refused ${Failed.length} of ${events.length} messages: ${Failed[0]?.Message ?? ''}`);
}

function messageOf({ endpointId, eventId, moreBytes = 0 }: Event): string {
  const payload = { ...(moreBytes === 0 ? {} : { photo: randomBytes(moreBytes).toString('base64') }), invoice: 'in_1042', amount: 1_999, currency: 'EUR', customer: 'cus_77', lines: [{ sku: 'A-1', quantity: 2 }] };
  return JSON.stringify({ v: 1, endpointId, eventId, eventType: 'invoice.paid', occurredAt: '2026-01-05T10:00:00Z', payload });
}
