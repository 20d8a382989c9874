import { pausesAfter } from '../shared/core/age.ts';
import { dueNotices, type DueNotice, type Told } from '../shared/core/escalation.ts';
import { evidenceOf, noticeText, sentenceOf } from '../shared/core/evidence.ts';
import { escalation as limits } from '../shared/limits/numbers.ts';
import type { ChangeStatus, Clock, Endpoints, Lanes, Notices, SeenLane, StoredEndpoint, Telemetry } from '../shared/ports/index.ts';

export interface EscalateDeps {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly lanes: Pick<Lanes, 'moveTold'>;
  readonly endpoints: Endpoints;
  readonly changeStatus: ChangeStatus;
  readonly notices: Notices;
}

/**
 * Tells of endpoints that fail, that refuse, and that are well again; disables one that has answered nothing well for a day, and pauses
 * one that has not answered for a week (R12). Each step is claimed before it is taken, and marked as told after: many who see it tell it
 * once, and one that died in between is followed by the next run. Never rejects.
 */
export async function escalate(deps: EscalateDeps, seen: readonly SeenLane[]): Promise<void> {
  let told = 0;
  for (const one of seen) {
    // Nothing can be due of most, whatever their status.
    if (dueNotices(one.lane, 'enabled', deps.clock.nowEpochMs()).length === 0) continue;
    if (told >= limits.maxNotices) break;
    try {
      told += await tellOf(deps, one);
    } catch (error) {
      deps.telemetry.fault('notice-failed', error, { endpointId: one.endpointId });
    }
  }
}

async function tellOf(deps: EscalateDeps, seen: SeenLane): Promise<number> {
  const endpoint = await deps.endpoints.read(seen.endpointId);
  if (endpoint === undefined) return 0;
  // One whose configuration cannot be used is not sent to.
  const due = dueNotices(seen.lane, endpoint.config?.status ?? 'disabled', deps.clock.nowEpochMs());
  for (const notice of due) await tell(deps, seen, endpoint, notice);
  return due.length;
}

async function tell(deps: EscalateDeps, seen: SeenLane, endpoint: StoredEndpoint, due: DueNotice): Promise<void> {
  const { endpointId, lane } = seen;
  const nowEpochMs = deps.clock.nowEpochMs();
  const claim: Told = { what: due.what, atEpochMs: nowEpochMs, isTold: false };
  if ((await deps.lanes.moveTold(endpointId, due.subject, lane.told.get(due.subject), claim)).kind !== 'moved') return;
  const isTaken = await takeStep(deps, seen, endpoint, due);
  // Somebody has changed it meanwhile, or it has succeeded: that decides. What is not known is tried again.
  if (isTaken === 'changed') await deps.lanes.moveTold(endpointId, due.subject, claim, lane.told.get(due.subject));
  if (isTaken !== 'taken') return;
  const evidence = evidenceOf(lane, lane.window, nowEpochMs);
  await deps.notices.publish({
    v: 1, step: due.step, endpointId, tenantId: endpoint.config?.tenantId ?? null, at: new Date(nowEpochMs).toISOString(),
    text: noticeText(endpointId, due.step, lane, evidence, nowEpochMs), evidence: { ...evidence, says: sentenceOf(evidence) },
  });
  deps.telemetry.event('notice', { endpointId, step: due.step });
  // What has recovered begins anew; of the others it stays known that they were told.
  await deps.lanes.moveTold(endpointId, due.subject, claim, due.step === 'recovered' ? undefined : { ...claim, isTold: true });
}

async function takeStep(deps: EscalateDeps, { endpointId, lane }: SeenLane, { config, version }: StoredEndpoint, { step }: DueNotice): Promise<'taken' | 'changed' | 'unknown'> {
  const atEpochMs = deps.clock.nowEpochMs();
  if (config?.status !== 'enabled' || (step !== 'disable' && step !== 'pause')) return 'taken';
  const fields = step === 'disable' ? { status: 'disabled' as const, disabledFor: { why: 'failing' as const, atEpochMs } } : { status: 'paused' as const, pauses: pausesAfter(config.pauses, 'paused', atEpochMs) };
  const answer = await deps.changeStatus({ endpointId, version }, { fields, atEpochMs, ...(lane.row === undefined ? {} : { whileFailingSinceEpochMs: lane.row.sinceEpochMs }) });
  if (answer === 'written') deps.telemetry.event(step === 'disable' ? 'endpoint-disabled' : 'endpoint-paused', { endpointId, why: step === 'disable' ? 'failing' : 'unanswered' });
  return answer === 'written' ? 'taken' : answer === 'changed' ? 'changed' : 'unknown';
}
