import {
  ConditionalCheckFailedException,
  TransactionCanceledException,
  type AttributeValue,
} from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';

type Item = Record<string, unknown>;

/** What is known of a write that did not answer with success. */
export type WriteFailure =
  /** The condition was false. With the item as it was, where there is one. */
  | { kind: 'refused'; item: Item | undefined }
  /** Certainly not applied. */
  | { kind: 'notApplied'; cause: string }
  /** May have been applied. */
  | { kind: 'unsure'; cause: string };

const throttles = new Set([
  'ThrottlingException',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'TransactionConflictException',
  'TransactionInProgressException',
  'LimitExceededException',
]);
const bugs = new Set(['ValidationException', 'ResourceNotFoundException', 'AccessDeniedException', 'IdempotentParameterMismatchException']);

/**
 * Sorts an error of a single conditional write. A throttle is only certain to have changed nothing if it answered the
 * SDK's first attempt: an earlier attempt may have been applied and lost its answer. Bugs are thrown again.
 */
export function writeFailure(error: unknown): WriteFailure {
  if (error instanceof ConditionalCheckFailedException) return { kind: 'refused', item: plain(error.Item) };
  if (error instanceof TransactionCanceledException) return cancellation(error).overall;
  const { name, attempts } = describe(error);
  if (bugs.has(name)) throw error;
  return throttles.has(name) && attempts <= 1 ? { kind: 'notApplied', cause: name } : { kind: 'unsure', cause: name };
}

/** Sorts a cancelled transaction, and gives the item of each member whose condition was false. */
export function cancellation(error: TransactionCanceledException): { overall: WriteFailure; items: (Item | undefined)[] } {
  const reasons = error.CancellationReasons ?? [];
  const items = reasons.map((reason) => plain(reason.Item));
  const refused = reasons.findIndex((reason) => reason.Code === 'ConditionalCheckFailed');
  if (refused >= 0) return { overall: { kind: 'refused', item: items[refused] }, items };
  if (reasons.some((reason) => reason.Code === 'ValidationError')) throw error;
  const codes = reasons.map((reason) => reason.Code ?? 'None').join(',');
  return { overall: { kind: 'notApplied', cause: codes }, items };
}

function describe(error: unknown): { name: string; attempts: number } {
  if (!(error instanceof Error)) return { name: typeof error, attempts: 99 };
  const metadata = (error as { $metadata?: { attempts?: number } }).$metadata;
  return { name: error.name, attempts: metadata?.attempts ?? 99 };
}

function plain(item: Record<string, AttributeValue> | undefined): Item | undefined {
  return item === undefined ? undefined : unmarshall(item);
}
