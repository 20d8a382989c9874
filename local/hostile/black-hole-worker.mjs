// Listens with the shortest queue there is, and then never runs its event loop again: nothing is accepted.
import { createServer } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

const { host } = /** @type {{ host: string }} */ (workerData);
const server = createServer();
server.listen({ port: 0, host, backlog: 1 }, () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  parentPort?.postMessage(address.port);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
