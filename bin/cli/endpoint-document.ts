import { isDeepStrictEqual } from 'node:util';
import { destinationProblem } from '../../lambdas/shared/core/address.ts';
import { lookUrl } from '../../lambdas/shared/core/lookup.ts';
import { scheduleProblem } from '../../lambdas/shared/core/schedule.ts';
import type { EgressRules } from '../../lambdas/shared/limits/egress.ts';
import { endpointSchema, secretsSchema, type EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { endpoint } from '../../lambdas/shared/limits/numbers.ts';
import { formatProblem, problemsOf } from '../../lambdas/shared/limits/problems.ts';
import { checkBudgets, type FunctionLimits } from '../../lambdas/shared/limits/relations.ts';
import { formatBodySecret, formatSecret, parseBodySecret } from '../../lambdas/shared/limits/secret.ts';
import { readInput, usageError } from './output.ts';
import { knowsUnknown, type Target } from './target.ts';

type Document = Record<string, unknown>;

/** Applies `key=value` settings; keys may be dotted, values are JSON where they parse as such, else text. */
export function withSettings(document: Document, settings: readonly string[]): Document {
  const result = structuredClone(document);
  for (const setting of settings) {
    const at = setting.indexOf('=');
    if (at < 1) throw usageError(`--set ${setting}: write it as key=value`);
    assign(result, setting.slice(0, at).split('.'), jsonOrText(setting.slice(at + 1)));
  }
  return result;
}

function assign(target: Document, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path;
  if (key === '__proto__') throw usageError('--set __proto__: unknown key');
  if (rest.length === 0) {
    target[key] = value;
    return;
  }
  const inner = target[key];
  const next: Document = typeof inner === 'object' && inner !== null ? (inner as Document) : {};
  target[key] = next;
  assign(next, rest, value);
}

/** Takes settings away by their dotted keys; what nothing is left of goes too. */
export function withoutSettings(document: Document, keys: readonly string[]): Document {
  const result = structuredClone(document);
  for (const key of keys) {
    const [name = '', inner, ...deeper] = key.split('.');
    const value = result[name];
    const holder = inner === undefined ? result : value;
    const last = inner ?? name;
    if (deeper.length > 0 || typeof holder !== 'object' || holder === null || !Object.hasOwn(holder, last)) throw usageError(`--unset ${key}: is not set here`);
    delete (holder as Document)[last];
    if (Object.keys(holder).length === 0) delete result[name];
  }
  return result;
}

/** A JSON object, as `--file` names one. */
export async function documentIn(file: string): Promise<Document> {
  const source = await readInput('--file', file);
  let document: unknown;
  try {
    document = JSON.parse(source);
  } catch (error) {
    throw usageError(`--file ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof document !== 'object' || document === null || Array.isArray(document)) throw usageError(`--file ${file}: must hold a JSON object`);
  return document as Document;
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** What a configuration must fit in the installation that it is for. */
export interface StageBounds {
  readonly deliverLimits: FunctionLimits;
  readonly egress: EgressRules;
}

/**
 * The document as a complete configuration that fits the stage, or an error with every field, value and bound (T3, T8). A
 * disabled endpoint need not fit: a stage may have been narrowed since it was stored, and it can be disabled all the same.
 */
export function parseConfig(document: Document, stage: StageBounds): EndpointConfig {
  const checked = checkedConfig(document, stage);
  if (checked.config === undefined) throw refused(checked.problems);
  return checked.config;
}

export type Checked = { readonly config: EndpointConfig } | { readonly config: undefined; readonly problems: readonly string[] };

/** As `parseConfig`, for one of many: what is wrong with it is said in the end. */
export function checkedConfig(document: Document, stage: StageBounds): Checked {
  const parsed = endpointSchema.safeParse(document);
  if (!parsed.success) return { config: undefined, problems: problemsOf(parsed.error.issues, document).map(formatProblem) };
  if (parsed.data.status === 'disabled') return { config: parsed.data };
  const lines = checkBudgets(parsed.data.budgetsMs, stage.deliverLimits).map((violation) => violation.message);
  const destination = destinationProblem(new URL(parsed.data.url), stage.egress);
  if (destination !== undefined) lines.unshift(`url: ${destination}`);
  const { lookup } = parsed.data;
  const looked = lookup === null ? undefined : lookUrl(lookup, 'evt', 'ref');
  const lookedAt = looked?.ok === true ? destinationProblem(looked.url, stage.egress) : undefined;
  if (lookedAt !== undefined) lines.push(`lookup.url: ${lookedAt}`);
  return lines.length > 0 ? { config: undefined, problems: lines } : { config: parsed.data };
}

/** Why the functions of an installation could not deliver by a configuration, where they are older than this program. */
export function installationProblem(config: EndpointConfig, target: Target): string | undefined {
  const known = [
    [knowsUnknown(target) || !(config.onAmbiguous === 'reconcile' || config.maxAmbiguous !== null || config.lookup !== null), 'onAmbiguous "reconcile", maxAmbiguous or lookup'],
    [(config.adaptiveRead === null && !config.autoLane && config.maxPerDay === null) || target.fleetSlots !== undefined, 'adaptiveRead, no maxPerDay and no maxInFlight "auto"'],
  ] as const;
  const unknown = known.find(([isKnown]) => !isKnown);
  return unknown === undefined ? undefined : `${target.name} runs an older version, which knows no ${unknown[1]}. Deploy this one first.`;
}

/**
 * Refuses a retry schedule that its age limit cuts off, or that gives up long before it unless that is wanted (T4). One that is
 * stored already, as it is, is left alone: another field must be changeable beside it.
 */
export function checkSchedule(config: EndpointConfig, before: EndpointConfig | undefined, acceptsShort: boolean): void {
  const { retry, budgetsMs } = config;
  if (before !== undefined && isDeepStrictEqual([before.retry, before.budgetsMs], [retry, budgetsMs])) return;
  const problem = scheduleProblem(retry, budgetsMs);
  if (problem === undefined || (problem.kind === 'short' && acceptsShort)) return;
  throw refused([problem.kind === 'short' ? `${problem.message}; or say --short-retries if that is wanted` : problem.message]);
}

function parseSecrets(secrets: readonly string[]): string[] {
  const parsed = secretsSchema.safeParse(secrets);
  // The value is left out: an error must not print a secret.
  if (!parsed.success) throw refused(parsed.error.issues.map((issue) => `secret: ${issue.message}`));
  return parsed.data;
}

function parseBody(secret: string): string {
  const parsed = parseBodySecret(secret);
  if (!parsed.ok) throw refused([`bodySecret: ${parsed.problem}`]);
  return parsed.secret;
}

/** The secrets that an endpoint is stored with, and those of them that were made just now. */
export interface Secrets {
  readonly secrets: readonly string[];
  readonly bodySecret: string | undefined;
  readonly made: { readonly secret?: string; readonly bodySecret?: string };
}

/**
 * Imported secrets replace the stored ones of their kind; a kind that has none is made if a scheme of `signing` needs it. What
 * no scheme needs is kept, so that going back to an older scheme needs no new secret. `random` gives so many random bytes.
 */
export function secretsFor(
  signing: EndpointConfig['signing'],
  stored: Pick<Secrets, 'secrets' | 'bodySecret'> | undefined,
  imported: { secrets: readonly string[]; bodySecret: string | undefined },
  random: (bytes: number) => Buffer,
): Secrets {
  const uses = (scheme: EndpointConfig['signing'][number]['scheme']) => signing.some((s) => s.scheme === scheme);
  const secrets = imported.secrets.length > 0 ? parseSecrets(imported.secrets) : (stored?.secrets ?? []);
  const bodySecret = imported.bodySecret !== undefined ? parseBody(imported.bodySecret) : stored?.bodySecret;
  if (bodySecret === undefined && uses('hmac-body')) {
    throw refused(['bodySecret: the scheme "hmac-body" needs the secret that the receiver verifies with: import it with --body-secret @FILE or -']);
  }
  const made = {
    ...(secrets.length === 0 && uses('standard') ? { secret: formatSecret(random(endpoint.madeSecretBytes)) } : {}),
    ...(bodySecret === undefined && uses('hub256') ? { bodySecret: formatBodySecret(random(endpoint.madeSecretBytes)) } : {}),
  };
  return { secrets: made.secret === undefined ? secrets : [made.secret], bodySecret: made.bodySecret ?? bodySecret, made };
}

export function refused(lines: readonly string[]) {
  return usageError(`Refused, nothing was written:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}
