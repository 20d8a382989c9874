import type { Scenario } from '../support/crash-run.ts';
import { describeCrashes } from '../support/crash-suite.ts';

/** A port on which nobody listens. */
const nobody = 'https://localhost:1/';

const scenarios: Scenario[] = [
  {
    name: 'delivered at once',
    requests: 1,
    prepare: (run) => run.register(),
    send: (run) => run.send(),
  },
  {
    name: 'refused for a while, then delivered',
    requests: 2,
    prepare: (run) => run.register(),
    send: (run) => run.send(),
    reply: (_request, nth) => ({ status: nth === 1 ? 503 : 200 }),
  },
  {
    name: 'hung up on, then delivered',
    requests: 2,
    prepare: (run) => run.register(),
    send: (run) => run.send(),
    reply: (_request, nth) => ({ status: 200, hangUp: nth === 1 }),
  },
  {
    name: 'rejected',
    requests: 1,
    prepare: (run) => run.register(),
    send: (run) => run.send('evt', { ends: 'rejected' }),
    reply: () => ({ status: 422 }),
  },
  {
    name: 'never connected, and exhausted',
    requests: 0,
    prepare: (run) => run.register({ retry: { attempts: 1 } }, nobody),
    send: (run) => run.send('evt', { ends: 'exhausted' }),
  },
  {
    name: 'a malformed body',
    requests: 0,
    send: (run) => run.sendMalformed(),
  },
  {
    name: 'no such endpoint',
    requests: 0,
    send: (run) => run.send('evt', { ends: 'unknown-endpoint' }),
  },
  {
    name: 'a disabled endpoint',
    requests: 0,
    prepare: (run) => run.register({ status: 'disabled' }),
    send: (run) => run.send('evt', { ends: 'disabled' }),
  },
  {
    name: 'a batch of three for a lane of two',
    requests: 3,
    prepare: (run) => run.register({ maxInFlight: 2 }),
    send: (run) => run.sendTogether(['a', 'b', 'c']),
  },
  {
    name: 'one event twice in a batch',
    requests: 1,
    prepare: (run) => run.register(),
    send: (run) => run.sendTogether(['evt', 'evt']),
  },
];

describeCrashes('a crash at every side effect of a delivery (U1, U4, L1, R9)', scenarios);
