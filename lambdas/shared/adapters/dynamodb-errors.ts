import {
  ConditionalCheckFailedException,
  TransactionCanceledException,
  type AttributeValue,
} from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { attemptsOf } from './attempts.ts';

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
 * Sorts an error of a single conditional write. It is certain to have changed nothing if every attempt that the SDK made of
 * it was throttled: any other may have been applied and lost its answer. Bugs are thrown again.
 */
export function writeFailure(error: unknown): WriteFailure {
  if (error instanceof ConditionalCheckFailedException) return { kind: 'refused', item: plain(error.Item) };
  if (error instanceof TransactionCanceledException) return cancellation(error).overall;
  if (!(error instanceof Error)) return { kind: 'unsure', cause: typeof error };
  if (bugs.has(error.name)) throw error;
  const isThrottled = attemptsOf(error).every((name) => throttles.has(name));
  return { kind: isThrottled ? 'notApplied' : 'unsure', cause: error.name };
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

function plain(item: Record<string, AttributeValue> | undefined): Item | undefined {
  return item === undefined ? undefined : unmarshall(item);
}
