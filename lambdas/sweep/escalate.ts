import { pausesAfter } from '../shared/core/age.ts';
import { dueNotices, endedMarks, presumedSettings, type DueNotice, type NoticeStep, type Told } from '../shared/core/escalation.ts';
import { evidenceOf, noticeText, sentenceOf } from '../shared/core/evidence.ts';
import type { EndpointConfig } from '../shared/limits/endpoint-schema.ts';
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
 * one that has not answered for a week, until it does (R12). Each step is claimed before it is taken, and marked as told after: many
 * who see it tell it once, and one that died in between is followed by the next run. Never rejects.
 * @param startedMs of the whole run, by the monotonic clock
 */
export async function escalate(deps: EscalateDeps, seen: readonly SeenLane[], startedMs: number): Promise<void> {
  const endsMs = startedMs + limits.untilMs;
  let tries = 0;
  // Also what fails is counted: of a topic that is away each try may take its whole time.
  const isTime = () => deps.clock.monotonicMs() < endsMs && tries < limits.maxNotices;
  const mayTry = () => isTime() && tries++ < limits.maxNotices;
  for (const one of seen) {
    const nowEpochMs = deps.clock.nowEpochMs();
    // Nothing is due of most, and they are not read.
    const isDue = dueNotices(one.lane, presumedSettings(one.lane), nowEpochMs).length > 0;
    const ended = endedMarks(one.lane, nowEpochMs);
    if (!isDue && ended.length === 0) continue;
    if (!isTime()) return deps.telemetry.event('notices-left', { tries });
    const before = tries;
    try {
      if (isDue) await tellOf(deps, one, mayTry);
      // Not both in one try, which has its time: marks may stay for another minute.
      else if (mayTry()) for (const [subject, mark] of ended) await deps.lanes.moveTold(one.endpointId, subject, mark, undefined);
    } catch (error) {
      tries = Math.max(tries, before + 1);
      deps.telemetry.fault('notice-failed', error, { endpointId: one.endpointId });
    }
  }
}

async function tellOf(deps: EscalateDeps, seen: SeenLane, mayTry: () => boolean): Promise<void> {
  const endpoint = await deps.endpoints.read(seen.endpointId);
  if (endpoint === undefined) return;
  // One whose configuration cannot be used is not sent to.
  const due = dueNotices(seen.lane, endpoint.config ?? { status: 'disabled', maxPerDay: null }, deps.clock.nowEpochMs());
  for (const notice of due) if (mayTry()) await tell(deps, seen, endpoint, notice);
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
  const evidence = evidenceOf(lane, lane.window, nowEpochMs, endpoint.config?.maxPerDay);
  await deps.notices.publish({
    v: 1, step: due.step, endpointId, tenantId: endpoint.config?.tenantId ?? null, at: new Date(nowEpochMs).toISOString(),
    text: noticeText(endpointId, due.step, lane, evidence, nowEpochMs), evidence: { ...evidence, says: sentenceOf(evidence) },
  });
  deps.telemetry.event('notice', { endpointId, step: due.step });
  await deps.lanes.moveTold(endpointId, due.subject, claim, { ...claim, isTold: true });
}

async function takeStep(deps: EscalateDeps, { endpointId, lane }: SeenLane, { config, version }: StoredEndpoint, { step }: DueNotice): Promise<'taken' | 'changed' | 'unknown'> {
  const atEpochMs = deps.clock.nowEpochMs();
  const change = config === undefined ? undefined : changeFor(step, config, atEpochMs);
  if (change === undefined) return 'taken';
  const isStillFailing = step === 'recovered' || lane.row === undefined ? {} : { whileFailingSinceEpochMs: lane.row.sinceEpochMs };
  const answer = await deps.changeStatus({ endpointId, version }, { fields: change.fields, atEpochMs, ...isStillFailing });
  if (answer === 'written') deps.telemetry.event(change.event, { endpointId, why: change.why });
  return answer === 'written' ? 'taken' : answer === 'changed' ? 'changed' : 'unknown';
}

interface StatusChange {
  readonly fields: Parameters<ChangeStatus>[1]['fields'];
  readonly event: string;
  readonly why: string;
}

/** What a step does to the endpoint; undefined where that is done already, or it only tells. */
function changeFor(step: NoticeStep, { status, pauses }: EndpointConfig, atEpochMs: number): StatusChange | undefined {
  const isEnabled = status === 'enabled';
  if (isEnabled && step === 'disable') return { fields: { status: 'disabled', disabledFor: { why: 'failing', atEpochMs } }, event: 'endpoint-disabled', why: 'failing' };
  if (isEnabled && step === 'pause') return { fields: { status: 'paused', pauses: pausesAfter(pauses, 'paused', atEpochMs) }, event: 'endpoint-paused', why: 'unanswered' };
  // Told of a paused one only where it was paused for it did not answer. What is held for it the drain finds within minutes.
  if (status === 'paused' && step === 'recovered') return { fields: { status: 'enabled', pauses: pausesAfter(pauses, 'enabled', atEpochMs) }, event: 'endpoint-resumed', why: 'answered' };
  return undefined;
}
