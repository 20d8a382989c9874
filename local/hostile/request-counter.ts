const headEnd = '\r\n\r\n';

/** Counts the requests in a stream of bytes by their Content-Length, and keeps none of their bodies. */
export class RequestCounter {
  /** Requests that are complete. */
  complete = 0;
  /** Requests of which at least one byte has come. */
  begun = 0;
  #head = Buffer.alloc(0);
  #bodyLeft = 0;

  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#bodyLeft > 0 ? this.#body(rest) : this.#headOf(rest);
  }

  #body(bytes: Buffer): Buffer {
    const taken = Math.min(this.#bodyLeft, bytes.length);
    this.#bodyLeft -= taken;
    if (this.#bodyLeft === 0) this.complete++;
    return bytes.subarray(taken);
  }

  #headOf(bytes: Buffer): Buffer {
    if (this.#head.length === 0) this.begun++;
    const known = this.#head.length;
    this.#head = Buffer.concat([this.#head, bytes]);
    const end = this.#head.indexOf(headEnd);
    if (end < 0) return Buffer.alloc(0);
    const text = this.#head.toString('latin1', 0, end);
    this.#head = Buffer.alloc(0);
    this.#bodyLeft = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
    if (this.#bodyLeft === 0) this.complete++;
    return bytes.subarray(end + headEnd.length - known);
  }
}
