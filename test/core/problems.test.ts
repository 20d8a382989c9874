import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { messageFieldsSchema } from '../../lambdas/shared/limits/message-schema.ts';
import { formatProblem, problemsOf } from '../../lambdas/shared/limits/problems.ts';

function problemsIn(schema: z.ZodType, input: unknown) {
  return problemsOf(schema.safeParse(input).error?.issues ?? [], input);
}

describe('problemsOf', () => {
  const schema = z.strictObject({ name: z.string(), inner: z.strictObject({ list: z.array(z.int().max(5)) }) });

  it('takes each value from the input', () => {
    expect(problemsIn(schema, { name: 7, inner: { list: [1, 9] } })).toMatchObject([
      { field: 'name', value: 7 },
      { field: 'inner.list.1', value: 9 },
    ]);
  });

  it('makes every unknown key a field of its own', () => {
    expect(problemsIn(schema, { name: 'x', a: 1, inner: { list: [], b: 2, c: null } })).toEqual([
      { field: 'inner.b', value: 2, bound: 'unknown key' },
      { field: 'inner.c', value: null, bound: 'unknown key' },
      { field: 'a', value: 1, bound: 'unknown key' },
    ]);
  });

  it('has no value for what is missing, and none below what is no object', () => {
    expect(problemsIn(schema, { name: 'x' })).toMatchObject([{ field: 'inner', value: undefined }]);
    expect(problemsIn(schema, null)).toMatchObject([{ field: '', value: null }]);
    expect(problemsOf([{ path: ['a', 'b'], message: 'm' }], { a: 5 })).toEqual([{ field: 'a.b', value: undefined, bound: 'm' }]);
  });
});

describe('formatProblem', () => {
  it('shows field, bound and value', () => {
    expect(formatProblem({ field: 'a.b', value: 7, bound: 'at most 5' })).toBe('a.b: at most 5 (got 7)');
    expect(formatProblem({ field: '', value: null, bound: 'must be an object' })).toBe('document: must be an object (got null)');
    expect(formatProblem({ field: 'a', value: undefined, bound: 'is missing' })).toBe('a: is missing');
  });

  it('cuts long values', () => {
    expect(formatProblem({ field: 'a', value: 'x'.repeat(500), bound: 'b' }).length).toBeLessThan(100);
  });
});

describe('messageFieldsSchema', () => {
  const fields = { endpointId: 'acme', eventId: 'evt_1' };

  it('wants exactly one of payload and payloadBase64', () => {
    expect(messageFieldsSchema.safeParse({ ...fields, payload: {} }).success).toBe(true);
    expect(messageFieldsSchema.safeParse({ ...fields, payloadBase64: '' }).success).toBe(true);
    expect(problemsIn(messageFieldsSchema, fields)).toMatchObject([{ field: 'payload' }]);
    expect(problemsIn(messageFieldsSchema, { ...fields, payload: '', payloadBase64: '' })).toMatchObject([{ field: 'payload' }]);
  });

  it('takes a resend up to a million', () => {
    expect([1, 1_000_000, 1_000_001, 0].map((resend) => messageFieldsSchema.safeParse({ ...fields, payload: {}, resend }).success)).toEqual([true, true, false, false]);
  });
});
