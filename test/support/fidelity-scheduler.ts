/** What an emulator of EventBridge Scheduler must do to be believed. On AWS it needs a role and a queue of one's own. */
import * as E from '@aws-sdk/client-scheduler';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, isAws, itEmulated, refusal, until } from './fidelity-subject.ts';

const role = process.env['SLUICE_FIDELITY_ROLE_ARN'] ?? 'arn:aws:iam::000000000000:role/schedule';
const targetArn = process.env['SLUICE_FIDELITY_TARGET_ARN'] ?? 'arn:aws:lambda:eu-west-1:000000000000:function:target';

interface Invocation {
  target: { Arn: string };
  input: string;
}

export function describeScheduler(subject: () => Subject): void {
  const prefix = `sluice-fidelity-${Date.now()}`;
  const made = new Set<string>();
  let client: E.SchedulerClient;
  let count = 0;
  /** The steered time: schedules are relative to what the other side takes for now. */
  let nowMs = () => Date.now();

  const name = () => `${prefix}-${++count}`;
  const at = (epochMs: number) => `at(${new Date(epochMs).toISOString().slice(0, 19)})`;
  const request = (Name: string, more: Partial<E.CreateScheduleCommandInput> = {}): E.CreateScheduleCommandInput => ({
    Name, ScheduleExpression: at(nowMs() + 3_600_000), FlexibleTimeWindow: { Mode: 'OFF' },
    Target: { Arn: targetArn, RoleArn: role, Input: JSON.stringify({ Name }) }, ...more,
  });
  const create = (Name: string, more: Partial<E.CreateScheduleCommandInput> = {}) => {
    made.add(Name);
    return client.send(new E.CreateScheduleCommand(request(Name, more)));
  };
  const get = (Name: string) => client.send(new E.GetScheduleCommand({ Name }));
  const exists = (Name: string) => get(Name).then(() => true, () => false);
  const pass = async (ms: number) => {
    const before = nowMs();
    const realMs = Date.now();
    await subject().pass(ms);
    if (!isAws) nowMs = () => before + ms + (Date.now() - realMs);
  };
  const invocations = async (Name: string, arn = targetArn) =>
    (await subject().get<Invocation[]>('/_sluice/invocations')).filter(({ target, input }) => target.Arn === arn && input.includes(`"${Name}"`));
  const target = (Name: string, more: Partial<E.Target>) => ({ Arn: targetArn, RoleArn: role, Input: JSON.stringify({ Name }), ...more });

  beforeAll(() => void (client = new E.SchedulerClient(subject().config())));
  afterAll(async () => {
    for (const Name of made) await client.send(new E.DeleteScheduleCommand({ Name })).catch(() => undefined);
    client.destroy();
  });

  describe('schedules', () => {
    it('are created, described, replaced, listed and deleted', async () => {
      const Name = name();
      const { ScheduleArn } = await create(Name, { Description: 'first' });
      expect(await get(Name)).toMatchObject({ Arn: ScheduleArn, Name, State: 'ENABLED', GroupName: 'default', Description: 'first' });
      await client.send(new E.UpdateScheduleCommand({ ...request(Name), State: 'DISABLED' }));
      const replaced = await get(Name);
      expect([replaced.State, replaced.Description]).toEqual(['DISABLED', undefined]);
      expect(replaced.CreationDate).toBeInstanceOf(Date);
      const { Schedules } = await client.send(new E.ListSchedulesCommand({ NamePrefix: Name }));
      expect(Schedules?.map((schedule) => schedule.Name)).toEqual([Name]);
      await client.send(new E.DeleteScheduleCommand({ Name }));
      expect((await refusal(get(Name))).name).toBe('ResourceNotFoundException');
      expect((await refusal(client.send(new E.DeleteScheduleCommand({ Name })))).name).toBe('ResourceNotFoundException');
      expect((await refusal(client.send(new E.UpdateScheduleCommand(request(Name))))).name).toBe('ResourceNotFoundException');
    });

    it('are listed in pages', async () => {
      const names = [name(), name(), name()];
      for (const one of names) await create(one);
      const first = await client.send(new E.ListSchedulesCommand({ NamePrefix: prefix, MaxResults: 2 }));
      const second = await client.send(new E.ListSchedulesCommand({ NamePrefix: prefix, NextToken: first.NextToken }));
      const seen = [...(first.Schedules ?? []), ...(second.Schedules ?? [])].map((schedule) => schedule.Name);
      expect(seen).toEqual(expect.arrayContaining(names));
      expect(new Set(seen).size).toBe(seen.length);
    });

    it('with a taken name conflict, unless it is the same request again', async () => {
      const Name = name();
      const ClientToken = `token-${Date.now()}`;
      const more = { ClientToken, ScheduleExpression: at(nowMs() + 3_600_000) };
      const first = await create(Name, more);
      expect((await create(Name, more)).ScheduleArn).toBe(first.ScheduleArn);
      expect((await refusal(create(Name))).name).toBe('ConflictException');
    });

    it.each(['at(2030-01-01T00:00:00Z)', 'at(2030-01-01T00:00:00.000)', 'at(2030-02-30T00:00:00)', 'rate(0 minutes)', 'rate(5 weeks)', 'nonsense'])(
      'refuse %s',
      async (ScheduleExpression) => {
        expect((await refusal(create(name(), { ScheduleExpression }))).name).toBe('ValidationException');
      },
    );

    it('refuse an unknown time zone, and a flexible window without its length', async () => {
      expect((await refusal(create(name(), { ScheduleExpressionTimezone: 'Mars/Olympus' }))).name).toBe('ValidationException');
      expect((await refusal(create(name(), { FlexibleTimeWindow: { Mode: 'FLEXIBLE' } }))).name).toBe('ValidationException');
    });

    itEmulated('live in groups, which must exist', async () => {
      const group = name();
      expect((await refusal(create(name(), { GroupName: group }))).name).toBe('ResourceNotFoundException');
      await client.send(new E.CreateScheduleGroupCommand({ Name: group }));
      await create(name(), { GroupName: group });
      expect((await client.send(new E.ListSchedulesCommand({ GroupName: group }))).Schedules).toHaveLength(1);
      expect((await refusal(client.send(new E.CreateScheduleGroupCommand({ Name: group })))).name).toBe('ConflictException');
    });
  });

  describe('firing', () => {
    itEmulated('happens once, at the time, and then the schedule goes if it should', async () => {
      const [kept, deleted] = [name(), name()];
      const ScheduleExpression = at(nowMs() + 3 * 86_400_000);
      await create(kept, { ScheduleExpression });
      await create(deleted, { ScheduleExpression, ActionAfterCompletion: 'DELETE' });
      await pass(3 * 86_400_000 - 60_000);
      await new Promise((resolve) => setTimeout(resolve, 700));
      expect(await invocations(kept)).toEqual([]);
      await pass(60_000);
      await until(async () => (await invocations(kept)).length === 1 && (await invocations(deleted)).length === 1);
      await until(async () => !(await exists(deleted)));
      await pass(86_400_000);
      await new Promise((resolve) => setTimeout(resolve, 700));
      expect([await exists(kept), (await invocations(kept)).length]).toEqual([true, 1]);
    });

    itEmulated('reads the clock of its time zone', async () => {
      const Name = name();
      const in2h = new Date(nowMs() + 2 * 3_600_000);
      const parts = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Asia/Tokyo', dateStyle: 'short', timeStyle: 'medium' }).format(in2h);
      await create(Name, { ScheduleExpression: `at(${parts.replace(' ', 'T')})`, ScheduleExpressionTimezone: 'Asia/Tokyo' });
      await pass(2 * 3_600_000 - 60_000);
      await new Promise((resolve) => setTimeout(resolve, 700));
      expect(await invocations(Name)).toEqual([]);
      await pass(61_000);
      await until(async () => (await invocations(Name)).length === 1);
    });

    itEmulated('repeats at a rate until its end, and not while disabled', async () => {
      const [Name, disabled] = [name(), name()];
      const rate = { ScheduleExpression: 'rate(10 minutes)', EndDate: new Date(nowMs() + 1_500_000) };
      await create(Name, rate);
      await create(disabled, { ...rate, State: 'DISABLED' });
      for (const expected of [1, 2]) {
        await pass(600_000);
        await until(async () => (await invocations(Name)).length === expected);
      }
      await pass(600_000);
      await new Promise((resolve) => setTimeout(resolve, 700));
      expect([(await invocations(Name)).length, (await invocations(disabled)).length]).toEqual([2, 0]);
    });

    itEmulated('fills in the placeholders of its input', async () => {
      const Name = name();
      const dueMs = nowMs() + 60_000;
      const Input = JSON.stringify({ Name, at: '<aws.scheduler.scheduled-time>', try: '<aws.scheduler.attempt-number>' });
      await create(Name, { ScheduleExpression: at(dueMs), Target: target(Name, { Input }) });
      await pass(61_000);
      const [invocation] = await until(async () => {
        const seen = await invocations(Name);
        return seen.length > 0 ? seen : undefined;
      });
      expect(JSON.parse(invocation?.input ?? '')).toEqual({ Name, at: `${new Date(dueMs).toISOString().slice(0, 19)}Z`, try: '1' });
    });

    itEmulated('is tried again as its policy says, and then goes to the dead-letter queue', async () => {
      const Name = name();
      const refuses = 'arn:aws:lambda:eu-west-1:000000000000:function:refuses';
      const dead = 'arn:aws:lambda:eu-west-1:000000000000:function:dead-letters';
      const policy = { RetryPolicy: { MaximumRetryAttempts: 2 }, DeadLetterConfig: { Arn: dead } };
      await create(Name, {
        ScheduleExpression: at(nowMs() + 60_000), ActionAfterCompletion: 'DELETE', Target: target(Name, { Arn: refuses, ...policy }),
      });
      for (const expected of [1, 2, 3]) {
        await pass(61_000);
        await until(async () => (await invocations(Name, refuses)).length === expected);
      }
      await until(async () => (await invocations(Name, dead)).length === 1);
      await until(async () => !(await exists(Name)));
    });
  });
}
