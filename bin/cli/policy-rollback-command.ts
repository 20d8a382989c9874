import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import type { PolicyVersion } from '../../lambdas/shared/ports/index.ts';
import { policiesOf } from './applied-policy.ts';
import type { Run } from './endpoint-commands.ts';
import { failure, type Output } from './output.ts';
import { checkSettings, currentPolicy, versionNumber } from './policy-document.ts';
import { behind, endRollout, rolloutLines, rollOutToAll } from './policy-rollout.ts';
import { add } from './policy-set-command.ts';
import { addSaid, saidOf, type SaidOptions } from './said.ts';
import type { Target } from './target.ts';

interface RollbackOptions extends SaidOptions {
  to?: string;
  yes?: boolean;
}

export function addRollbackCommand(policy: Command, run: Run): void {
  addSaid(policy.command('rollback <name>').description('bring back what an earlier version of a policy said, for all endpoints that have the policy'))
    .option('--to <version>', 'which one; else the newest before the current that endpoints were given')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nIt makes a version that says what the earlier one said, and gives it to every endpoint that has the policy, whatever version of it.\nWhat endpoints have of their own stays. Safe to interrupt: the same command goes on.\n\nExample:\n  sluice policy rollback brisk --why "acme answers in 4.5 s"')
    .action((name: string, options: RollbackOptions) => run((target, out) => rollback(target, out, name, options)));
}

async function rollback(target: Target, out: Output, name: string, options: RollbackOptions): Promise<void> {
  const said = saidOf(options);
  const wanted = options.to === undefined ? undefined : versionNumber('--to', options.to);
  const current = await currentPolicy(target, name);
  const policy = await restored(target, current, wanted, said);
  out.note(`Target: ${target.name}`);
  const older = await behind(target, policy);
  const isNew = policy.version > current.version;
  if (!isNew && older.length === 0) {
    const again = current.restores === undefined ? '' : ` It brought back v${current.restores}; to go further back, say --to VERSION.`;
    throw failure(`Policy ${name} v${current.version} is that already, and every endpoint that has the policy has it.${again}`);
  }
  await out.confirm(`${isNew ? `Bring back what policy ${name} v${policy.restores ?? 0} said, as v${policy.version},` : `Go on with policy ${name} v${policy.version}`} for ${older.length} endpoints?`, options.yes ?? false);
  if (isNew) await add(target, policy);
  const rolledOut = await rollOutToAll(target, out, policy, older);
  const lines = [isNew ? `Policy ${name} v${policy.version} says what v${policy.restores ?? 0} said.` : `Went on with policy ${name} v${policy.version}.`, ...rolloutLines(rolledOut)];
  out.result({ name, version: policy.version, made: isNew, restores: policy.restores, rollout: rolledOut }, lines.join('\n'));
  endRollout(rolledOut);
}

/** The newest earlier version that anybody was given: one that was set and corrected was never in force. */
async function lastGiven(target: Target, { name, version }: PolicyVersion): Promise<number> {
  const earlier = (await policiesOf(target).versions(name)).filter((one) => one.version < version);
  return (earlier.findLast(({ isGiven }) => isGiven === true) ?? earlier.at(-1))?.version ?? 0;
}

/**
 * The version to roll out. Of a current one that is a rollback itself, without a wish, that one: a command that died is repeated as it
 * was, and must not go back to what it was to be rid of.
 */
async function restored(target: Target, current: PolicyVersion, wanted: number | undefined, said: { why: string; by: string }): Promise<PolicyVersion> {
  if (wanted === undefined && current.restores !== undefined) return current;
  const number = wanted ?? (await lastGiven(target, current));
  if (number === 0) throw failure(`Policy ${current.name} has one version only. Take it away: sluice policy assign default --from ${current.name}`);
  const earlier = number > current.version ? undefined : await policiesOf(target).version(current.name, number);
  if (earlier === undefined) throw failure(`There is no version ${number} of policy ${current.name}; the current one is v${current.version}.`);
  if (isDeepStrictEqual(earlier.settings, current.settings)) return current;
  // A schedule that is short was accepted when that version was made.
  checkSettings(earlier.settings, target, true);
  return { name: current.name, version: current.version + 1, settings: earlier.settings, ...said, atEpochMs: Date.now(), restores: number };
}
