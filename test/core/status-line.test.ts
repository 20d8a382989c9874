import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StatusLineReader } from '../../lambdas/shared/core/status-line.ts';

/** Feeds a response in pieces. */
function read(...pieces: string[]) {
  const reader = new StatusLineReader();
  const passed = pieces.map((piece) => reader.take(Buffer.from(piece, 'latin1')).toString('latin1')).join('');
  return { status: reader.status, passed };
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi';
const early = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n';

describe('StatusLineReader', () => {
  it.each<[string, string, number | undefined]>([
    ['a whole response', ok, 200],
    ['no more than the line', 'HTTP/1.1 204 No Content\r\n', 204],
    ['a line that ends in a line feed alone', 'HTTP/1.1 200 OK\n', 200],
    ['no reason', 'HTTP/1.1 200\r\n', 200],
    ['an empty reason', 'HTTP/1.1 200 \r\n', 200],
    ['HTTP/1.0', 'HTTP/1.0 503 Busy\r\n', 503],
    ['a reason that is no ASCII', 'HTTP/1.1 500 \xe9\r\n', 500],
    ['a status nobody knows', 'HTTP/1.1 999 What\r\n', 999],
    ['line ends left over from a body before it', `\r\n\r\n${ok}`, 200],
    ['a line without its end', 'HTTP/1.1 200 OK', undefined],
    ['a status without its end', 'HTTP/1.1 2', undefined],
    ['a carriage return only', 'HTTP/1.1 200 OK\r', undefined],
    ['four digits', 'HTTP/1.1 2000 OK\r\n', undefined],
    ['two digits', 'HTTP/1.1 20 OK\r\n', undefined],
    ['status 000', 'HTTP/1.1 000 No\r\n', undefined],
    ['HTTP/2', 'HTTP/2 200 OK\r\n', undefined],
    ['HTTP/1.2', 'HTTP/1.2 200 OK\r\n', undefined],
    ['small letters', 'http/1.1 200 OK\r\n', undefined],
    ['two spaces', 'HTTP/1.1  200 OK\r\n', undefined],
    ['a space in front', ' HTTP/1.1 200 OK\r\n', undefined],
    ['a NUL in the reason', 'HTTP/1.1 200 O\0K\r\n', undefined],
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\nHTTP/1.1 200 OK\r\n', undefined],
    ['switching protocols, whatever follows', `HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n${ok}`, undefined],
    ['an interim head without its end, whatever follows', 'HTTP/1.1 100 Continue\r\nHTTP/1.1 500 No\r\nContent-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n', undefined],
    ['an interim head with a line of spaces for its end', `HTTP/1.1 103 Early\r\n  \r\n${ok}`, undefined],
    ['interim headers that only resemble a status line', `HTTP/1.1 103 Early\r\nHTTP: 1\r\nhttp/1.1: 2\r\n\r\n${ok}`, 200],
    ['only interim responses', `HTTP/1.1 100 Continue\r\n\r\n${early}`, undefined],
  ])('of %s: %j is %s', (_what, text, status) => {
    expect(read(text).status).toBe(status);
    // Byte by byte it is the same.
    expect(read(...text).status).toBe(status);
  });

  it('takes interim responses out, and passes the rest on untouched', () => {
    expect(read(`HTTP/1.1 100 Continue\r\n\r\n${early}\n${ok}`)).toEqual({ status: 200, passed: ok });
    expect(read(early, ok)).toEqual({ status: 200, passed: ok });
  });

  it('passes on what cannot become a status line as soon as that is certain', () => {
    const reader = new StatusLineReader();
    expect(reader.take(Buffer.from('HTTP/1.')).toString()).toBe('');
    expect(reader.take(Buffer.from('1')).toString()).toBe('');
    expect(new StatusLineReader().take(Buffer.from('SMTP')).toString()).toBe('SMTP');
    const endless = new StatusLineReader();
    expect(endless.take(Buffer.from(`HTTP/1.1 200 ${'x'.repeat(20_000)}`)).length).toBe(20_013);
    expect(endless.take(Buffer.from('\r\n')).toString()).toBe('\r\n');
    expect(endless.status).toBeUndefined();
  });

  it('holds back no more of a line than a status line may be', () => {
    const line = (length: number) => `HTTP/1.1 200 ${'x'.repeat(length - 13)}`;
    const [whole, long] = [new StatusLineReader(), new StatusLineReader()];
    expect(whole.take(Buffer.from(line(4_096))).length).toBe(0);
    whole.take(Buffer.from('\r\n'));
    expect(long.take(Buffer.from(line(4_097))).length).toBe(4_097);
    long.take(Buffer.from('\r\n'));
    expect([whole.status, long.status]).toEqual([200, undefined]);
  });

  it('does not depend on how the bytes come', () => {
    const part = fc.constantFrom('HTTP/1.1 ', 'HTTP/1.0 ', '200', '100', '103', '101', '503', ' OK', '\r\n', '\n', '\r', 'A: b\r\n', '\r\n\r\n', 'x', '\0', ok, early);
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), fc.array(fc.nat(40), { maxLength: 12 }), (parts, cuts) => {
        const text = parts.join('');
        const at = [0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length];
        const pieces = at.slice(1).map((end, i) => text.slice(at[i], end));
        const [whole, cut] = [read(text), read(...pieces)];
        expect(cut.status).toBe(whole.status);
        // Held back or not, nothing is passed on that is not there whole.
        expect(whole.passed.startsWith(cut.passed) || cut.passed.startsWith(whole.passed)).toBe(true);
        if (whole.status !== undefined) expect(cut.passed).toBe(whole.passed);
      }),
      { numRuns: 2_000 },
    );
  });
});
