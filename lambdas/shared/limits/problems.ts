/** One thing that is wrong with an input: which field, what it was, what was allowed. */
export interface Problem {
  readonly field: string;
  readonly value: unknown;
  readonly bound: string;
}

/** The bound of a key that no schema names. */
export const unknownKey = 'unknown key';

interface Issue {
  readonly code?: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
  /** What is wrong with the key of a record, where the key is the fault. */
  readonly issues?: readonly Issue[];
}

/** Turns schema issues into problems, taking each value from the input; an unknown key is a field of its own. */
export function problemsOf(issues: readonly Issue[], input: unknown): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    const path = issue.path.map(String);
    if (issue.code === 'unrecognized_keys' && issue.keys !== undefined) {
      return issue.keys.map((key) => ({ field: [...path, key].join('.'), value: at(input, [...path, key]), bound: unknownKey }));
    }
    const bound = issue.code === 'invalid_key' ? (issue.issues?.[0]?.message ?? issue.message) : issue.message;
    return [{ field: path.join('.'), value: at(input, path), bound }];
  });
}

export function formatProblem(problem: Problem): string {
  // Values of headers may be credentials.
  const hidden = problem.value === undefined || problem.field.startsWith('headers');
  const text = hidden ? '' : ` (got ${JSON.stringify(problem.value).slice(0, 80)})`;
  return `${problem.field === '' ? 'document' : problem.field}: ${problem.bound}${text}`;
}

function at(input: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined), input);
}
