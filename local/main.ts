/** `npm start`: the embedded AWS with what would be deployed in it, and a play: customers that show what it does. */
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { createAuthority } from './authority.ts';
import { startDemo } from './demo.ts';
import { startHostilePlay } from './hostile/hostile-play.ts';
import { Installation } from './installation.ts';
import { startLostResponse } from './lost-response.ts';
import type { StartPlay } from './play.ts';
import { runningPid } from './running.ts';
import { startSlowConsumer } from './slow-consumer.ts';

/** An option that cannot be used: exit code 2. */
class UsageError extends Error {}

const help = `Usage: npm start -- [options]

Runs the stack that \`cdk deploy\` would deploy, on this machine, and shows a demo with three customers.
Nothing leaves this machine. Ctrl-C stops everything.

  --once               play the demo to its end, check it, and exit (0 if every event ended as promised)
  --consumers KIND     who is delivered to: demo (three customers, the default) or hostile (an endpoint for each way in
                       which a server can misbehave, and a healthy one beside them)
  --scenario NAME      play one story, step by step, instead: lost-response (the answer to a delivery is lost after the
                       customer has acted on it; then everything is stopped and started again) or slow-consumer (a
                       customer answers after 25 seconds, beside one that is well)
  --no-demo            only the stack: drive it with \`npx sluice\` or any AWS SDK (see .sluice/local.json)
  --data DIR           keep queues, tables and the clock in DIR over restarts
  --state-dir DIR      logs, synthesised app and local.json go here (default .sluice)
  --port N             port of the AWS endpoint (default: any free one)
  --concurrency N      environments of a function at once (default 4)
  --trust-ca FILE      certificate authority (PEM) that the functions trust too, for a consumer of your own
  --stage-config JSON  overrides of the stage, as \`cdk deploy -c stageConfig=\` takes them
  --help               this text`;

const options = {
  once: { type: 'boolean', default: false },
  consumers: { type: 'string' },
  scenario: { type: 'string' },
  'no-demo': { type: 'boolean', default: false },
  data: { type: 'string' },
  'state-dir': { type: 'string', default: path.resolve(import.meta.dirname, '../.sluice') },
  port: { type: 'string' },
  concurrency: { type: 'string', default: '4' },
  'stage-config': { type: 'string' },
  'trust-ca': { type: 'string' },
  help: { type: 'boolean', default: false },
} as const;
/** By the value of --consumers. */
const plays: ReadonlyMap<string, StartPlay> = new Map([['demo', startDemo], ['hostile', startHostilePlay]]);
/** By the value of --scenario. */
const scenarios: ReadonlyMap<string, StartPlay> = new Map([['lost-response', startLostResponse], ['slow-consumer', startSlowConsumer]]);
type Values = ReturnType<typeof parseArgs<{ options: typeof options }>>['values'];

try {
  const { values } = parseArgs({ options });
  if (values.help) console.log(help);
  else await main(values);
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.error(message);
  process.exit(error instanceof UsageError || code?.startsWith('ERR_PARSE_ARGS') === true ? 2 : 1);
}

async function main(values: Values): Promise<void> {
  if (values.once && values.data !== undefined) throw new UsageError('--once checks a fresh installation: leave --data out');
  const startPlay = playOf(values);
  const stateDir = path.resolve(values['state-dir']);
  const other = runningPid(stateDir);
  if (other !== undefined) {
    throw new Error(`A local Sluice is running already (process ${other}, ${stateDir}). Stop it, or give --state-dir.`);
  }
  mkdirSync(stateDir, { recursive: true });
  const authority = await createAuthority(path.join(stateDir, 'ca.pem'));
  if (values['trust-ca'] !== undefined) appendFileSync(authority.caFile, readFileSync(values['trust-ca']));
  const dataDir = dataDirOf(values, stateDir);
  const installation = new Installation({
    stateDir,
    dataDir,
    port: values.port === undefined ? undefined : wholeNumber('port', values.port, 0, 65_535),
    concurrency: wholeNumber('concurrency', values.concurrency, 1, 64),
    caFile: authority.caFile,
    stageConfig: values['stage-config'] === undefined ? undefined : jsonObject('stage-config', values['stage-config']),
  });
  const embedded = await installation.running();

  const play = await startPlay?.(embedded, authority, { once: values.once, stateDir, restart: (stopped) => installation.restart(stopped) });
  const stop = async (code: number): Promise<never> => {
    await play?.stop();
    await installation.stop();
    if (values.scenario !== undefined && dataDir !== undefined) rmSync(dataDir, { recursive: true, force: true });
    process.exit(code);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop(values.once ? 1 : 0));
  if (play === undefined) console.log(JSON.stringify({ ready: true, endpoint: embedded.wire.endpoint }));
  else if (values.once) await stop((await play.finished) ? 0 : 1);
}

/** @throws UsageError if there is no such play, or two are asked for */
function playOf({ consumers, scenario, 'no-demo': none, data }: Values): StartPlay | undefined {
  if (scenario !== undefined) {
    const play = named('scenario', scenarios, scenario);
    if (consumers !== undefined) throw new UsageError('--scenario has a customer of its own: leave --consumers out');
    if (none) throw new UsageError('--no-demo plays nothing: leave --scenario out');
    if (data !== undefined) throw new UsageError('--scenario begins with a fresh installation: leave --data out');
    return play;
  }
  const play = named('consumers', plays, consumers ?? 'demo');
  if (none && consumers !== undefined && consumers !== 'demo') throw new UsageError('--no-demo has no consumers: leave --consumers out');
  return none ? undefined : play;
}

function named(option: string, of: ReadonlyMap<string, StartPlay>, name: string): StartPlay {
  const play = of.get(name);
  if (play === undefined) throw new UsageError(`--${option}: must be ${[...of.keys()].join(' or ')} (got ${name})`);
  return play;
}

/** Where a scenario keeps what must survive its restarts: nothing of it is there before. */
function dataDirOf({ scenario, data }: Values, stateDir: string): string | undefined {
  if (scenario === undefined) return data === undefined ? undefined : path.resolve(data);
  return mkdtempSync(path.join(stateDir, 'scenario-'));
}

function wholeNumber(name: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new UsageError(`--${name}: must be a whole number from ${min} to ${max} (got ${text})`);
}

function jsonObject(name: string, text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Falls through: both are the same mistake.
  }
  throw new UsageError(`--${name}: must be a JSON object (got ${text})`);
}
