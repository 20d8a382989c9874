/** Addresses on loopback that cannot be connected to: one that says so, and one that says nothing. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

export interface Address {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * A port that refuses connections: the local end of a connection that is held, so that the kernel gives it to nobody else
 * for as long as it is needed.
 */
export async function startRefusing(host: string): Promise<Address> {
  const server = net.createServer().listen(0, host);
  await once(server, 'listening');
  const held = net.connect((server.address() as AddressInfo).port, host);
  const [accepted] = (await once(server, 'connection')) as [net.Socket];
  for (const socket of [held, accepted]) socket.on('error', () => undefined);
  if (held.connecting) await once(held, 'connect');
  return {
    port: held.localPort ?? 0,
    close: async () => {
      held.destroy();
      accepted.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A handshake on loopback takes microseconds; one that takes this long was dropped, for its queue is full. */
const droppedMs = 150;

/**
 * A port that drops every SYN: a thread listens and is blocked before it accepts anything, and its accept queue is filled
 * from here. A thread, for it ends with this process whatever ends that.
 */
export async function startBlackHole(host: string): Promise<Address> {
  const worker = new Worker(path.join(import.meta.dirname, 'black-hole-worker.mjs'), { workerData: { host }, execArgv: [] });
  const [port] = (await once(worker, 'message')) as [number];
  const held: net.Socket[] = [];
  const connects = () => {
    const socket = net.connect(port, host).on('error', () => undefined);
    held.push(socket);
    return isAccepted(socket);
  };
  while (await connects());
  return {
    port,
    close: async () => {
      for (const socket of held) socket.destroy();
      await worker.terminate();
    },
  };
}

async function isAccepted(socket: net.Socket): Promise<boolean> {
  const abort = new AbortController();
  const connected = once(socket, 'connect', { signal: abort.signal }).catch(() => undefined);
  await Promise.race([connected, sleep(droppedMs)]);
  // After a busy stretch the timer comes before the event that had been waiting all the while.
  await turn();
  abort.abort();
  return !socket.connecting;
}
