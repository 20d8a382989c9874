/** Steps to one place in a JSON value: names of members and indexes of arrays. */
export type JsonPath = readonly (string | number)[];

const step = /\.([A-Za-z_][\w-]*)|\[(0|[1-9]\d{0,8})\]|\['([^'\\\u0000-\u001f]*)'\]/y;

/**
 * A path to at most one place, written as RFC 9535 writes it: `$.order.items[0]['unit price']`. Undefined for what is none,
 * also for paths that may name several places.
 */
export function parseJsonPath(text: string): JsonPath | undefined {
  if (!text.startsWith('$')) return undefined;
  const path: (string | number)[] = [];
  for (let at = 1; at < text.length; at = step.lastIndex) {
    step.lastIndex = at;
    const found = step.exec(text);
    if (found === null) return undefined;
    const [, name, index, quoted] = found;
    path.push(index === undefined ? (name ?? quoted ?? '') : Number(index));
  }
  return path;
}
