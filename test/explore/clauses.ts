/** Conditions taken apart, so that a run can be made with any one clause of them removed. */
import type { JsonObject } from '../../local/emulator.ts';

/** A condition as a tree; a leaf is one clause, as it is written. */
type Tree = string | { readonly op: 'AND' | 'OR'; readonly parts: readonly Tree[] };

/** One clause of one condition, in a form that is the same for every lease, claim and value. */
export interface Clause {
  /** The whole condition, with `?` for what varies. */
  readonly condition: string;
  readonly clause: string;
}

interface Conditional extends JsonObject {
  ConditionExpression?: string;
  UpdateExpression?: string;
  ExpressionAttributeNames?: Record<string, string>;
  ExpressionAttributeValues?: Record<string, unknown>;
}

/** A give-back has it for each claim that it releases, and may release none: with it or without, it is one condition. */
const optional = new Set(['claims.?[0] = ?']);

/** Maps whose keys are ids: below them a name says nothing. */
const mapsOfIds = new Set(['leases', 'claims']);

function parse(text: string): Tree {
  const trimmed = unwrapped(text.trim());
  for (const op of ['OR', 'AND'] as const) {
    const parts = splitAtTop(trimmed, ` ${op} `);
    if (parts.length > 1) return { op, parts: parts.map(parse) };
  }
  return trimmed;
}

/** Without a pair of parentheses around the whole. */
function unwrapped(text: string): string {
  if (!text.startsWith('(')) return text;
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    depth += text[i] === '(' ? 1 : text[i] === ')' ? -1 : 0;
    if (depth === 0) return i === text.length - 1 ? text.slice(1, -1).trim() : text;
  }
  return text;
}

function splitAtTop(text: string, separator: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    depth += text[i] === '(' ? 1 : text[i] === ')' ? -1 : 0;
    if (depth === 0 && text.startsWith(separator, i)) {
      parts.push(text.slice(from, i));
      from = i + separator.length;
    }
  }
  return [...parts, text.slice(from)];
}

function written(tree: Tree): string {
  return typeof tree === 'string' ? tree : tree.parts.map((part) => (typeof part === 'string' ? part : `(${written(part)})`)).join(` ${tree.op} `);
}

/** A leaf of a tree, and the group that it stands in. */
interface Leaf {
  readonly text: string;
  readonly group: Tree;
}

function leaves(tree: Tree, group: Tree = tree): Leaf[] {
  return typeof tree === 'string' ? [{ text: tree, group }] : tree.parts.flatMap((part) => leaves(part, tree));
}

/** Names of a tree's leaves: several claims are one clause; what stands in two groups is told apart by the inner one. */
function namesOf(tree: Tree, names: Readonly<Record<string, string>>): Map<Tree, (leaf: string) => string> {
  const outer = new Set<string>();
  const found = new Map<Tree, (leaf: string) => string>();
  for (const group of new Set(leaves(tree).map((leaf) => leaf.group))) {
    const own = leaves(tree).filter((leaf) => leaf.group === group).map(({ text }) => normal(text, names));
    const taken = new Set(outer);
    found.set(group, (leaf) => (taken.has(normal(leaf, names)) ? `${normal(leaf, names)} of (${shape(group, names)})` : normal(leaf, names)));
    for (const name of own) outer.add(name);
  }
  return found;
}

/** `#n3.#n4[0] = :v2` as `leases.?[0] = ?`. */
function normal(clause: string, names: Readonly<Record<string, string>>): string {
  return clause
    .replaceAll(/#n\d+(\.#n\d+)*/g, (path) => {
      const [first = '', ...rest] = path.split('.').map((name) => names[name] ?? name);
      return [first, ...(mapsOfIds.has(first) ? rest.map(() => '?') : rest)].join('.');
    })
    .replaceAll(/:v\d+/g, '?');
}

const normalOf = (request: Conditional) => {
  const names = request.ExpressionAttributeNames ?? {};
  const tree = parse(request.ConditionExpression ?? '');
  const named = namesOf(tree, names);
  const nameOf = (leaf: string, group: Tree) => named.get(group)?.(leaf) ?? '';
  const clauses = [...new Set(leaves(tree).map(({ text, group }) => nameOf(text, group)))];
  return { tree, nameOf, clauses, condition: `${String(request['TableName'])}: ${shape(tree, names)}` };
};

function shape(tree: Tree, names: Readonly<Record<string, string>>): string {
  if (typeof tree === 'string') return normal(tree, names);
  const parts = tree.parts.map((part) => (typeof part === 'string' ? normal(part, names) : `(${shape(part, names)})`));
  return [...new Set(parts)].filter((part) => !optional.has(part)).join(` ${tree.op} `);
}

/** The conditional members of a request. */
function membersOf(operation: string, input: JsonObject): Conditional[] {
  if (operation !== 'TransactWriteItems') return [input];
  return (input['TransactItems'] as JsonObject[]).map((member) => Object.values(member)[0] as Conditional);
}

/** Every clause of a request's conditions. */
export function clausesOf(operation: string, input: JsonObject): Clause[] {
  return membersOf(operation, input)
    .filter((member) => member.ConditionExpression !== undefined)
    .flatMap((member) => {
      const { clauses, condition } = normalOf(member);
      return clauses.map((clause) => ({ condition, clause }));
    });
}

/** The request without `dropped`, if its condition has it. */
export function withoutClause(operation: string, input: JsonObject, dropped: Clause): JsonObject {
  if (operation !== 'TransactWriteItems') return lessClause(input, dropped);
  const TransactItems = (input['TransactItems'] as JsonObject[]).map((member) => {
    const [kind = '', request] = Object.entries(member)[0] ?? [];
    return { [kind]: lessClause(request as Conditional, dropped) };
  });
  return { ...input, TransactItems };
}

function lessClause(request: Conditional, dropped: Clause): Conditional {
  if (request.ConditionExpression === undefined) return request;
  const { tree, nameOf, condition } = normalOf(request);
  if (condition !== dropped.condition) return request;
  const left = pruned(tree, (leaf, group) => nameOf(leaf, group) === dropped.clause);
  const { ConditionExpression: _whole, ...rest } = request;
  return used({ ...rest, ...(left === undefined ? {} : { ConditionExpression: written(left) }) });
}

function pruned(tree: Tree, drops: (leaf: string, group: Tree) => boolean, group: Tree = tree): Tree | undefined {
  if (typeof tree === 'string') return drops(tree, group) ? undefined : tree;
  const parts = tree.parts.map((part) => pruned(part, drops, tree)).filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.length === 1 ? parts[0] : { op: tree.op, parts };
}

/** DynamoDB refuses names and values that no expression uses. */
function used(request: Conditional): Conditional {
  const text = `${request.UpdateExpression ?? ''} ${request.ConditionExpression ?? ''}`;
  const pick = <T>(all: Readonly<Record<string, T>> = {}) => Object.fromEntries(Object.entries(all).filter(([name]) => new RegExp(`${name}(?!\\d)`).test(text)));
  const { ExpressionAttributeNames, ExpressionAttributeValues, ...rest } = request;
  const [names, values] = [pick(ExpressionAttributeNames), pick(ExpressionAttributeValues)];
  return {
    ...rest,
    ...(Object.keys(names).length === 0 ? {} : { ExpressionAttributeNames: names }),
    ...(Object.keys(values).length === 0 ? {} : { ExpressionAttributeValues: values }),
  };
}
