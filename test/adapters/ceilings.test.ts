/** What many strangers at once cost: memory, sockets and pools stay under their ceilings (T6, T9). */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, expect, it } from 'vitest';
import { createUndiciHttp, type UndiciHttp } from '../../lambdas/shared/adapters/undici-http.ts';
import { defaultEgress } from '../../lambdas/shared/limits/egress.ts';
import { sockets } from '../../lambdas/shared/limits/numbers.ts';

const rules = { ...defaultEgress, allow: ['127.0.0.0/8'], http: true };
const budgetsMs = { connection: 5_000, setup: 5_000, write: 3_000, read: 3_000, total: 10_000 };
const megabyte = 1_048_576;
let client: UndiciHttp;
const open: (() => unknown)[] = [];
afterEach(async () => {
  client.close();
  await Promise.all(open.splice(0).map((close) => close()));
});

const post = (url: string, endpointId: string) =>
  client.post({ url: new URL(url), headers: {}, body: Buffer.from('{}'), budgetsMs, endpointId, version: 'V1', remainingMs: () => Infinity, freshTry: true });

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
function usedBytes(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Once nothing is given back any more. */
async function settledBytes(): Promise<number> {
  for (let before = Infinity; ; ) {
    const used = usedBytes();
    if (before - used < megabyte / 10) return used;
    before = used;
    await delay(100);
  }
}

it('200 bombs in parallel take less than 64 MB', async () => {
  const bombs = ['body-100-mb', 'gzip-bomb', 'head-1-mb', 'interim-endless', 'chunk-extension-endless', 'status-line-endless', 'garbage-endless', 'drip-body'];
  const hosts = sockets.total / sockets.perHost;
  const child = fork(path.join(import.meta.dirname, '../support/hostile-child.ts'), Array.from({ length: hosts }, (_, i) => bombs[i % bombs.length] ?? ''));
  open.push(() => child.kill());
  const [urls] = (await once(child, 'message')) as [string[]];
  client = createUndiciHttp({ egress: rules, nowEpochMs: () => Date.now() });
  const round = () => urls.flatMap((url, i) => Array.from({ length: sockets.perHost }, () => post(url, `bomb-${i}`)));
  // Once, so that what is loaded lazily is loaded.
  await Promise.all(round());

  const before = await settledBytes();
  let most = -Infinity;
  let mostAtOnce = 0;
  const outcomes = Promise.all(round());
  let isOver = false;
  void outcomes.finally(() => (isOver = true));
  while (!isOver) {
    mostAtOnce = Math.max(mostAtOnce, client.sockets().inUse);
    most = Math.max(most, usedBytes() - before);
    await delay(5);
  }
  const after = (await settledBytes()) - before;
  console.log(`200 bombs: at most ${(most / megabyte).toFixed(1)} MB more while they ran, ${(after / megabyte).toFixed(1)} MB more after them`);
  expect((await outcomes).map(({ kind }) => kind).filter((kind) => kind !== 'answered' && kind !== 'ambiguous')).toEqual([]);
  expect(mostAtOnce).toBe(sockets.total);
  expect(most).toBeLessThan(64 * megabyte);
  expect(after).toBeLessThan(8 * megabyte);
});

it('5,000 hosts leave no more sockets, pools and figures than the ceilings', async () => {
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => response.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(() => new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  }));
  const { port } = server.address() as AddressInfo;
  client = createUndiciHttp({ egress: rules, nowEpochMs: () => Date.now(), resolve: () => Promise.resolve([{ address: '127.0.0.1' }]) });
  const hosts = Array.from({ length: 5_000 }, (_, i) => i);
  const most = { sockets: 0, pools: 0 };
  const kinds = new Set<string>();
  const work = async () => {
    for (let host = hosts.pop(); host !== undefined; host = hosts.pop()) {
      kinds.add((await post(`http://host-${host}.example:${port}/`, `endpoint-${host}`)).kind);
      const { inUse, idle, pools } = client.sockets();
      most.sockets = Math.max(most.sockets, inUse + idle);
      most.pools = Math.max(most.pools, pools);
    }
  };
  await Promise.all(Array.from({ length: 50 }, work));
  expect([...kinds]).toEqual(['answered']);
  expect(most).toEqual({ sockets: sockets.total, pools: sockets.total });
  expect(Object.keys(client.sockets().hosts)).toHaveLength(sockets.maxHosts);
  // As the other side sees it, once it has noticed what was closed.
  const connections = () => new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));
  await expect.poll(connections, { timeout: 10_000 }).toBeLessThanOrEqual(sockets.total);
});

it('a host with many silent addresses takes no more sockets than its ceiling, and its last address is reached', async () => {
  const server = http.createServer((request, response) => void request.resume().on('end', () => response.end()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(() => new Promise((resolve) => server.close(resolve)));
  const { port } = server.address() as AddressInfo;
  const dialled: net.Socket[] = [];
  let most = 0;
  client = createUndiciHttp({
    egress: rules,
    nowEpochMs: () => Date.now(),
    resolve: () => Promise.resolve(['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.1'].map((address) => ({ address }))),
    dial: (address) => {
      // Silent ones are sockets that never connect.
      const socket = address === '127.0.0.1' ? net.connect(port, address) : new net.Socket();
      dialled.push(socket);
      most = Math.max(most, dialled.filter(({ destroyed }) => !destroyed).length);
      return socket;
    },
  });
  const outcomes = await Promise.all(Array.from({ length: sockets.perHost }, () => post(`http://many.example:${port}/`, 'many')));
  expect(outcomes.map(({ kind }) => kind)).toEqual(Array(sockets.perHost).fill('answered'));
  expect([most, dialled.length]).toEqual([sockets.perHost, 4 * sockets.perHost]);
  client.close();
  expect(client.sockets()).toMatchObject({ inUse: 0, idle: 0, pools: 0 });
});
