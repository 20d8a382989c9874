import path from 'node:path';
import { ESLint } from 'eslint';
import tseslint from 'typescript-eslint';
import { describe, expect, it } from 'vitest';

const root = path.join(import.meta.dirname, '../..');
const rules = new Set(['no-restricted-globals', 'no-restricted-properties', 'no-restricted-imports', 'no-console']);

// The project's own configuration; only the rules that need types are off, for the snippets are in no file of the project.
const eslint = new ESLint({ cwd: root, overrideConfig: [tseslint.configs.disableTypeChecked] });

async function findings(folder: string, code: string): Promise<(string | null)[]> {
  const [result] = await eslint.lintText(code, { filePath: path.join(root, folder, 'snippet.ts') });
  return (result?.messages ?? []).map(({ ruleId }) => ruleId).filter((ruleId) => ruleId === null || rules.has(ruleId));
}

const snippets = [
  'export const now = Date.now();',
  'export const now = new Date();',
  'export const now = globalThis.Date.now();',
  'export const x = Math.random();',
  "import { randomUUID } from 'node:crypto';\nexport const x = randomUUID();",
  "import { randomBytes } from 'node:crypto';\nexport const x = randomBytes(8);",
  'export const x = crypto.randomUUID();',
  "export const x = process.env['X'];",
  'setTimeout(() => undefined, 1);',
  'setInterval(() => undefined, 1);',
  'export const x = performance.now();',
  "console.log('x');",
  "export const x = fetch('http://127.0.0.1/');",
  "import { readFileSync } from 'node:fs';\nexport const x = readFileSync('x');",
  "import { request } from 'undici';\nexport const x = request;",
  "import { SQSClient } from '@aws-sdk/client-sqs';\nexport const x = SQSClient;",
];

describe.each(['lambdas/shared/core', 'lambdas/shared/core/deeper', 'lambdas/shared/limits'])('ambient inputs in %s', (folder) => {
  it.each(snippets)('are refused: %s', async (code) => {
    expect(await findings(folder, code)).not.toEqual([]);
  });

  it('leave hashing and arguments alone', async () => {
    const code = "import { createHash } from 'node:crypto';\nexport const hash = (text: string) => createHash('sha256').update(text).digest('hex');";
    expect(await findings(folder, code)).toEqual([]);
  });
});

describe('elsewhere', () => {
  it('adapters may read clocks and use the SDK', async () => {
    expect(await findings('lambdas/shared/adapters', 'export const now = Date.now();')).toEqual([]);
  });

  it('the source of core and limits is clean', async () => {
    const results = await eslint.lintFiles(['lambdas/shared/{core,limits}/**/*.ts']);
    const found = results.flatMap(({ filePath, messages }) => messages.filter(({ ruleId }) => rules.has(ruleId ?? '')).map(({ message }) => `${filePath}: ${message}`));
    expect(results).not.toEqual([]);
    expect(found).toEqual([]);
  });
});
