import { describe, expect, it } from 'vitest';
import { audit, type Call, isAllowed, logCalls, type Statement } from '../support/iam.ts';

const queueArn = 'arn:aws:sqs:eu-west-1:000000000000:Delivery';
const tableArn = 'arn:aws:dynamodb:eu-west-1:000000000000:table/Endpoints';
const logGroupArn = 'arn:aws:logs:eu-west-1:000000000000:log-group:Logs';
const schedulesArn = 'arn:aws:scheduler:eu-west-1:000000000000:schedule/WakeUps';

const statements: Statement[] = [
  { effect: 'Allow', actions: ['sqs:ReceiveMessage', 'sqs:DeleteMessage'], resources: [queueArn] },
  { effect: 'Allow', actions: ['dynamodb:UpdateItem'], resources: [tableArn] },
  { effect: 'Allow', actions: ['logs:CreateLogStream', 'logs:PutLogEvents'], resources: [`${logGroupArn}:*`] },
  { effect: 'Allow', actions: ['scheduler:CreateSchedule'], resources: [`${schedulesArn}/*`] },
];
const calls: Call[] = [
  { action: 'sqs:ReceiveMessage', resource: queueArn },
  { action: 'sqs:DeleteMessage', resource: queueArn },
  { action: 'dynamodb:UpdateItem', resource: tableArn },
  ...logCalls(logGroupArn),
  { action: 'scheduler:CreateSchedule', resource: `${schedulesArn}/endpoint-1` },
];

describe('isAllowed', () => {
  it('needs both the action and the resource', () => {
    expect(isAllowed(statements, 'sqs:ReceiveMessage', queueArn)).toBe(true);
    expect(isAllowed(statements, 'sqs:SendMessage', queueArn)).toBe(false);
    expect(isAllowed(statements, 'sqs:ReceiveMessage', `${queueArn}2`)).toBe(false);
  });

  it('lets an explicit Deny win', () => {
    const deny: Statement = { effect: 'Deny', actions: ['sqs:*'], resources: ['*'] };
    expect(isAllowed([...statements, deny], 'sqs:ReceiveMessage', queueArn)).toBe(false);
  });

  it('reads wildcards as IAM does and no other character as a pattern', () => {
    expect(isAllowed([{ effect: 'Allow', actions: ['SQS:receive*'], resources: ['arn:aws:sqs:*:?00000000000:D*'] }], 'sqs:ReceiveMessage', queueArn)).toBe(true);
    expect(isAllowed([{ effect: 'Allow', actions: ['sqs.ReceiveMessage'], resources: [queueArn] }], 'sqs:ReceiveMessage', queueArn)).toBe(false);
  });
});

describe('audit', () => {
  it('finds nothing in a role that fits its calls', () => {
    expect(audit(statements, calls)).toEqual({ denied: [], unused: [], broad: [] });
  });

  it.each(statements.map((statement, index) => [statement.actions.join(), index] as const))('notices that the statement %s is gone', (_, index) => {
    expect(audit(statements.toSpliced(index, 1), calls).denied).not.toEqual([]);
  });

  const single = statements.flatMap(({ actions }, index) => actions.map((action) => [action, index] as const));
  it.each(single)('notices that the action %s is gone', (action, index) => {
    const reduced = statements.map((statement, at) => (at === index ? { ...statement, actions: statement.actions.filter((one) => one !== action) } : statement));
    expect(audit(reduced, calls).denied.map((call) => call.action)).toEqual([action]);
  });

  const widened = statements.flatMap(({ resources: [arn = ''] }, index) =>
    ['*', `${arn.slice(0, -3)}*`, `${arn.slice(0, arn.lastIndexOf(':'))}:*`, `${arn.slice(0, -1)}?`]
      .filter((resource) => resource !== arn)
      .map((resource) => [resource, index] as const),
  );
  it.each(widened)('notices a resource widened to %s', (resource, index) => {
    const wide = statements.map((statement, at) => (at === index ? { ...statement, resources: [resource] } : statement));
    expect(audit(wide, calls).broad.map((finding) => finding.resource)).toEqual([resource]);
  });

  it('notices an action widened to a wildcard', () => {
    const wide = statements.map((statement) => ({ ...statement, actions: statement.actions.map((action) => action.replace(/:.*/, ':*')) }));
    expect(audit(wide, calls).broad.map((finding) => finding.action)).toEqual(['sqs:*', 'sqs:*', 'dynamodb:*', 'logs:*', 'logs:*', 'scheduler:*']);
  });

  it('notices a permission that nothing used, for each resource by itself', () => {
    const other = 'arn:aws:sqs:eu-west-1:000000000000:Other';
    const [receive, ...rest] = statements as [Statement, ...Statement[]];
    const extra = [{ ...receive, actions: [...receive.actions, 'sqs:PurgeQueue'], resources: [queueArn, other] }, ...rest];
    expect(audit(extra, calls).unused.map(({ action, resource }) => `${action} ${resource}`)).toEqual([
      `sqs:ReceiveMessage ${other}`,
      `sqs:DeleteMessage ${other}`,
      `sqs:PurgeQueue ${queueArn}`,
      `sqs:PurgeQueue ${other}`,
    ]);
  });
});
