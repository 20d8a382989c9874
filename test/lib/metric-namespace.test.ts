/** Each installation publishes and looks in a namespace of its own: of two in one account, neither hides what the other says. */
import { App, NestedStack, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Construct } from 'constructs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createDeps as createDeliverDeps } from '../../lambdas/deliver/deps.ts';
import { createDeps as createDrainDeps } from '../../lambdas/drain/deps.ts';
import { createDeps as createReplayDeps } from '../../lambdas/replay/deps.ts';
import { createDeps as createSweepDeps } from '../../lambdas/sweep/deps.ts';
import { SluiceStack } from '../../lib/sluice-stack.ts';
import { resolveStage } from '../../lib/stage-config.ts';
import { WebhookDelivery } from '../../lib/webhook-delivery.ts';
import { readAlarms } from '../../local/template-alarms.ts';
import { Resolver, templateSchema } from '../../local/template-resolver.ts';
import { metricsOf } from '../support/alarm-evaluator.ts';
import { parseQuery } from '../support/alarm-evaluator/query.ts';

// Nothing is bundled: no function is run.
const newApp = () => new App({ context: { 'aws:cdk:bundling-stacks': [] } });
const ours = (namespaces: readonly string[]) => [...new Set(namespaces.filter((one) => !one.startsWith('AWS/')))];

interface Body {
  readonly widgets: readonly { readonly properties: { readonly metrics?: readonly (readonly (string | { readonly expression?: string })[])[] } }[];
}
/** Of one metric of a widget: its namespace or its query's; none of an expression over other metrics. */
const ofMetric = ([first]: readonly (string | { readonly expression?: string })[]): string[] => {
  if (typeof first === 'string') return [first];
  return first?.expression?.startsWith('SELECT') === true ? [parseQuery(first.expression).namespace] : [];
};

const resolverOf = (stack: Stack, stackName: string) => new Resolver(templateSchema.parse(Template.fromStack(stack).toJSON()), stackName, 'http://x');
const variablesOf = ({ properties }: { readonly properties: Record<string, unknown> }) => (properties['Environment'] as { Variables: Record<string, string> }).Variables;

/** What functions, alarms and dashboard of an installation name, out of the template; its logical ids begin with `idPrefix`. */
function namespacesOf(stack: Stack, idPrefix: string, stackName = stack.stackName) {
  const resolver = resolverOf(stack, stackName);
  const own = <T extends { readonly logicalId: string }>(all: readonly T[]) => all.filter(({ logicalId }) => logicalId.startsWith(idPrefix));
  const functions = own(resolver.all('AWS::Lambda::Function')).map((fn) => variablesOf(fn)['SLUICE_METRIC_NAMESPACE'] ?? 'none');
  const alarms = own(readAlarms(resolver)).map(({ source }) => (source.kind === 'query' ? parseQuery(source.expression).namespace : source.namespace));
  const bodies = own(resolver.all('AWS::CloudWatch::Dashboard')).map(({ properties }) => JSON.parse(String(properties['DashboardBody'])) as Body);
  const dashboard = bodies.flatMap(({ widgets }) => widgets).flatMap(({ properties }) => (properties.metrics ?? []).flatMap(ofMetric));
  expect([functions.length, alarms.length > 20, dashboard.length > 60]).toEqual([5, true, true]);
  return { functions: ours(functions), alarms: ours(alarms), dashboard: ours(dashboard) };
}
const everywhere = (namespace: string) => ({ functions: [namespace], alarms: [namespace], dashboard: [namespace] });

describe('the namespace of metrics', () => {
  it('is of one stack what no other stack has', () => {
    const app = newApp();
    for (const stack of ['Staging', 'Production'].map((name) => new SluiceStack(app, name, { stage: resolveStage() }))) {
      const namespace = `Sluice/${stack.stackName}-Webhooks`;
      expect(namespacesOf(stack, 'Webhooks')).toEqual(everywhere(namespace));
      Template.fromStack(stack).hasOutput('MetricNamespace', { Value: namespace });
    }
  });

  it('follows the name that a stack is given', () => {
    expect(namespacesOf(new SluiceStack(newApp(), 'Sluice', { stage: resolveStage(), stackName: 'shop-eu' }), 'Webhooks')).toEqual(everywhere('Sluice/shop-eu-Webhooks'));
  });

  it('is of one construct what no other has in its stack, wherever it is and with spaces in its id', () => {
    const stack = new Stack(newApp(), 'Shop');
    const made = [new WebhookDelivery(stack, 'Orders'), new WebhookDelivery(stack, 'In voices'), new WebhookDelivery(new Construct(stack, 'Eu'), 'Orders')];
    const expected = ['Sluice/Shop-Orders', 'Sluice/Shop-In voices', 'Sluice/Shop-Eu-Orders'];
    expect(made.map(({ metricNamespace }) => metricNamespace)).toEqual(expected);
    for (const [i, idPrefix] of ['Orders', 'Invoices', 'EuOrders'].entries()) expect(namespacesOf(stack, idPrefix)).toEqual(everywhere(expected[i] ?? ''));
  });

  it('is that of a nested stack where it is in one, though its name is known at deployment only', () => {
    const nested = new NestedStack(new Stack(newApp(), 'Shop'), 'Hooks');
    new WebhookDelivery(nested, 'Orders');
    expect(namespacesOf(nested, 'Orders', 'Shop-Hooks-1X2Y')).toEqual(everywhere('Sluice/Shop-Hooks-1X2Y-Orders'));
  });

  it.each(['Bestellungen für', 'a"b', "o'clock", 'a,b', 'a*', ' Orders', 'Orders ', 'a\tb'])('is refused at synth for what CloudWatch does not take in one: %j', (id) => {
    expect(() => new WebhookDelivery(new Stack(newApp(), 'Shop'), id)).toThrow(`"${id}" cannot be part of a CloudWatch namespace`);
    expect(() => new WebhookDelivery(new Construct(new Stack(newApp(), 'Shop'), id), 'Orders')).toThrow('cannot be part of a CloudWatch namespace');
  });

  it('takes every character that CloudWatch takes', () => {
    expect(new WebhookDelivery(new Stack(newApp(), 'Shop'), 'aZ0.-_#: x').metricNamespace).toBe('Sluice/Shop-aZ0.-_#: x');
  });

  it('is at most as long as CloudWatch takes', () => {
    const of = (length: number) => () => new WebhookDelivery(new Stack(newApp(), 'Shop'), 'x'.repeat(length - 'Sluice/Shop-'.length)).metricNamespace;
    expect(of(255)()).toHaveLength(255);
    expect(of(256)).toThrow('A metric namespace of 256 characters, must be <= 255');
  });
});

describe.each([['Deliver', createDeliverDeps], ['Drain', createDrainDeps], ['Replay', createReplayDeps], ['Sweep', createSweepDeps]])('%s', (part, createDeps) => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
  const variables = (): Record<string, string> => {
    const stack = new Stack(newApp(), 'Shop');
    new WebhookDelivery(stack, 'Orders');
    const fn = resolverOf(stack, 'Shop').all('AWS::Lambda::Function').find(({ logicalId }) => logicalId.startsWith(`Orders${part}`));
    return fn === undefined ? {} : variablesOf(fn);
  };

  it('publishes in the namespace of its environment', () => {
    const written: string[] = [];
    const keep = (chunk: unknown) => written.push(String(chunk)) > 0;
    vi.spyOn(process.stdout, 'write').mockImplementation(keep);
    vi.spyOn(process.stderr, 'write').mockImplementation(keep);
    vi.stubEnv('AWS_REGION', 'eu-west-1');
    const { telemetry } = createDeps(variables());
    telemetry.event('dead', { endpointId: 'acme' });
    telemetry.flush();
    expect(metricsOf(written.join('')).map(({ namespace, name, dimensions }) => [namespace, name, Object.keys(dimensions).join()])).toEqual([
      ['Sluice/Shop-Orders', 'dead', 'service'],
      ['Sluice/Shop-Orders', 'dead', 'endpointId'],
    ]);
  });

  it('does not begin without it', () => {
    const { SLUICE_METRIC_NAMESPACE: _, ...others } = variables();
    expect(() => createDeps(others)).toThrow('environment variable SLUICE_METRIC_NAMESPACE is missing');
  });
});
