import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { spoil } from '../../bench/defects.ts';

const dirs: string[] = [];
afterEach(() => dirs.splice(0).forEach((dir) => rmSync(dir, { recursive: true })));

function bundle(text: string): { assetDir: string; text: () => string } {
  const assetDir = mkdtempSync(path.join(tmpdir(), 'sluice-defect-'));
  dirs.push(assetDir);
  const file = path.join(assetDir, 'index.mjs');
  writeFileSync(file, text);
  return { assetDir, text: () => readFileSync(file, 'utf8') };
}

describe('a defect', () => {
  it('is put into every bundle that has its passage', () => {
    const [one, other, third] = [bundle('a(); b();'), bundle('b(); c();'), bundle('c();')];
    spoil([one, other, third, one], [{ passage: 'b()', replacement: '$&()' }]);
    expect([one, other, third].map(({ text }) => text())).toEqual(['a(); $&();', '$&(); c();', 'c();']);
  });

  it('whose passage is nowhere, or twice in a bundle, is an error', () => {
    expect(() => spoil([bundle('a();')], [{ passage: 'b()', replacement: '' }])).toThrow('no function has the passage');
    expect(() => spoil([bundle('b(); b();')], [{ passage: 'b()', replacement: '' }])).toThrow('2 times');
  });
});
