/** What SQS refuses and fauxqs lets pass. Codes and texts as AWS answers them, where they are known. */
import { AwsError, type JsonObject } from './emulator.ts';
import type { MessageAttribute, Queue } from './types/fauxqs.d.ts';

export const limits = {
  maxDelayS: 900,
  maxVisibilityS: 43_200,
  maxWaitS: 20,
  maxBatchEntries: 10,
  maxMessageAttributes: 10,
  maxMessageBytes: 1_048_576,
  /** Messages of a standard queue that are hidden at the same time. */
  maxInFlight: 120_000,
  purgeIntervalMs: 60_000,
} as const;

/** SQS puts most of its own codes into one namespace in the header that older clients read. */
const namespaced = new Set([
  'BatchEntryIdsNotDistinct', 'BatchRequestTooLong', 'EmptyBatchRequest', 'InvalidBatchEntryId', 'MessageNotInflight',
  'PurgeQueueInProgress', 'TooManyEntriesInBatchRequest', 'UnsupportedOperation',
]);

export function sqsError(code: string, message: string, status = 400): AwsError {
  const queryCode = namespaced.has(code) ? `AWS.SimpleQueueService.${code}` : code;
  return new AwsError(code, message, { status, queryCode });
}

export const invalidValue = (message: string) => sqsError('InvalidParameterValue', message);

export const queueMissing = () =>
  new AwsError('QueueDoesNotExist', 'The specified queue does not exist.', { queryCode: 'AWS.SimpleQueueService.NonExistentQueue' });

/** A number within bounds, or undefined where the caller left it out. */
export function boundedInteger(input: JsonObject, name: string, min: number, max: number): number | undefined {
  const value = input[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalidValue(`Value ${JSON.stringify(value)} for parameter ${name} is invalid. Reason: Must be between ${min} and ${max}, if provided.`);
  }
  return value;
}

/** XML 1.0's characters; with the u flag a lone surrogate is one code point outside of them, and an emoji is one inside. */
const forbiddenCharacter = /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/u;
const attributeName = /^(?!aws\.|amazon\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)$/i;
const attributeType = /^(String|Number|Binary)(\..+)?$/;
const groupId = /^[A-Za-z0-9!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]{1,128}$/;

export interface OutgoingMessage {
  body: string;
  attributes: Record<string, MessageAttribute>;
  delayS: number;
  groupId: string | undefined;
  traceHeader: string | undefined;
  bytes: number;
}

/** Body and attributes count together: names, types and values. */
export function messageBytes(body: string, attributes: Record<string, MessageAttribute>): number {
  let bytes = Buffer.byteLength(body);
  for (const [name, { DataType, StringValue, BinaryValue }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(DataType) + Buffer.byteLength(StringValue ?? '');
    bytes += BinaryValue ? Buffer.byteLength(BinaryValue, 'base64') : 0;
  }
  return bytes;
}

function checkCharacters(text: string): void {
  if (forbiddenCharacter.test(text)) {
    const allowed = '#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF';
    throw sqsError('InvalidMessageContents', `Invalid characters found. Valid unicode characters are ${allowed}.`);
  }
}

function checkAttributes(attributes: Record<string, MessageAttribute>): void {
  const count = Object.keys(attributes).length;
  if (count > limits.maxMessageAttributes) {
    throw invalidValue(`Number of message attributes [${count}] exceeds the allowed maximum [${limits.maxMessageAttributes}].`);
  }
  for (const [name, { DataType, StringValue, BinaryValue }] of Object.entries(attributes)) {
    if (!attributeName.test(name)) throw invalidValue(`Invalid message attribute name '${name}'.`);
    const isBinary = DataType?.startsWith('Binary');
    if (!attributeType.test(DataType ?? '')) throw invalidValue(`The message attribute '${name}' has an invalid message attribute type.`);
    const value = isBinary ? BinaryValue : StringValue;
    if (!value) throw invalidValue(`The message attribute '${name}' must contain a non-empty value for its type '${DataType}'.`);
    if (!isBinary) checkCharacters(value);
    if (DataType.startsWith('Number') && !Number.isFinite(Number(value))) {
      throw invalidValue(`Can't cast the value of message attribute '${name}' to a number.`);
    }
  }
}

function traceHeaderOf(input: JsonObject): string | undefined {
  const attributes = (input['MessageSystemAttributes'] ?? {}) as Record<string, MessageAttribute>;
  const unknown = Object.keys(attributes).find((name) => name !== 'AWSTraceHeader');
  if (unknown) throw invalidValue(`Message system attribute name '${unknown}' is invalid.`);
  return attributes['AWSTraceHeader']?.StringValue;
}

function groupIdOf(queue: Queue, input: JsonObject): string | undefined {
  const id = input['MessageGroupId'];
  if (id === undefined || id === null) return undefined;
  if (typeof id !== 'string' || !groupId.test(id)) {
    throw invalidValue('MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.');
  }
  if (!queue.isFifo() && input['MessageDeduplicationId']) throw notForThisQueue('MessageDeduplicationId', input);
  return id;
}

function notForThisQueue(name: string, input: JsonObject): AwsError {
  const reason = 'The request include parameter that is not valid for this queue type';
  return invalidValue(`Value ${JSON.stringify(input[name])} for parameter ${name} is invalid. Reason: ${reason}.`);
}

/** Checks one message to be sent, alone or as an entry of a batch. @throws AwsError as SendMessage would. */
export function checkMessage(queue: Queue, input: JsonObject): OutgoingMessage {
  const body = input['MessageBody'];
  if (typeof body !== 'string' || body === '') throw sqsError('MissingParameter', 'The request must contain the parameter MessageBody.');
  checkCharacters(body);
  const attributes = (input['MessageAttributes'] ?? {}) as Record<string, MessageAttribute>;
  checkAttributes(attributes);
  const wanted = input['DelaySeconds'];
  if (wanted !== undefined && (typeof wanted !== 'number' || !(wanted >= 0 && wanted <= limits.maxDelayS))) {
    const reason = `DelaySeconds must be >= 0 and <= ${limits.maxDelayS}`;
    throw invalidValue(`Value ${JSON.stringify(wanted)} for parameter DelaySeconds is invalid. Reason: ${reason}.`);
  }
  const bytes = messageBytes(body, attributes);
  const maxBytes = Number(queue.attributes['MaximumMessageSize']);
  if (bytes > maxBytes) throw invalidValue(`One or more parameters are invalid. Reason: Message must be shorter than ${maxBytes} bytes.`);
  return {
    body,
    attributes,
    bytes,
    delayS: wanted ?? Number(queue.attributes['DelaySeconds']),
    groupId: groupIdOf(queue, input),
    traceHeader: traceHeaderOf(input),
  };
}

/** The entries of a batch call, after the checks that refuse the whole call. */
export function batchEntries(input: JsonObject): JsonObject[] {
  const entries = (input['Entries'] ?? []) as JsonObject[];
  if (entries.length === 0) throw sqsError('EmptyBatchRequest', "The batch request doesn't contain any entries.");
  if (entries.length > limits.maxBatchEntries) {
    const message = `Maximum number of entries per request are ${limits.maxBatchEntries}. You have sent ${entries.length}.`;
    throw sqsError('TooManyEntriesInBatchRequest', message);
  }
  const ids = entries.map(({ Id }) => String(Id));
  if (!ids.every((id) => /^[A-Za-z0-9_-]{1,80}$/.test(id))) {
    const allowed = 'alphanumeric characters, hyphens and underscores. It can be at most 80 letters long';
    throw sqsError('InvalidBatchEntryId', `A batch entry id can only contain ${allowed}.`);
  }
  if (new Set(ids).size < ids.length) throw sqsError('BatchEntryIdsNotDistinct', 'Two or more batch entries in the request have the same Id.');
  return entries;
}

/** All messages of a batch together are bounded like one message. */
export function checkBatchBytes(entries: JsonObject[]): void {
  const bytes = entries.reduce((sum, entry) => {
    const body = typeof entry['MessageBody'] === 'string' ? entry['MessageBody'] : '';
    return sum + messageBytes(body, (entry['MessageAttributes'] ?? {}) as Record<string, MessageAttribute>);
  }, 0);
  if (bytes > limits.maxMessageBytes) {
    const message = `Batch requests cannot be longer than ${limits.maxMessageBytes} bytes. You have sent ${bytes} bytes.`;
    throw sqsError('BatchRequestTooLong', message);
  }
}
