/** A client that sends what it is told and notes what comes back, byte for byte: it judges nothing. */
import net from 'node:net';
import tls from 'node:tls';
import { expect } from 'vitest';
import type { HostileServer } from '../../local/hostile/hostile-server.ts';

const isReset = new Set(['ECONNRESET', 'EPIPE']);

export class RawClient {
  readonly socket: net.Socket;
  /** After the TLS handshake on https. */
  isConnected = false;
  /** How the connection ended, once it has: by FIN, by RST, or the code of another error. */
  end: string | undefined;
  /** What came, by code unit a byte. */
  text = '';
  #bytes = 0;

  /** @param options of TLS; an unknown certificate is accepted by default, so that what is behind it is seen */
  constructor({ scheme, port }: HostileServer, options: tls.ConnectionOptions = {}) {
    const address = { host: '127.0.0.1', port };
    this.socket = scheme === 'https' ? tls.connect({ rejectUnauthorized: false, ...address, ...options }) : net.connect(address);
    this.socket.once(scheme === 'https' ? 'secureConnect' : 'connect', () => (this.isConnected = true));
    this.socket.on('data', (chunk: Buffer) => {
      this.#bytes += chunk.length;
      // Floods are counted, not kept.
      if (this.text.length < 2_000_000) this.text += chunk.toString('latin1');
    });
    this.socket.once('end', () => (this.end ??= 'closed'));
    this.socket.once('error', ({ code = 'error' }: NodeJS.ErrnoException) => (this.end ??= isReset.has(code) ? 'reset' : code));
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** One POST of `bodyBytes` bytes; may be called before the connection is there. */
  post(bodyBytes = 7): void {
    this.socket.write(`POST /in HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${bodyBytes}\r\n\r\n`);
    this.socket.write(Buffer.alloc(bodyBytes, 'x'));
  }

  /** Waits until `pattern` has come. */
  async sees(pattern: RegExp): Promise<void> {
    await expect.poll(() => this.text, { interval: 5, timeout: 10_000 }).toMatch(pattern);
  }

  /** Waits until so many bytes have come. */
  async takes(bytes: number): Promise<void> {
    await expect.poll(() => this.bytes, { interval: 5, timeout: 30_000 }).toBeGreaterThanOrEqual(bytes);
  }

  async ends(how: string | RegExp): Promise<void> {
    await expect.poll(() => this.end, { interval: 5, timeout: 10_000 }).toMatch(how);
  }

  close(): void {
    this.socket.destroy();
  }
}
