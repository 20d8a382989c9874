import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import type { PolicyVersion } from '../../lambdas/shared/ports/index.ts';
import { policiesOf } from './applied-policy.ts';
import type { Run } from './endpoint-commands.ts';
import { failure, usageError, type Output } from './output.ts';
import { addSettings, checkedName, checkSettings, saysSettings, settingsFrom, type SettingsOptions } from './policy-document.ts';
import { behind, endRollout, rolloutLines, rollOutToAll } from './policy-rollout.ts';
import { addSaid, saidOf, type SaidOptions } from './said.ts';
import type { Target } from './target.ts';

interface SetOptions extends SettingsOptions, SaidOptions {
  shortRetries?: boolean;
  rollout?: boolean;
  yes?: boolean;
}

export function addSetCommand(policy: Command, run: Run): void {
  addSaid(addSettings(policy.command('set <name>').description('make a version of a policy: from the current one with --set and --unset, or whole with --file')))
    .option('--short-retries', 'accept a retry schedule that gives up long before its age limit, retry.maxAgeS')
    .option('--rollout', 'and give it to all endpoints that have the policy')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nAlone it changes no endpoint. Versions stay: sluice policy get NAME shows them, sluice policy rollback NAME goes back.\n\nExamples:\n  sluice policy set patient --set budgetsMs.read=14000 --set maxInFlight=4 --why "slow ERP systems"\n  sluice policy set patient --file patient.json --why "ticket 4711" --rollout')
    .action((name: string, options: SetOptions) => run((target, out) => set(target, out, checkedName(name), options)));
}

async function set(target: Target, out: Output, name: string, options: SetOptions): Promise<void> {
  if (!saysSettings(options)) throw usageError('Nothing to set: give --file, --set or --unset.');
  const said = saidOf(options);
  const before = await policiesOf(target).current(name);
  const settings = await settingsFrom(options, before?.settings ?? {});
  checkSettings(settings, target, options.shortRetries ?? false);
  // So that the same command, after one that died amid its rollout, goes on with that version.
  const isSame = before !== undefined && isDeepStrictEqual(before.settings, settings);
  const policy = isSame ? before : { name, version: (before?.version ?? 0) + 1, settings, ...said, atEpochMs: Date.now() };
  out.note(`Target: ${target.name}`);
  const older = await behind(target, policy);
  if (options.rollout === true && older.length > 0) {
    await out.confirm(`${isSame ? '' : `Make policy ${name} v${policy.version}, and `}${isSame ? 'Give' : 'give'} it to ${older.length} endpoints that have an older version?`, options.yes ?? false);
  }
  if (!isSame) await add(target, policy);
  const made = isSame ? `Policy ${name} v${policy.version} says that already: no version was made.` : `Made policy ${name} v${policy.version}.`;
  const shown = { name, version: policy.version, made: !isSame, older: older.length };
  if (options.rollout !== true) {
    return out.result(shown, [made, ...(older.length === 0 ? [] : [`${older.length} endpoints have an older version. Roll out: sluice policy assign ${name} --from ${name}, with --percent 10 for a tenth of them first.`]), ...(before === undefined ? [`Nobody has it yet. Move endpoints to it: sluice policy assign ${name} ID`] : [])].join('\n'));
  }
  const rolledOut = await rollOutToAll(target, out, policy, older);
  out.result({ ...shown, rollout: rolledOut }, [made, ...rolloutLines(rolledOut)].join('\n'));
  endRollout(rolledOut);
}

/** @throws CommandError where somebody else has made the version meanwhile */
export async function add(target: Target, policy: PolicyVersion): Promise<void> {
  if ((await policiesOf(target).add(policy)) === 'changed') {
    throw failure(`Somebody else has made policy ${policy.name} v${policy.version} meanwhile; nothing was written. Look with sluice policy get ${policy.name}, and repeat the command.`);
  }
}
