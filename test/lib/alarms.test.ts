import { readFileSync } from 'node:fs';
import path from 'node:path';
import { App, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, it } from 'vitest';
import { phases } from '../../lambdas/shared/core/outcome.ts';
import { endpointGauges, endpointMetrics, fleetMetrics, phaseMetric } from '../../lambdas/shared/limits/metrics.ts';
import { alarms as rules } from '../../lambdas/shared/limits/numbers.ts';
import { type AlarmRules, checkAlarms } from '../../lambdas/shared/limits/relations.ts';
import { newAlarm } from '../../lib/alarm.ts';
import { AlarmTopics } from '../../lib/alarm-topics.ts';
import { SluiceStack } from '../../lib/sluice-stack.ts';
import { resolveStage } from '../../lib/stage-config.ts';
import { type AlarmSpec, readAlarms } from '../../local/template-alarms.ts';
import { Resolver, templateSchema } from '../../local/template-resolver.ts';
import { createAlarmEvaluator, type Datapoint } from '../support/alarm-evaluator.ts';
import { parseQuery } from '../support/alarm-evaluator/query.ts';

const prefix = 'Sluice-Webhooks-';
const metricNamespace = 'Sluice/Sluice-Webhooks';
const runbook = readFileSync(path.join(import.meta.dirname, '../../docs/runbook.md'), 'utf8');

function stackOf(overrides: unknown = {}) {
  // Nothing is bundled: no function is run.
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] } });
  const stack = new SluiceStack(app, 'Sluice', { stage: resolveStage('aws', overrides) });
  const template = Template.fromStack(stack);
  const resolver = new Resolver(templateSchema.parse(template.toJSON()), 'Sluice', 'http://x');
  return { template, resolver, alarms: readAlarms(resolver) };
}

let made: ReturnType<typeof stackOf>;
beforeAll(() => void (made = stackOf()));

const alarm = (name: string, from = made): AlarmSpec => {
  const found = from.alarms.find((one) => one.name === prefix + name);
  if (found === undefined) throw new Error(`no alarm ${name}`);
  return found;
};
/** `Alarm: …` below a heading names the alarms that it answers, with the severity of those before it. */
const marked = runbook.split(/^## /m).slice(1).flatMap((section) => {
  const [heading = '', ...lines] = section.split('\n');
  const anchor = heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-');
  const [line = ''] = lines.filter((one) => one.startsWith('Alarm:'));
  return [...line.matchAll(/((?:`[\w-]+`(?:, )?)+) \((page|ticket)\)/g)].flatMap(([, names = '', severity]) =>
    [...names.matchAll(/`([\w-]+)`/g)].map(([, name]) => `${severity}: ${name} #${anchor}`),
  );
});
const severityOf = ({ description }: AlarmSpec) => description.slice(0, description.indexOf(':'));
const anchorOf = ({ description }: AlarmSpec) => description.slice(description.indexOf('#') + 1);

describe('every alarm', () => {
  it('has its heading in the runbook, and every heading that is marked for one has it', () => {
    const found = made.alarms.map((one) => `${severityOf(one)}: ${one.name.slice(prefix.length)} #${anchorOf(one)}`);
    expect(found.length).toBeGreaterThan(20);
    expect(found.sort()).toEqual(marked.sort());
    expect(runbook.match(/^Alarms?\b.*`/gm)).toHaveLength(new Set(made.alarms.map(anchorOf)).size);
  });

  it('is told at the topic of its severity, and so is its end', () => {
    const topics: Record<string, unknown> = { page: made.resolver.value({ Ref: 'WebhooksAlarmsTopicsPages24BC5C43' }), ticket: made.resolver.value({ Ref: 'WebhooksAlarmsTopicsTickets7FEFA1AD' }) };
    expect(topics['page']).toMatch(/^arn:aws:sns:.*Pages/);
    for (const one of made.alarms) expect([one.name, one.actions, one.okActions]).toEqual([one.name, [topics[severityOf(one)]], [topics[severityOf(one)]]]);
  });

  it('says in one sentence what it means, and where the runbook is', () => {
    for (const { description } of made.alarms) expect(description).toMatch(/^(page|ticket): [A-Z][^.]+\. Runbook: docs\/runbook\.md#[a-z-]+$/);
    const url = 'https://wiki.example.com/sluice/runbook';
    expect(alarm('faults', stackOf({ runbookUrl: url })).description).toMatch(`Runbook: ${url}#faults-are-reported`);
  });

  it('is one that CloudWatch takes, and can speak', () => {
    expect(() => createAlarmEvaluator(made.alarms)).not.toThrow();
  });

  it('is made in one place, which wants all of this and a description that fits', () => {
    const code = ['alarm', 'alarms', 'alarm-topics', 'fleet-alarms', 'endpoint-alarms', 'dashboard'].map((file) => readFileSync(path.join(import.meta.dirname, `../../lib/${file}.ts`), 'utf8')).join('');
    expect(code.match(/new (Cfn|Composite)?Alarm\(/g)).toEqual(['new CfnAlarm(']);
    const watches = { kind: 'query', expression: 'SELECT SUM(dead) FROM Sluice' } as const;
    const stack = new Stack(new App(), 'Shop');
    const home = { scope: stack, prefix: 'Shop', topics: new AlarmTopics(stack, 'Topics'), runbookUrl: 'x'.repeat(1_002) };
    const long = () => newAlarm(home, { name: 'long', severity: 'page', anchor: 'a', means: 'Long.', watches, rule: rules.faults, missing: 'ignore' });
    expect(long).toThrow('Alarm long: a description of 1025 characters, must be <= 1024');
  });

  it('keeps its logical id, and with it its name and history', () => {
    expect(alarm('fault-queue-not-empty').logicalId).toBe('WebhooksAlarmsFaultQueueNotEmpty46F1F52B');
    expect(alarm('endpoint-dead').logicalId).toBe('WebhooksAlarmsEndpointDead81B5813E');
  });
});

/** As the functions publish: a metric by its name, and the names of its dimensions. */
const catalogue = new Set([
  ...Object.keys(fleetMetrics).map((name) => `${name} by service`),
  ...phases.map((phase) => `${phaseMetric(phase)} by outcome,service`),
  ...[...Object.keys(endpointMetrics), ...Object.keys(endpointGauges)].map((name) => `${name} by endpointId`),
]);
const ofQuery = (expression: string) => {
  const { namespace, name, schema = [] } = parseQuery(expression);
  return { namespace, name, dimensions: schema };
};
const named = ({ name, dimensions }: { name: string; dimensions: readonly string[] }) => `${name} by ${dimensions.toSorted().join()}`;
const isOurs = ({ namespace }: { namespace: string }) => namespace === metricNamespace;

interface Widget {
  readonly type: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly properties: { readonly title: string; readonly view?: string; readonly alarms?: string[]; readonly metrics?: (string | { expression?: string; stat?: string })[][] };
}
const widgets = () => {
  const [dashboard] = made.resolver.all('AWS::CloudWatch::Dashboard');
  return (JSON.parse(String(dashboard?.properties['DashboardBody'])) as { widgets: Widget[] }).widgets;
};
const ofRow = (row: (string | { expression?: string })[]) => {
  const [namespace, name, ...rest] = row;
  if (typeof namespace !== 'string' || typeof name !== 'string') {
    const expression = typeof namespace === 'object' ? (namespace.expression ?? '') : '';
    return expression.startsWith('SELECT') ? [{ ...ofQuery(expression), values: [] as string[] }] : [];
  }
  const pairs = rest.filter((one) => typeof one === 'string');
  return [{ namespace, name, dimensions: pairs.filter((_, index) => index % 2 === 0), values: pairs.filter((_, index) => index % 2 === 1) }];
};

describe('every metric of ours', () => {
  it('that an alarm watches is published, with exactly these dimensions', () => {
    const watched = made.alarms.map(({ source }) => (source.kind === 'query' ? ofQuery(source.expression) : { ...source, dimensions: Object.keys(source.dimensions) })).filter(isOurs);
    expect(watched.length).toBeGreaterThan(9);
    expect(watched.map(named).filter((one) => !catalogue.has(one))).toEqual([]);
  });

  it('that the dashboard shows is published, with exactly these dimensions, by a service that there is', () => {
    const shown = widgets().flatMap(({ properties }) => (properties.metrics ?? []).flatMap(ofRow)).filter(isOurs);
    expect(shown.length).toBeGreaterThan(60);
    expect(shown.map(named).filter((one) => !catalogue.has(one))).toEqual([]);
    const values = new Set(shown.flatMap(({ values }) => values));
    expect([...values].sort()).toEqual(['answered', 'deliver', 'drain', 'replay', 'sweep']);
  });

  it('that is a gauge of an endpoint has a ticket', () => {
    const watched = made.alarms.flatMap(({ source }) => (source.kind === 'query' ? [ofQuery(source.expression)] : [])).filter(({ dimensions }) => dimensions.includes('endpointId'));
    expect(watched.map(({ name }) => name).sort()).toEqual([...Object.keys(endpointGauges), 'dead'].sort());
  });
});

describe('the alarms of queues and functions', () => {
  const series = (name: string, from = made) => {
    const { source, threshold, periods, datapoints, missing } = alarm(name, from);
    return source.kind === 'query' ? source.expression : [source.namespace, source.name, source.statistic, Object.values(source.dimensions).join(), threshold, `${datapoints}/${periods}`, missing];
  };

  it('watch what waits in the fault queue, not what was sent or is looked at (51, 83)', () => {
    expect(series('fault-queue-not-empty')).toEqual(['AWS/SQS', 'ApproximateNumberOfMessagesVisible', 'Maximum', 'WebhooksQueuesFault6689F381', 0, '1/1', 'ignore']);
  });

  it.each([
    ['delivery-queue-old', 'ApproximateAgeOfOldestMessage', 'WebhooksQueuesDelivery1E532403', 900],
    ['drain-queue-old', 'ApproximateAgeOfOldestMessage', 'WebhooksQueuesDrainA50565D7', 2_160],
    ['in-flight-near-limit', 'ApproximateNumberOfMessagesNotVisible', 'WebhooksQueuesDelivery1E532403', 90_000],
  ])('%s watches %s', (name, metric, queue, threshold) => {
    expect(series(name).slice(0, 5)).toEqual(['AWS/SQS', metric, 'Maximum', queue, threshold]);
  });

  it.each(['deliver', 'drain', 'sweep', 'replay'])('watch errors and throttles of %s', (service) => {
    for (const [name, metric] of [['errors', 'Errors'], ['throttled', 'Throttles']]) {
      const [namespace, metricName, statistic, fn, threshold] = series(`${service}-${name}`);
      expect([namespace, metricName, statistic, threshold]).toEqual(['AWS/Lambda', metric, 'Sum', 0]);
      expect(String(fn).toLowerCase()).toContain(`webhooks${service}function`);
    }
  });

  it('wait as long as a stage has messages come back after their worker died', () => {
    const slow = stackOf({ deliver: { timeoutS: 300 } });
    expect(series('delivery-queue-old', slow)[4]).toBe(5_400);
    expect(series('deliver-errors', slow)[5]).toBe('3/90');
    expect(series('deliver-errors')[5]).toBe('3/15');
  });
});

describe('over time', () => {
  const startMs = 1_790_000_040_000;
  /** In each of `minutes` minutes from the start. */
  const points = (of: Omit<Datapoint, 'atEpochMs'>, minutes: number, from = 0): Datapoint[] => Array.from({ length: minutes }, (_, n) => ({ ...of, atEpochMs: startMs + (from + n) * 60_000 }));
  const watch = (one: AlarmSpec, datapoints: Datapoint[], minutes: number) =>
    createAlarmEvaluator([one]).watch(datapoints, { fromEpochMs: startMs, toEpochMs: startMs + minutes * 60_000 }).filter(({ contributor, state }) => contributor !== undefined || state === 'ALARM');
  const tickets = () => made.alarms.filter(({ name }) => name.includes('-endpoint-'));

  it('each ticket names the endpoint that is beyond its bound for long enough, and no other', () => {
    expect(tickets()).toHaveLength(8);
    for (const one of tickets()) {
      const { name, namespace } = one.source.kind === 'query' ? ofQuery(one.source.expression) : { name: '', namespace: '' };
      const gauge = (endpointId: string, value: number, minutes: number) => points({ namespace, name, dimensions: { endpointId }, values: [value] }, minutes);
      const [below, beyond] = [gauge('well', one.threshold, 20), gauge('sick', one.threshold + 0.01, 20)];
      const changes = watch(one, [...below, ...beyond, ...points({ namespace, name, dimensions: { endpointId: 'sick' }, values: [0] }, 15, 20)], 36);
      expect(changes.map(({ contributor, state }) => `${contributor} ${state}`)).toEqual(['endpointId=sick ALARM', 'undefined ALARM', 'endpointId=sick OK']);
      expect(watch(one, gauge('brief', one.threshold + 0.01, one.datapoints - 1), 20).filter(({ contributor }) => contributor === 'endpointId=brief')).toEqual([]);
      expect(watch(one, beyond.map((point) => ({ ...point, name: `${name}s` })), 20)).toEqual([]);
    }
  });

  it('deaths are told again when more die, whatever the depth of the dead-letter queue (51)', () => {
    const die = (minute: number) => points({ namespace: metricNamespace, name: 'dead', dimensions: { endpointId: 'acme' }, values: [10] }, 1, minute);
    const told = watch(alarm('endpoint-dead'), [...die(1), ...die(10)], 20).filter(({ contributor, state }) => contributor === 'endpointId=acme' && state === 'ALARM');
    expect(told.map(({ atEpochMs }) => (atEpochMs - startMs) / 60_000)).toEqual([2, 11]);
  });

  it('what a producer sends wrong is told, by the sender that buried it, and ends', () => {
    const die = (service: string, minute: number) => points({ namespace: metricNamespace, name: 'dead_unaddressed', dimensions: { service }, values: [1] }, 1, minute);
    const changes = watch(alarm('deliveries-unaddressed'), [...die('deliver', 1), ...die('drain', 10)], 20).filter(({ contributor }) => contributor !== undefined);
    expect(changes.map(({ contributor, state }) => `${contributor} ${state}`)).toEqual(['service=deliver ALARM', 'service=deliver OK', 'service=drain ALARM', 'service=drain OK']);
    const delivered = points({ namespace: metricNamespace, name: 'dead', dimensions: { service: 'deliver' }, values: [9] }, 20);
    expect(watch(alarm('deliveries-unaddressed'), delivered, 20)).toEqual([]);
  });

  it('a message in the fault queue is a page until it is empty, also while nobody looks at the queue', () => {
    const depth = (values: number[], minute: number) => points({ namespace: 'AWS/SQS', name: 'ApproximateNumberOfMessagesVisible', dimensions: { QueueName: 'WebhooksQueuesFault6689F381' }, values }, 1, minute);
    const evaluator = createAlarmEvaluator([alarm('fault-queue-not-empty')]);
    const changes = evaluator.watch([...depth([0], 0), ...depth([1], 1), ...depth([0], 60)], { fromEpochMs: startMs, toEpochMs: startMs + 90 * 60_000 });
    expect(changes.map(({ atEpochMs, state }) => [(atEpochMs - startMs) / 60_000, state])).toEqual([[1, 'OK'], [2, 'ALARM'], [61, 'OK']]);
  });

  it('the silence of the sweep is told within minutes, one run too late is not', () => {
    const swept = (minutes: number, from: number) => points({ namespace: metricNamespace, name: 'swept', dimensions: { service: 'sweep' }, values: [1] }, minutes, from);
    expect(watch(alarm('sweep-silent'), [...swept(10, -5), ...swept(5, 8)], 12)).toEqual([]);
    const [told] = watch(alarm('sweep-silent'), swept(10, -5), 20);
    expect(told).toMatchObject({ state: 'ALARM' });
    expect(((told?.atEpochMs ?? 0) - startMs) / 60_000).toBeLessThanOrEqual(12);
  });

  it('a copy in the dead-letter queue that is about to end is a page, though the sweep sees it in one of many runs', () => {
    const age = (value: number, minutes: number, from: number) => points({ namespace: metricNamespace, name: 'oldest_dead_letter_age', dimensions: { service: 'sweep' }, values: [value] }, minutes, from);
    const [young, bound, seen] = [60, 864_000, 864_001];
    const told = (datapoints: Datapoint[], minutes: number) => watch(alarm('dead-letters-old'), datapoints, minutes).map(({ atEpochMs }) => (atEpochMs - startMs) / 60_000);
    expect(told(age(bound, 600, 0), 600)).toEqual([]);
    // Seen every five hours it stays one page.
    expect(told([...age(young, 900, 0), ...[10, 310, 610].flatMap((minute) => age(seen, 1, minute))], 900)).toEqual([11]);
    // Ends within hours after it was cleared, and not because nobody looked.
    const changes = (datapoints: Datapoint[]) => createAlarmEvaluator([alarm('dead-letters-old')]).watch(datapoints, { fromEpochMs: startMs, toEpochMs: startMs + 900 * 60_000 }).map(({ state }) => state);
    expect(changes([...age(seen, 60, 0), ...age(0, 840, 60)])).toEqual(['ALARM', 'OK']);
    expect(changes(age(seen, 60, 0))).toEqual(['ALARM']);
  });

  it('faults name the service, and a burst of one minute is none', () => {
    const faults = (service: string, minutes: number) => points({ namespace: metricNamespace, name: 'faults', dimensions: { service }, values: [1, 1] }, minutes);
    expect(watch(alarm('faults'), [...faults('drain', 5), ...faults('sweep', 1)], 6).map(({ contributor }) => contributor)).toEqual(['service=drain', undefined]);
  });
});

describe('topics', () => {
  it('are written to over TLS only, and by CloudWatch for alarms of this account', () => {
    // Those of alarms, and that of notices, at which only the sweep publishes.
    made.template.resourceCountIs('AWS::SNS::Topic', 3);
    made.template.resourceCountIs('AWS::SNS::Subscription', 0);
    made.template.allResourcesProperties('AWS::SNS::Topic', { KmsMasterKeyId: Match.absent() });
    const tlsOnly = Match.objectLike({ Effect: 'Deny', Action: 'sns:Publish', Condition: { Bool: { 'aws:SecureTransport': 'false' } } });
    made.template.allResourcesProperties('AWS::SNS::TopicPolicy', { PolicyDocument: { Statement: Match.arrayWith([tlsOnly]) } });
    made.template.resourcePropertiesCountIs('AWS::SNS::TopicPolicy', {
      PolicyDocument: {
        Statement: [
          tlsOnly,
          Match.objectLike({
            Effect: 'Allow', Action: 'sns:Publish', Principal: { Service: 'cloudwatch.amazonaws.com' },
            Condition: { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
          }),
        ],
      },
    }, 2);
  });

  it('are outputs of the stack', () => {
    made.template.hasOutput('PagesTopicArn', { Value: { Ref: 'WebhooksAlarmsTopicsPages24BC5C43' } });
    made.template.hasOutput('TicketsTopicArn', { Value: { Ref: 'WebhooksAlarmsTopicsTickets7FEFA1AD' } });
  });
});

describe('the dashboard', () => {
  it('shows all alarms first, then queues and faults, then the fleet, then endpoints', () => {
    const all = widgets();
    expect(all.flatMap(({ properties }) => properties.alarms ?? [])).toHaveLength(made.alarms.length);
    const at = (title: string) => all.findIndex(({ properties }) => properties.title.startsWith(title));
    const order = ['Alarms', 'Fault queue', 'Faults', 'First attempts', 'Latency', 'Phases', 'Sockets', 'Breakers', 'Failing', 'Shed'].map(at);
    expect(order).not.toContain(-1);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(all.filter(({ properties }) => properties.view === 'table')).toHaveLength(9);
  });

  it('shows latency at p50, p95 and p99', () => {
    const latency = widgets().find(({ properties }) => properties.title.startsWith('Latency'))?.properties.metrics ?? [];
    expect(latency.map((row) => row.at(-1)).map((one) => (typeof one === 'object' ? one.stat : one))).toEqual(['p50', 'p95', 'p99', 'p50', 'p95', 'p99']);
  });

  it('has one query a widget, and no widget over another', () => {
    const all = widgets();
    for (const { properties } of all) {
      const queries = (properties.metrics ?? []).filter(([first]) => typeof first === 'object' && first.expression?.startsWith('SELECT'));
      expect(queries.length).toBeLessThan(2);
    }
    const cells = all.flatMap(({ x, y, width, height }) => Array.from({ length: width * height }, (_, n) => `${x + (n % width)},${y + Math.floor(n / width)}`));
    expect(new Set(cells).size).toBe(cells.length);
    expect(Math.max(...all.map(({ x, width }) => x + width))).toBe(24);
  });
});

describe('checkAlarms', () => {
  const stage = resolveStage();
  const messages = (change: (copy: Changeable<AlarmRules>) => void) => {
    const copy = structuredClone(rules) as Changeable<AlarmRules>;
    change(copy);
    return checkAlarms(stage, copy).map(({ message }) => message);
  };
  type Changeable<T> = { -readonly [K in keyof T]: Changeable<T[K]> };

  it('finds nothing in the numbers as they are', () => {
    expect(messages(() => undefined)).toEqual([]);
  });

  it.each<[string, (copy: Changeable<AlarmRules>) => void, string]>([
    ['an alarm at the end of the retention', (copy) => (copy.deadLetterAge.bound = 1_209_600), 'alarms.deadLetterAge.bound 1209600 must be > 0 and < 1209600 s (deadLetterQueue.retentionS)'],
    ['the delivery queue at its retention', (copy) => (copy.deliveryQueueAge.bound = 864_000), 'alarms.deliveryQueueAge.bound'],
    ['the drain queue at its retention', (copy) => (copy.drainQueueAge.bound = 345_600), 'alarms.drainQueueAge.bound'],
    ['in flight, where holding has only begun', (copy) => (copy.inFlight.bound = 60_000), 'alarms.inFlight.bound 60000 must be > 60000 and < 120000 messages'],
    ['in flight, where SQS has stopped', (copy) => (copy.inFlight.bound = 120_000), 'alarms.inFlight.bound'],
    ['silence that is shorter than the sweep', (copy) => (copy.sweepSilent.periodS = 0), 'alarms.sweepSilent.periodS'],
    ['a ticket after the breaker', (copy) => (copy.endpoint.failing.bound = 0.5), 'alarms.endpoint.failing.bound'],
    ['a breaker that is still to be tried', (copy) => (copy.endpoint.breakerOpen.bound = 900), 'alarms.endpoint.breakerOpen.bound 900 must be > 900 s (breaker.maxOpenS)'],
    ['a delivery that is given up', (copy) => (copy.endpoint.undelivered.bound = 259_200), 'alarms.endpoint.undelivered.bound'],
    ['looks that are still to come', (copy) => (copy.endpoint.unknown.bound = 9_360), 'alarms.endpoint.unknown.bound'],
    ['more than there are', (copy) => (copy.faults.datapoints = 11), 'alarms.faults.datapoints 11 is above the most of 10 periods'],
    ['none', (copy) => (copy.faults.datapoints = 0), 'alarms.faults.datapoints 0 is below the least of 1 periods'],
    ['a query of the fleet further back than it sees', (copy) => (copy.unaddressed.periods = 181), 'alarms.unaddressed.periodS × periods 10860 is above the most of 10800 s'],
    ['further back than a query sees', (copy) => (copy.endpoint.shedding.periods = 181), 'alarms.shedding.periodS × periods 10860 is above the most of 10800 s'],
    ['half minutes', (copy) => (copy.errors.periodS = 90), 'alarms.errors.periodS'],
  ])('refuses %s', (_, change, message) => {
    expect(messages(change).join('\n')).toContain(message);
  });

  it('is asked at synth', () => {
    expect(() => resolveStage('aws', { deliveryQueue: { retentionS: 600 } })).toThrow('alarms.deliveryQueueAge.bound 900 must be');
  });

  it.each(['', 'a b', 'https://x/#y', 'x'.repeat(401)])('and the runbook is refused at "%.20s"', (runbookUrl) => {
    expect(() => resolveStage('aws', { runbookUrl })).toThrow('runbookUrl');
  });
});
