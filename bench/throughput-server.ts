/** A consumer in a process of its own, so that its work is not counted as the sender's: reads each request and answers 200. */
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';

const answer = Buffer.from('{"received":true}');

process.once('message', ({ key, cert }: { key: string; cert: string }) => {
  const consume: http.RequestListener = (request, response) => {
    request.on('end', () => response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length }).end(answer));
    request.resume();
  };
  const servers = { http: http.createServer(consume), https: https.createServer({ key, cert }, consume) };
  const listening = Object.entries(servers).map(
    ([scheme, server]) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve([scheme, (server.address() as AddressInfo).port]))),
  );
  void Promise.all(listening).then((ports) => process.send?.(Object.fromEntries(ports as [string, number][])));
});
// Its parent is gone: nobody is left to ask.
process.once('disconnect', () => process.exit());
