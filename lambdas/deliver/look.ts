import { fittedBudgets, neededMs } from '../shared/core/budgets.ts';
import { judge, lookUrl } from '../shared/core/lookup.ts';
import type { AttemptOutcome } from '../shared/core/outcome.ts';
import { afterLook, leftToPerson, type Found } from '../shared/core/reconcile.ts';
import { assertTransition, type StuckReason, type UnknownRecord } from '../shared/core/record.ts';
import { signatureHeaders } from '../shared/core/sign.ts';
import { headersProblem } from '../shared/limits/header.ts';
import { headers as names } from '../shared/limits/names.ts';
import { putBack } from './retain.ts';
import type { Claimed, Settled } from './deliver-one.ts';
import type { DeliverDeps } from './types.ts';

const nothing = Buffer.alloc(0);

/**
 * Looks for the effect of a delivery that may have arrived (U5): one signed GET under its claim, in a slot of the lane, by the same
 * budgets and guard as a delivery. It says nothing about the endpoint's health, for it may ask another host. Only the drain looks.
 */
export async function look(deps: DeliverDeps, claimed: Claimed, record: UnknownRecord): Promise<Settled> {
  const { copy, endpoint, leaseId, rate } = claimed;
  const { lookup } = endpoint.config;
  if (lookup === null) return settleLook(deps, claimed, { record, to: leftToPerson(record, { stuck: 'no-lookup', detail: 'the endpoint declares no look-up any more' }, deps.clock.nowEpochMs(), leaseId), look: 'answered' });
  if (!(await rate.takeLook())) return { exit: { kind: 'retain' }, release: true, isUntried: true };

  const startedEpochMs = deps.clock.nowEpochMs();
  const asked = await ask(deps, claimed, record);
  if ('kind' in asked && asked.kind === 'notStarted') {
    deps.telemetry.event('not-started', { endpointId: record.endpointId, why: asked.why });
    if (asked.why === 'no-socket') return { exit: { kind: 'retain' }, release: true, isUntried: true };
    return { exit: await putBack(deps, copy.received), release: true };
  }
  const found = foundBy(asked, (answered) => judge(lookup, answered, copy.message));
  const to = afterLook(record, found, lookup, { startedEpochMs, nowEpochMs: deps.clock.nowEpochMs(), leaseId });
  deps.telemetry.event('looked', {
    endpointId: record.endpointId, eventId: record.eventId, host: new URL(lookup.url).host, found: found.kind, state: to.state, looks: record.looks + 1,
    durationMs: 'durationMs' in asked ? asked.durationMs : 0,
    // A difference names values of the payload: they are for the record.
    ...(found.kind === 'differs' ? {} : { detail: found.detail }),
  });
  const isSilent = 'kind' in asked && (asked.kind === 'ambiguous' || asked.kind === 'unsent' || (asked.kind === 'answered' && asked.cut !== undefined));
  return settleLook(deps, claimed, { record, to, look: isSilent ? 'silent' : 'answered' });
}

/** Why a look cannot be made, whoever makes it. */
interface Impossible {
  readonly problem: string;
}

async function ask(deps: DeliverDeps, { copy, endpoint, invocation }: Claimed, { reference, looks }: UnknownRecord): Promise<AttemptOutcome | Impossible> {
  const { config, version, secrets, bodySecret } = endpoint;
  const budgetsMs = fittedBudgets(config.budgetsMs, deps.limits);
  if (invocation.remainingMs() < neededMs(budgetsMs, deps.limits)) return { kind: 'notStarted', why: 'no-time' };
  const target = config.lookup === null ? undefined : lookUrl(config.lookup, copy.message.eventId, reference);
  if (target?.ok !== true) return { problem: target?.problem ?? 'no look-up' };
  const problem = headersProblem(config.headers);
  if (problem !== undefined) return { problem };
  const timestampEpochS = Math.floor(deps.clock.nowEpochMs() / 1_000);
  const signed = signatureHeaders({ signing: config.signing, secrets, bodySecret }, copy.message.eventId, timestampEpochS, nothing);
  if (!signed.ok) return { problem: signed.problem };
  return deps.http.get({
    url: target.url,
    budgetsMs,
    endpointId: config.endpointId,
    version,
    remainingMs: () => invocation.remainingMs() - deps.limits.settleMarginMs,
    headers: { ...acceptedBy(config.headers), ...config.headers, ...signed.headers, [names.look]: String(looks + 1) },
  });
}

/** Twice the same header in different casing would be sent twice. */
function acceptedBy(own: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.keys(own).some((name) => name.toLowerCase() === 'accept') ? {} : { accept: 'application/json' };
}

/** What came back, in terms of the effect: without a whole answer nothing is proved. */
function foundBy(asked: Exclude<AttemptOutcome, { kind: 'notStarted' }> | Impossible, judged: (answered: Extract<AttemptOutcome, { kind: 'answered' }>) => Found): Found {
  const impossible = (stuck: StuckReason, problem: string): Found => ({ kind: 'impossible', stuck, detail: `look impossible: ${problem}` });
  if ('problem' in asked) return impossible('invalid-lookup', asked.problem);
  switch (asked.kind) {
    case 'answered':
      return judged(asked);
    case 'ambiguous':
    case 'unsent':
      return { kind: 'failed', detail: `look failed: ${asked.phase} ${asked.cause}` };
    case 'invalidConfiguration':
      return impossible('invalid-lookup', asked.detail);
  }
}

/** Conditional on no other look, and on nobody's decision meanwhile: what was found late decides nothing. Nothing was sent, so the claim may go. */
async function settleLook(deps: DeliverDeps, { copy }: Claimed, { record, to, look: how }: { record: UnknownRecord; to: ReturnType<typeof afterLook>; look: NonNullable<Settled['look']> }): Promise<Settled> {
  assertTransition(record, to);
  const answer = await deps.records.write(record, to);
  if (answer === 'written') return { exit: { kind: 'ack' }, release: true, record: to, look: how };
  deps.telemetry.event('settle-failed', { endpointId: to.endpointId, eventId: to.eventId, answer });
  return { exit: await putBack(deps, copy.received), release: true };
}
