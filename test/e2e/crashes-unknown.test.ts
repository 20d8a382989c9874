import type { CrashRun, Scenario } from '../support/crash-run.ts';
import { describeCrashes } from '../support/crash-suite.ts';
import { isLook, payload } from '../support/effects.ts';
import { until } from '../support/embedded.ts';
import type { Recorded, Reply } from '../support/recorder.ts';

const delayS = 20;
const provesAfterS = 60;
const lost: Reply = { status: 0, hangUp: true };

/** @param more of the look-up */
function registered(run: CrashRun, more: Record<string, unknown>): Promise<void> {
  const match = { '$.eventId': 'eventId', '$.amount': '$.amount' };
  return run.register({ onAmbiguous: 'reconcile', lookup: { url: run.lookUrl(), match, reference: '$.id', delaysS: [delayS, delayS], ...more } });
}

/** Sent, and unknown; nothing is under way then. */
async function unknown(run: CrashRun, more: Record<string, unknown>): Promise<void> {
  await registered(run, more);
  const { endpointId, eventId } = await run.send('evt', { payload });
  await until('it is unknown', async () => (await run.embedded.record(endpointId, eventId))?.state === 'unknown');
  await run.idle();
}

/** Which of the POSTs of its event this one is, from 1. */
const nthPost = (request: Recorded, run: CrashRun) => run.requestsOf({ endpointId: run.endpointId, eventId: request.eventId }).length;

/** Has done it by the time at which the answer is lost. */
function committed(request: Recorded, run: CrashRun, answer: Reply): Reply {
  run.effects.commit(request);
  return answer;
}

/** Does what it gets; every answer to a POST is lost. */
const commitsAndDrops: Scenario['reply'] = (request, _nth, run) => (isLook(request) ? run.effects.shown(request.eventId) : committed(request, run, lost));

const scenarios: Scenario[] = [
  {
    name: 'a response that is lost: unknown, and found',
    requests: 1,
    prepare: (run) => registered(run, { absenceProvesAfterS: provesAfterS }),
    send: (run) => run.send('evt', { payload }),
    reply: commitsAndDrops,
  },
  {
    name: 'a response that is lost, where no absence proves anything',
    requests: 1,
    prepare: (run) => registered(run, {}),
    send: (run) => run.send('evt', { payload, orUnknown: true }),
    reply: commitsAndDrops,
  },
  {
    name: 'a look that fails, and the next that finds it',
    fn: 'drain',
    requests: 1,
    prepare: (run) => unknown(run, { delaysS: [delayS, delayS, delayS, delayS] }),
    send: (run) => run.embedded.advance((delayS + 1) * 1_000),
    reply: (request, nth, run) => {
      if (!isLook(request)) return committed(request, run, lost);
      return nth === 2 ? { status: 500 } : run.effects.shown(request.eventId);
    },
  },
  {
    name: 'an absence that proves that it did not arrive: sent again',
    fn: 'drain',
    requests: 2,
    prepare: (run) => unknown(run, { delaysS: [delayS], absenceProvesAfterS: provesAfterS }),
    send: (run) => run.embedded.advance((provesAfterS + 10) * 1_000),
    reply: (request, _nth, run) => {
      if (isLook(request)) return run.effects.shown(request.eventId);
      return nthPost(request, run) === 1 ? lost : committed(request, run, { status: 200 });
    },
  },
  {
    name: 'a held delivery whose response is lost in the drain',
    fn: 'drain',
    requests: 1,
    prepare: async (run) => {
      await registered(run, { absenceProvesAfterS: provesAfterS });
      await run.openBreaker(30_000);
      await run.send('evt', { payload });
      await until('it is held', async () => (await run.embedded.look()).idle && (await run.isHolding()));
    },
    send: (run) => run.embedded.advance(31_000),
    reply: commitsAndDrops,
  },
];

describeCrashes('a crash at every side effect of what may have arrived (U3, U4, U5)', scenarios);
