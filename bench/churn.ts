/** `npm run bench -- churn`: what a backlog of one endpoint costs in receives and in time, however long it is. */
import { setTimeout as sleep } from 'node:timers/promises';
import { outputs } from '../lambdas/shared/limits/names.ts';
import { type Bench, type Ceiling, judge, type Report, type Row } from './bench.ts';
import { newEvent, send } from './events.ts';
import { type Installation, withInstallation } from './installation.ts';
import { untilQuiet } from './rounds.ts';

type Progress = (line: string) => void;

/** Environments of a function at once: two cores do not carry more. */
const concurrency = 4;
const slots = 16;
const serviceMs = 200;
/** Batches under way at once while a backlog is sent. */
const senders = 8;
const batch = 10;
/** Messages of a backlog that are lost never come; real time. */
const limitFactor = 5;
const lookMs = 10;

const limits = { receives: 3, flat: 1.5, timeFactor: 1.3, startS: 15 } as const;
const source = 'docs/architecture.md';

export interface Size {
  readonly backlogs: readonly number[];
}

const notes = [
  `A backlog is in the queue before polling begins, all for one endpoint with a lane of ${slots} whose consumer answers after ${serviceMs} ms. Seconds are real, from then to the last answer.`,
  `bound: ${limits.timeFactor} × backlog × service ÷ lane + ${limits.startS} s.`,
  'receives: messages that the delivery queue has handed out, the first receive of each included; held: payloads that were written to the hold.',
  'The embedded AWS, the consumer and the functions share this machine: on one that is busy a wave takes longer.',
];

export const bench: Bench = churnOf({ backlogs: [200, 2_000, 6_000] });

export function churnOf(size: Size): Bench {
  return {
    run: (progress) => {
      progress('starting the embedded AWS');
      return withInstallation({ concurrency }, (installation) => measureAll(installation, size, progress));
    },
  };
}

interface Measured {
  readonly backlog: number;
  readonly receives: number;
  readonly held: number;
  readonly requests: number;
  readonly seconds: number;
}

async function measureAll(installation: Installation, { backlogs }: Size, progress: Progress): Promise<Report> {
  const measured: Measured[] = [];
  for (const backlog of backlogs) measured.push(await measure(installation, backlog, progress));
  return { name: 'churn', rows: measured.map(rowOf), ceilings: ceilingsOf(measured), notes };
}

async function measure(installation: Installation, backlog: number, progress: Progress): Promise<Measured> {
  const { source: poller, calls } = installation;
  const endpointId = `backlog-${backlog}`;
  let requests = 0;
  let lastAnswerMs = 0;
  const consumer = await installation.consumerOf(() => {
    requests += 1;
    lastAnswerMs = performance.now() + serviceMs;
    return { status: 200, afterMs: serviceMs };
  });
  await installation.register(endpointId, { url: consumer.url, maxInFlight: slots });
  poller.disable();
  await until('polling ends', () => poller.state === 'Disabled', 60_000);
  progress(`${backlog}: sending`);
  await sendAll(installation, endpointId, backlog);
  progress(`${backlog}: delivering, in ${boundS(backlog)} s at most`);
  const [receivesBefore, since, startMs] = [installation.receives(), calls.last, performance.now()];
  await poller.enable();
  await until(`${backlog} events arrive`, () => consumer.seen.size >= backlog, boundS(backlog) * limitFactor * 1_000);
  await untilQuiet(installation);
  const puts = calls.since(since).filter(({ operation, resource, outcome }) => operation === 'PutItem' && outcome === 'ok' && resource.endsWith(installation.output(outputs.payloadsTable)));
  return { backlog, receives: installation.receives() - receivesBefore, held: puts.length, requests, seconds: (lastAnswerMs - startMs) / 1_000 };
}

async function sendAll(installation: Installation, endpointId: string, count: number): Promise<void> {
  let left = count;
  const sender = async () => {
    while (left > 0) {
      const events = Array.from({ length: Math.min(batch, left) }, () => newEvent(endpointId));
      left -= events.length;
      await send(installation, events);
    }
  };
  await Promise.all(Array.from({ length: senders }, sender));
}

/** @throws Error if it does not come true in `limitMs`: then nothing was measured. */
async function until(what: string, isTrue: () => boolean, limitMs: number): Promise<void> {
  for (const endMs = performance.now() + limitMs; !isTrue(); await sleep(lookMs)) {
    if (performance.now() > endMs) throw new Error(`not in ${limitMs} ms: ${what}; nothing was measured`);
  }
}

const boundS = (backlog: number): number => limits.timeFactor * ((backlog * serviceMs) / 1_000 / slots) + limits.startS;
const perMessage = ({ receives, backlog }: Measured): number => receives / backlog;

function rowOf(one: Measured): Row {
  const { backlog, receives, held, requests, seconds } = one;
  return { table: 'one backlog', backlog, requests, receives, receivesAMessage: perMessage(one), held, seconds, boundSeconds: boundS(backlog), overIdeal: seconds / ((backlog * serviceMs) / 1_000 / slots) };
}

function ceilingsOf(measured: readonly Measured[]): Ceiling[] {
  const all = measured.map(perMessage);
  return [
    ...measured.flatMap((one) => [
      judge({ name: `${one.backlog}: receives a message`, source, max: limits.receives }, perMessage(one)),
      judge({ name: `${one.backlog}: seconds`, source, max: boundS(one.backlog) }, one.seconds),
    ]),
    judge({ name: 'receives a message, most over least', source, max: limits.flat }, Math.max(...all) / Math.min(...all)),
  ];
}
