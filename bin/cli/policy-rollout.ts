import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { endpointIdOf } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import type { Registry } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { noPolicy, type NamedPolicy } from '../../lambdas/shared/core/policy.ts';
import { scheduleProblem } from '../../lambdas/shared/core/schedule.ts';
import { ulid } from '../../lambdas/shared/core/version.ts';
import { policies as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { Endpoint, Origin, StoredEndpoint } from '../../lambdas/shared/ports/index.ts';
import { keptSize, nameOf, ownSettings, policiesOf, policyOf, withPolicy, writtenOf } from './applied-policy.ts';
import { registryOf } from './endpoint-commands.ts';
import { checkedConfig, installationProblem } from './endpoint-document.ts';
import { listenForInterrupt } from './interrupt.ts';
import { CommandError, exit, type Output } from './output.ts';
import { progressBar } from './progress.ts';
import type { Target } from './target.ts';

/** Which endpoints are to get what. */
export interface Rollout {
  readonly endpointIds: readonly string[];
  /** Undefined: they are to have none. */
  readonly to: NamedPolicy | undefined;
  /** Only those that have this one when their turn comes; somebody else may have moved them. */
  readonly from?: string;
}

/** What became of one. `same`: it was there already; `newer`: it has a later version; `elsewhere`: somebody else has moved or removed it. */
type Moved = { readonly kind: 'moved' | 'same' | 'newer' | 'elsewhere' } | { readonly kind: 'failed'; readonly why: string };

/** Whether an endpoint has exactly this version, or none where none is meant. */
export function isAt({ origin }: StoredEndpoint, to: Pick<NamedPolicy, 'name' | 'version'> | undefined): boolean {
  return origin?.policy?.name === to?.name && origin?.policy?.version === to?.version;
}
const inWords = (policy: Origin['policy']) => (policy === undefined ? 'no policy' : `policy ${policy.name} v${policy.version}`);

/**
 * Writes what a policy comes to into each endpoint, one conditional write each. What is done is recognised, so that the same command
 * goes on where one was stopped or has died.
 */
export async function rollOut(target: Target, out: Output, rollout: Rollout) {
  const { endpointIds, to } = rollout;
  // So that a rollback finds what was in force, and not what was only written down.
  if (to !== undefined && endpointIds.length > 0) await policiesOf(target).noteGiven(to.name, to.version);
  const counts = { moved: 0, same: 0, newer: 0, elsewhere: 0 };
  const failed: { endpointId: string; why: string }[] = [];
  const before = cachedPolicies(target);
  const interrupt = listenForInterrupt(out);
  const startedMs = performance.now();
  let done = 0;
  const progress = (isLast: boolean) => out.progress(progressBar(done, endpointIds.length, performance.now() - startedMs), isLast);
  for (let i = 0; i < endpointIds.length && !interrupt.isAsked(); i += limits.atOnce) {
    await Promise.all(endpointIds.slice(i, i + limits.atOnce).map(async (endpointId) => {
      const moved = await move(target, endpointId, rollout, before).catch((error: unknown): Moved => ({ kind: 'failed', why: error instanceof Error ? error.message : String(error) }));
      if (moved.kind === 'failed') failed.push({ endpointId, why: moved.why });
      else counts[moved.kind]++;
      done++;
    }));
    progress(false);
  }
  interrupt.release();
  if (endpointIds.length > 0) progress(true);
  const left = endpointIds.length - done;
  failed.sort((a, b) => (a.endpointId < b.endpointId ? -1 : 1));
  return { policy: to?.name ?? noPolicy, ...(to === undefined ? {} : { version: to.version }), selected: endpointIds.length, ...counts, failed, left };
}

/** Everybody who has an older version, also those who get it while it is rolled out. */
export async function rollOutToAll(target: Target, out: Output, to: NamedPolicy, first: readonly string[]) {
  let rolledOut = await rollOut(target, out, { endpointIds: first, to, from: to.name });
  const isDone = new Set(first);
  for (;;) {
    const late = rolledOut.left > 0 ? [] : (await behind(target, to)).filter((id) => !isDone.has(id));
    if (late.length === 0) return rolledOut;
    for (const id of late) isDone.add(id);
    const more = await rollOut(target, out, { endpointIds: late, to, from: to.name });
    const sum = (key: 'selected' | 'moved' | 'same' | 'newer' | 'elsewhere' | 'left') => rolledOut[key] + more[key];
    rolledOut = { ...more, selected: sum('selected'), moved: sum('moved'), same: sum('same'), newer: sum('newer'), elsewhere: sum('elsewhere'), left: sum('left'), failed: [...rolledOut.failed, ...more.failed] };
  }
}

/** Endpoints that have a policy in an older version. */
export async function behind(target: Target, { name, version }: Pick<NamedPolicy, 'name' | 'version'>): Promise<string[]> {
  return (await registryOf(target).list()).flatMap(({ endpoint }) => {
    const has = endpoint.origin?.policy;
    return has !== undefined && nameOf(endpoint) === name && has.version < version ? [endpointIdOf(endpoint)] : [];
  });
}

export type RolledOut = Awaited<ReturnType<typeof rollOut>>;

export function rolloutLines({ policy, version, selected, moved, same, newer, elsewhere, failed, left }: RolledOut): string[] {
  const what = version === undefined ? inWords(undefined) : inWords({ name: policy, version });
  return [
    `${moved} of ${selected} endpoints have ${what} now.`,
    ...(same > 0 ? [`Had it already: ${same}.`] : []),
    ...(newer > 0 ? [`Have a newer version, and keep it: ${newer}.`] : []),
    ...(elsewhere > 0 ? [`Moved or removed by somebody else meanwhile, and left alone: ${elsewhere}.`] : []),
    ...(left > 0 ? [`Not reached: ${left}.`] : []),
    ...failed.map(({ endpointId, why }) => `Not changed: ${endpointId}: ${why}`),
  ];
}

/** @throws CommandError where a repeat has something left to do */
export function endRollout({ failed, left }: RolledOut): void {
  if (failed.length + left === 0) return;
  throw new CommandError(exit.partly, `${failed.length + left} endpoints are as they were. The same command goes on with them.`);
}

async function move(target: Target, endpointId: string, { to, from }: Rollout, policyBefore: (endpoint: StoredEndpoint) => Promise<NamedPolicy | undefined>): Promise<Moved> {
  const registry = registryOf(target);
  let why = 'somebody else writes it all the time';
  for (let tries = 0; tries < limits.tries; tries++) {
    const endpoint = (await registry.get(endpointId))?.endpoint;
    if (endpoint === undefined) return { kind: 'elsewhere' };
    const has = endpoint.origin?.policy;
    if (isAt(endpoint, to)) return { kind: 'same' };
    if (has !== undefined && has.name === to?.name && has.version > to.version) return { kind: 'newer' };
    if (from !== undefined && nameOf(endpoint) !== from && has?.name !== to?.name) return { kind: 'elsewhere' };
    const next = nextOf(target, endpoint, await policyBefore(endpoint), to);
    if (typeof next === 'string') return { kind: 'failed', why: next };
    const answer = await adjust(registry, next, endpoint.version).catch((error: unknown) => error);
    if (answer === 'written') return { kind: 'moved' };
    // A busy lane refuses by conflicts that say nothing of it.
    if (answer !== 'changed') why = answer instanceof Error ? answer.message : String(answer);
    await sleep(limits.pauseMs * (tries + 1));
  }
  return { kind: 'failed', why };
}

function adjust(registry: Registry, endpoint: Endpoint, over: string) {
  return registry.adjust({ ...endpoint, version: ulid(Date.now(), randomBytes(10)) }, over);
}

/** The endpoint with another policy below what is its own; or why it cannot have it. */
function nextOf(target: Target, endpoint: StoredEndpoint, before: NamedPolicy | undefined, to: NamedPolicy | undefined): Endpoint | string {
  if (endpoint.config === undefined) return `cannot be used as it is stored: ${endpoint.problem}. Repair it with sluice endpoint put.`;
  const checked = checkedConfig(withPolicy(writtenOf(endpoint, before), to), target);
  if (checked.config === undefined) return checked.problems.join('; ');
  const config = { ...checked.config, ...keptSize(checked.config, endpoint) };
  const older = installationProblem(config, target);
  if (older !== undefined) return older;
  // One that is short was accepted with the policy, or with what is the endpoint's own.
  const isUntouched = isDeepStrictEqual([config.retry, config.budgetsMs], [endpoint.config.retry, endpoint.config.budgetsMs]);
  const schedule = isUntouched ? undefined : scheduleProblem(config.retry, config.budgetsMs);
  if (schedule?.kind === 'long') return schedule.message;
  const { version, secrets, bodySecret } = endpoint;
  const policy = to === undefined ? undefined : { name: to.name, version: to.version };
  return { config, version, secrets, bodySecret, origin: { own: ownSettings(endpoint, before), policy } };
}

/** Many endpoints have the same few versions, which never change. */
export function cachedPolicies(target: Target) {
  const known = new Map<string, Promise<NamedPolicy | undefined>>();
  return (endpoint: StoredEndpoint): Promise<NamedPolicy | undefined> => {
    const policy = endpoint.origin?.policy;
    const key = policy === undefined ? '' : `${policy.name}#${policy.version}`;
    const found = known.get(key) ?? policyOf(target, endpoint);
    known.set(key, found);
    // One that cannot be read now may be for the next.
    found.catch(() => known.delete(key));
    return found;
  };
}
