import type { Command } from 'commander';
import { configBy, noPolicy, policyProblems, type Settings } from '../../lambdas/shared/core/policy.ts';
import { scheduleProblem } from '../../lambdas/shared/core/schedule.ts';
import type { EndpointConfig } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { idPattern } from '../../lambdas/shared/limits/message-schema.ts';
import { formatProblem } from '../../lambdas/shared/limits/problems.ts';
import { checkBudgets } from '../../lambdas/shared/limits/relations.ts';
import type { PolicyVersion } from '../../lambdas/shared/ports/index.ts';
import { policiesOf } from './applied-policy.ts';
import { wholeNumber } from './dlq-selection.ts';
import { documentIn, installationProblem, refused, withoutSettings, withSettings } from './endpoint-document.ts';
import { failure, usageError } from './output.ts';
import type { Target } from './target.ts';

/** Options by which the settings of a policy are written. */
export interface SettingsOptions {
  file?: string;
  set: string[];
  unset: string[];
}

const collect = (value: string, before: string[]) => [...before, value];

export function addSettings(command: Command): Command {
  return command
    .option('--file <file>', 'all settings as a JSON object; - reads standard input')
    .option('--set <key=value>', 'change one setting, such as budgetsMs.read=5000 (repeatable)', collect, [])
    .option('--unset <key>', 'say nothing of a setting any more (repeatable)', collect, []);
}

export function saysSettings({ file, set, unset }: SettingsOptions): boolean {
  return file !== undefined || set.length > 0 || unset.length > 0;
}

/** The settings that options ask for, from what a policy says now unless a file says all. @throws CommandError with each field, value and bound */
export async function settingsFrom(options: SettingsOptions, current: Settings): Promise<Settings> {
  const base = options.file === undefined ? current : await documentIn(options.file);
  const settings = withoutSettings(withSettings({ ...base }, options.set), options.unset);
  const problems = policyProblems(settings).map(formatProblem);
  if (problems.length > 0) throw refused(problems);
  return settings;
}

/** Refuses settings by which an endpoint that has nothing of its own could not be delivered to here (T3, T4). */
export function checkSettings(settings: Settings, target: Target, acceptsShort: boolean): EndpointConfig {
  if (Object.keys(settings).length === 0) throw usageError('Refused, nothing was written: a policy must say something. Endpoints without one take the defaults.');
  const config = configBy(settings);
  const schedule = scheduleProblem(config.retry, config.budgetsMs);
  const isWanted = schedule?.kind === 'short' && acceptsShort;
  const older = installationProblem(config, target);
  const lines = [
    ...checkBudgets(config.budgetsMs, target.deliverLimits).map(({ message }) => message),
    ...(schedule === undefined || isWanted ? [] : [schedule.kind === 'short' ? `${schedule.message}; or say --short-retries if that is wanted` : schedule.message]),
    ...(older === undefined ? [] : [older]),
  ];
  if (lines.length > 0) throw refused(lines);
  return config;
}

export function checkedName(name: string): string {
  if (!idPattern.test(name)) throw usageError(`policy: must match [A-Za-z0-9_-]{1,128} (got ${JSON.stringify(name).slice(0, 140)})`);
  if (name === noPolicy) throw usageError(`policy: "${noPolicy}" is the name of having none`);
  return name;
}

/** `3`, or `v3` as it is shown. */
export function versionNumber(option: string, text: string): number {
  return wholeNumber(option, text.replace(/^v/, ''));
}

export async function currentPolicy(target: Target, name: string): Promise<PolicyVersion> {
  const current = await policiesOf(target).current(checkedName(name));
  if (current === undefined) throw failure(`There is no policy ${name}. List them: sluice policy ls`);
  return current;
}
