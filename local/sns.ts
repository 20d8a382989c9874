/** SNS as far as the functions use it: what is published at a topic is kept, for tests and for whoever watches. */
import { randomUUID } from 'node:crypto';
import { AwsError } from './emulator.ts';

export interface Published {
  readonly topicArn: string;
  readonly subject: string | undefined;
  readonly message: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** SNS: bytes of a message with its attributes. */
const maxBytes = 262_144;
/** Of a subject: ASCII without control characters, fewer than 100. */
const subjectPattern = /^[!-~][ -~]{0,98}$/;

export class Sns {
  readonly published: Published[] = [];

  /** Runs one request of the query protocol. @returns its result as XML */
  call(input: URLSearchParams): string {
    if (input.get('Action') !== 'Publish') throw new AwsError('InvalidAction', `The action ${input.get('Action')} is not known here`);
    const [topicArn, message, subject] = ['TopicArn', 'Message', 'Subject'].map((name) => input.get(name) ?? undefined);
    if (topicArn === undefined) throw new AwsError('InvalidParameter', 'Invalid parameter: TopicArn');
    if (message === undefined || message === '' || Buffer.byteLength(message) > maxBytes) throw new AwsError('InvalidParameter', 'Invalid parameter: Message');
    if (subject !== undefined && !subjectPattern.test(subject)) throw new AwsError('InvalidParameter', 'Invalid parameter: Subject');
    this.published.push({ topicArn, subject, message, attributes: attributesOf(input) });
    return `<MessageId>${randomUUID()}</MessageId>`;
  }
}

function attributesOf(input: URLSearchParams): Record<string, string> {
  const attributes: Record<string, string> = {};
  for (let i = 1; ; i++) {
    const name = input.get(`MessageAttributes.entry.${i}.Name`);
    if (name === null) return attributes;
    attributes[name] = input.get(`MessageAttributes.entry.${i}.Value.StringValue`) ?? '';
  }
}
