/** Random JSON as text: the same value may be written in many ways, and every one of them must keep its bytes. */
import fc from 'fast-check';

const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 });

/** A string literal in which each character is either raw, escaped shortly, or escaped as \u. */
const stringLiteral = fc
  .array(fc.tuple(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }), fc.boolean()), { maxLength: 8 })
  .map((units) => `"${units.map(([text, escaped]) => (escaped ? escapedText(text) : JSON.stringify(text).slice(1, -1))).join('')}"`);

function escapedText(text: string): string {
  return [...Array(text.length).keys()].map((i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');
}

const numberLiteral = fc.oneof(
  fc.integer().map(String),
  fc.constantFrom('-0', '1.0', '1e3', '1E+2', '0.10', '7615917337495251231', '1e400', '-1.5e-7'),
);

const scalar = fc.oneof(stringLiteral, numberLiteral, fc.constantFrom('true', 'false', 'null'));

const { container } = fc.letrec<{ value: string; container: string }>((tie) => ({
  value: fc.oneof({ maxDepth: 3, withCrossShrink: true }, scalar, tie('container')),
  container: fc.oneof(
    fc.tuple(space, fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 })).map(([empty, items]) => `[${items.map((i) => i.join('')).join(',') || empty}]`),
    fc
      .tuple(space, fc.array(fc.tuple(space, memberName(), space, space, tie('value'), space), { maxLength: 4 }))
      .map(([empty, items]) => `{${items.map(([a, name, b, c, value, d]) => `${a}${name}${b}:${c}${value}${d}`).join(',') || empty}}`),
  ),
}));

function memberName(): fc.Arbitrary<string> {
  return fc.oneof(stringLiteral, fc.constantFrom('"1"', '"__proto__"', '"a"', '"\\u0061"', '"payload"'));
}

/** Source text of an object or array. */
export const jsonContainer = container;
export const jsonSpace = space;
export const jsonStringLiteral = stringLiteral;
export const jsonValue = fc.oneof(container, scalar);
