import type { CfnAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { type AlarmRule, alarms, aws } from '../lambdas/shared/limits/numbers.ts';
import { type AlarmHome, type AlarmParts, newAlarm } from './alarm.ts';
import { functionSeries, type OwnMetrics, queueSeries, type Service } from './metrics.ts';
import type { Queues } from './queues.ts';
import type { StageConfig } from './stage-config.ts';

/** What the alarms of the installation watch. */
export interface FleetAlarmsProps {
  readonly stage: StageConfig;
  readonly queues: Queues;
  readonly functions: Readonly<Record<Service, NodejsFunction>>;
  readonly metrics: OwnMetrics;
}

/** Alarms of the whole installation, in the runbook's order. */
export function newFleetAlarms(home: AlarmHome, props: FleetAlarmsProps): CfnAlarm[] {
  return [...queueAlarms(props), ...ownAlarms(props.metrics), ...functionAlarms(props)].map((parts) => newAlarm(home, parts));
}

/** What nobody looks at is not reported: its alarm stays as it was until there is data again. */
const missing = 'ignore';

function queueAlarms({ stage, queues }: FleetAlarmsProps): AlarmParts[] {
  return [
    {
      // What waits in it, and not what was sent: a redrive of SQS counts as no send. Nor what is hidden: somebody is looking at that.
      name: 'fault-queue-not-empty', severity: 'page', anchor: 'the-fault-queue-is-not-empty', missing,
      means: 'A message was received again and again without a verdict, and is no longer tried.',
      watches: queueSeries('ApproximateNumberOfMessagesVisible', queues.fault), rule: alarms.faultQueue,
    },
    {
      name: 'delivery-queue-old', severity: 'page', anchor: 'the-delivery-queue-grows', missing,
      means: 'Messages wait in the delivery queue and are not fetched: deliveries of all endpoints are late.',
      watches: queueSeries('ApproximateAgeOfOldestMessage', queues.delivery), rule: beyondReturns(alarms.deliveryQueueAge, stage.deliveryQueue.visibilityTimeoutS),
    },
    {
      name: 'drain-queue-old', severity: 'page', anchor: 'deliveries-are-held-and-do-not-go', missing,
      means: 'Wake-ups wait in the drain queue and are not fetched: what is held goes late, or not at all.',
      watches: queueSeries('ApproximateAgeOfOldestMessage', queues.drain), rule: beyondReturns(alarms.drainQueueAge, stage.drainQueue.visibilityTimeoutS),
    },
    {
      name: 'in-flight-near-limit', severity: 'page', anchor: 'too-many-messages-are-in-flight', missing,
      means: 'So many messages of the delivery queue are hidden that SQS will soon hand out no more.',
      watches: queueSeries('ApproximateNumberOfMessagesNotVisible', queues.delivery), rule: alarms.inFlight,
    },
  ];
}

const ownAlarms = ({ fleetSeries, serviceQuery }: OwnMetrics): readonly AlarmParts[] => [
  {
    // Silence is the fault: no data breaches. Until its first run a new installation is silent too, and nobody is subscribed yet.
    name: 'sweep-silent', severity: 'page', anchor: 'the-sweep-is-silent', missing: 'breaching', speaks: 'below',
    means: 'The sweep does not run: wake-ups that are lost stay lost, and no gauge of an endpoint is published.',
    watches: fleetSeries('swept', 'sweep', 'Sum'), rule: alarms.sweepSilent,
  },
  {
    // A page: where everything is refused all messages are put back, and what was put back three times has no age in SQS.
    name: 'faults', severity: 'page', anchor: 'faults-are-reported', missing: 'notBreaching',
    means: 'A function reports faults minute after minute: a bug, or infrastructure that refuses.',
    watches: serviceQuery('SUM', 'faults'), rule: alarms.faults,
  },
  {
    name: 'endpoints-sick', severity: 'page', anchor: 'many-endpoints-are-ill-at-once', missing: 'notBreaching',
    means: 'So many endpoints are ill at once that the cause is hardly theirs, and tickets no longer name them all.',
    watches: fleetSeries('endpoints_sick', 'sweep', 'Maximum'), rule: alarms.endpointsSick,
  },
  {
    // Beside endpoint-dead, which does not see them: whom they name, a producer has made up.
    name: 'deliveries-unaddressed', severity: 'ticket', anchor: 'deliveries-are-dead', missing: 'notBreaching',
    means: 'Messages are malformed or name an endpoint that nobody has registered, and have died just now.',
    watches: serviceQuery('SUM', 'dead_unaddressed'), rule: alarms.unaddressed,
  },
  {
    // Not SQS's own age, which leaves out what was received three times: the sweep looks at every copy again and again.
    name: 'dead-letters-old', severity: 'page', anchor: 'dead-letters-are-about-to-end', missing,
    means: 'A copy in the dead-letter queue ends within four days.',
    watches: fleetSeries('oldest_dead_letter_age', 'sweep', 'Maximum'), rule: alarms.deadLetterAge,
  },
];

function functionAlarms({ stage, functions }: FleetAlarmsProps): AlarmParts[] {
  const pages = {
    deliver: returning(alarms.errors, stage.deliveryQueue.visibilityTimeoutS),
    drain: alarms.errors,
    sweep: alarms.errors,
  };
  return [
    ...(Object.keys(pages) as (keyof typeof pages)[]).flatMap((service) => functionPair(service, functions[service], { severity: 'page', errors: pages[service], throttles: alarms.throttles })),
    // Whoever asks for a replay sees it fail, and repeats it.
    ...functionPair('replay', functions.replay, { severity: 'ticket', errors: alarms.replay, throttles: alarms.replay }),
  ];
}

function functionPair(service: Service, fn: NodejsFunction, { severity, errors, throttles }: Pick<AlarmParts, 'severity'> & { errors: AlarmRule; throttles: AlarmRule }): AlarmParts[] {
  return [
    {
      name: `${service}-errors`, severity, anchor: 'a-function-fails', missing: 'notBreaching',
      means: `Invocations of the ${service} function end in an error: it crashed, or was killed at its timeout.`,
      watches: functionSeries('Errors', fn), rule: errors,
    },
    {
      name: `${service}-throttled`, severity, anchor: 'a-function-is-throttled', missing: 'notBreaching',
      means: `Lambda refuses to run the ${service} function: the account's concurrency is used up.`,
      watches: functionSeries('Throttles', fn), rule: throttles,
    },
  ];
}

/** A message whose worker died is as old as this when it comes back, and nothing waits behind it. Received so often, it has no age any more. */
function beyondReturns(rule: AlarmRule, visibilityS: number): AlarmRule {
  return { ...rule, bound: Math.max(rule.bound, aws.sqsAgeReceives * visibilityS) };
}

/** As long as a message needs that crashes its worker `datapoints` times; a wake-up needs no such time, for the sweep orders another. */
function returning(rule: AlarmRule, visibilityS: number): AlarmRule {
  const periods = Math.ceil((rule.datapoints * visibilityS) / rule.periodS);
  return { ...rule, periods: Math.min(Math.max(rule.periods, periods), aws.alarmWindowS / rule.periodS) };
}
