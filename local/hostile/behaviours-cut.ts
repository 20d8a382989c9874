/** Consumers that end the connection where nothing has ended. */
import type { HostileBehaviour } from './behaviour.ts';
import { ambiguous, answered, delivered, type Outcome } from './outcomes.ts';
import type { Peer } from './peer.ts';
import { largeBytes } from './behaviours-silence.ts';
import { ok, response } from './writing.ts';

const unauthorized = response('401 Unauthorized', 'no', 'Connection: close\r\n');

/** Writes the beginning of an answer and closes in order. */
const closing = (name: string, summary: string, text: string, expected: Outcome): HostileBehaviour => ({
  name,
  summary,
  scheme: 'both',
  script: { onRequest: ({ socket }) => socket.end(text) },
  expected: [expected],
});

/** Writes the beginning of an answer, hands it to the kernel, and resets. */
const resetting = (name: string, summary: string, text: string, expected: Outcome): HostileBehaviour => ({
  name,
  summary,
  scheme: 'both',
  script: { onRequest: (peer) => void peer.socket.write(text, () => peer.reset()) },
  expected: [expected],
});

/** Stops reading in mid-request. */
function stopReading({ socket }: Peer): void {
  socket.pause();
}

export const cutBehaviours: readonly HostileBehaviour[] = [
  closing('close-before-status', 'reads the request and closes', '', ambiguous('headers')),
  closing('close-in-status', 'closes within the status line', 'HTTP/1.1 200 O', ambiguous('headers')),
  closing('close-in-headers', 'closes within the headers', 'HTTP/1.1 200 OK\r\nContent-Le', delivered),
  closing('close-in-body', 'closes within the body', 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc', delivered),
  closing('close-in-failure', 'closes within the body of a 503', 'HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\nabc', answered(503)),
  {
    name: 'rst-in-request',
    summary: 'resets after the first bytes of a large request',
    scheme: 'both',
    bodyBytes: largeBytes,
    script: {
      onBegin: (peer) => {
        stopReading(peer);
        peer.reset();
      },
    },
    expected: [ambiguous('write')],
    expectedOfSmall: [ambiguous('write'), ambiguous('headers')],
  },
  {
    name: 'rst-after-request',
    summary: 'reads the whole request and resets',
    scheme: 'both',
    script: { onRequest: (peer) => peer.reset() },
    expected: [ambiguous('headers')],
  },
  resetting('rst-in-status', 'resets within the status line', 'HTTP/1.1 200 O', ambiguous('headers')),
  resetting('rst-after-head', 'a whole head, then a reset', 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n', delivered),
  resetting('rst-after-body', 'a whole answer, then a reset', ok, delivered),
  {
    name: 'early-401',
    summary: 'answers 401 after the first bytes, and goes on reading',
    scheme: 'both',
    bodyBytes: largeBytes,
    script: { onBegin: ({ socket }) => void socket.write(unauthorized) },
    expected: [answered(401)],
  },
  {
    name: 'early-401-closes',
    summary: 'answers 401 after the first bytes, and closes without reading on',
    scheme: 'both',
    bodyBytes: largeBytes,
    script: {
      onBegin: (peer) => {
        stopReading(peer);
        peer.socket.write(unauthorized, () => peer.socket.destroy());
      },
    },
    // What is unread makes the close a reset, which may overtake the answer on the sender's side.
    expected: [answered(401), ambiguous('write')],
    expectedOfSmall: [answered(401), ambiguous('write'), ambiguous('headers')],
  },
];
