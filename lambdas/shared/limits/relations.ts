/**
 * How the numbers must fit together (T3). Pure: lib/ asks at synth, the registration of an endpoint asks before it writes.
 * Every refusal shows the field, the value, the bound and the sum behind it.
 */
import ipaddr from 'ipaddr.js';
import type { EgressRules } from './egress.ts';
import { type AlarmRule, alarms as alarmRules, aws, breaker, budgets, deliver, drain as drainLimits, inFlight, lookup, retry, stageBounds, sweep } from './numbers.ts';

/** One relation that does not hold. `message` is complete: it can be shown to a person as it is. */
export interface Violation {
  field: string;
  value: number | string;
  bound: number | string;
  message: string;
}

/** Time budgets of one attempt, in milliseconds; the keys are those of an endpoint's `budgetsMs`. */
export interface AttemptBudgetsMs {
  connection: number;
  setup: number;
  write: number;
  read: number;
  total: number;
}

/** The function that budgets must fit: in its environment and in the stack's outputs as JSON. */
export interface FunctionLimits {
  timeoutS: number;
  /** Kept free at the end, for what follows an attempt. */
  settleMarginMs: number;
  /** Needed before an attempt. */
  admitMarginMs: number;
}

/** A function that sends, with what its event source does. */
export interface SenderNumbers extends FunctionLimits {
  batchSize: number;
  batchingWindowS: number;
  maxConcurrency: number;
}

/** Everything that relations are checked on; lib/stage-config.ts makes one for each stage. */
export interface StageNumbers {
  /** Only the stage named `local` may open the egress guard to special address space. */
  name: string;
  deliver: SenderNumbers;
  drain: SenderNumbers;
  budgetsMs: AttemptBudgetsMs;
  deliveryQueue: { visibilityTimeoutS: number; retentionS: number; maxReceiveCount: number; maxMessageBytes: number };
  deadLetterQueue: { retentionS: number; maxMessageBytes: number };
  faultQueue: { retentionS: number; maxMessageBytes: number };
  drainQueue: { visibilityTimeoutS: number; retentionS: number };
  egress: EgressRules;
}

const defaultFunction: FunctionLimits = deliver;
const senders = ['deliver', 'drain'] as const;
const phases = ['connection', 'setup', 'write', 'read', 'total'] as const;

/** Checks a stage; an empty list means that all relations hold. */
export function checkStage(stage: StageNumbers): Violation[] {
  return [
    ...senders.flatMap((sender) => checkTimeout(stage, sender)),
    ...checkDrain(stage),
    ...checkPhases(stage.budgetsMs),
    ...senders.flatMap((sender) => checkEventSource(sender, stage[sender])),
    ...checkVisibility('deliver', stage.deliver, 'deliveryQueue', stage.deliveryQueue),
    ...checkVisibility('drain', stage.drain, 'drainQueue', stage.drainQueue),
    ...checkReceives(stage),
    ...checkRetention(stage),
    ...checkSizes(stage),
    ...checkEgress(stage),
    ...checkAlarms(stage),
  ];
}

/**
 * Checks the budgets that an endpoint asks for against the function that would send (default: the deliver function's own numbers).
 * An empty list means that they fit.
 */
export function checkBudgets(budgetsMs: AttemptBudgetsMs, limits: FunctionLimits = defaultFunction): Violation[] {
  const violations = checkPhases(budgetsMs);
  for (const sum of budgetSums(budgetsMs, limits)) {
    if (sum.totalMs < limits.timeoutS * 1_000) continue;
    const bound = `< ${limits.timeoutS * 1_000} ms`;
    violations.push({
      field: sum.field,
      value: sum.totalMs,
      bound,
      message: `${sum.field} do not fit the function's timeout: ${sum.text}, must be ${bound}`,
    });
  }
  return violations;
}

function checkPhases(budgetsMs: AttemptBudgetsMs): Violation[] {
  const violations = phases.flatMap((phase) => atLeast(`budgetsMs.${phase}`, budgetsMs[phase], budgets.minPhaseMs, 'ms'));
  violations.push(...atMost('budgetsMs.total', budgetsMs.total, budgets.maxTotalMs, 'ms'));
  // A set-up that may last longer than the whole attempt could only ever end as the attempt's own timeout.
  violations.push(...atMost('budgetsMs.setup', budgetsMs.setup, budgetsMs.total, 'ms (budgetsMs.total)'));
  return violations;
}

type SenderName = (typeof senders)[number];

function checkTimeout(stage: StageNumbers, sender: SenderName): Violation[] {
  const { timeoutS, settleMarginMs, admitMarginMs } = stage[sender];
  const field = `${sender}.timeoutS`;
  const violations = [
    ...atMost(field, timeoutS, stageBounds.maxTimeoutS, 's'),
    ...atLeast(`${sender}.settleMarginMs`, settleMarginMs, deliver.minSettleMarginMs, 'ms'),
    ...atLeast(`${sender}.admitMarginMs`, admitMarginMs, deliver.minAdmitMarginMs, 'ms'),
  ];
  for (const sum of budgetSums(stage.budgetsMs, stage[sender])) {
    const timeoutMs = timeoutS * 1_000;
    if (sum.totalMs < timeoutMs) continue;
    violations.push({
      field,
      value: timeoutS,
      bound: `> ${sum.totalMs} ms`,
      message: `${field} ${timeoutS} is too short: ${sum.text} ${sum.totalMs === timeoutMs ? '=' : '>'} ${timeoutMs} ms`,
    });
  }
  return violations;
}

type Widened<T> = T extends number ? number : { readonly [K in keyof T]: Widened<T[K]> };
/** All rules of the alarms, whatever their numbers. */
export type AlarmRules = Widened<typeof alarmRules>;

/** Checks when alarms speak: each must be able to, and in time. An empty list means that they do. */
export function checkAlarms(stage: StageNumbers, rules: AlarmRules = alarmRules): Violation[] {
  const { endpoint, ...fleet } = rules;
  const bound = (name: string, { bound }: AlarmRule, min: number, max: number, unit: string) => between(`alarms.${name}.bound`, bound, min, max, unit);
  return [
    ...Object.entries(fleet).flatMap(([name, rule]) => checkRule(`alarms.${name}`, rule)),
    ...Object.entries(endpoint).flatMap(([name, rule]) => checkRule(`alarms.endpoint.${name}`, rule)),
    ...[...Object.entries(endpoint), ['faults', fleet.faults] as const, ['unaddressed', fleet.unaddressed] as const].flatMap(([name, rule]) => checkQuery(`alarms.${name}`, rule)),
    ...bound('deadLetterAge', fleet.deadLetterAge, 0, stage.deadLetterQueue.retentionS, 's (deadLetterQueue.retentionS)'),
    ...bound('deliveryQueueAge', fleet.deliveryQueueAge, 0, stage.deliveryQueue.retentionS, 's (deliveryQueue.retentionS)'),
    ...bound('drainQueueAge', fleet.drainQueueAge, 0, stage.drainQueue.retentionS, 's (drainQueue.retentionS)'),
    ...bound('inFlight', fleet.inFlight, inFlight.crowdedFrom, aws.sqsMaxInFlight, 'messages'),
    ...atLeast('alarms.sweepSilent.periodS', fleet.sweepSilent.periodS, sweep.periodS, 's (sweep.periodS)'),
    ...bound('endpoint.failing', endpoint.failing, 0, breaker.failureRatio, '(breaker.failureRatio)'),
    ...bound('endpoint.breakerOpen', endpoint.breakerOpen, breaker.maxOpenS, Infinity, 's (breaker.maxOpenS)'),
    ...bound('endpoint.undelivered', endpoint.undelivered, 0, retry.maxAgeS, 's (retry.maxAgeS)'),
    ...bound('endpoint.unknown', endpoint.unknown, lookup.delaysS.slice(0, -1).reduce((sum, s) => sum + s, 0), Infinity, 's (the looks but the last)'),
  ];
}

function checkRule(field: string, { periodS, periods, datapoints }: AlarmRule): Violation[] {
  return [
    ...within(`${field}.datapoints`, datapoints, 1, periods, 'periods'),
    ...(periodS % aws.queryPeriodS === 0 ? [] : atLeast(`${field}.periodS`, periodS % aws.queryPeriodS, aws.queryPeriodS, 's beyond whole minutes')),
  ];
}

/** What lies further back than CloudWatch looks would be missing, and missing is well. */
function checkQuery(field: string, { periodS, periods }: AlarmRule): Violation[] {
  return atMost(`${field}.periodS × periods`, periodS * periods, aws.queryWindowS, 's');
}

/** Strictly: an alarm at the very end of what it warns of comes too late. */
function between(field: string, value: number, above: number, below: number, unit: string): Violation[] {
  if (value > above && value < below) return [];
  const bound = `> ${above}${below === Infinity ? '' : ` and < ${below}`}`;
  return [{ field, value, bound, message: `${field} ${value} must be ${bound} ${unit}` }];
}

/** An endpoint's budgets are checked against the deliver function only, so what fits there must fit the drain. */
function checkDrain({ deliver: first, drain }: StageNumbers): Violation[] {
  const field = 'drain.timeoutS';
  const violations = atLeast(field, drain.timeoutS, first.timeoutS, 's', ' (deliver.timeoutS)');
  const [roomMs, neededMs] = [roomForAttemptMs(drain), roomForAttemptMs(first)];
  if (roomMs < neededMs) {
    const message = `${field} ${drain.timeoutS} leaves ${roomMs} ms beside its margins, and deliver.timeoutS ${first.timeoutS} leaves ${neededMs} ms: an attempt that fits there must fit here`;
    violations.push({ field, value: drain.timeoutS, bound: `>= ${neededMs} ms beside its margins`, message });
  }
  // Below it a run has no time to send anything: the last attempt of its turn must still fit.
  const turn = spelledOut([['a turn', drainLimits.turnMs], ['connection', budgets.connectionMs], ['total at most', budgets.maxTotalMs], ['settle margin', drain.settleMarginMs]]);
  if (drain.timeoutS * 1_000 < turn.totalMs) {
    violations.push({ field, value: drain.timeoutS, bound: `>= ${turn.totalMs} ms`, message: `${field} ${drain.timeoutS} is too short for a turn: ${turn.text} > ${drain.timeoutS * 1_000} ms` });
  }
  return violations;
}

function roomForAttemptMs({ timeoutS, settleMarginMs, admitMarginMs }: FunctionLimits): number {
  return timeoutS * 1_000 - settleMarginMs - admitMarginMs;
}

/** The two sums that must stay below the function's timeout: all phases one after the other, and the wait for a socket with the total. */
function budgetSums(budgetsMs: AttemptBudgetsMs, limits: FunctionLimits): { field: string; totalMs: number; text: string }[] {
  const { connection, setup, write, read, total } = budgetsMs;
  const margins: [string, number][] = [
    ['settle margin', limits.settleMarginMs],
    ['admit margin', limits.admitMarginMs],
  ];
  const byPhase: [string, number][] = [['connection', connection], ['setup', setup], ['write', write], ['read', read], ...margins];
  const byTotal: [string, number][] = [['connection', connection], ['total', total], ...margins];
  return [
    { field: 'budgetsMs phases', ...spelledOut(byPhase) },
    { field: 'budgetsMs.connection and budgetsMs.total', ...spelledOut(byTotal) },
  ];
}

function spelledOut(terms: [string, number][]): { totalMs: number; text: string } {
  const totalMs = terms.reduce((sum, [, ms]) => sum + ms, 0);
  return { totalMs, text: `${terms.map(([name, ms]) => `${name} ${ms}`).join(' + ')} = ${totalMs} ms` };
}

function checkEventSource(sender: SenderName, source: SenderNumbers): Violation[] {
  return [
    ...within(`${sender}.batchSize`, source.batchSize, 1, aws.sqsBatchEntries, 'messages'),
    ...within(`${sender}.batchingWindowS`, source.batchingWindowS, 0, stageBounds.maxBatchingWindowS, 's'),
    ...within(`${sender}.maxConcurrency`, source.maxConcurrency, aws.minEventSourceConcurrency, stageBounds.maxEventSourceConcurrency, 'invocations'),
  ];
}

function checkReceives({ deliveryQueue }: StageNumbers): Violation[] {
  return within('deliveryQueue.maxReceiveCount', deliveryQueue.maxReceiveCount, stageBounds.minReceiveCount, stageBounds.maxReceiveCount, 'receives');
}

/** Below six timeouts plus the window a batch that Lambda still retries becomes visible again: overlapping deliveries. */
function checkVisibility(sender: SenderName, source: SenderNumbers, queueName: string, queue: { visibilityTimeoutS: number }): Violation[] {
  const field = `${queueName}.visibilityTimeoutS`;
  const value = queue.visibilityTimeoutS;
  const neededS = aws.visibilityPerTimeout * source.timeoutS + source.batchingWindowS;
  const violations = atMost(field, value, aws.sqsMaxVisibilityS, 's');
  if (value < neededS) {
    violations.push({
      field,
      value,
      bound: `>= ${neededS} s`,
      message:
        `${field} ${value} is too short: ${aws.visibilityPerTimeout} × ${sender}.timeoutS ${source.timeoutS}` +
        ` + ${sender}.batchingWindowS ${source.batchingWindowS} = ${neededS} s > ${value} s`,
    });
  }
  return violations;
}

/** Retention in a DLQ counts from the first enqueue in the delivery queue, so a shorter one may delete at once. */
function checkRetention(stage: StageNumbers): Violation[] {
  const deliveryS = stage.deliveryQueue.retentionS;
  const violations = [
    ...within('deliveryQueue.retentionS', deliveryS, stageBounds.minRetentionS, aws.sqsMaxRetentionS, 's'),
    ...within('drainQueue.retentionS', stage.drainQueue.retentionS, stageBounds.minRetentionS, aws.sqsMaxRetentionS, 's'),
  ];
  for (const queue of ['deadLetterQueue', 'faultQueue'] as const) {
    const field = `${queue}.retentionS`;
    const value = stage[queue].retentionS;
    if (value !== aws.sqsMaxRetentionS) {
      violations.push({
        field,
        value,
        bound: `= ${aws.sqsMaxRetentionS} s`,
        message: `${field} ${value} must be 14 days = ${aws.sqsMaxRetentionS} s: it counts from the first send, not from the move`,
      });
    }
    if (value < deliveryS) {
      violations.push({
        field,
        value,
        bound: `>= ${deliveryS} s`,
        message: `${field} ${value} is shorter than deliveryQueue.retentionS ${deliveryS}: what is moved late would be deleted on arrival`,
      });
    }
  }
  return violations;
}

function checkSizes(stage: StageNumbers): Violation[] {
  const deliveryBytes = stage.deliveryQueue.maxMessageBytes;
  return [
    ...within('deliveryQueue.maxMessageBytes', deliveryBytes, stageBounds.minMessageBytes, aws.sqsMaxMessageBytes, 'bytes'),
    ...(['deadLetterQueue', 'faultQueue'] as const).flatMap((queue) => {
      const field = `${queue}.maxMessageBytes`;
      const value = stage[queue].maxMessageBytes;
      return [
        ...atMost(field, value, aws.sqsMaxMessageBytes, 'bytes'),
        ...atLeast(field, value, deliveryBytes, 'bytes', ' (deliveryQueue.maxMessageBytes)'),
      ];
    }),
  ];
}

function checkEgress({ name, egress }: StageNumbers): Violation[] {
  return [
    ...egress.allow.flatMap((cidr) => checkBlock('egress.allow', cidr, name === 'local' ? 'any space' : 'public space')),
    ...egress.deny.flatMap((cidr) => checkBlock('egress.deny', cidr, 'any space')),
    ...egress.ports.flatMap((port) => within('egress.ports', port, 1, 65_535, '(a port)')),
  ];
}

function checkBlock(field: string, cidr: string, within: 'any space' | 'public space'): Violation[] {
  const refuse = (bound: string, why: string): Violation[] => [{ field, value: cidr, bound, message: `${field} ${cidr} ${why}` }];
  if (!ipaddr.isValidCIDR(cidr)) return refuse('a CIDR block', 'is not a CIDR block');
  const special = within === 'any space' ? undefined : specialSpaceIn(cidr);
  if (special !== undefined) return refuse('public unicast', `covers ${special} addresses, which only the stage "local" may reach`);
  // Addresses are judged as the IPv4 address that they stand for, so such a block would silently cover nothing.
  return overlapInside(ipaddr.parseCIDR(cidr), mappedV4) ? refuse('an IPv4 block', 'is IPv4 in IPv6: write it as an IPv4 block') : [];
}

type Block = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** First special range that a block overlaps, in either direction: `0.0.0.0/0` covers loopback as much as `127.0.0.1/32` lies in it. */
function specialSpaceIn(cidr: string): string | undefined {
  const block: Block = ipaddr.parseCIDR(cidr);
  const v4 = block[0].kind() === 'ipv4';
  const hit = Object.entries(v4 ? specialV4 : specialV6).find(([, ranges]) => ranges.some((range) => overlap(block, ipaddr.parseCIDR(range))));
  if (hit) return hit[0];
  return v4 || overlapInside(block, globalUnicastV6) ? undefined : 'reserved';
}

function overlap(a: Block, b: Block): boolean {
  return a[0].match(b[0], Math.min(a[1], b[1]));
}

function overlapInside(inner: Block, outer: Block): boolean {
  return inner[0].kind() === outer[0].kind() && inner[1] >= outer[1] && overlap(inner, outer);
}

const mappedV4: Block = ipaddr.parseCIDR('::ffff:0:0/96');
const globalUnicastV6: Block = ipaddr.parseCIDR('2000::/3');

/** IANA special-purpose address registries (RFC 6890 and successors). */
const specialV4: Record<string, string[]> = {
  loopback: ['127.0.0.0/8'],
  'link-local': ['169.254.0.0/16'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
  'carrier-grade NAT': ['100.64.0.0/10'],
  unspecified: ['0.0.0.0/8'],
  multicast: ['224.0.0.0/4'],
  reserved: ['240.0.0.0/4', '192.0.0.0/24', '192.0.2.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '192.88.99.0/24'],
};

const specialV6: Record<string, string[]> = {
  loopback: ['::1/128'],
  unspecified: ['::/128'],
  'link-local': ['fe80::/10'],
  private: ['fc00::/7'],
  multicast: ['ff00::/8'],
  'IPv4 in IPv6': ['::ffff:0:0/96', '::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32'],
  reserved: ['100::/64', '2001:db8::/32', '2001::/23', '3fff::/20'],
};

function within(field: string, value: number, min: number, max: number, unit: string): Violation[] {
  return [...atLeast(field, value, min, unit), ...atMost(field, value, max, unit)];
}

function atLeast(field: string, value: number, min: number, unit: string, origin = ''): Violation[] {
  if (value >= min) return [];
  return [{ field, value, bound: `>= ${min}`, message: `${field} ${value} is below the least of ${min} ${unit}${origin}` }];
}

function atMost(field: string, value: number, max: number, unit: string): Violation[] {
  if (value <= max) return [];
  return [{ field, value, bound: `<= ${max}`, message: `${field} ${value} is above the most of ${max} ${unit}` }];
}
