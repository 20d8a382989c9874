import type { Command } from 'commander';
import { answersSince } from '../../lambdas/shared/adapters/dynamodb-ended-windows.ts';
import { endpointIdOf } from '../../lambdas/shared/adapters/dynamodb-endpoints.ts';
import type { Registered } from '../../lambdas/shared/adapters/dynamodb-registry.ts';
import { cutOffBy, longestAnswerMs, type CutOff } from '../../lambdas/shared/core/cut-off.ts';
import type { Settings } from '../../lambdas/shared/core/policy.ts';
import { mergedBins } from '../../lambdas/shared/core/statistics.ts';
import { policies as limits } from '../../lambdas/shared/limits/numbers.ts';
import { withPolicy, writtenOf } from './applied-policy.ts';
import { wholeNumber } from './dlq-selection.ts';
import { checkedId, noSuchEndpoint, registryOf, type Run } from './endpoint-commands.ts';
import { checkedConfig } from './endpoint-document.ts';
import { listenForInterrupt } from './interrupt.ts';
import { CommandError, exit, failure, table, usageError, type Output } from './output.ts';
import { addSettings, currentPolicy, saysSettings, settingsFrom, type SettingsOptions } from './policy-document.ts';
import { cachedPolicies } from './policy-rollout.ts';
import { progressBar } from './progress.ts';
import type { Target } from './target.ts';

interface CheckOptions extends SettingsOptions {
  endpoint?: string;
  days: string;
}

export function addCheckCommand(policy: Command, run: Run): void {
  addSettings(policy.command('check [name]').description('say which endpoints\' deliveries that arrived a policy would have cut off, and how many; it changes nothing'))
    .option('--endpoint <id>', 'of this endpoint alone')
    .option('--days <n>', `what was measured in so many days, at most ${limits.maxCheckDays}`, String(limits.checkDays))
    .addHelpText('after', `
It counts answers that took longer than the read budget (the longest one, with adaptiveRead) or the total budget, whichever is shorter,
that each endpoint would have: what is its own wins over the policy. Durations are recorded from the socket on and within 5 %, by bins of
which each counts as a whole; of an endpoint with very many different ones some are counted up to a third too long. So the numbers are
rather too large than too small. What was cut off by the budget that an endpoint has now is no answer, and cannot be seen here.

Examples:
  sluice policy check brisk
  sluice policy check brisk --set budgetsMs.read=4000
  sluice policy check --set budgetsMs.read=5000 --endpoint acme-prod --days 30`)
    .action((name: string | undefined, options: CheckOptions) => run((target, out) => check(target, out, name, options)));
}

type Answer = { readonly endpointId: string } & (CutOff | { readonly problem: string });

async function check(target: Target, out: Output, name: string | undefined, options: CheckOptions): Promise<void> {
  if (name === undefined && !saysSettings(options)) throw usageError('Nothing to check: name a policy, or give --file or --set.');
  const days = wholeNumber('--days', options.days, limits.maxCheckDays);
  const id = options.endpoint === undefined ? undefined : checkedId(options.endpoint);
  const settings = await settingsFrom(options, name === undefined ? {} : (await currentPolicy(target, name)).settings);
  const unjudged = ['connection', 'setup', 'write'].filter((phase) => phase in ((settings['budgetsMs'] as object | undefined) ?? {}));
  if (unjudged.length > 0) out.note(`Of the budgets only read and total are judged: of ${unjudged.join(', ')} nothing is recorded by itself.`);
  if (target.statisticsTable === undefined) throw failure(`${target.name} runs an older version, which measures nothing.`);
  const asked: Asked = { target, statisticsTable: target.statisticsTable, settings, sinceEpochMs: Date.now() - days * 86_400_000, policyBefore: cachedPolicies(target) };
  const endpoints = await chosen(target, id);
  const interrupt = listenForInterrupt(out);
  const [answers, startedMs] = [[] as Answer[], performance.now()];
  for (let i = 0; i < endpoints.length && !interrupt.isAsked(); i += limits.atOnce) {
    answers.push(...(await Promise.all(endpoints.slice(i, i + limits.atOnce).map((registered) => answerFor(asked, registered)))));
    out.progress(progressBar(answers.length, endpoints.length, performance.now() - startedMs), answers.length === endpoints.length);
  }
  interrupt.release();
  answers.sort(worstFirst);
  out.result({ ...(name === undefined ? {} : { policy: name }), settings, days, accuracy: 0.05, endpoints: answers, left: endpoints.length - answers.length }, linesOf(answers, days).join('\n'));
  if (answers.length < endpoints.length) throw new CommandError(exit.partly, `${endpoints.length - answers.length} endpoints were not looked at.`);
}

async function chosen(target: Target, id: string | undefined): Promise<Registered[]> {
  if (id === undefined) return registryOf(target).list();
  const found = await registryOf(target).get(id);
  if (found === undefined) throw noSuchEndpoint(id);
  return [found];
}

interface Asked {
  readonly target: Target;
  readonly statisticsTable: string;
  readonly settings: Settings;
  readonly sinceEpochMs: number;
  readonly policyBefore: ReturnType<typeof cachedPolicies>;
}

/** By the configuration that the endpoint would have. What its lane counts just now is in no window that has ended. */
async function answerFor({ target, statisticsTable, settings, sinceEpochMs, policyBefore }: Asked, { endpoint, lane }: Registered): Promise<Answer> {
  const endpointId = endpointIdOf(endpoint);
  const checked = checkedConfig(withPolicy(writtenOf(endpoint, await policyBefore(endpoint)), { settings }), target);
  if (checked.config === undefined) return { endpointId, problem: checked.problems.join('; ') };
  try {
    const ended = await answersSince(target.db, statisticsTable, endpointId, sinceEpochMs);
    // Read after the windows that have ended: one that was put away meanwhile is not there any more.
    const now = (await registryOf(target).get(endpointId))?.lane ?? lane;
    return { endpointId, ...cutOffBy(longestAnswerMs(checked.config), mergedBins(ended, now.window?.answers ?? new Map<number, number>())) };
  } catch (error) {
    return { endpointId, problem: `its windows cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function worstFirst(a: Answer, b: Answer): number {
  const rank = (answer: Answer) => ('problem' in answer ? [2, 0] : [answer.share, answer.cutOff]);
  const [[shareA = 0, countA = 0], [shareB = 0, countB = 0]] = [rank(a), rank(b)];
  return shareB - shareA || countB - countA || (a.endpointId < b.endpointId ? -1 : 1);
}

function linesOf(answers: readonly Answer[], days: number): string[] {
  const refused = answers.flatMap((answer) => ('problem' in answer ? [`It could not be had by ${answer.endpointId}: ${answer.problem}`] : []));
  const counted = answers.flatMap((answer) => ('problem' in answer ? [] : [answer]));
  const hit = counted.filter(({ cutOff }) => cutOff > 0);
  const silent = counted.filter(({ successes }) => successes === 0).length;
  const rows = hit.map((a) => [a.endpointId, `${a.budgetMs} ms`, String(a.successes), String(a.cutOff), shareText(a.share), `${a.p99Ms ?? 0} ms`]);
  return [
    ...(rows.length === 0 ? [`Of what was measured in ${days} days, nothing would have been cut off.`] : [table(['ENDPOINT', 'BUDGET', 'SUCCESSES', 'CUT OFF', 'SHARE', 'P99'], rows)]),
    `Endpoints without any cut-off: ${counted.length - hit.length - silent}; without any recorded success: ${silent}.`,
    ...refused,
    'Durations are recorded within 5 %: near the budget, a count may be too large or too small by those that took about as long.',
  ];
}

/** Never 0 % of something. */
function shareText(share: number): string {
  return share < 0.0001 ? '<0.01 %' : `${(share * 100).toFixed(2)} %`;
}
