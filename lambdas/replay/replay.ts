import type { DeadRecord } from '../shared/core/record.ts';
import { replay as limits } from '../shared/limits/numbers.ts';
import type { ReplayAnswer, ReplayRequest } from '../shared/limits/replay-request.ts';
import type { DeadKey } from '../shared/ports/index.ts';
import { cursorOf, placeOf, type Place } from './cursor.ts';
import { moveBatch, noEndpoint, type Outcomes } from './move.ts';
import { createPace, type Pace } from './pace.ts';
import { isSynthetic, pageOf, type Page, type Selected } from './select.ts';
import { sendBatchAgain } from './send-again.ts';
import { createTally, type Outcome, type Tally } from './tally.ts';
import type { ReplayDeps } from './types.ts';

/** What one call knows beside the place that it has come to. */
interface Call {
  readonly deps: ReplayDeps;
  readonly request: ReplayRequest;
  readonly pace: Pace;
  readonly tally: Tally;
  /** Why nothing of an endpoint may be moved, undefined where it may; read once in a call. */
  readonly verdicts: Map<string, Promise<Outcome | undefined>>;
  /** When the next delivery is due: rising by at least a millisecond, so that what died first is sent first. */
  readonly dueEpochMs: () => number;
}

/**
 * One call of a replay: selects dead deliveries, the oldest first, and moves them, until the selection or the call is at its end. May be
 * repeated, interrupted and run beside another: each delivery is moved once. Rejects where nothing could be read.
 * @throws Error named InvalidReplayRequest on a cursor that is none
 */
export async function replay(deps: ReplayDeps, request: ReplayRequest): Promise<ReplayAnswer> {
  const call: Call = { deps, request, pace: createPace(deps, request), tally: createTally(), verdicts: new Map(), dueEpochMs: risingTimes(deps) };
  let place = placeOf(request, deps.clock.nowEpochMs());
  const first = place;
  for (;;) {
    const left = (request.max ?? Number.MAX_SAFE_INTEGER) - place.selected;
    if (left <= 0) return answerOf(call, place, false);
    const page = await pageOf(deps, request.select, place).catch((error: unknown) => {
      if (place === first) throw error;
      // What was done is counted; whoever calls again goes on from here.
      deps.telemetry.fault('dead-unread', error);
      return undefined;
    });
    if (page === undefined) return answerOf(call, place, true);
    const done = await dealWith(call, page, place, left);
    place = done.place;
    if (!done.isWhole) return answerOf(call, place, true);
    if (page.next === undefined) return answerOf(call, place, false);
    place = { ...place, after: page.next };
    if (call.pace.isOver()) return answerOf(call, place, true);
  }
}

function answerOf({ tally, deps }: Call, place: Place, isMore: boolean): ReplayAnswer {
  const counts = tally.counts();
  deps.telemetry.event('replay-call', { ...counts });
  return { ...counts, problems: tally.problems(), toEpochMs: place.toEpochMs, ...(isMore ? { cursor: cursorOf(place) } : {}) };
}

/** All of a page, at most `left` of it, in its order; or as much as there is time for. */
async function dealWith(call: Call, page: Page, from: Place, left: number): Promise<{ place: Place; isWhole: boolean }> {
  let place = from;
  for (const step of await stepsOf(call, page.selected.slice(0, left))) {
    const { records, outcome, last } = step;
    if (outcome === undefined && !call.request.dryRun && !(await call.pace.admits(records.length))) return { place, isWhole: false };
    call.tally.select(records.length);
    if (records.length === 0) call.tally.add(unreadOf(last), unread);
    const outcomes = await take(call, step);
    for (const record of records) {
      const became = outcomes.get(record.recordKey);
      if (became !== undefined) call.tally.add(record, became);
    }
    place = { ...place, after: last, selected: place.selected + records.length };
  }
  return { place, isWhole: true };
}

const unread: Outcome = { kind: 'busy', why: 'the record could not be read now' };

/** Deliveries of one endpoint that follow each other and are dealt with in the same way; none where one could not be read. */
interface Step {
  readonly records: DeadRecord[];
  /** Set where nothing is to be done. */
  readonly outcome: Outcome | undefined;
  /** Place of the last one. */
  last: DeadKey;
}

async function stepsOf(call: Call, selected: readonly Selected[]): Promise<Step[]> {
  const size = Math.min(limits.batch, call.request.perSecond);
  const steps: Step[] = [];
  for (const { record, key } of selected) {
    const outcome = record === undefined ? unread : await refusalOf(call, record);
    const step = steps.at(-1);
    const first = step?.records[0];
    const isSame = record !== undefined && first?.endpointId === record.endpointId && isSynthetic(first) === isSynthetic(record) && step?.outcome?.kind === outcome?.kind;
    if (step !== undefined && isSame && step.records.length < size) {
      step.records.push(record);
      step.last = key;
    } else steps.push({ records: record === undefined ? [] : [record], outcome, last: key });
  }
  return steps;
}

/** Why it must not be moved, if it must not. */
async function refusalOf(call: Call, record: DeadRecord): Promise<Outcome | undefined> {
  const isNamed = call.request.select.eventIds !== undefined;
  if (record.generation >= limits.maxGeneration && !isNamed) {
    return { kind: 'capped', why: `has been replayed ${record.generation} times: name its event to replay it once more` };
  }
  // Of a body that names none.
  if (record.endpointId === '') return undefined;
  const known = call.verdicts.get(record.endpointId) ?? verdictOn(call.deps, record.endpointId);
  call.verdicts.set(record.endpointId, known);
  return known;
}

/** What is sent to an endpoint that takes nothing would only die again. */
async function verdictOn({ endpoints, telemetry }: ReplayDeps, endpointId: string): Promise<Outcome | undefined> {
  try {
    const endpoint = await endpoints.read(endpointId);
    if (endpoint === undefined) return noEndpoint(endpointId);
    if (endpoint.config === undefined) return { kind: 'disabled', why: `endpoint ${endpointId} cannot be used as it is stored: ${endpoint.problem}` };
    return endpoint.config.status === 'disabled' ? { kind: 'disabled', why: `endpoint ${endpointId} is disabled` } : undefined;
  } catch (error) {
    telemetry.fault('endpoint-unread', error, { endpointId });
    return { kind: 'busy', why: `endpoint ${endpointId} could not be read now` };
  }
}

async function take({ deps, request, dueEpochMs }: Call, { records, outcome }: Step): Promise<Outcomes> {
  if (outcome !== undefined) return new Map(records.map(({ recordKey }) => [recordKey, outcome]));
  if (request.dryRun) return new Map();
  const [first] = records;
  if (first === undefined) return new Map();
  return isSynthetic(first) ? sendBatchAgain(deps, records) : moveBatch(deps, first.endpointId, records, dueEpochMs);
}

function risingTimes({ clock }: ReplayDeps): () => number {
  let last = 0;
  return () => (last = Math.max(last + 1, clock.nowEpochMs()));
}

/** Of a record that could not be read only what its key says. */
function unreadOf({ recordKey }: DeadKey): { endpointId: string; eventId: undefined } {
  return { endpointId: recordKey.slice(0, recordKey.indexOf('#')), eventId: undefined };
}
