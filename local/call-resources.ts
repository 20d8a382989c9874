/** Which IAM action on which resource a request is. */
import { type JsonObject, account, queueArn, queueNameOf, region } from './emulator.ts';
import { scheduleArn } from './scheduler.ts';
import { sourceOfTaskHandle } from './sqs-move-tasks.ts';

export interface Access {
  action: string;
  resource: string;
  /** Table that the access is to, to find its consumed capacity. */
  table?: string;
}

const transactionActions: Record<string, string> = {
  Put: 'PutItem', Update: 'UpdateItem', Delete: 'DeleteItem', ConditionCheck: 'ConditionCheckItem', Get: 'GetItem',
};

const text = (value: unknown) => (typeof value === 'string' ? value : undefined);

function table(action: string, nameOrArn: unknown, index?: unknown): Access {
  const name = String(nameOrArn).replace(/^arn:.*:table\//, '');
  const arn = `arn:aws:dynamodb:${region}:${account}:table/${name}`;
  return { action: `dynamodb:${action}`, resource: typeof index === 'string' ? `${arn}/index/${index}` : arn, table: name };
}

export function dynamoDbAccess(operation: string, input: JsonObject): Access[] {
  if (operation === 'TransactWriteItems' || operation === 'TransactGetItems') {
    const members = ((input['TransactItems'] ?? []) as Record<string, JsonObject>[]).flatMap((member) => Object.entries(member));
    return members.map(([kind, request]) => table(transactionActions[kind] ?? operation, request['TableName']));
  }
  if (operation === 'BatchGetItem' || operation === 'BatchWriteItem') {
    return Object.keys(input['RequestItems'] ?? {}).map((name) => table(operation, name));
  }
  if (input['TableName'] === undefined) return [{ action: `dynamodb:${operation}`, resource: '*' }];
  return [table(operation, input['TableName'], input['IndexName'])];
}

/** A move task is checked against the permissions to receive, delete and send, not only to start it. */
function moveTaskAccess(input: JsonObject): Access[] {
  const source = String(input['SourceArn']);
  const onSource = ['StartMessageMoveTask', 'ReceiveMessage', 'DeleteMessage', 'GetQueueAttributes'];
  const accesses = onSource.map((name) => ({ action: `sqs:${name}`, resource: source }));
  if (typeof input['DestinationArn'] === 'string') accesses.push({ action: 'sqs:SendMessage', resource: input['DestinationArn'] });
  return accesses;
}

export function sqsAccess(operation: string, input: JsonObject): Access[] {
  if (operation === 'StartMessageMoveTask') return moveTaskAccess(input);
  const action = `sqs:${operation.replace(/^(SendMessage|DeleteMessage|ChangeMessageVisibility)Batch$/, '$1')}`;
  if (typeof input['QueueUrl'] === 'string') return [{ action, resource: queueArn(queueNameOf(input['QueueUrl'])) }];
  if (typeof input['QueueName'] === 'string') return [{ action, resource: queueArn(input['QueueName']) }];
  return [{ action, resource: text(input['SourceArn']) ?? sourceOfTaskHandle(input['TaskHandle']) ?? '*' }];
}

const scheduleVerbs: Record<string, string> = { POST: 'Create', GET: 'Get', PUT: 'Update', DELETE: 'Delete' };

/** Operation and accesses of a Scheduler request; undefined for any other path. */
export function schedulerAccess(method: string, url: URL, input: JsonObject): { operation: string; accesses: Access[] } | undefined {
  const [, kind, name] = url.pathname.split('/').map(decodeURIComponent);
  if (kind !== 'schedules' && kind !== 'schedule-groups') return undefined;
  if (!name) return { operation: 'ListSchedules', accesses: [{ action: 'scheduler:ListSchedules', resource: '*' }] };
  const operation = `${scheduleVerbs[method] ?? method}${kind === 'schedules' ? 'Schedule' : 'ScheduleGroup'}`;
  const group = text(input['GroupName']) ?? url.searchParams.get('groupName') ?? 'default';
  const groupArn = `arn:aws:scheduler:${region}:${account}:schedule-group/${name}`;
  const access = { action: `scheduler:${operation}`, resource: kind === 'schedules' ? scheduleArn(group, name) : groupArn };
  // IAM asks whether the caller may hand on the role that the schedule will act as.
  const roleArn = text((input['Target'] as JsonObject | undefined)?.['RoleArn']);
  return { operation, accesses: roleArn === undefined ? [access] : [access, { action: 'iam:PassRole', resource: roleArn }] };
}
