import type { Command } from 'commander';
import { endpointIdOf } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import type { Registered } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { isInShare, noPolicy } from '../../lambdas/shared/core/policy.ts';
import { nameOf, policiesOf } from './applied-policy.ts';
import { checkedId, noSuchEndpoint, registryOf, type Run } from './endpoint-commands.ts';
import { usageError, type Output } from './output.ts';
import { currentPolicy } from './policy-document.ts';
import { endRollout, isAt, rolloutLines, rollOut } from './policy-rollout.ts';
import type { Target } from './target.ts';

interface CohortOptions {
  all?: boolean;
  tenant?: string;
  from?: string;
  percent?: string;
}

export function addAssignCommand(policy: Command, run: Run): void {
  policy
    .command('assign <name> [ids...]')
    .description(`move endpoints to the current version of a policy; to "${noPolicy}": to none`)
    .option('--all', 'every endpoint')
    .option('--tenant <id>', 'those of this tenant')
    .option('--from <policy>', `those that have this policy, or "${noPolicy}" for none; of the policy itself: those that have an older version`)
    .option('--percent <n>', 'of these only about so many of a hundred; always the same ones (for a version, those of the version), so that a larger number adds to them')
    .option('--yes', 'do not ask')
    .addHelpText('after', `
Each endpoint is written by itself, over exactly what was read; what it has of its own stays, and wins. One that could not be used with
the policy is left as it is, and named at the end. Safe to interrupt (Ctrl-C): the same command goes on.

Examples:
  sluice policy assign patient acme-prod beta-prod
  sluice policy assign brisk --from ${noPolicy} --percent 10
  sluice policy assign brisk --from brisk                    # roll its newest version out
  sluice policy assign ${noPolicy} --from brisk                  # take it away`)
    .action((name: string, ids: string[], options: CohortOptions & { yes?: boolean }) => run((target, out) => assign(target, out, name, ids, options)));
}

async function assign(target: Target, out: Output, name: string, ids: readonly string[], options: CohortOptions & { yes?: boolean }): Promise<void> {
  const percent = checkedPercent(options.percent);
  checkCohort(ids, options);
  const to = name === noPolicy ? undefined : await currentPolicy(target, name);
  if (options.from !== undefined && options.from !== noPolicy) await currentPolicy(target, options.from);
  // Those that have the policy were a share of it already: of them another one is drawn.
  const share = options.from === name && to !== undefined ? `${name}#v${to.version}` : name;
  const cohort = (await cohortOf(target, ids, options)).filter(({ endpoint }) => isInShare(share, endpointIdOf(endpoint), percent));
  const endpointIds = idsOf(cohort);
  const pending = idsOf(cohort.filter(({ endpoint }) => !isAt(endpoint, to)));
  out.note(`Target: ${target.name}`);
  const what = to === undefined ? 'no policy' : `policy ${name} v${to.version}`;
  if (pending.length > 0) await out.confirm(`Give ${what} to ${pending.length === 1 ? `endpoint ${pending[0] ?? ''}` : `${pending.length} endpoints`}?`, options.yes ?? false);
  const rolledOut = await rollOut(target, out, { endpointIds, to, ...(options.from === undefined ? {} : { from: options.from }) });
  out.result(rolledOut, endpointIds.length === 0 ? 'No endpoint is meant: nothing was changed.' : rolloutLines(rolledOut).join('\n'));
  const now = to === undefined ? undefined : await policiesOf(target).current(name);
  if (now !== undefined && now.version !== to?.version) out.note(`Somebody else has made policy ${name} v${now.version} meanwhile. The same command rolls that out.`);
  endRollout(rolledOut);
}

const idsOf = (some: readonly Registered[]) => some.map(({ endpoint }) => endpointIdOf(endpoint));

function checkCohort(ids: readonly string[], { all, tenant, from }: CohortOptions): void {
  const isNarrowed = tenant !== undefined || from !== undefined;
  if (ids.length === 0 && all !== true && !isNarrowed) throw usageError('Say which endpoints: IDs, --all, --tenant or --from.');
  if ((ids.length > 0 && (all === true || isNarrowed)) || (all === true && isNarrowed)) throw usageError('Give IDs, or --all, or --tenant and --from.');
}

/** @throws CommandError of an id that nobody has registered, before anything is written */
async function cohortOf(target: Target, ids: readonly string[], { tenant, from }: CohortOptions): Promise<Registered[]> {
  if (ids.length > 0) {
    return Promise.all([...new Set(ids.map(checkedId))].map(async (id) => {
      const found = await registryOf(target).get(id);
      if (found === undefined) throw noSuchEndpoint(id);
      return found;
    }));
  }
  const isMeant = ({ endpoint }: Registered) => (tenant === undefined || endpoint.config?.tenantId === tenant) && (from === undefined || nameOf(endpoint) === from);
  return (await registryOf(target).list()).filter(isMeant);
}

function checkedPercent(text = '100'): number {
  const percent = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && percent > 0 && percent <= 100) return percent;
  throw usageError(`--percent: must be more than 0 and at most 100 (got ${text})`);
}
