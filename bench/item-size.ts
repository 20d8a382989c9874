/**
 * The size of a DynamoDB item, by the rules that DynamoDB publishes.
 * Source: DynamoDB developer guide, "DynamoDB item sizes and formats" (CapacityUnitCalculations), 2026. It calls the size of a
 * number approximate. The 100 bytes that indexing adds to an item are billed as storage, never as a write, and are left out.
 */
import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** Of a list or a map, whatever is in it. */
const containerBytes = 3;
/** Of each element of a list or a map. */
const elementBytes = 1;
/** A write unit writes this much of an item. */
const writeUnitBytes = 1_024;

/** Names and values of all attributes, in bytes. @throws Error for a set: its rule is not published. */
export function itemSizeBytes(item: Readonly<Record<string, AttributeValue>>): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + valueSizeBytes(value), 0);
}

/** Write units of one plain write of an item of this size; a transaction takes twice as many. */
export function writeUnitsOf(sizeBytes: number): number {
  return Math.max(1, Math.ceil(sizeBytes / writeUnitBytes));
}

function valueSizeBytes(value: AttributeValue): number {
  if (value.S !== undefined) return Buffer.byteLength(value.S);
  if (value.N !== undefined) return numberSizeBytes(value.N);
  if (value.B !== undefined) return value.B.byteLength;
  if (value.BOOL !== undefined || value.NULL !== undefined) return 1;
  if (value.L !== undefined) return value.L.reduce((sum, element) => sum + elementBytes + valueSizeBytes(element), containerBytes);
  if (value.M !== undefined) return containerBytes + elementBytes * Object.keys(value.M).length + itemSizeBytes(value.M);
  throw new Error(`no published rule for the size of a value of type ${Object.keys(value).join()}`);
}

/** One byte for two significant digits and one more, and another one below zero; leading and trailing zeros do not count. */
function numberSizeBytes(text: string): number {
  const [mantissa = ''] = text.toLowerCase().split('e');
  const digits = mantissa.replace(/^[+-]/, '').replace('.', '').replace(/^0+/, '').replace(/0+$/, '');
  const isNegative = mantissa.startsWith('-') && digits !== '';
  return Math.ceil(digits.length / 2) + 1 + (isNegative ? 1 : 0);
}
