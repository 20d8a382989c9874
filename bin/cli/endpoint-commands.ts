import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import { endpointIdOf } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import { createDynamoDbLanes } from '../../lambdas/shared/adapters/dynamodb-lanes.ts';
import { createDynamoDbRegistry, type Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import type { Lane } from '../../lambdas/shared/core/lane.ts';
import { pausesAfter } from '../../lambdas/shared/core/age.ts';
import { forgotten } from '../../lambdas/shared/core/breaker.ts';
import { noPolicy, sharedOf, type NamedPolicy, type Settings } from '../../lambdas/shared/core/policy.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { idPattern } from '../../lambdas/shared/limits/message-schema.ts';
import { breaker as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { StoredEndpoint } from '../../lambdas/shared/ports/index.ts';
import { addPauseCommands, wakeNow } from './pause-commands.ts';
import { addPingCommand } from './ping-command.ts';
import { asWritten, documentOf, keptSize, nameOf, policyOf, shownPolicy, withPolicy, writtenOf } from './applied-policy.ts';
import { checkSchedule, documentIn, installationProblem, parseConfig, secretsFor, withoutSettings, withSettings } from './endpoint-document.ts';
import { failure, readInput, table, usageError, type Output } from './output.ts';
import type { Target } from './target.ts';
import { addTokenCommand } from './token-command.ts';

export type Run = (work: (target: Target, out: Output) => Promise<void>) => Promise<void>;

interface PutOptions {
  url?: string;
  file?: string;
  set: string[];
  unset: string[];
  secret: string[];
  bodySecret?: string;
  shortRetries?: boolean;
}

export function addEndpointCommands(program: Command, run: Run): void {
  const endpoint = program.command('endpoint').description('register, read and remove endpoints');
  const collect = (value: string, before: string[]) => [...before, value];

  endpoint
    .command('put <id>')
    .description('create or replace an endpoint; with --set alone, change single fields of it')
    .option('--url <url>', 'https URL; the rest takes defaults')
    .option('--file <file>', 'whole endpoint document as JSON; - reads standard input')
    .option('--set <key=value>', 'set one field, such as retry.attempts=5 (repeatable)', collect, [])
    .option('--unset <key>', 'leave one field to its policy, or to the default (repeatable)', collect, [])
    .option('--secret <@file|->', 'import a secret of the scheme standard from a file or standard input, newest first (repeatable); else one is made', collect, [])
    .option('--body-secret <@file|->', 'import the secret of the schemes hub256 and hmac-body from a file or standard input; for hub256 one is made otherwise')
    .option('--short-retries', 'accept a retry schedule that gives up long before its age limit, retry.maxAgeS')
    .addHelpText('after', '\nExamples:\n  sluice endpoint put acme-prod --url https://acme.example/hooks\n  sluice endpoint put acme-prod --set maxInFlight=4 --set retry.maxAgeS=345600\n  sluice endpoint put acme-prod --set \'signing=[{"scheme":"standard"},{"scheme":"hub256"}]\' --body-secret @secret.txt')
    .action((id: string, options: PutOptions) => run((target, out) => put(target, out, id, options)));

  endpoint
    .command('get <id>')
    .description('show the configuration that applies, defaults included, or what is wrong with it, and where what is no default comes from; never the secrets')
    .action((id: string) =>
      run(async (target, out) => {
        const found = await registryOf(target).get(checkedId(id));
        if (found === undefined) throw noSuchEndpoint(id);
        const { version, secrets, bodySecret } = found.endpoint;
        const policy = await shownPolicy(target, found.endpoint);
        const shown = { ...whatApplies(found.endpoint), ...policy, version, secrets: secrets.length, bodySecret: bodySecret !== undefined };
        out.result(shown, JSON.stringify(shown, null, 2));
      }),
    );

  endpoint
    .command('ls')
    .description('list endpoints')
    .action(() =>
      run(async (target, out) => {
        const all = await registryOf(target).list();
        // A column only where it says something.
        const arePolicies = all.some(({ endpoint: e }) => nameOf(e) !== noPolicy);
        const rows = all.map(({ endpoint: e, lane }) => {
          const [status, url] = e.config === undefined ? ['invalid', e.problem] : [e.config.status, e.config.url];
          const policy = e.origin?.policy;
          return [endpointIdOf(e), status, String(lane.slots), ...(arePolicies ? [policy === undefined ? '-' : `${policy.name} v${policy.version}`] : []), url];
        });
        const header = ['ENDPOINT', 'STATUS', 'LANE', ...(arePolicies ? ['POLICY'] : []), 'URL'];
        out.result(all.map(({ endpoint: e }) => ({ ...whatApplies(e), policy: nameOf(e) })), rows.length === 0 ? 'No endpoints. Add one: sluice endpoint put ID --url https://…' : table(header, rows));
      }),
    );

  endpoint
    .command('rm <id>')
    .description('remove an endpoint; what is still queued for it will be dead-lettered')
    .option('--yes', 'do not ask')
    .action((id: string, options: { yes?: boolean }) => run((target, out) => remove(target, out, id, options.yes ?? false)));

  addPauseCommands(program, endpoint, run);
  addPingCommand(endpoint, run);
  addTokenCommand(endpoint, run);
}

async function put(target: Target, out: Output, id: string, options: PutOptions): Promise<void> {
  const registry = registryOf(target);
  const before = (await registry.get(checkedId(id)))?.endpoint;
  const policy = before === undefined ? undefined : await policyOf(target, before);
  const asked = await configFrom(target, id, options, before, policy);
  const config = withHistory(asked.config, before);
  checkSchedule(config, before?.config, options.shortRetries ?? false);
  const older = installationProblem(config, target);
  if (older !== undefined) throw usageError(`Refused, nothing was written: ${older}`);
  const { made, ...secrets } = secretsFor(config.signing, before, await readSecrets(options), randomBytes);
  out.note(`Target: ${target.name}`);
  const version = ulid(Date.now(), randomBytes(10));
  const origin = { own: asked.own, policy: before?.origin?.policy };
  if ((await registry.put({ config, version, ...secrets, origin }, before?.version ?? null)) === 'changed') {
    throw failure(`Endpoint ${id} was changed by somebody else meanwhile; nothing was written. Repeat the command.`);
  }
  const breaker = await forgetBreaker(target, id);
  const woken = await wakeHeld(target, id);
  const changed = before === undefined ? [] : changedFields(documentOf(before), asWritten(config));
  const shown = { endpointId: id, version, created: before === undefined, changed, ...(breaker === 'nothing' ? {} : { breaker }), ...made };
  const lines = [
    `${before === undefined ? 'Created' : 'Updated'} endpoint ${id} (version ${version}).`,
    ...(before === undefined ? [] : [`Changed: ${changed.length === 0 ? 'nothing' : changed.join(', ')}`]),
    ...(policy === undefined ? [] : [`It keeps policy ${policy.name} v${policy.version}, but for what is its own. See: sluice endpoint get ${id}`]),
    ...(breaker === 'closed' ? ['Its breaker was open; it is closed: deliveries are sent again.'] : []),
    ...(woken === 'woken' ? ['What is held for it is looked at again now.'] : []),
    ...(woken === 'unknown' ? ['What is held for it may wait for its next wake-up: see sluice status, and repeat the command.'] : []),
    ...(breaker === 'unknown' ? ['The endpoint is written, but its breaker may still be open: see sluice status, and repeat the command.'] : []),
    ...(config.lookup === null && (config.onAmbiguous === 'reconcile' || config.maxAmbiguous !== null) ? ['It declares no look-up: what may have arrived without an answer waits for a person. See: sluice unknown ls'] : []),
    ...(config.lookup !== null && config.onAmbiguous === 'retry' && config.maxAmbiguous === null ? ['Its look-up is for what is unknown already: under onAmbiguous "retry" without maxAmbiguous nothing becomes so.'] : []),
    ...(made.secret === undefined ? [] : [`Signing secret, shown only now: ${made.secret}`]),
    ...(made.bodySecret === undefined ? [] : [`Body secret, shown only now: ${made.bodySecret}`]),
  ];
  out.result(shown, lines.join('\n'));
}

/** What is held may have waited for just this change. Never rejects: the endpoint is written. */
async function wakeHeld(target: Target, id: string, seen?: Lane): Promise<'woken' | 'nothing' | 'unknown'> {
  try {
    const lane = seen ?? (await registryOf(target).get(id))?.lane;
    if (lane?.holding === undefined) return 'nothing';
    await wakeNow(target, id, lane);
    return 'woken';
  } catch {
    return 'unknown';
  }
}

/** Pauses are noted when the status changes, and stay with the endpoint whatever replaces the rest of it; so does why it is disabled. */
function withHistory(config: EndpointConfig, before: StoredEndpoint | undefined): EndpointConfig {
  const pauses = pausesAfter(before?.config?.pauses ?? config.pauses, config.status, Date.now());
  return { ...config, ...keptSize(config, before), pauses, disabledFor: config.status === 'disabled' ? (before?.config?.disabledFor ?? null) : null };
}

/**
 * What was found out about an endpoint before it was changed says nothing. Never rejects: the endpoint is written, and what is
 * shown of it is shown once.
 */
async function forgetBreaker(target: Target, id: string): Promise<'closed' | 'nothing' | 'unknown'> {
  const lanes = createDynamoDbLanes(target.db, { endpoints: target.endpointsTable, deliveries: target.deliveriesTable });
  let wasOpen = false;
  try {
    for (let tries = 0; tries < limits.swaps; tries++) {
      const breaker = (await registryOf(target).get(id))?.lane.breaker;
      wasOpen ||= breaker?.state === 'open';
      const to = forgotten(breaker);
      if (to === undefined || (await lanes.moveBreaker(id, breaker, to)).kind === 'moved') return wasOpen ? 'closed' : 'nothing';
    }
  } catch {
    // As good as never tried.
  }
  return 'unknown';
}

/** The whole configuration that the options ask for. With neither --url nor --file it starts from what is stored, valid or not. */
async function configFrom(target: Target, id: string, options: PutOptions, before: StoredEndpoint | undefined, policy: NamedPolicy | undefined): Promise<{ config: EndpointConfig; own: Settings }> {
  const replaces = options.url !== undefined || options.file !== undefined;
  if (!replaces && options.set.length === 0 && options.unset.length === 0 && options.secret.length === 0 && options.bodySecret === undefined) {
    throw usageError('Nothing to put: give --url, --file, --set, --unset, --secret or --body-secret.');
  }
  if (!replaces && before === undefined) throw failure(`There is no endpoint ${id} to change. Create it with --url or --file.`);
  if ([options.file, options.bodySecret, ...options.secret].filter((source) => source === '-').length > 1) {
    throw usageError('- (standard input) can be read only once: give the others as @FILE');
  }

  const base = replaces || before === undefined ? await documentFrom(options) : writtenOf(before, policy);
  const named = base['endpointId'];
  if (replaces && named !== undefined && named !== id) {
    throw usageError(`endpointId: must be ${id}, as on the command line (got ${JSON.stringify(named)})`);
  }
  if (options.set.some((setting) => setting.startsWith('autoLane='))) throw usageError('autoLane: is set by maxInFlight=auto, and ended by maxInFlight=N');
  // Of an endpoint that cannot be used as it is stored, the document may still say so.
  const sized = options.set.some((setting) => setting.startsWith('maxInFlight=')) ? { autoLane: undefined } : {};
  const written = withoutSettings(withSettings({ ...base, ...sized, endpointId: id }, options.set), options.unset);
  const config = parseConfig(withPolicy(written, policy), target);
  if (config.endpointId !== id) throw usageError('endpointId: cannot be changed; put a new endpoint instead');
  return { config, own: sharedOf(written) };
}

/** What an endpoint is delivered to by, or why it is not and what there is to repair. */
function whatApplies(endpoint: StoredEndpoint) {
  if (endpoint.config !== undefined) return documentOf(endpoint);
  const { endpointId, problem, document } = endpoint;
  return { endpointId, problem, stored: document };
}

async function readSecrets(options: PutOptions) {
  const secrets = await Promise.all(options.secret.map((source) => readSecret('--secret', source)));
  return { secrets, bodySecret: options.bodySecret === undefined ? undefined : await readSecret('--body-secret', options.bodySecret) };
}

/** A secret on the command line would stay in the shell's history and in the process list. */
function readSecret(option: string, source: string): Promise<string> {
  if (source === '-') return readInput(option, source);
  if (source.startsWith('@')) return readInput(option, source.slice(1));
  throw usageError(`${option}: give @FILE or - (standard input); a secret as an argument would stay in the history and the process list`);
}

async function documentFrom(options: PutOptions): Promise<Record<string, unknown>> {
  if (options.file === undefined) return { url: options.url };
  const document = await documentIn(options.file);
  return { ...document, ...(options.url === undefined ? {} : { url: options.url }) };
}

/** A put replaces, so a field that was left out goes back to its default: what changed is said. */
function changedFields(before: Readonly<Record<string, unknown>>, after: Readonly<Record<string, unknown>>): string[] {
  const keys = new Set([...Object.keys(after), ...Object.keys(before)]);
  // What follows from the status is not said beside it. What is nothing is not stored.
  return [...keys].filter((key) => key !== 'pauses' && key !== 'disabledFor' && !isDeepStrictEqual(before[key] ?? null, after[key] ?? null));
}

async function remove(target: Target, out: Output, id: string, yes: boolean): Promise<void> {
  const registry = registryOf(target);
  const found = await registry.get(checkedId(id));
  if (found === undefined) throw noSuchEndpoint(id);
  out.note(`Target: ${target.name}`);
  await out.confirm(`Remove endpoint ${id}? Events still queued or held for it will be dead-lettered; unknown ones stay, for a person to decide.`, yes);
  const answer = await registry.remove(id);
  if (answer === 'changed') throw failure(`Endpoint ${id} was changed by somebody else meanwhile; nothing was removed. Repeat the command.`);
  // What is held for it is dead-lettered when the drain comes, which may have been hours away.
  await wakeHeld(target, id, found.lane);
  out.result({ endpointId: id, removed: answer === 'removed' }, `Removed endpoint ${id}.`);
}

export function registryOf(target: Target): Registry {
  return createDynamoDbRegistry(target.db, target.endpointsTable);
}

export function checkedId(id: string): string {
  if (!idPattern.test(id)) throw usageError(`endpointId: must match [A-Za-z0-9_-]{1,128} (got ${JSON.stringify(id).slice(0, 140)})`);
  return id;
}

export function noSuchEndpoint(id: string) {
  return failure(`There is no endpoint ${id}. List them: sluice endpoint ls`);
}
