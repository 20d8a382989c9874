import type { PublishCommand, SNSClient } from '@aws-sdk/client-sns';
import { expect, it } from 'vitest';
import { createSnsNotices } from '../../lambdas/shared/adapters/sns-notices.ts';
import type { Notice } from '../../lambdas/shared/ports/index.ts';

async function subjectOf(endpointId: string, step: Notice['step']): Promise<string> {
  const sent: PublishCommand[] = [];
  const sns = { send: (command: PublishCommand) => Promise.resolve(void sent.push(command)) } as unknown as SNSClient;
  await createSnsNotices(sns, 'arn').publish({ v: 1, step, endpointId, tenantId: null, at: '', text: '', evidence: {} as Notice['evidence'] });
  return sent[0]?.input.Subject ?? '';
}

it('the subject says what has come first, and of which endpoint', async () => {
  expect(await subjectOf('acme', 'warn')).toBe('Sluice: warn acme');
});

it('the subject of the longest name says still what has come, in fewer than 100 characters', async () => {
  const subject = await subjectOf('e'.repeat(128), 'recovered');
  expect([subject.length, subject.slice(0, 20)]).toEqual([99, 'Sluice: recovered ee']);
});

it('the subject is what SNS takes of any name', async () => {
  expect(await subjectOf('caf\u00e9\n\u{1f600}', 'warn')).toMatch(/^[!-~][ -~]{0,98}$/);
});
