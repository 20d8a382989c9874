import type { BudgetsMs } from '../limits/endpoint-schema.ts';
import { awsCalls } from '../limits/numbers.ts';
import type { FunctionLimits } from '../limits/relations.ts';

/**
 * An endpoint's budgets, cut to what the function's timeout can hold (T3). Registration refuses budgets that do not fit,
 * but a stage may be given a shorter timeout later: its endpoints then get shorter attempts, not none.
 */
export function fittedBudgets(budgets: BudgetsMs, limits: FunctionLimits): BudgetsMs {
  const roomMs = Math.max(2, limits.timeoutS * 1_000 - limits.settleMarginMs - limits.admitMarginMs);
  const scale = Math.min(1, roomMs / (budgets.connection + budgets.total));
  const total = Math.max(1, Math.floor(budgets.total * scale));
  return { ...budgets, connection: Math.max(1, Math.floor(budgets.connection * scale)), total, setup: Math.min(budgets.setup, total) };
}

/** Time that an invocation must still have for an attempt to start: it then ends before the settle margin. */
export function neededMs(budgets: BudgetsMs, limits: FunctionLimits): number {
  return budgets.connection + budgets.total + limits.settleMarginMs;
}

/** Limits of one AWS call, such that all its attempts fit the settle margin. */
export function awsCallLimits(limits: FunctionLimits): { maxAttempts: number; connectMs: number; requestMs: number } {
  const requestMs = Math.min(awsCalls.requestMs, Math.floor(limits.settleMarginMs * awsCalls.requestShare));
  return { maxAttempts: awsCalls.maxAttempts, connectMs: Math.min(awsCalls.connectMs, requestMs), requestMs };
}
