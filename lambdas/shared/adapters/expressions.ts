import { marshall } from '@aws-sdk/util-dynamodb';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { optionalAttributes, toItem } from './dynamodb-record-item.ts';
import type { DeliveryRecord, UnknownRecord, WaitingRecord } from '../core/record.ts';

/** Names and values of the expressions of one write; every name goes through `#`, for DynamoDB reserves 573 words. */
export class Expressions {
  readonly #names: Record<string, string> = {};
  readonly #values: Record<string, unknown> = {};

  /** Placeholder of an attribute name or of a key inside a map. */
  name(name: string): string {
    const known = Object.entries(this.#names).find(([, n]) => n === name)?.[0];
    const placeholder = known ?? `#n${Object.keys(this.#names).length}`;
    this.#names[placeholder] = name;
    return placeholder;
  }

  value(value: unknown): string {
    const placeholder = `:v${Object.keys(this.#values).length}`;
    this.#values[placeholder] = value;
    return placeholder;
  }

  attributes(): { ExpressionAttributeNames?: Record<string, string>; ExpressionAttributeValues?: Record<string, AttributeValue> } {
    return {
      ...(Object.keys(this.#names).length === 0 ? {} : { ExpressionAttributeNames: this.#names }),
      ...(Object.keys(this.#values).length === 0 ? {} : { ExpressionAttributeValues: marshall(this.#values) }),
    };
  }
}

/** The record is still the one that a decision was made from. Each clause is needed: test/explore shows what goes wrong without it. */
export function recordCondition(x: Expressions, from: DeliveryRecord | undefined): string {
  if (from === undefined) return `attribute_not_exists(${x.name('pk')})`;
  // What is unknown changes within its attempt with every look, and only what is unknown has looks.
  if (from.state === 'unknown') return [...sameAttempt(x, from), `${x.name('looks')} = ${x.value(from.looks)}`].join(' AND ');
  // What follows a verdict is another generation, or a drop.
  if (from.state !== 'waiting') return `${x.name('generation')} = ${x.value(from.generation)} AND ${x.name('state')} = ${x.value(from.state)}`;
  // Only what waits has a home.
  return [...sameAttempt(x, from), `${x.name('home')} = ${x.value(from.home)}`].join(' AND ');
}

/** Nothing was sent meanwhile; a hold may have come, which changes nothing of it. */
export function sameAttempt(x: Expressions, from: WaitingRecord | UnknownRecord): string[] {
  return [`${x.name('generation')} = ${x.value(from.generation)}`, `${x.name('attempt')} = ${x.value(from.attempt)}`];
}

/** Update that turns `from` into `to`, whatever state it leaves. A `resend` that it does not raise stays as it is: a hold may have noted a larger one since. */
export function recordUpdate(x: Expressions, from: DeliveryRecord | undefined, to: DeliveryRecord): string {
  const item = toItem(to);
  const sets = Object.entries(item).filter(([name, value]) => value !== undefined && !(name === 'resend' && from?.resend === to.resend));
  const removes = optionalAttributes.filter((name) => item[name] === undefined);
  const set = sets.map(([name, value]) => `${x.name(name)} = ${x.value(value)}`).join(', ');
  return `SET ${set}${removes.length === 0 ? '' : ` REMOVE ${removes.map((name) => x.name(name)).join(', ')}`}`;
}
