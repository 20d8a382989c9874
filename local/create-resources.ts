/** Creates what the template names, through the services' own APIs as CloudFormation would. What is there already stays. */
import { CreateTableCommand, DescribeTimeToLiveCommand, DynamoDBClient, ListTablesCommand, UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import { CreateScheduleCommand, CreateScheduleGroupCommand, SchedulerClient, UpdateScheduleCommand } from '@aws-sdk/client-scheduler';
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { region } from './emulator.ts';
import type { ScheduleSpec, StackSpec, TableSpec } from './template.ts';

const settingsFor = (endpoint: string) => ({ endpoint, region, credentials: { accessKeyId: 'cloudformation', secretAccessKey: 'local' } });

/** Queues, tables and schedule groups. */
export async function createResources(stack: StackSpec, endpoint: string): Promise<void> {
  const sqs = new SQSClient(settingsFor(endpoint));
  const db = new DynamoDBClient(settingsFor(endpoint));
  const scheduler = new SchedulerClient(settingsFor(endpoint));
  for (const queue of stack.queues) await sqs.send(new CreateQueueCommand({ QueueName: queue.name, Attributes: queue.attributes }));
  const { TableNames: existing = [] } = await db.send(new ListTablesCommand({}));
  for (const table of stack.tables) {
    if (!existing.includes(table.name)) await db.send(new CreateTableCommand(table.createTable));
    await enableTtl(db, table);
  }
  for (const { name } of stack.scheduleGroups) await scheduler.send(new CreateScheduleGroupCommand({ Name: name })).catch(unlessThere);
  for (const client of [sqs, db, scheduler]) client.destroy();
}

/** Apart from the others, for the targets must be there first: a schedule that fires into nothing is an event lost. */
export async function createSchedules(schedules: readonly ScheduleSpec[], endpoint: string): Promise<void> {
  const scheduler = new SchedulerClient(settingsFor(endpoint));
  for (const { createSchedule } of schedules) {
    const there = await scheduler.send(new CreateScheduleCommand(createSchedule)).then(() => false, unlessThere);
    if (there) await scheduler.send(new UpdateScheduleCommand(createSchedule));
  }
  scheduler.destroy();
}

/** @returns true: what was to be created exists. */
function unlessThere(error: unknown): true {
  if (error instanceof Error && error.name === 'ConflictException') return true;
  throw error;
}

/** Of an existing table too: a start that was cut short may have left it without. */
async function enableTtl(db: DynamoDBClient, table: TableSpec): Promise<void> {
  if (table.ttlAttribute === undefined) return;
  const { TimeToLiveDescription: now } = await db.send(new DescribeTimeToLiveCommand({ TableName: table.name }));
  if (now?.TimeToLiveStatus === 'ENABLED') return;
  const TimeToLiveSpecification = { AttributeName: table.ttlAttribute, Enabled: true };
  await db.send(new UpdateTimeToLiveCommand({ TableName: table.name, TimeToLiveSpecification }));
}
