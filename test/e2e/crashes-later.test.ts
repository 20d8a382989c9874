import type { CrashRun, Scenario } from '../support/crash-run.ts';
import { describeCrashes } from '../support/crash-suite.ts';

const laterS = 600;

/** Refused with a time that is too far off for the queue: held until then. */
async function heldForLater(run: CrashRun, settings: Record<string, unknown> = {}): Promise<void> {
  await run.register({ retry: { baseS: 5, factor: 1, capS: 3_600 }, ...settings });
  await run.send();
  await run.idle();
}

/** The first answer asks for ten minutes. */
const reply: Scenario['reply'] = (_request, nth) => (nth === 1 ? { status: 503, headers: { 'retry-after': String(laterS) } } : { status: 200 });

const scenarios: Scenario[] = [
  {
    name: 'refused for longer than a message is hidden: held by deliver until it is due',
    requests: 2,
    prepare: (run) => run.register({ retry: { baseS: 5, factor: 1, capS: 3_600 } }),
    send: (run) => run.send(),
    reply,
  },
  {
    name: 'held until it is due: woken, sent by the drain',
    fn: 'drain',
    requests: 2,
    prepare: (run) => heldForLater(run),
    send: (run) => run.embedded.advance((laterS + 10) * 1_000),
    reply,
  },
  {
    name: 'held until it is due, and exhausted then',
    fn: 'drain',
    requests: 2,
    prepare: async (run) => {
      await run.register({ retry: { baseS: 5, factor: 1, capS: 3_600, attempts: 2 } });
      await run.send('evt', { ends: 'exhausted' });
      await run.idle();
    },
    send: (run) => run.embedded.advance((laterS + 10) * 1_000),
    reply: () => ({ status: 503, headers: { 'retry-after': String(laterS) } }),
  },
  {
    name: 'answered 410: dead, and its endpoint disabled',
    requests: 1,
    prepare: (run) => run.register(),
    send: (run) => run.send('evt', { ends: 'gone' }),
    reply: () => ({ status: 410 }),
  },
];

describeCrashes('a crash at every side effect of what comes back later, or never (R2, R5, R9)', scenarios);
