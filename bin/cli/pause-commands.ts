import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { createFleetSwitch } from '../../lambdas/shared/adapters/dynamodb-fleet.ts';
import { createHoldingIndex } from '../../lambdas/shared/adapters/dynamodb-holding-index.ts';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { sendWakeUp } from '../../lambdas/shared/adapters/wake-ups.ts';
import { pausesAfter } from '../../lambdas/shared/core/age.ts';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { breaker as limits, fleet, hold } from '../../lambdas/shared/limits/numbers.ts';
import { checkedId, noSuchEndpoint, registryOf, type Run } from './endpoint-commands.ts';
import { CommandError, exit, failure, type Output } from './output.ts';
import type { Target } from './target.ts';

type Status = EndpointConfig['status'];

/** After the switch was turned: the longest that an environment goes by its old view, and what it holds meanwhile may be missing in the index. */
const settleMs = fleet.lookMs + hold.indexLagMs;

/** `endpoint pause|resume`, and the switch for all of them. */
export function addPauseCommands(program: Command, endpoint: Command, run: Run): void {
  endpoint
    .command('pause <id>')
    .description('keep what comes for an endpoint, and send nothing; the age of its deliveries stands still, for 30 days')
    .action((id: string) => run((target, out) => pause(target, out, id)));
  endpoint
    .command('resume <id>')
    .description('send again, what was kept first')
    .action((id: string) => run((target, out) => resume(target, out, id)));

  program
    .command('pause')
    .description('stop all sending of this installation within seconds; what comes is kept')
    .requiredOption('--all', 'every endpoint; a single one: sluice endpoint pause ID')
    .option('--yes', 'do not ask')
    .action((options: { yes?: boolean }) => run((target, out) => pauseAll(target, out, options.yes ?? false)));
  program
    .command('resume')
    .description('start sending again after pause --all; endpoints that were paused one by one stay so')
    .requiredOption('--all', 'every endpoint; a single one: sluice endpoint resume ID')
    .action(() => run((target, out) => resumeAll(target, out)));
}

async function pause(target: Target, out: Output, id: string): Promise<void> {
  const { version, lane } = await putStatus(target, out, id, 'paused');
  const inFlight = [...lane.leases.values()].reduce((sum, { slots }) => sum + slots, 0);
  out.result({ endpointId: id, version, status: 'paused' }, `Paused endpoint ${id}: what comes for it is kept. ${inFlight === 0 ? 'Nothing is under way.' : `Under way, and not called back: ${inFlight}.`}\nResume it: sluice endpoint resume ${id}`);
}

async function resume(target: Target, out: Output, id: string): Promise<void> {
  const before = await registryOf(target).get(checkedId(id));
  if (before?.endpoint.config?.status === 'enabled') {
    // Also then: a command that was cut short may not have woken it.
    out.note(`Target: ${target.name}`);
    if (before.lane.holding !== undefined) await wakeNow(target, id, before.lane);
    out.result({ endpointId: id, version: before.endpoint.version, status: 'enabled', held: before.lane.holding?.count ?? 0 }, `Endpoint ${id} is not paused.`);
    return;
  }
  const { version, lane } = await putStatus(target, out, id, 'enabled');
  const kept = lane.holding?.count ?? 0;
  if (lane.holding !== undefined) await wakeNow(target, id, lane);
  out.result({ endpointId: id, version, status: 'enabled', held: kept }, `Resumed endpoint ${id}${lane.holding === undefined ? '; nothing was kept for it.' : `; about ${kept} deliveries are held for it: those that are due are being sent, the oldest first.`}`);
}

/** Writes an endpoint's status over exactly what was read. */
async function putStatus(target: Target, out: Output, id: string, status: Status): Promise<{ version: string; lane: Lane }> {
  const registry = registryOf(target);
  const found = await registry.get(checkedId(id));
  if (found === undefined) throw noSuchEndpoint(id);
  const { config, ...stored } = found.endpoint;
  if (config === undefined) throw failure(`Endpoint ${id} cannot be used as it is stored: ${found.endpoint.config === undefined ? found.endpoint.problem : ''}. Repair it with sluice endpoint put.`);
  if (config.status === 'disabled') throw failure(`Endpoint ${id} is disabled: what comes for it becomes dead letters. Enable it first: sluice endpoint put ${id} --set status=${status}`);
  if (config.status === status) throw failure(`Endpoint ${id} is ${status} already.`);
  out.note(`Target: ${target.name}`);
  const version = ulid(Date.now(), randomBytes(10));
  const next = { ...config, status, pauses: pausesAfter(config.pauses, status, Date.now()) };
  if ((await registry.put({ ...stored, config: next, version }, stored.version)) === 'changed') {
    throw failure(`Endpoint ${id} was changed by somebody else meanwhile; nothing was written. Repeat the command.`);
  }
  // After the write: what was held until then is seen.
  return { version, lane: (await registry.get(id))?.lane ?? found.lane };
}

async function pauseAll(target: Target, out: Output, yes: boolean): Promise<void> {
  out.note(`Target: ${target.name}`);
  await out.confirm('Stop all sending? What comes is kept until sluice resume --all.', yes);
  const answer = await createFleetSwitch(target.db, target.endpointsTable).set(true, Date.now());
  if (answer === 'changed') throw failure('Somebody else has switched meanwhile. Look with sluice status, and repeat the command.');
  out.result({ paused: true, was: answer }, answer === 'unchanged' ? 'All sending was stopped already.' : 'All sending stops within seconds; requests that are under way end by themselves. What comes is kept.\nStart again: sluice resume --all');
}

async function resumeAll(target: Target, out: Output): Promise<void> {
  out.note(`Target: ${target.name}`);
  const answer = await createFleetSwitch(target.db, target.endpointsTable).set(false, Date.now());
  if (answer === 'changed') throw failure('Somebody else has switched meanwhile. Look with sluice status, and repeat the command.');
  // Until every environment has looked at the switch, and what it still holds by its old view is in the index.
  if (answer === 'written') {
    out.progress(`every function sees it within ${settleMs / 1_000} s; then what was kept is woken`);
    await sleep(settleMs);
  }
  // Also where nothing was stopped: a repeat wakes those that a command that was cut short has not.
  const { woken, failed } = await wakeAll(target, out);
  const said = answer === 'unchanged' ? 'Sending was not stopped.' : 'Sending starts again within seconds.';
  out.result({ paused: false, was: answer, woken, failed }, `${said} Endpoints with kept deliveries that were woken: ${woken}.`);
  if (failed > 0) throw new CommandError(exit.partly, `${failed} endpoints could not be woken; they come at their next wake-up, or repeat the command.`);
}

async function wakeAll(target: Target, out: Output): Promise<{ woken: number; failed: number }> {
  const tables = { endpoints: target.endpointsTable, deliveries: target.deliveriesTable };
  const all = await createHoldingIndex(target.db, tables).all();
  let [woken, failed] = [0, 0];
  for (const { endpointId, wakeAtEpochMs } of all) {
    try {
      await wakeFrom(target, endpointId, wakeAtEpochMs);
      woken++;
    } catch {
      failed++;
    }
    out.progress(`${woken + failed} of ${all.length} endpoints woken`, woken + failed === all.length);
  }
  return { woken, failed };
}

/** The lane says so first: were the message lost, the sweep would find the endpoint overdue. */
export async function wakeNow(target: Target, id: string, lane: Lane | undefined): Promise<void> {
  if (lane?.holding !== undefined) await wakeFrom(target, id, lane.holding.wakeAtEpochMs);
}

/** A run that is alive refuses the message; but it cannot end over a wake-up that was moved, and comes again at once. */
async function wakeFrom(target: Target, id: string, seenEpochMs: number): Promise<void> {
  const lanes = createDynamoDbLanes(target.db, { endpoints: target.endpointsTable, deliveries: target.deliveriesTable });
  let from: number | undefined = seenEpochMs;
  for (let tries = 0; tries < limits.swaps && from !== undefined; tries++) {
    const answer = await lanes.moveWakeUp(id, from, Date.now());
    if (answer.kind !== 'lost') break;
    from = answer.lane?.holding?.wakeAtEpochMs;
  }
  if (from !== undefined) await sendWakeUp(target.sqs, target.drainQueueUrl, id);
}

