import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { sqsSourceQueue } from '../../local/event-source.ts';

interface Seen {
  action: string;
  authorization: string;
  body: Record<string, unknown>;
}

const closers: (() => void)[] = [];
afterEach(() => closers.splice(0).forEach((close) => close()));

/** A server that answers each action with a fixed body, or never. */
async function queueAnswering(answers: Record<string, unknown>) {
  const seen: Seen[] = [];
  const server = http.createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const action = String(request.headers['x-amz-target']).replace('AmazonSQS.', '');
      seen.push({ action, authorization: request.headers.authorization ?? '', body: JSON.parse(text) as Record<string, unknown> });
      if (action in answers) response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(answers[action]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const queue = sqsSourceQueue({ endpoint, region: 'eu-west-1', queueUrl: `${endpoint}/000000000000/Delivery`, roleName: 'DeliverRole' });
  closers.push(() => {
    queue.destroy();
    server.close();
    server.closeAllConnections();
  });
  return { queue, seen };
}

it('calls SQS as the role of the function', async () => {
  const { queue, seen } = await queueAnswering({
    GetQueueAttributes: { Attributes: {} },
    ReceiveMessage: { Messages: [{ MessageId: 'a', ReceiptHandle: 'h', Body: 'x', MD5OfBody: '9dd4e461268c8034f5c8564e155c67a6' }] },
    DeleteMessageBatch: { Successful: [{ Id: '0' }], Failed: [{ Id: '1', Code: 'ReceiptHandleIsInvalid', SenderFault: true }] },
  });
  await queue.describe();
  expect(await queue.receive(7, 20, new AbortController().signal)).toMatchObject([{ MessageId: 'a' }]);
  expect(await queue.deleteBatch(['good', 'bad'])).toEqual(['bad']);
  expect(seen.map(({ action }) => action)).toEqual(['GetQueueAttributes', 'ReceiveMessage', 'DeleteMessageBatch']);
  for (const { authorization } of seen) expect(authorization).toContain('Credential=DeliverRole/');
  expect(seen[1]?.body).toMatchObject({ MaxNumberOfMessages: 7, WaitTimeSeconds: 20, MessageSystemAttributeNames: ['All'], MessageAttributeNames: ['All'] });
});

it('gives up a long poll when it is told to', async () => {
  const { queue, seen } = await queueAnswering({});
  const controller = new AbortController();
  const poll = queue.receive(10, 20, controller.signal);
  while (seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  controller.abort();
  await expect(poll).rejects.toThrow();
});
