/** An endpoint's attempts a day (O8), through the whole stack: bounded, told, and gone on with after midnight. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from '../support/cli.ts';
import { messageBody, startEmbedded, until, type Embedded } from '../support/embedded.ts';
import { startRecorder, type Recorder } from '../support/recorder.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
let embedded: Embedded;
let consumer: Recorder;
beforeAll(async () => {
  embedded = await startEmbedded();
  consumer = await startRecorder(embedded.authority);
  // Early in a day, which does not end before the test does.
  await embedded.advance(dayMs - (Date.now() % dayMs) + hourMs);
});
afterAll(async () => {
  await consumer.close();
  await embedded.stop();
});

interface Standing {
  readonly at: string;
  readonly today: { attempts: number; most: number; until: string };
  readonly says: string;
}

it('are no more than allowed; the rest is held, somebody is told, and the next day goes on', { timeout: 240_000 }, async () => {
  const arrived = (path: string) => consumer.requests.filter((request) => request.path === path).map(({ eventId }) => eventId);
  await embedded.register('bounded', consumer.url('/bounded'), { maxPerDay: 3 });
  await embedded.register('free', consumer.url('/free'));
  const events = ['a', 'b', 'c', 'd', 'e'];
  for (const eventId of events) {
    for (const endpointId of ['bounded', 'free']) await embedded.send(messageBody(endpointId, eventId));
    await until('it has come', () => arrived('/free').includes(eventId));
  }
  const holding = async () => (await embedded.registry.get('bounded'))?.lane.holding?.count;
  await until('the rest is held', async () => (await holding()) === 2);
  expect([arrived('/bounded'), arrived('/free')]).toEqual([['a', 'b', 'c'], events]);

  // An operator is told within minutes, and once; the consumer may ask.
  const told = async () => (await embedded.published()).map(({ message }) => JSON.parse(message) as { step: string; endpointId: string; text: string });
  await until('somebody is told', async () => {
    await embedded.advance(30_000);
    return (await told()).length > 0;
  });
  expect((await told())[0]).toMatchObject({ step: 'spent', endpointId: 'bounded', text: expect.stringMatching(/^bounded: 3 attempts a day are allowed, and 3 were counted today: nothing more is sent before 00:00 UTC\. .* 2 waiting, none lost\./) as string });
  const status = await runCli(embedded.localFile, ['status', 'bounded']);
  expect(status.stdout).toMatch(/^bounded +ok \(day spent\) +\d{4}-\d\d-\d\dT00:00:00/m);
  expect(status.stdout).toMatch(/^Today: +3 of 3 attempts; the next day begins at 00:00 UTC$/m);
  const { url, token } = (await runCli(embedded.localFile, ['endpoint', 'token', 'bounded', '--json'])).json<{ url: string; token: string }>();
  const ask = async () => (await (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).json()) as Standing;
  const standing = await ask();
  expect(standing).toMatchObject({ today: { attempts: 3, most: 3 }, says: expect.stringContaining('nothing more is sent before 00:00 UTC') as string });

  // An operator's question is asked all the same.
  const ping = await runCli(embedded.localFile, ['endpoint', 'ping', 'bounded', '--timeout', '60']);
  expect([ping.code, arrived('/bounded').length]).toEqual([0, 4]);

  await embedded.advance(Date.parse(standing.today.until) - Date.parse(standing.at));
  await until('what was held is sent', async () => {
    await embedded.skip({ beyondMs: hourMs, toWakeUps: true });
    return arrived('/bounded').length === 6;
  }, 90_000);
  expect(arrived('/bounded').slice(4)).toEqual(['d', 'e']);
  expect((await ask()).today).toMatchObject({ attempts: 2, most: 3 });
  expect((await told()).map(({ step }) => step)).toEqual(['spent']);

  // Once more is allowed, what waits is sent at once.
  for (const eventId of ['f', 'g']) await embedded.send(messageBody('bounded', eventId));
  await until('one of them is held', async () => (await holding()) === 1);
  expect(arrived('/bounded')).toHaveLength(7);
  expect((await runCli(embedded.localFile, ['endpoint', 'put', 'bounded', '--set', 'maxPerDay=4'])).code).toBe(0);
  await until('both have come', () => arrived('/bounded').length === 8, 30_000);

  // To send nothing, it is paused.
  const put = await runCli(embedded.localFile, ['endpoint', 'put', 'bounded', '--set', 'maxPerDay=0']);
  expect([put.code, put.stderr]).toEqual([2, expect.stringMatching(/maxPerDay: .*1.*\(got 0\)/)]);
});
