import { createHash } from 'node:crypto';
import { endpointSchema, type EndpointConfig } from '../limits/endpoint-schema.ts';
import { problemsOf, unknownKey, type Problem } from '../limits/problems.ts';

/** Delivery settings as somebody wrote them: what is not said is not in it. */
export type Settings = Readonly<Record<string, unknown>>;

/** What a policy may hold: how deliveries are made. What belongs to one consumer alone, such as where it is and what it verifies, is no policy. */
export const sharedKeys = ['budgetsMs', 'adaptiveRead', 'retry', 'breaker', 'maxInFlight', 'maxPerSecond', 'maxPerDay', 'onRejected', 'onAmbiguous', 'maxAmbiguous'] as const satisfies readonly (keyof EndpointConfig)[];

/** Name of having none. */
export const noPolicy = 'default';

const isShared = (key: string) => sharedKeys.some((shared) => shared === key);
const part = (document: Settings, of: (key: string) => boolean): Settings => Object.fromEntries(Object.entries(document).filter(([key]) => of(key)));

export const sharedOf = (document: Settings): Settings => part(document, isShared);
export const withoutShared = (document: Settings): Settings => part(document, (key) => !isShared(key));

const someEndpoint = { endpointId: 'any', url: 'https://any.example/' };
const defaults: Settings = endpointSchema.parse(someEndpoint);
const adaptiveDefaults = endpointSchema.parse({ ...someEndpoint, adaptiveRead: {} }).adaptiveRead;

/** What is wrong with the settings of a policy; an empty list where nothing is. */
export function policyProblems(settings: Settings): Problem[] {
  // Without its value, which may be a credential.
  const strangers = Object.keys(withoutShared(settings)).map((field) => ({ field, value: undefined, bound: Object.hasOwn(defaults, field) ? 'belongs to one endpoint: a policy holds delivery settings only' : unknownKey }));
  const parsed = endpointSchema.safeParse({ ...someEndpoint, ...sharedOf(settings) });
  return [...strangers, ...(parsed.success ? [] : problemsOf(parsed.error.issues, settings))];
}

/** The configuration of an endpoint that has a policy and nothing of its own. @throws where the settings have problems */
export function configBy(settings: Settings): EndpointConfig {
  return endpointSchema.parse({ ...someEndpoint, ...sharedOf(settings) });
}

/** What stands above wins, value by value within `budgetsMs`, `retry` and the like. */
export function merged(below: Settings, above: Settings): Settings {
  const [under, over] = [scheduledBy(below, above), Object.entries(above)];
  return { ...under, ...Object.fromEntries(over.map(([key, value]) => [key, isObject(value) && isObject(under[key]) ? { ...under[key], ...value } : value])) };
}

/** A list of waits would make a backoff that stands above it mean nothing. */
function scheduledBy(below: Settings, { retry }: Settings): Settings {
  if (!isObject(retry) || !isObject(below['retry']) || 'delaysS' in retry || !['baseS', 'factor', 'capS'].some((key) => key in retry)) return below;
  const { delaysS: _, ...rest } = below['retry'];
  return { ...below, retry: rest };
}

/**
 * What is set for an endpoint itself: what was kept as that, and what of its stored configuration follows from nothing else, because a
 * program that kept nothing has written it, or a person at the table. So no write changes what nobody has named.
 */
export function ownOf(document: Settings, policy: Settings, kept: Settings): Settings {
  const expected = completed(merged(policy, kept));
  return merged(kept, Object.fromEntries(Object.entries(sharedOf(document)).flatMap(([key, value]) => {
    const other = expected[key];
    if (isObject(value) && isObject(other)) {
      const differing = Object.entries(value).filter(([name, inner]) => !isSame(inner, other[name]));
      return differing.length === 0 ? [] : [[key, Object.fromEntries(differing)]];
    }
    return isSame(value, other) ? [] : [[key, value]];
  })));
}

function completed(settings: Settings): Settings {
  const { adaptiveRead } = settings;
  return { ...merged(defaults, settings), ...(isObject(adaptiveRead) ? { adaptiveRead: { ...adaptiveDefaults, ...adaptiveRead } } : {}) };
}

export interface NamedPolicy {
  readonly name: string;
  readonly version: number;
  readonly settings: Settings;
}

/** Keys that say who or where an endpoint is, or how it stands: they are always its own. */
const identity = ['endpointId', 'url', 'tenantId', 'status', 'pauses', 'disabledFor', 'policy', 'autoLane'];

/** Where each setting comes from that is no default, by its dotted name: `own`, or a policy and its version. */
export function originsOf(config: Settings, own: Settings, policy: NamedPolicy | undefined): Record<string, string> {
  const others = Object.entries(withoutShared(config)).filter(([key, value]) => !identity.includes(key) && !isSame(value, defaults[key]));
  const shared = Object.keys(sharedOf(config)).flatMap((key) => leavesOf(key, config[key]).map((path) => ({ key, path }))).flatMap(({ key, path }): [string, string][] => {
    // Of a policy that names bounds, `{}` of its own leaves them as they are.
    if (names(own, path, !isObject(policy?.settings[key]))) return [[path, 'own']];
    return policy !== undefined && names(policy.settings, path) ? [[path, `policy ${policy.name} v${policy.version}`]] : [];
  });
  return Object.fromEntries([...others.map(([key]): [string, string] => [key, 'own']), ...shared]);
}

const leavesOf = (key: string, value: unknown) => (isObject(value) ? Object.keys(value).map((inner) => `${key}.${inner}`) : [key]);

/** Whether settings decide a value: by itself, or as all of what it is in. */
function names(settings: Settings, path: string, isNothing = true): boolean {
  const [key = '', inner] = path.split('.');
  const value = settings[key];
  if (value === undefined) return false;
  return inner === undefined || !isObject(value) || inner in value || (key === 'adaptiveRead' && isNothing && Object.keys(value).length === 0);
}

/**
 * Whether an endpoint is among so many of a hundred: always the same ones for a policy, or for a version that those are to get who
 * have the policy, so that a larger share adds to them.
 */
export function isInShare(of: string, endpointId: string, percent: number): boolean {
  return createHash('sha256').update(`${of}#${endpointId}`).digest().readUInt32BE(0) / 2 ** 32 < percent / 100;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const isSame = (a: unknown, b: unknown) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
