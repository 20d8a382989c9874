/** Consumers whose answers are good, and whose connections are not fit for another request. */
import type { HostileBehaviour } from './behaviour.ts';
import { ambiguous, answered, delivered, type Outcome, unsent } from './outcomes.ts';
import type { Peer } from './peer.ts';
import { ok, response } from './writing.ts';

/** How long a lying keep-alive lasts, and after which a response comes that nobody asked for. */
const idleMs = 50;
const keptAlive = response('200 OK', 'hi', 'Connection: keep-alive\r\nKeep-Alive: timeout=60\r\n');
const failure = response('500 Internal Server Error', 'no', 'Connection: keep-alive\r\n');

/** A socket that is found dead is replaced, found dead at the first write, or only after it. */
const afterALie: readonly Outcome[] = [delivered, unsent('write'), ambiguous('write'), ambiguous('headers')];

/** Runs `work` unless another request has begun on the connection by then. */
function onceIdle(peer: Peer, work: () => void): void {
  const { begun } = peer;
  setTimeout(() => {
    if (peer.begun === begun && !peer.socket.destroyed) work();
  }, idleMs).unref();
}

export const connectionBehaviours: readonly HostileBehaviour[] = [
  {
    name: 'keep-alive-closes-idle',
    summary: 'promises a keep-alive of 60 s and closes after 50 ms',
    scheme: 'both',
    script: { onRequest: (peer) => void peer.socket.write(keptAlive, () => onceIdle(peer, () => peer.socket.end())) },
    expected: [delivered],
    expectedLater: afterALie,
  },
  {
    name: 'keep-alive-resets-idle',
    summary: 'promises a keep-alive of 60 s and resets after 50 ms',
    scheme: 'both',
    script: { onRequest: (peer) => void peer.socket.write(keptAlive, () => onceIdle(peer, () => peer.reset())) },
    expected: [delivered],
    expectedLater: afterALie,
  },
  {
    name: 'keep-alive-closes-at-once',
    summary: 'promises a keep-alive of 60 s and closes right after the answer',
    scheme: 'both',
    script: { onRequest: ({ socket }) => socket.end(keptAlive) },
    expected: [delivered],
    expectedLater: afterALie,
  },
  {
    name: 'keep-alive-resets-next',
    summary: 'promises a keep-alive and answers the next request on it by RST',
    scheme: 'both',
    script: {
      onBegin: (peer, nth) => nth > 0 && peer.reset(),
      onRequest: ({ socket }, nth) => nth === 0 && socket.write(keptAlive),
    },
    expected: [delivered],
    expectedLater: [ambiguous('headers'), ambiguous('write'), delivered],
  },
  {
    name: 'garbage-after-answer',
    summary: 'a good answer, and then garbage on the same connection',
    scheme: 'both',
    script: { onRequest: ({ socket }) => void socket.write(`${ok}and then some, HTTP/9 nonsense\r\n\r\n`) },
    expected: [delivered],
  },
  {
    name: 'second-answer',
    summary: 'answers 500, and in the same segment 200, which nobody asked for',
    scheme: 'both',
    script: { onRequest: ({ socket }) => void socket.write(failure + ok) },
    // The 200 belongs to no request: whoever takes it for the answer to the next one loses an event.
    expected: [answered(500)],
  },
  {
    name: 'second-answer-later',
    summary: 'answers 500, and 50 ms later 200, which nobody asked for',
    scheme: 'both',
    script: { onRequest: (peer) => void peer.socket.write(failure, () => onceIdle(peer, () => void peer.socket.write(ok))) },
    expected: [answered(500)],
  },
];
