/** One member of a JSON object: its decoded name and the exact source text of its value. */
export interface JsonMember {
  readonly name: string;
  readonly source: string;
}

/**
 * Members of the top-level object of `text`, in order, each value as its exact source text. `text` must already have
 * passed JSON.parse: this walks valid JSON only, so brackets and quotes are all it needs to know.
 * Returns undefined if the top level is not an object.
 */
export function jsonMembers(text: string): JsonMember[] | undefined {
  const members: JsonMember[] = [];
  let at = skipSpace(text, 0);
  if (text[at] !== '{') return undefined;
  at = skipSpace(text, at + 1);
  while (text[at] !== '}') {
    const nameEnd = endOfString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const valueStart = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const valueEnd = endOfValue(text, valueStart);
    members.push({ name, source: text.slice(valueStart, valueEnd) });
    at = skipSpace(text, valueEnd);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return members;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && ' \t\n\r'.includes(text.charAt(at))) at++;
  return at;
}

function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function endOfValue(text: string, from: number): number {
  const first = text.charAt(from);
  if (first === '"') return endOfString(text, from);
  if (first === '{' || first === '[') return endOfBrackets(text, from);
  let at = from;
  while (at < text.length && !',]} \t\n\r'.includes(text.charAt(at))) at++;
  return at;
}

function endOfBrackets(text: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const char = text.charAt(at);
    if (char === '"') {
      at = endOfString(text, at);
      continue;
    }
    if (char === '{' || char === '[') depth++;
    if (char === '}' || char === ']') depth--;
    at++;
  } while (depth > 0);
  return at;
}
