/** Random endpoint policies and outcomes, within what registration accepts. */
import fc from 'fast-check';
import type { CountedOutcome } from '../../lambdas/shared/core/decide.ts';
import type { EndpointConfig, RetryPolicy } from '../../lambdas/shared/limits/endpoint-schema.ts';
import { retry as bounds } from '../../lambdas/shared/limits/numbers.ts';
import { configOf } from './builders.ts';

const seconds = fc.integer({ min: 1, max: bounds.capS });

export const retryPolicy: fc.Arbitrary<RetryPolicy> = fc
  .record({
    baseS: seconds,
    factor: fc.double({ min: 1, max: 10, noNaN: true }),
    capS: seconds,
    delaysS: fc.option(fc.array(seconds, { minLength: 1, maxLength: bounds.maxAttempts }), { nil: undefined }),
    attempts: fc.integer({ min: 1, max: bounds.maxAttempts }),
    maxAgeS: fc.integer({ min: bounds.minMaxAgeS, max: bounds.maxMaxAgeS }),
    jitter: fc.constantFrom('full' as const, 'equal' as const),
  })
  .map(({ delaysS, ...rest }) => ({ ...rest, capS: Math.max(rest.capS, rest.baseS), ...(delaysS === undefined ? {} : { delaysS }) }));

export const endpointConfig: fc.Arbitrary<EndpointConfig> = fc
  .record({ retry: retryPolicy, onRejected: fc.constantFrom('deadLetter', 'retry') })
  .map((overrides) => configOf(overrides));

const timing = { durationMs: fc.integer({ min: 0, max: 20_000 }), phasesMs: fc.constant({}), reused: fc.boolean() };

export const countedOutcome: fc.Arbitrary<CountedOutcome> = fc.oneof(
  fc.record({ kind: fc.constant('answered' as const), status: fc.integer({ min: 100, max: 599 }), bodyExcerpt: fc.string({ maxLength: 20 }), ...timing }),
  fc.record({ kind: fc.constant('ambiguous' as const), phase: fc.constantFrom('write' as const, 'headers' as const), cause: fc.constant('timeout'), ...timing }),
  fc.record({ kind: fc.constant('unsent' as const), phase: fc.constantFrom('dns' as const, 'address' as const, 'connect' as const, 'tls' as const), cause: fc.constant('x'), ...timing }),
  fc.record({ kind: fc.constant('invalidConfiguration' as const), detail: fc.string({ maxLength: 20 }) }),
);
