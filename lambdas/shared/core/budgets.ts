import type { BudgetsMs } from '../limits/endpoint-schema.ts';
import { deliver } from '../limits/numbers.ts';

/**
 * An endpoint's budgets, cut to what the function's timeout can hold (T3). Registration refuses budgets that do not fit,
 * but a stage may be given a shorter timeout later: its endpoints then get shorter attempts, not none.
 */
export function fittedBudgets(budgets: BudgetsMs, functionTimeoutMs: number): BudgetsMs {
  const mostMs = functionTimeoutMs - deliver.settleMarginMs - deliver.admitMarginMs - budgets.connection;
  const total = Math.max(1, Math.min(budgets.total, mostMs));
  return { ...budgets, total, setup: Math.min(budgets.setup, total) };
}

/** Time that an invocation must still have for an attempt to start: it then ends before the settle margin. */
export function neededMs(budgets: BudgetsMs): number {
  return budgets.connection + budgets.total + deliver.settleMarginMs;
}
