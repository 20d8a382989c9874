/** Judges a role by the calls that were made under it: what it lacked, what it has for nothing, what is wider than it needs. */

export interface Statement {
  effect: 'Allow' | 'Deny';
  actions: string[];
  resources: string[];
}

/** One call as IAM sees it: `dynamodb:UpdateItem` on an ARN. */
export interface Call {
  action: string;
  resource: string;
}

export interface Audit {
  /** Calls that the statements do not allow. */
  denied: Call[];
  /** What an Allow statement names and no call needed. */
  unused: { statement: Statement; action: string; resource: string }[];
  /**
   * Allow statements with an action or resource that is not the exact name of one that was called. Streams of a log group and
   * schedules of a group are excepted.
   */
  broad: { statement: Statement; action?: string; resource?: string }[];
}

/** As IAM evaluates identity policies: an explicit Deny wins, then an Allow is needed. `*` and `?` are wildcards; actions ignore case. */
export function isAllowed(statements: readonly Statement[], action: string, resource: string): boolean {
  const matching = statements.filter((statement) => covers(statement, { action, resource }));
  return matching.some(({ effect }) => effect === 'Allow') && !matching.some(({ effect }) => effect === 'Deny');
}

export function audit(statements: readonly Statement[], calls: readonly Call[]): Audit {
  const allowing = statements.filter(({ effect }) => effect === 'Allow');
  return {
    denied: calls.filter(({ action, resource }) => !isAllowed(statements, action, resource)),
    unused: allowing.flatMap((statement) => unusedOf(statement, calls)),
    broad: allowing.flatMap((statement) => broadOf(statement, calls)),
  };
}

/** The calls that Lambda itself makes for a function's log; no emulator sees them. @param logGroupArn without the `:*` of its streams. */
export function logCalls(logGroupArn: string): Call[] {
  const resource = `${logGroupArn}:log-stream:2026/01/05/[$LATEST]0123`;
  return ['logs:CreateLogStream', 'logs:PutLogEvents'].map((action) => ({ action, resource }));
}

function covers(statement: Statement, { action, resource }: Call): boolean {
  return (
    statement.actions.some((pattern) => matches(pattern.toLowerCase(), action.toLowerCase())) &&
    statement.resources.some((pattern) => matches(pattern, resource))
  );
}

function unusedOf(statement: Statement, calls: readonly Call[]): Audit['unused'] {
  return statement.actions
    .flatMap((action) => statement.resources.map((resource) => ({ statement, action, resource })))
    .filter(({ action, resource }) => !calls.some((call) => covers({ effect: 'Allow', actions: [action], resources: [resource] }, call)));
}

function broadOf(statement: Statement, calls: readonly Call[]): Audit['broad'] {
  const actions = statement.actions.filter((action) => !calls.some((call) => call.action.toLowerCase() === action.toLowerCase()));
  const resources = statement.resources.filter((resource) => !isStreamsOfOneLogGroup(resource) && !isSchedulesOfOneGroup(resource) && !calls.some((call) => call.resource === resource));
  return [...actions.map((action) => ({ statement, action })), ...resources.map((resource) => ({ statement, resource }))];
}

/** A stream's name is Lambda's choice, so this one suffix cannot be spelled out. */
function isStreamsOfOneLogGroup(resource: string): boolean {
  return /^arn:[^*?:]+:logs:[^*?:]+:[^*?:]+:log-group:[^*?:]+:\*$/.test(resource);
}

/** A schedule's name is the senders' choice; the group holds no others. */
function isSchedulesOfOneGroup(resource: string): boolean {
  return /^arn:[^*?:]+:scheduler:[^*?:]+:[^*?:]+:schedule\/[^*?:/]+\/\*$/.test(resource);
}

function matches(pattern: string, text: string): boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.');
  return new RegExp(`^${source}$`, 's').test(text);
}
