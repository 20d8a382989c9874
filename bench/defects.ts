/** Defects for an installation's functions, which a check must notice: it is the bundle that would be deployed, with one passage of it replaced. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { FunctionSpec } from '../local/template.ts';

export interface Defect {
  /** Of the bundle, where it occurs exactly once: it changes with the source that it is made from. */
  readonly passage: string;
  readonly replacement: string;
}

/**
 * Puts defects into every bundle that has their passage. Before a function is first invoked, for an environment reads its bundle when it starts.
 * @throws Error where a passage is in no bundle, or twice in one: nothing would be shown by a defect that is not there.
 */
export function spoil(functions: readonly Pick<FunctionSpec, 'assetDir'>[], defects: readonly Defect[]): void {
  const bundles = new Set(functions.flatMap(({ assetDir }) => readdirSync(assetDir).filter((name) => name.endsWith('.mjs')).map((name) => path.join(assetDir, name))));
  for (const { passage, replacement } of defects) {
    const spoilt = [...bundles].filter((file) => replaceOnce(file, passage, replacement));
    if (spoilt.length === 0) throw new Error(`no function has the passage that is to be replaced: ${passage}`);
  }
}

/** @returns false where it is not in the file */
function replaceOnce(file: string, passage: string, replacement: string): boolean {
  const parts = readFileSync(file, 'utf8').split(passage);
  if (parts.length === 1) return false;
  if (parts.length > 2) throw new Error(`${path.basename(file)} has the passage that is to be replaced ${parts.length - 1} times: ${passage}`);
  writeFileSync(file, parts.join(replacement));
  return true;
}
