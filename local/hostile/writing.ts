/** Ways to write that no good server has. */
import type net from 'node:net';

/** Between two bytes of something that drips. */
const dripMs = 20;
/** What is repeated without end is written in pieces of about this size. */
const pieceBytes = 65_536;

/** Writes one byte after the other, and begins `text` again at its end for as long as the socket lives; `head` goes at once. */
export function drip(socket: net.Socket, head: string, text: string): void {
  if (head !== '') socket.write(head);
  let at = 0;
  const timer = setInterval(() => socket.writable && socket.write(text.charAt(at++ % text.length)), dripMs);
  socket.once('close', () => clearInterval(timer));
}

/**
 * Writes `head`, then `text` again and again, as fast as the peer takes it.
 * @param bytes of repeated text after which it stops; default: never
 */
export function flood(socket: net.Socket, head: string, text: string, bytes = Infinity): void {
  const piece = Buffer.from(text.repeat(Math.ceil(pieceBytes / text.length)), 'latin1');
  let left = bytes;
  const more = () => {
    while (left > 0 && socket.writable) {
      const part = piece.subarray(0, Math.min(left, piece.length));
      left -= part.length;
      if (!socket.write(part)) return void socket.once('drain', more);
    }
  };
  socket.write(head);
  more();
}

/** A whole response with a Content-Length. @param headers lines that end in CRLF */
export function response(status: string, body = '', headers = ''): string {
  return `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export const ok = response('200 OK', 'hi');
