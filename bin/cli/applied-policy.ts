import { createDynamoDbPolicies } from '../../lambdas/shared/adapters/dynamodb-policies.ts';
import { merged, noPolicy, originsOf, ownOf, sharedOf, withoutShared, type NamedPolicy, type Settings } from '../../lambdas/shared/core/policy.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { autoLane as limits } from '../../lambdas/shared/limits/numbers.ts';
import type { Policies, StoredEndpoint } from '../../lambdas/shared/ports/index.ts';
import type { Target } from './target.ts';

export function policiesOf(target: Target): Policies {
  return createDynamoDbPolicies(target.db, target.endpointsTable);
}

export const nameOf = ({ origin }: StoredEndpoint): string => origin?.policy?.name ?? noPolicy;

/** As operators write it: of a lane that sizes itself no size. */
export function asWritten({ autoLane, ...document }: Settings): Settings {
  return autoLane === true ? { ...document, maxInFlight: 'auto' } : document;
}

/** A lane that sizes itself begins with the size that it has, or goes on with it. */
export function keptSize(config: EndpointConfig, before: StoredEndpoint | undefined): Partial<Pick<EndpointConfig, 'maxInFlight'>> {
  if (!config.autoLane || before?.config === undefined) return {};
  const { maxInFlight, autoLane: isAuto } = before.config;
  return { maxInFlight: isAuto ? maxInFlight : Math.max(maxInFlight, limits.leastSlots) };
}

/** What an endpoint is stored as; of one that is valid, with its defaults. */
export function documentOf(endpoint: StoredEndpoint): Settings {
  return asWritten(endpoint.config ?? endpoint.document);
}

/** The version that an endpoint has, with what it says: nothing where somebody has removed it, and then all that it said is the endpoint's own. */
export async function policyOf(target: Target, { origin }: StoredEndpoint): Promise<NamedPolicy | undefined> {
  if (origin?.policy === undefined) return undefined;
  const { name, version } = origin.policy;
  return { name, version, settings: (await policiesOf(target).version(name, version))?.settings ?? {} };
}

/** What is set for a stored endpoint itself. */
export function ownSettings(endpoint: StoredEndpoint, policy: NamedPolicy | undefined): Settings {
  return ownOf(documentOf(endpoint), policy?.settings ?? {}, endpoint.origin?.own ?? {});
}

/** A stored endpoint as its operator has written it: without what comes from a policy or the defaults. */
export function writtenOf(endpoint: StoredEndpoint, policy: NamedPolicy | undefined): Settings {
  return { ...withoutShared(documentOf(endpoint)), ...ownSettings(endpoint, policy) };
}

/** The document of an endpoint with what its policy says below what is its own. */
export function withPolicy(written: Settings, policy: Pick<NamedPolicy, 'settings'> | undefined): Record<string, unknown> {
  return { ...withoutShared(written), ...merged(policy?.settings ?? {}, sharedOf(written)) };
}

/** Policy, version and origins, beside the configuration that applies. */
export async function shownPolicy(target: Target, endpoint: StoredEndpoint) {
  const policy = await policyOf(target, endpoint);
  return {
    policy: policy?.name ?? noPolicy,
    ...(policy === undefined ? {} : { policyVersion: policy.version }),
    ...(endpoint.config === undefined ? {} : { origins: originsOf(documentOf(endpoint), ownSettings(endpoint, policy), policy) }),
  };
}
