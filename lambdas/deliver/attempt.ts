import { bodyOf } from '../shared/core/body.ts';
import { fittedBudgets, neededMs } from '../shared/core/budgets.ts';
import type { AttemptOutcome } from '../shared/core/outcome.ts';
import { perObject } from '../shared/core/per-object.ts';
import type { WaitingRecord } from '../shared/core/record.ts';
import { signatureHeaders } from '../shared/core/sign.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
import { headersProblem } from '../shared/limits/header.ts';
import { headers as names } from '../shared/limits/names.ts';
import type { Endpoint } from '../shared/ports/index.ts';
import type { Copy, DeliverDeps, Invocation } from './types.ts';

export interface Due {
  readonly endpoint: Endpoint;
  readonly copy: Copy;
  readonly record: WaitingRecord;
  readonly invocation: Invocation;
  /** For how long it waits for the answer, in milliseconds. */
  readonly readMs: number;
  /** Whether the endpoint may be sent to now; undefined where nothing bounds that. */
  readonly mayBegin?: () => Promise<boolean>;
}

/**
 * One signed POST. It starts only if its whole budget ends before the invocation's settle margin (T3): the lease ends
 * after the invocation, so no request can outlive the claim that covers it.
 */
export async function attempt(deps: Pick<DeliverDeps, 'clock' | 'http' | 'limits'>, due: Due): Promise<AttemptOutcome> {
  const { config, version, secrets, bodySecret } = due.endpoint;
  const budgetsMs = fittedBudgets({ ...config.budgetsMs, read: due.readMs }, deps.limits);
  if (due.invocation.remainingMs() < neededMs(budgetsMs, deps.limits)) return { kind: 'notStarted', why: 'no-time' };

  const problem = problemOf(config.headers);
  if (problem !== undefined) return { kind: 'invalidConfiguration', detail: problem };
  const body = bodyOf(config, due.copy.message);
  if (!body.ok) return { kind: 'invalidConfiguration', detail: body.problem };
  const timestampEpochS = Math.floor(deps.clock.nowEpochMs() / 1_000);
  const signed = signatureHeaders({ signing: config.signing, secrets, bodySecret }, due.copy.message.eventId, timestampEpochS, body.bytes);
  if (!signed.ok) return { kind: 'invalidConfiguration', detail: signed.problem };

  return await deps.http.post({
    url: urlOf(config),
    body: body.bytes,
    budgetsMs,
    endpointId: config.endpointId,
    version,
    remainingMs: () => due.invocation.remainingMs() - deps.limits.settleMarginMs,
    ...(due.mayBegin === undefined ? {} : { mayBegin: due.mayBegin }),
    // Under reconciliation nothing is sent a second time before somebody has looked.
    freshTry: config.onAmbiguous === 'retry',
    ...(typeof config.lookup?.referenceHeader === 'string' ? { referenceHeader: config.lookup.referenceHeader } : {}),
    headers: {
      ...config.headers,
      'content-type': config.contentType,
      ...signed.headers,
      [names.attempt]: String(due.record.attempt + 1),
      // Only where an earlier request may have arrived: the consumer then looks for the id before it acts.
      ...(due.record.ambiguous > 0 ? { [names.possibleDuplicate]: 'true' } : {}),
    },
  });
}

const urlOf = perObject((config: EndpointConfig) => new URL(config.url));
const problemOf = perObject(headersProblem);
