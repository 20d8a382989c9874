/** Consumers that say nothing, too slowly, or far too much. */
import { gzipSync } from 'node:zlib';
import type { HostileBehaviour } from './behaviour.ts';
import { ambiguous, delivered } from './outcomes.ts';
import { drip, flood, ok } from './writing.ts';

/** More than the kernel takes of a request that nobody reads: both socket buffers together hold about 4 MiB at most. */
export const largeBytes = 8 * 1_024 * 1_024;
const hundredMegabytes = 100 * 1_000_000;
const early = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n';

/** About 100 KB that inflate to over 100 MB: members of gzip may follow each other, so one of 1 MiB is made and repeated. */
let bomb: Buffer | undefined;
function gzipBomb(): Buffer {
  return (bomb ??= Buffer.concat(Array<Buffer>(100).fill(gzipSync(Buffer.alloc(1_048_576), { level: 9 }))));
}

export const silentBehaviours: readonly HostileBehaviour[] = [
  {
    name: 'silent',
    summary: 'accepts, after the TLS handshake on https, and never reads or writes',
    scheme: 'both',
    script: { onConnect: ({ socket }) => void socket.pause() },
    expected: [ambiguous('headers')],
  },
  {
    name: 'silent-large',
    summary: 'never reads a request that is larger than what the kernel takes',
    scheme: 'both',
    bodyBytes: largeBytes,
    script: { onConnect: ({ socket }) => void socket.pause() },
    expected: [ambiguous('write')],
    expectedOfSmall: [ambiguous('headers')],
  },
  {
    name: 'silent-after-request',
    summary: 'reads the request and says nothing',
    scheme: 'both',
    expected: [ambiguous('headers')],
  },
];

export const slowBehaviours: readonly HostileBehaviour[] = [
  {
    name: 'drip-status-line',
    summary: 'a status line byte by byte, without end',
    scheme: 'both',
    script: { onRequest: ({ socket }) => drip(socket, '', 'HTTP/1.1 200 OK and so on, ') },
    expected: [ambiguous('headers')],
  },
  {
    name: 'drip-headers',
    summary: 'a status line at once, then headers byte by byte without end',
    scheme: 'both',
    script: { onRequest: ({ socket }) => drip(socket, 'HTTP/1.1 200 OK\r\n', 'X-Drip: drop\r\n') },
    expected: [delivered],
  },
  {
    name: 'drip-body',
    summary: 'a head at once, then its body byte by byte',
    scheme: 'both',
    script: { onRequest: ({ socket }) => drip(socket, 'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n', 'drop ') },
    expected: [delivered],
  },
];

export const largeBehaviours: readonly HostileBehaviour[] = [
  {
    name: 'body-100-mb',
    summary: 'a body of 100 MB',
    scheme: 'both',
    script: { onRequest: ({ socket }) => flood(socket, `HTTP/1.1 200 OK\r\nContent-Length: ${hundredMegabytes}\r\n\r\n`, 'x', hundredMegabytes) },
    expected: [delivered],
  },
  {
    name: 'gzip-bomb',
    summary: 'a body of 100 KB that would inflate to 100 MB',
    scheme: 'both',
    script: {
      onRequest: ({ socket }) => {
        const body = gzipBomb();
        socket.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`);
        socket.write(body);
      },
    },
    expected: [delivered],
  },
  {
    name: 'head-1-mb',
    summary: 'a status line, then a megabyte of headers',
    scheme: 'both',
    script: { onRequest: ({ socket }) => flood(socket, 'HTTP/1.1 200 OK\r\n', `X-Large: ${'x'.repeat(1_000)}\r\n`, 1_048_576) },
    expected: [delivered],
  },
  {
    name: 'status-line-endless',
    summary: 'a status line without end, at full speed',
    scheme: 'both',
    script: { onRequest: ({ socket }) => flood(socket, 'HTTP/1.1 200 ', 'O') },
    expected: [ambiguous('headers')],
  },
  {
    name: 'interim-endless',
    summary: '103 Early Hints without end, at full speed',
    scheme: 'both',
    script: { onRequest: ({ socket }) => flood(socket, '', early) },
    expected: [ambiguous('headers')],
  },
  {
    name: 'chunk-extension-endless',
    summary: 'a chunk whose extension has no end',
    scheme: 'both',
    script: { onRequest: ({ socket }) => flood(socket, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;', 'x=y;') },
    expected: [delivered],
  },
  {
    name: 'garbage-endless',
    summary: 'bytes that are not HTTP, without end and without a line end',
    scheme: 'both',
    script: { onRequest: ({ socket }) => flood(socket, '', '\u0000\u0001ÿ') },
    expected: [ambiguous('headers')],
  },
  {
    name: 'interim-few',
    summary: '100, 102 and 103, which nobody asked for, and then 200',
    scheme: 'both',
    script: { onRequest: ({ socket }) => void socket.write(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n${early}${ok}`) },
    expected: [delivered],
  },
];
