import { endpointSchema, secretsSchema, type EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { formatProblem, problemsOf } from '../../lambdas/shared/limits/problems.ts';
import { checkBudgets, type FunctionLimits } from '../../lambdas/shared/limits/relations.ts';
import { usageError } from './output.ts';

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

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The document as a complete configuration that fits the function's timeout, or an error with every field, value and bound (T3). */
export function parseConfig(document: Document, limits: FunctionLimits): EndpointConfig {
  const parsed = endpointSchema.safeParse(document);
  if (!parsed.success) throw refused(problemsOf(parsed.error.issues, document).map(formatProblem));
  const sums = checkBudgets(parsed.data.budgetsMs, limits);
  if (sums.length > 0) throw refused(sums.map((violation) => violation.message));
  return parsed.data;
}

export function parseSecrets(secrets: readonly string[]): string[] {
  const parsed = secretsSchema.safeParse(secrets);
  // The value is left out: an error must not print a secret.
  if (!parsed.success) throw refused(parsed.error.issues.map((issue) => `secret: ${issue.message}`));
  return parsed.data;
}

function refused(lines: readonly string[]) {
  return usageError(`Refused, nothing was written:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}
