import { PurgeQueueCommand } from '@aws-sdk/client-sqs';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { CrashRun, Scenario } from '../support/crash-run.ts';
import { describeCrashes } from '../support/crash-suite.ts';
import { until } from '../support/embedded.ts';

/** Held by an open breaker that may be tried in `forMs`; its wake-up waits. */
async function held(run: CrashRun, names: readonly string[], forMs = 30_000): Promise<void> {
  await run.register();
  await run.openBreaker(forMs);
  await run.sendTogether(names);
  await until('they are held', async () => (await run.embedded.look()).idle && (await run.isHolding()));
}

const scenarios: Scenario[] = [
  {
    name: 'held by an open breaker, then sent',
    requests: 2,
    prepare: async (run) => {
      await run.register();
      await run.openBreaker(30_000);
    },
    send: (run) => run.sendTogether(['a', 'b']),
  },
  {
    name: 'a run of the drain: a canary, then the rest',
    fn: 'drain',
    requests: 3,
    prepare: (run) => held(run, ['a', 'b', 'c']),
    send: (run) => run.embedded.advance(31_000),
  },
  {
    name: 'a canary that fails, and the next that does not',
    fn: 'drain',
    requests: 2,
    prepare: (run) => held(run, ['evt']),
    send: (run) => run.embedded.advance(31_000),
    reply: (_request, nth) => ({ status: nth === 1 ? 503 : 200 }),
  },
  {
    name: 'a held delivery that is rejected',
    fn: 'drain',
    requests: 1,
    prepare: async (run) => {
      await run.register();
      await run.openBreaker(30_000);
      await run.send('evt', { ends: 'rejected' });
      await until('it is held', async () => (await run.embedded.look()).idle && (await run.isHolding()));
    },
    send: (run) => run.embedded.advance(31_000),
    reply: () => ({ status: 422 }),
  },
  {
    name: 'a wake-up that was lost, found by the sweep',
    fn: 'sweep',
    requests: 1,
    prepare: async (run) => {
      await held(run, ['evt']);
      await run.embedded.sqs.send(new PurgeQueueCommand({ QueueUrl: run.embedded.output(outputs.drainQueueUrl) }));
    },
    send: (run) => run.embedded.advance(121_000),
  },
  {
    name: 'held while it was paused, and resumed',
    fn: 'drain',
    requests: 1,
    prepare: async (run) => {
      await run.register({ status: 'paused' });
      await run.send();
      await until('it is held', async () => (await run.embedded.look()).idle && (await run.isHolding()));
    },
    send: async (run) => {
      await run.register();
      await run.wake();
    },
  },
  {
    name: 'a copy of what is held already',
    requests: 1,
    prepare: (run) => held(run, ['evt']),
    send: (run) => run.send(),
  },
];

describeCrashes('a crash at every side effect of holding, draining and waking (R8, U1, U4)', scenarios);
