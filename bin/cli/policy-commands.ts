import type { Command } from 'commander';
import { noPolicy } from '../../lambdas/shared/core/policy.ts';
import { nameOf, policiesOf } from './applied-policy.ts';
import { registryOf, type Run } from './endpoint-commands.ts';
import { failure, table, time, type Output } from './output.ts';
import { addAssignCommand } from './policy-assign-command.ts';
import { addCheckCommand } from './policy-check-command.ts';
import { currentPolicy, versionNumber } from './policy-document.ts';
import { addRollbackCommand } from './policy-rollback-command.ts';
import { addSetCommand } from './policy-set-command.ts';
import type { Target } from './target.ts';

export function addPolicyCommands(program: Command, run: Run): void {
  const policy = program
    .command('policy')
    .description('name delivery settings that endpoints share, and roll them out, without a deploy')
    .addHelpText('after', `
A policy holds budgetsMs, adaptiveRead, retry, breaker, maxInFlight, maxPerSecond, maxPerDay, onRejected, onAmbiguous and maxAmbiguous,
or some of them. What an endpoint has of its own (sluice endpoint put ID --set) wins over its policy, and its policy over the defaults.
sluice endpoint get ID says where each setting comes from.

From a question to all customers:
  sluice policy check --set budgetsMs.read=5000                       # whom would five seconds have cut off?
  sluice policy set brisk --set budgetsMs.read=5000 --why "ticket 9"  # version 1; nobody has it yet
  sluice policy assign brisk --from default --percent 10              # a tenth of those that have none
  sluice policy set brisk --set budgetsMs.read=4000 --why "ticket 9" --rollout
  sluice policy rollback brisk --why "acme answers in 4.5 s"          # as it was before, for all that have it`);

  policy
    .command('ls')
    .description('list policies, with how many endpoints have each, and how many an older version of it')
    .action(() => run((target, out) => list(target, out)));

  policy
    .command('get <name> [version]')
    .description('show what a policy says, and its versions; a version before the current one by its number')
    .action((name: string, version: string | undefined) => run((target, out) => get(target, out, name, version)));

  addSetCommand(policy, run);
  addCheckCommand(policy, run);
  addAssignCommand(policy, run);
  addRollbackCommand(policy, run);
}

async function list(target: Target, out: Output): Promise<void> {
  const [policies, endpoints] = await Promise.all([policiesOf(target).list(), registryOf(target).list()]);
  const having = Map.groupBy(endpoints, ({ endpoint }) => nameOf(endpoint));
  const shown = policies.map(({ settings: _, ...policy }) => {
    const all = having.get(policy.name) ?? [];
    return { ...policy, endpoints: all.length, older: all.filter(({ endpoint }) => (endpoint.origin?.policy?.version ?? 0) < policy.version).length };
  });
  const rows = shown.map((p) => [p.name, String(p.version), String(p.endpoints), String(p.older), time(p.atEpochMs), p.by, p.why]);
  const none = (having.get(noPolicy) ?? []).length;
  const human = rows.length === 0 ? 'No policies. Make one: sluice policy set NAME --set KEY=VALUE --why TEXT' : `${table(['POLICY', 'VERSION', 'ENDPOINTS', 'ON AN OLDER', 'SINCE', 'BY', 'WHY'], rows)}\nEndpoints without one: ${none}.`;
  out.result({ policies: shown, withoutPolicy: none }, human);
}

async function get(target: Target, out: Output, name: string, version: string | undefined): Promise<void> {
  const current = await currentPolicy(target, name);
  const wanted = version === undefined ? current : await policiesOf(target).version(name, versionNumber('version', version));
  if (wanted === undefined) throw failure(`There is no version ${version ?? ''} of policy ${name}; the current one is v${current.version}.`);
  const versions = (await policiesOf(target).versions(name)).map(({ settings: _, name: _name, ...rest }) => rest);
  const rows = versions.map((v) => [`v${v.version}${v.version === current.version ? ' (current)' : ''}`, time(v.atEpochMs), v.by, v.restores === undefined ? v.why : `${v.why} (as v${v.restores})`]);
  out.result({ ...wanted, current: current.version, versions }, `Policy ${name} v${wanted.version}:\n${JSON.stringify(wanted.settings, null, 2)}\n\n${table(['VERSION', 'SINCE', 'BY', 'WHY'], rows)}`);
}
