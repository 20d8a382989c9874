import { SetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { createDynamoDbRecords } from '../../lambdas/shared/adapters/dynamodb-records.ts';
import { dead } from '../../lambdas/shared/core/decide.ts';
import { hashOf, syntheticKeyOf } from '../../lambdas/shared/core/keys.ts';
import { blankRecord } from '../../lambdas/shared/core/record.ts';
import { outputs } from '../../lambdas/shared/limits/names.ts';
import type { CrashRun, Scenario } from '../support/crash-run.ts';
import { describeCrashes } from '../support/crash-suite.ts';
import { messageBody, until } from '../support/embedded.ts';
import { occupySlot } from '../support/occupied-lane.ts';

async function delivered(run: CrashRun): Promise<void> {
  await run.register();
  await run.send();
  await run.settle();
}

/** How long a received message stays hidden from now on. */
const visibility = (run: CrashRun, seconds: number) =>
  run.embedded.sqs.send(new SetQueueAttributesCommand({ QueueUrl: run.embedded.output(outputs.deliveryQueueUrl), Attributes: { VisibilityTimeout: String(seconds) } }));

/** A body that an older parser did not take: dead under a key made from it. */
async function buriedByItsBody(run: CrashRun): Promise<void> {
  await run.register();
  const body = messageBody(run.endpointId, run.id('evt'));
  const recordKey = syntheticKeyOf(run.endpointId, 'malformed', body);
  const blank = blankRecord({ endpointId: run.endpointId, eventId: run.id('evt'), eventType: undefined, payloadHash: hashOf(Buffer.from(body)), recordKey }, 0);
  const { embedded } = run;
  const tables = { endpoints: embedded.output(outputs.endpointsTable), deliveries: embedded.output(outputs.deliveriesTable) };
  const records = createDynamoDbRecords(embedded.db, tables);
  await records.write(undefined, { ...dead(blank, 'malformed', 'an older parser did not take it'), phase: 'buried' });
}

let lastSeq = 0;

/** The newest call of the log, which is long: only what is new is asked for. */
async function lastCall(run: CrashRun): Promise<number> {
  return (lastSeq = (await run.embedded.calls(lastSeq)).at(-1)?.seq ?? lastSeq);
}

/** Holds the first answer of a run back, by endpoint. */
const holds = new Map<string, PromiseWithResolvers<void>>();

const scenarios: Scenario[] = [
  {
    name: 'the same event with another payload',
    requests: 1,
    prepare: delivered,
    send: (run) => run.send('evt', { payload: '{"n":2}', ends: 'conflict' }),
  },
  {
    name: 'a resend of what was delivered',
    requests: 2,
    prepare: delivered,
    send: (run) => run.send('evt', { more: { resend: 1 } }),
  },
  {
    name: 'a redrive of a dead letter',
    requests: 2,
    prepare: async (run) => {
      await run.register();
      await run.send('evt', { ends: 'rejected' });
      await run.settle();
    },
    send: (run) => run.redrive('delivered'),
    reply: (_request, nth) => ({ status: nth === 1 ? 422 : 200 }),
  },
  {
    name: 'a redrive of what was dead by its body',
    requests: 1,
    prepare: buriedByItsBody,
    send: (run) => run.send('evt', { generation: 0 }),
  },
  {
    name: 'a configuration that has changed',
    requests: 2,
    prepare: async (run) => {
      await delivered(run);
      await run.register({ maxInFlight: 1 });
    },
    send: (run) => run.send('later'),
  },
  {
    name: 'a worker that died while it was sending',
    requests: 2,
    prepare: async (run) => {
      await run.register();
      const sent = await run.send();
      await until('the first request', () => run.requestsOf(sent).length > 0);
      await run.idle();
    },
    send: () => Promise.resolve(),
    reply: (_request, nth, run) => (nth === 1 ? { status: 200, before: () => run.killBusy() } : { status: 200 }),
  },
  {
    name: 'a claim that a settled delivery left',
    requests: 1,
    prepare: async (run) => {
      await delivered(run);
      await occupySlot(run.embedded, { endpointId: run.endpointId, eventId: run.id('evt'), expiresEpochMs: 0 });
    },
    send: (run) => run.send(),
  },
  {
    name: 'a verdict that could not be written',
    requests: 2,
    prepare: async (run) => {
      await run.register();
      const resource = run.embedded.output(outputs.deliveriesTable);
      await run.whileRefused({ service: 'dynamodb', operation: 'UpdateItem', resource, code: 'InternalServerError' }, () => run.send());
    },
    send: () => Promise.resolve(),
  },
  {
    name: 'a burial that was cut short',
    requests: 1,
    prepare: async (run) => {
      await run.register();
      await run.whileRefused({ service: 'sqs', operation: 'SendMessage', code: 'InternalFailure' }, () => run.send('evt', { ends: 'rejected' }));
    },
    send: () => Promise.resolve(),
    reply: () => ({ status: 422 }),
  },
  {
    name: 'past its age while the lane was full',
    requests: 0,
    prepare: async (run) => {
      await run.register({ maxInFlight: 1, retry: { maxAgeS: 60 } });
      const { nowEpochMs } = await run.embedded.look();
      await occupySlot(run.embedded, { endpointId: run.endpointId, eventId: run.id('other'), expiresEpochMs: nowEpochMs + 90_000 });
      await run.send('evt', { ends: 'expired' });
      await run.idle();
    },
    send: (run) => run.embedded.advance(61_000),
  },
  {
    name: 'a duplicate while the first copy is in flight',
    requests: 1,
    prepare: async (run) => {
      await run.register();
      holds.set(run.endpointId, Promise.withResolvers());
      await visibility(run, 10);
    },
    send: async (run) => {
      const seen = await lastCall(run);
      const sent = await run.send();
      await run.orStopped('the first request', () => run.requestsOf(sent).length > 0);
      await run.embedded.advance(10_500);
      await run.orStopped('the duplicate is refused and put back', async () => {
        const isRefused = (await run.embedded.calls(seen)).some(({ outcome }) => outcome === 'ConditionalCheckFailedException');
        return isRefused && (await run.embedded.environments()).filter(({ busy }) => busy).length < 2;
      });
      await visibility(run, 180);
      holds.get(run.endpointId)?.resolve();
    },
    reply: (_request, _nth, run) => ({ status: 200, before: () => holds.get(run.endpointId)?.promise ?? Promise.resolve() }),
  },
];

describeCrashes('a crash at every side effect of a delivery that meets another (U1, U2, U4, L1)', scenarios);
