import { sockets } from '../limits/numbers.ts';

const statusLine = /^HTTP\/1\.[01] ([1-9]\d\d)(?: [^\r\n\0]*)?\r?\n$/;
const start = 'HTTP/1.';
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const switchingProtocols = 101;
const nothing: Buffer = Buffer.alloc(0);

/**
 * Finds the status line in the bytes of one response as they come, before the HTTP parser has the whole head: a received
 * status wins over any later fault, also over one in the head itself (T2). Interim responses (1xx) are taken out, because
 * the parser gives up on one that nobody asked for.
 */
export class StatusLineReader {
  /** Of the final response, once its whole status line has come. Never 101: what follows it is no HTTP, so it answers nothing. */
  status: number | undefined;
  #reading: 'line' | 'interim' | 'rest' = 'line';
  /** An unfinished line, held back: whether it belongs to an interim response is known at its end. */
  #held: Buffer = nothing;

  /** Takes the next bytes. @returns what of them, and of those held back, is for the parser. */
  take(chunk: Buffer): Buffer {
    if (this.#reading === 'rest') return chunk;
    let left = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = nothing;
    for (;;) {
      if (this.#reading === 'line') left = withoutLineEnds(left);
      const end = left.indexOf(lineFeed) + 1;
      if (end === 0) return this.#unfinished(left);
      const line = left.subarray(0, end);
      if (this.#reading === 'line') {
        if (!this.#beginsInterim(line)) return left;
      } else if (isBlank(line)) {
        // The end of an interim head: the next line is a status line again.
        this.#reading = 'line';
      } else if (isLikeOne(line)) {
        // No header is named so. A head without its end: what follows this line may be a body, and look like a status line.
        this.#reading = 'rest';
        return left;
      }
      left = left.subarray(end);
    }
  }

  /** Judges a whole first line. @returns true where an interim response begins. */
  #beginsInterim(line: Buffer): boolean {
    const status = Number(statusLine.exec(line.toString('latin1'))?.[1]);
    const isInterim = status < 200 && status !== switchingProtocols;
    this.#reading = isInterim ? 'interim' : 'rest';
    if (status >= 200) this.status = status;
    return isInterim;
  }

  #unfinished(bytes: Buffer): Buffer {
    if (this.#reading === 'interim' && !isLikeOne(bytes)) {
      // Only how a header line begins matters; copied, for the piece that it came in is large.
      this.#held = Buffer.from(bytes.subarray(0, start.length));
      return nothing;
    }
    if (this.#reading === 'line' && startsLikeOne(bytes) && bytes.length <= sockets.maxStatusLineBytes) {
      this.#held = bytes;
      return nothing;
    }
    // No status line any more: the parser says what is wrong with it, at once.
    this.#reading = 'rest';
    return bytes;
  }
}

/** Some servers send a line end too many after a body; it lies in front of the next response. */
function withoutLineEnds(bytes: Buffer): Buffer {
  let at = 0;
  while (bytes[at] === lineFeed || bytes[at] === carriageReturn) at++;
  return at === 0 ? bytes : bytes.subarray(at);
}

function isLikeOne(bytes: Buffer): boolean {
  return bytes.length >= start.length && startsLikeOne(bytes);
}

/** Also where less has come than would tell. */
function startsLikeOne(bytes: Buffer): boolean {
  const begin = bytes.toString('latin1', 0, start.length);
  return begin === start.slice(0, begin.length);
}

function isBlank(line: Buffer): boolean {
  return line.length === 1 || (line.length === 2 && line[0] === carriageReturn);
}
