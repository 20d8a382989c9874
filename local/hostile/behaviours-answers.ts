/** Answers that are unusual, or no HTTP at all. */
import type { HostileBehaviour } from './behaviour.ts';
import { ambiguous, answered, delivered, type Outcome } from './outcomes.ts';
import { ok, response } from './writing.ts';

/** Of an address that only a sender that follows redirects asks for. */
export const redirectPath = '/redirected';

/** Answers each request with the same text, and leaves the connection open. */
const answering = (name: string, summary: string, text: string, ...expected: Outcome[]): HostileBehaviour => ({
  name,
  summary,
  scheme: 'both',
  script: { onRequest: ({ socket }) => void socket.write(text, 'latin1') },
  expected,
});

/** Points at this very server, so that a sender that follows is seen. */
const redirecting = (status: 302 | 307): HostileBehaviour => ({
  name: `redirect-${status}`,
  summary: `redirects to a loopback address by ${status}`,
  scheme: 'both',
  script: {
    onRequest: ({ socket }) => {
      const scheme = 'encrypted' in socket ? 'https' : 'http';
      socket.write(response(`${status} Elsewhere`, '', `Location: ${scheme}://127.0.0.1:${socket.localPort}${redirectPath}\r\n`));
    },
  },
  expected: [answered(status)],
});

export const plainAnswers: readonly HostileBehaviour[] = [
  answering('status-204', '204 No Content', 'HTTP/1.1 204 No Content\r\n\r\n', { group: 'delivered', status: 204 }),
  answering('status-200-empty', '200 without a body', response('200 OK'), delivered),
  redirecting(302),
  redirecting(307),
  {
    name: 'http-1-0',
    summary: 'HTTP/1.0 with a Content-Length',
    scheme: 'both',
    script: { onRequest: ({ socket }) => socket.end('HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi') },
    expected: [delivered],
  },
  {
    name: 'http-1-0-until-close',
    summary: 'HTTP/1.0 whose body ends with the connection',
    scheme: 'both',
    script: { onRequest: ({ socket }) => socket.end('HTTP/1.0 200 OK\r\n\r\nhi') },
    expected: [delivered],
  },
  answering('chunked-trailers', 'chunks, and trailers behind them', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n', delivered),
  answering('line-feeds', 'lines that end in LF only', 'HTTP/1.1 200 OK\nContent-Length: 2\n\nhi', delivered),
];

export const brokenAnswers: readonly HostileBehaviour[] = [
  answering('switching-protocols', '101 Switching Protocols, which nobody asked for', `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n${ok}`, ambiguous('headers')),
  answering('garbage', 'lines that are not HTTP', '220 mail.example ESMTP ready\r\n250 ok\r\n', ambiguous('headers')),
  answering('interim-with-body', '103 with a body, and then 200', `HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello${ok}`, ambiguous('headers')),
  answering('status-304-with-body', '304 with a body', response('304 Not Modified', 'hello'), answered(304)),
  answering('status-204-with-body', '204 with a body', response('204 No Content', 'hello'), { group: 'delivered', status: 204 }),
  answering('status-999', 'a status that does not exist', response('999 What'), answered(999)),
  answering('status-000', 'three digits that are no status', response('000 Nothing'), ambiguous('headers')),
  answering('two-lengths', 'two different Content-Lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nhi', delivered),
  answering('length-and-chunks', 'Transfer-Encoding and Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n', delivered),
  answering('length-negative', 'a negative Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi', delivered),
  answering('length-huge', 'a Content-Length beyond any number', `HTTP/1.1 200 OK\r\nContent-Length: ${'9'.repeat(40)}\r\n\r\nhi`, delivered),
  answering('header-nul', 'a header that holds NUL', 'HTTP/1.1 200 OK\r\nX-Nul: a\u0000b\r\nContent-Length: 2\r\n\r\nhi', delivered),
];
