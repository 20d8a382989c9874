/** Conditions as DynamoDB decides them: dynalite compares lists and maps by reference, so no two are ever equal. */
import type { AttributeValue, Db, Expression, Item, Operand } from './types/dynalite.d.ts';

const sets = new Set(['SS', 'NS', 'BS']);

/** Deep equality of two attribute values; sets have no order. Numbers were normalised when they were written. */
export function sameValue(left: AttributeValue, right: AttributeValue): boolean {
  const [type, one] = Object.entries(left)[0] ?? [];
  const [otherType, other] = Object.entries(right)[0] ?? [];
  if (type === undefined || type !== otherType) return false;
  if (type === 'L') return sameList(one as AttributeValue[], other as AttributeValue[]);
  if (type === 'M') return sameMap(one as Item, other as Item);
  if (sets.has(type)) return sameSet(one as string[], other as string[]);
  return one === other;
}

function sameList(left: AttributeValue[], right: AttributeValue[]): boolean {
  return left.length === right.length && left.every((value, i) => sameValue(value, right[i] ?? {}));
}

function sameMap(left: Item, right: Item): boolean {
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => sameValue(left[key] ?? {}, right[key] ?? {}));
}

function sameSet(left: string[], right: string[]): boolean {
  return left.length === right.length && left.every((value) => right.includes(value));
}

const isExpression = (operand: Operand): operand is Expression => !Array.isArray(operand) && 'type' in operand && 'args' in operand;

/** Whether `item` satisfies a parsed condition. Everything but equality is left to dynalite. */
export function matches(db: Db, item: Item, expression: Expression): boolean {
  const { type, args } = expression;
  const inner = (i: number) => matches(db, item, args[i] as Expression);
  if (type === 'and') return inner(0) && inner(1);
  if (type === 'or') return inner(0) || inner(1);
  if (type === 'not') return !inner(0);
  const isEquality = type === '=' || type === '<>' || type === 'in';
  if (!isEquality || args.some(isExpression)) return db.matchesExprFilter(item, expression);
  const [left, ...others] = args.map((arg) => (Array.isArray(arg) ? db.mapPath(arg, item) : (arg as AttributeValue)));
  // A missing attribute equals nothing, not even another missing one.
  const isSame = left ? others.some((other) => other && sameValue(left, other)) : false;
  return type === '<>' ? !isSame : isSame;
}
