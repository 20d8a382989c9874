import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import { createStatusTokens } from '../../lambdas/shared/adapters/dynamodb-status-tokens.ts';
import { formatStatusToken, tokenHash } from '../../lambdas/shared/core/status-token.ts';
import { status } from '../../lambdas/shared/limits/numbers.ts';
import { checkedId, noSuchEndpoint, type Run } from './endpoint-commands.ts';
import { failure, type Output } from './output.ts';
import type { Target } from './target.ts';

export function addTokenCommand(endpoint: Command, run: Run): void {
  endpoint
    .command('token <id>')
    .description('make the token with which the consumer of an endpoint asks how it stands; the one before ends')
    .option('--revoke', 'end the token, and make no other')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nThe consumer asks with it:\n  curl -H "Authorization: Bearer TOKEN" STATUS_URL/ID\nIt sees its own percentiles, lane, backlog, breaker and last outcomes, and nothing of anybody else.')
    .action((id: string, options: { revoke?: boolean; yes?: boolean }) => run((target, out) => token(target, out, checkedId(id), options)));
}

async function token(target: Target, out: Output, id: string, { revoke = false, yes = false }: { revoke?: boolean; yes?: boolean }): Promise<void> {
  if (target.statusUrl === undefined) throw failure(`${target.name} has no status URL: its stage wants none, or it is older than this program.`);
  const tokens = createStatusTokens(target.db, target.endpointsTable);
  out.note(`Target: ${target.name}`);
  if (revoke) {
    await out.confirm(`End the status token of ${id}? Its consumer cannot ask how it stands any more.`, yes);
    const answer = await tokens.revoke(id);
    return out.result({ endpointId: id, revoked: answer === 'revoked' }, answer === 'revoked' ? `The token of ${id} has ended.` : `${id} has no token.`);
  }
  const made = formatStatusToken(randomBytes(status.tokenBytes));
  if ((await tokens.put(id, tokenHash(made), Date.now())) === 'absent') throw noSuchEndpoint(id);
  const url = `${target.statusUrl.replace(/\/$/, '')}/${id}`;
  out.result({ endpointId: id, url, token: made }, `URL:   ${url}\nToken, shown only now: ${made}`);
}
