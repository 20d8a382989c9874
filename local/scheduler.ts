/** The part of EventBridge Scheduler that one-time and rate schedules need, fired by the steered Date. */
import { randomUUID } from 'node:crypto';
import { AwsError, type JsonObject, account, region } from './emulator.ts';
import { type Expression, nextOfRate, parseExpression } from './schedule-expression.ts';
import { type Schedule, ScheduleStore, type Target } from './scheduler-store.ts';

export type { Target } from './scheduler-store.ts';

/** Delivers one event. Rejecting means that the target refused it: Scheduler tries again and then uses the dead-letter queue. */
export type Invoke = (target: Target, input: string) => Promise<void>;

export interface SchedulerRequest {
  method: string;
  url: URL;
  body: JsonObject;
}

/** One-time schedules that are still to fire, and what is being delivered. */
export interface Pending {
  oneTime: number;
  /** When the first of them is due, or is tried again. */
  nextEpochMs: number | undefined;
  /** Events that are being delivered, of schedules of any kind; an invocation lasts until it has ended. */
  running: number;
}

export interface Scheduler {
  /** Answers one REST request. @throws AwsError */
  handle(request: SchedulerRequest): JsonObject;
  /** Fires what is due, of one kind or of all, and resolves when all that is under way has ended. */
  tick(kind?: Expression['kind']): Promise<void>;
  pending(): Pending;
  close(): Promise<void>;
}

export interface SchedulerOptions {
  dataDir?: string;
  invoke: Invoke;
  /** How often the clock is looked at. A timer until the due time would sleep through an advance of the clock. */
  pollMs?: number;
}

const defaultRetries = { attempts: 185, maxAgeS: 86_400 };
const firstBackoffMs = 1_000;
const maxBackoffMs = 300_000;
/** An at() this long ago is refused: AWS is said to refuse the past, and a caller must be right either way. */
const pastToleranceMs = 1_000;
const namePattern = /^[0-9a-zA-Z\-_.]{1,64}$/;

const validation = (message: string) => new AwsError('ValidationException', message);
const missing = (message: string) => new AwsError('ResourceNotFoundException', message, { status: 404 });
const conflict = (message: string) => new AwsError('ConflictException', message, { status: 409 });

export const scheduleArn = (group: string, name: string) => `arn:aws:scheduler:${region}:${account}:schedule/${group}/${name}`;

function checkRequest(body: JsonObject): void {
  const target = body['Target'] as Partial<Target> | undefined;
  const flexible = body['FlexibleTimeWindow'] as Partial<Schedule['FlexibleTimeWindow']> | undefined;
  if (typeof body['ScheduleExpression'] !== 'string') throw validation('ScheduleExpression must not be null.');
  if (!target?.Arn || !target.RoleArn) throw validation('Target.Arn and Target.RoleArn must not be null.');
  if (flexible?.Mode !== 'OFF' && flexible?.Mode !== 'FLEXIBLE') throw validation('FlexibleTimeWindow.Mode must be OFF or FLEXIBLE.');
  const windowMinutes = flexible.MaximumWindowInMinutes ?? 0;
  if (flexible.Mode === 'FLEXIBLE' && !(windowMinutes >= 1 && windowMinutes <= 1_440)) {
    throw validation('MaximumWindowInMinutes must be between 1 and 1440 when Mode is FLEXIBLE.');
  }
  const { MaximumRetryAttempts = 0, MaximumEventAgeInSeconds = 60 } = target.RetryPolicy ?? {};
  if (!(MaximumRetryAttempts >= 0 && MaximumRetryAttempts <= 185)) throw validation('MaximumRetryAttempts must be between 0 and 185.');
  if (!(MaximumEventAgeInSeconds >= 60 && MaximumEventAgeInSeconds <= 86_400)) {
    throw validation('MaximumEventAgeInSeconds must be between 60 and 86400.');
  }
}

/** When a schedule is due next, not before `fromMs`; undefined when it is complete. */
function nextDue(schedule: Schedule, fromMs: number, isFirst: boolean): number | undefined {
  const expression = parseExpression(schedule.ScheduleExpression, schedule.ScheduleExpressionTimezone);
  if (expression.kind === 'at') return isFirst ? expression.dueEpochMs : undefined;
  const startMs = (schedule.StartDate ?? schedule.CreationDate) * 1000;
  const dueMs = nextOfRate(startMs, expression.everyMs, Math.max(fromMs, startMs));
  return schedule.EndDate !== undefined && dueMs > schedule.EndDate * 1000 ? undefined : dueMs;
}

/** When it fires or is tried again; undefined: never, as it is. */
function waitsUntil({ State, retry, dueEpochMs }: Schedule): number | undefined {
  return State === 'ENABLED' ? (retry?.nextEpochMs ?? dueEpochMs) : undefined;
}

/** By its first letters: what is in the store was parsed before. */
function isOfKind({ ScheduleExpression }: Schedule, kind: Expression['kind']): boolean {
  return ScheduleExpression.startsWith(`${kind}(`);
}

function inputOf(schedule: Schedule, dueEpochMs: number, attempt: number): string {
  const values: Record<string, string> = {
    '<aws.scheduler.schedule-arn>': schedule.Arn,
    '<aws.scheduler.scheduled-time>': `${new Date(dueEpochMs).toISOString().slice(0, 19)}Z`,
    '<aws.scheduler.execution-id>': randomUUID(),
    '<aws.scheduler.attempt-number>': String(attempt),
  };
  return (schedule.Target.Input ?? '{}').replace(/<aws\.scheduler\.[a-z-]+>/g, (name) => values[name] ?? name);
}

class SchedulerServer implements Scheduler {
  private readonly store: ScheduleStore;
  private readonly invoke: Invoke;
  private readonly running = new Map<string, Promise<void>>();
  private readonly timer: NodeJS.Timeout;

  constructor({ dataDir, invoke, pollMs = 500 }: SchedulerOptions) {
    this.store = new ScheduleStore(dataDir);
    this.invoke = invoke;
    this.timer = setInterval(() => void this.tick(), pollMs).unref();
  }

  handle({ method, url, body }: SchedulerRequest): JsonObject {
    const [, kind, rawName] = url.pathname.split('/').map(decodeURIComponent);
    if (kind === 'schedules' && !rawName && method === 'GET') return this.list(url.searchParams);
    if (!rawName || !namePattern.test(rawName)) throw validation('Name must satisfy regular expression pattern: [0-9a-zA-Z-_.]+');
    if (kind === 'schedule-groups' && method === 'POST') return this.createGroup(rawName);
    if (kind !== 'schedules') throw new AwsError('UnknownOperationException', `${method} ${url.pathname}`, { status: 404 });
    const groupName = (body['GroupName'] ?? url.searchParams.get('groupName') ?? 'default') as string;
    if (!this.store.groups.has(groupName)) throw missing(`Schedule group ${groupName} does not exist.`);
    if (method === 'POST') return this.create(groupName, rawName, body);
    const existing = this.store.schedules.get(scheduleArn(groupName, rawName));
    if (!existing) throw missing(`Schedule ${rawName} does not exist.`);
    if (method === 'GET') return describe(existing);
    if (method === 'PUT') return this.put(groupName, rawName, body, existing);
    if (method !== 'DELETE') throw new AwsError('UnknownOperationException', `${method} ${url.pathname}`, { status: 404 });
    this.store.schedules.delete(existing.Arn);
    this.store.changed();
    return {};
  }

  private create(group: string, name: string, body: JsonObject): JsonObject {
    const existing = this.store.schedules.get(scheduleArn(group, name));
    if (existing && body['ClientToken'] && existing.clientToken === body['ClientToken']) return { ScheduleArn: existing.Arn };
    if (existing) throw conflict(`Schedule ${name} already exists.`);
    return this.put(group, name, body, undefined);
  }

  /** An update replaces the schedule: what the request leaves out goes back to its default. */
  private put(group: string, name: string, body: JsonObject, existing: Schedule | undefined): JsonObject {
    checkRequest(body);
    const { ClientToken, GroupName: _group, ...given } = body;
    const nowMs = Date.now();
    const schedule = {
      State: 'ENABLED', ScheduleExpressionTimezone: 'UTC', ActionAfterCompletion: 'NONE', ...given,
      Name: name, GroupName: group, Arn: scheduleArn(group, name),
      CreationDate: existing?.CreationDate ?? nowMs / 1000, LastModificationDate: nowMs / 1000,
      ...(typeof ClientToken === 'string' ? { clientToken: ClientToken } : {}),
    } as unknown as Schedule;
    schedule.dueEpochMs = nextDue(schedule, nowMs, true);
    const isPast = schedule.dueEpochMs !== undefined && schedule.dueEpochMs < nowMs - pastToleranceMs;
    if (isPast) throw validation(`Invalid Schedule Expression ${schedule.ScheduleExpression}: it is in the past.`);
    this.store.schedules.set(schedule.Arn, schedule);
    this.store.changed();
    return { ScheduleArn: schedule.Arn };
  }

  private createGroup(name: string): JsonObject {
    if (this.store.groups.has(name)) throw conflict(`Schedule group ${name} already exists.`);
    this.store.groups.add(name);
    this.store.changed();
    return { ScheduleGroupArn: `arn:aws:scheduler:${region}:${account}:schedule-group/${name}` };
  }

  private list(query: URLSearchParams): JsonObject {
    const count = Number(query.get('MaxResults') ?? 100);
    const from = query.get('NextToken') ?? '';
    const all = [...this.store.schedules.values()]
      .filter(({ GroupName }) => GroupName === (query.get('ScheduleGroup') ?? GroupName))
      .filter(({ Name }) => Name.startsWith(query.get('NamePrefix') ?? ''))
      .filter(({ State }) => State === (query.get('State') ?? State))
      .filter(({ Arn }) => Arn > from)
      .toSorted((a, b) => (a.Arn < b.Arn ? -1 : 1));
    const page = all.slice(0, count);
    const Schedules = page.map(({ Arn, GroupName, Name, State, CreationDate, LastModificationDate, Target: { Arn: targetArn } }) => ({
      Arn, GroupName, Name, State, CreationDate, LastModificationDate, Target: { Arn: targetArn },
    }));
    return { Schedules, ...(all.length > count ? { NextToken: page.at(-1)?.Arn } : {}) };
  }

  pending(): Pending {
    const due = [...this.store.schedules.values()].filter((one) => isOfKind(one, 'at')).flatMap((one) => waitsUntil(one) ?? []);
    // Not as arguments of Math.min: there may be more than a call takes.
    return { oneTime: due.length, nextEpochMs: due.reduce<number | undefined>((min, ms) => Math.min(min ?? ms, ms), undefined), running: this.running.size };
  }

  async tick(kind?: Expression['kind']): Promise<void> {
    const nowMs = Date.now();
    for (const schedule of this.store.schedules.values()) {
      const dueMs = waitsUntil(schedule);
      if (dueMs === undefined || dueMs > nowMs || this.running.has(schedule.Arn)) continue;
      if (kind !== undefined && !isOfKind(schedule, kind)) continue;
      this.running.set(schedule.Arn, this.fire(schedule, nowMs).finally(() => this.running.delete(schedule.Arn)));
    }
    await Promise.all(this.running.values());
  }

  private async fire(schedule: Schedule, nowMs: number): Promise<void> {
    const dueEpochMs = schedule.retry?.dueEpochMs ?? schedule.dueEpochMs ?? nowMs;
    const attempts = (schedule.retry?.attempts ?? 0) + 1;
    const input = inputOf(schedule, dueEpochMs, attempts);
    const isDelivered = await this.invoke(schedule.Target, input).then(() => true, () => false);
    // Deleted or replaced while it ran: the new one has a due time of its own.
    if (this.store.schedules.get(schedule.Arn) !== schedule) return;
    if (!isDelivered && this.mayRetry(schedule, dueEpochMs, attempts)) {
      const backoffMs = Math.min(firstBackoffMs * 2 ** (attempts - 1), maxBackoffMs);
      schedule.retry = { dueEpochMs, attempts, nextEpochMs: Date.now() + backoffMs };
    } else {
      if (!isDelivered) await this.deadLetter(schedule, input);
      schedule.retry = undefined;
      // A clock that jumped over several periods of a rate fires it once, not once for each.
      schedule.dueEpochMs = nextDue(schedule, Date.now() + 1, false);
      if (schedule.dueEpochMs === undefined && schedule.ActionAfterCompletion === 'DELETE') this.store.schedules.delete(schedule.Arn);
    }
    this.store.changed();
  }

  private mayRetry(schedule: Schedule, dueEpochMs: number, attempts: number): boolean {
    const { MaximumRetryAttempts = defaultRetries.attempts, MaximumEventAgeInSeconds = defaultRetries.maxAgeS } = schedule.Target.RetryPolicy ?? {};
    return attempts <= MaximumRetryAttempts && Date.now() - dueEpochMs < MaximumEventAgeInSeconds * 1000;
  }

  private async deadLetter(schedule: Schedule, input: string): Promise<void> {
    const arn = schedule.Target.DeadLetterConfig?.Arn;
    // A dead-letter queue that refuses loses the event, as it does on AWS.
    if (arn) await this.invoke({ Arn: arn, RoleArn: schedule.Target.RoleArn }, input).catch(() => undefined);
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await Promise.all(this.running.values());
    this.store.save();
  }
}

function describe(schedule: Schedule): JsonObject {
  const { dueEpochMs: _due, retry: _retry, clientToken: _token, ...visible } = schedule;
  return visible;
}

export function startScheduler(options: SchedulerOptions): Scheduler {
  return new SchedulerServer(options);
}
