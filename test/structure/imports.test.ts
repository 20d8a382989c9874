import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = path.join(import.meta.dirname, '../..');

/** Parts of the source between which imports are ruled; `outside` is everything else in the repository. */
type Zone = 'limits' | 'core' | 'ports' | 'adapters' | 'function' | 'lib' | 'bin' | 'outside';

const shared: Zone[] = ['limits', 'core', 'ports', 'adapters'];

/** What each part may import beside itself. A function folder is a part of its own; the drain runs the flow of deliver. */
const allowed: Record<Exclude<Zone, 'outside'>, readonly Zone[]> = {
  limits: [],
  core: ['limits'],
  ports: ['core', 'limits'],
  adapters: ['ports', 'core', 'limits'],
  function: ['core', 'ports', 'limits'],
  lib: ['limits'],
  bin: ['lib', ...shared],
};

function zoneOf(file: string): Zone {
  const [top, second, third] = file.split('/');
  if (top === 'lambdas' && second === 'shared') return shared.find((zone) => zone === third) ?? 'outside';
  if (top === 'lambdas') return 'function';
  return top === 'lib' || top === 'bin' ? top : 'outside';
}

/** Breaches of the import rules in one file. @param file relative to the repository, with `/`. */
function breaches(file: string, text: string): string[] {
  const zone = zoneOf(file);
  if (zone === 'outside') return file.startsWith('lambdas/') ? [`${file} is in no known part of lambdas/shared`] : [];
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const isDeps = zone === 'function' && path.posix.basename(file) === 'deps.ts';
  const found = importedModules(source)
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => path.posix.join(path.posix.dirname(file), specifier))
    .filter((target) => !mayImport(file, target, isDeps))
    .map((target) => `${file} imports ${target}`);
  if (file.startsWith('lambdas/') && !isDeps && readsEnvironment(source)) found.push(`${file} reads the environment`);
  return found;
}

function mayImport(file: string, target: string, isDeps: boolean): boolean {
  const [from, to] = [zoneOf(file), zoneOf(target)];
  if (from === 'outside' || to === 'outside') return false;
  if (from === 'function' && to === 'function') return folderOf(file) === folderOf(target) || (folderOf(file) === 'drain' && folderOf(target) === 'deliver');
  return from === to || allowed[from].includes(to) || (isDeps && to === 'adapters');
}

const folderOf = (file: string) => file.split('/')[1];

/** Stands for a specifier that is no literal: it leads out of every part, so it is a breach wherever it is. */
const computed = '../../../../computed';

/** Static, re-exporting, dynamic and type imports, and require. */
function importedModules(source: ts.SourceFile): string[] {
  const modules: string[] = [];
  const add = (node: ts.Node | undefined): void => void modules.push(node && ts.isStringLiteralLike(node) ? node.text : computed);
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier);
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier) add(node.moduleSpecifier);
    else if (ts.isImportTypeNode(node)) add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined);
    else if (ts.isCallExpression(node) && isLoader(node.expression)) add(node.arguments[0]);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return modules;
}

function isLoader(callee: ts.Expression): boolean {
  return callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require');
}

/** `process` in any position, or node:process: whoever holds it can read the environment. */
function readsEnvironment(source: ts.SourceFile): boolean {
  let found = importedModules(source).some((specifier) => /^(node:)?process$/.test(specifier));
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAccessExpression(node) && node.name.text === 'env' && /(^|\.)process$/.test(node.expression.getText())) found = true;
    if (ts.isElementAccessExpression(node) && /(^|\.)process$/.test(node.expression.getText())) found = true;
    if (ts.isVariableDeclaration(node) && node.initializer && /(^|\.)process$/.test(node.initializer.getText())) found = true;
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

describe('imports of the repository', () => {
  const files = globSync('{lambdas,lib,bin}/**/*.{ts,mjs,js}', { cwd: root }).map((file) => file.split(path.sep).join('/'));

  it('finds the source', () => {
    expect(files).toEqual(expect.arrayContaining(['bin/app.ts', 'lib/webhook-delivery.ts', 'lambdas/deliver/handler.ts', 'lambdas/shared/limits/numbers.ts']));
  });

  it('keeps to the rules: limits ← core ← ports ← adapters, and only deps.ts touches the world', () => {
    expect(files.flatMap((file) => breaches(file, readFileSync(path.join(root, file), 'utf8')))).toEqual([]);
  });

  it('names the handler of each function by a path that exists', () => {
    const entries = globSync('lib/*.ts', { cwd: root }).flatMap((file) => readFileSync(path.join(root, file), 'utf8').match(/lambdas\/\w+\/handler\.ts/g) ?? []);
    expect(entries).toContain('lambdas/deliver/handler.ts');
    expect(entries.filter((entry) => !existsSync(path.join(root, entry)))).toEqual([]);
  });
});

describe('the rules bite', () => {
  it.each([
    ['lambdas/shared/limits/a.ts', "import { x } from '../core/x.ts';"],
    ['lambdas/shared/core/a.ts', "import type { X } from '../ports/x.ts';"],
    ['lambdas/shared/core/a.ts', "export * from '../adapters/x.ts';"],
    ['lambdas/shared/ports/a.ts', "type X = import('../adapters/x.ts').X;"],
    ['lambdas/shared/adapters/a.ts', "import '../../deliver/x.ts';"],
    ['lambdas/deliver/deliver-batch.ts', "import { x } from '../shared/adapters/x.ts';"],
    ['lambdas/deliver/handler.ts', "const x = await import('../shared/adapters/x.ts');"],
    ['lambdas/deliver/handler.ts', 'const x = await import(`../${name}`);'],
    ['lambdas/deliver/deps.ts', "import { x } from '../drain/x.ts';"],
    ['lambdas/deliver/deps.ts', "import { x } from '../../local/x.ts';"],
    ['lambdas/deliver/handler.ts', "import { x } from '../../lib/x.ts';"],
    ['lambdas/shared/other/a.ts', ''],
    ['lib/a.ts', "import { x } from '../lambdas/shared/core/x.ts';"],
    ['lib/a.ts', "import { x } from '../lambdas/deliver/handler.ts';"],
    ['lib/a.ts', "import { x } from '../bin/x.ts';"],
    ['bin/a.ts', "import { x } from '../local/x.ts';"],
    ['bin/a.ts', "import { x } from '../bench/x.ts';"],
    ['bin/a.ts', "const x = require('../test/x.ts');"],
    ['lambdas/deliver/handler.ts', "const x = process.env['X'];"],
    ['lambdas/deliver/handler.ts', 'const { env } = process;'],
    ['lambdas/deliver/handler.ts', "const x = globalThis.process['env'];"],
    ['lambdas/deliver/handler.ts', "import { env } from 'node:process';"],
    ['lambdas/shared/adapters/a.ts', 'const x = process.env.X;'],
  ])('%s: %s', (file, text) => {
    expect(breaches(file, text)).toHaveLength(1);
  });

  it.each([
    ['lambdas/shared/core/a.ts', "import { x } from '../limits/x.ts'; import { y } from './y.ts';"],
    ['lambdas/shared/adapters/a.ts', "import type { X } from '../ports/x.ts';"],
    ['lambdas/deliver/deps.ts', "import { x } from '../shared/adapters/x.ts'; const y = process.env['Y'];"],
    ['lambdas/deliver/handler.ts', "import { deps } from './deps.ts'; import { env } from '../shared/limits/names.ts'; // process.env"],
    ['lib/a.ts', "import { App } from 'aws-cdk-lib'; import { x } from '../lambdas/shared/limits/x.ts';"],
    ['bin/sluice.ts', "import { x } from '../lambdas/shared/adapters/x.ts'; const y = process.env['Y'];"],
    ['local/a.ts', "import '../lambdas/deliver/handler.ts';"],
  ])('but not on %s: %s', (file, text) => {
    expect(breaches(file, text)).toEqual([]);
  });
});
