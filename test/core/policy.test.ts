import { describe, expect, it } from 'vitest';
import { cutOffBy, longestAnswerMs } from '../../lambdas/shared/core/cut-off.ts';
import { configBy, isInShare, merged, originsOf, ownOf, policyProblems, sharedOf, withoutShared } from '../../lambdas/shared/core/policy.ts';
import { binOf, msOf } from '../../lambdas/shared/core/statistics.ts';
import { formatProblem } from '../../lambdas/shared/limits/problems.ts';
import { configOf } from '../support/builders.ts';

describe('what a policy may hold', () => {
  it('is how deliveries are made, within the bounds of every endpoint', () => {
    expect(policyProblems({ budgetsMs: { read: 20_000 }, retry: { attempts: 5 }, breaker: { openS: 60 }, maxInFlight: 4, adaptiveRead: {}, maxPerSecond: null })).toEqual([]);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['beyond a bound', { maxInFlight: 99 }, 'maxInFlight: Too big: expected number to be <=32 (got 99)'],
    ['an unknown key', { colour: 'blue' }, 'colour: unknown key'],
    ['an unknown inner key', { retry: { max: 3 } }, 'retry.max: unknown key (got 3)'],
    ['what is of one endpoint', { url: 'https://u:topsecret@example.com/' }, 'url: belongs to one endpoint: a policy holds delivery settings only'],
    ['credentials', { headers: { Authorization: 'topsecret' } }, 'headers: belongs to one endpoint: a policy holds delivery settings only'],
    ['what does not fit together', { adaptiveRead: { maxMs: 15_000 }, budgetsMs: { total: 12_000 } }, 'adaptiveRead.maxMs: must be at most budgetsMs.total, 12000: the attempt ends with it (got 15000)'],
  ])('is not %s: field, value and bound are named', (_what, settings, expected) => {
    expect(policyProblems(settings).map(formatProblem)).toEqual([expected]);
  });

  it('names all faults at once', () => {
    expect(policyProblems({ secrets: [], maxInFlight: 0, retry: { attempts: 99 } }).map(({ field }) => field)).toEqual(['secrets', 'maxInFlight', 'retry.attempts']);
  });
});

describe('merged', () => {
  it('lets what stands above win, value by value', () => {
    const policy = { budgetsMs: { read: 500, total: 5_000 }, maxInFlight: 4, adaptiveRead: { minMs: 1_000, maxMs: 4_000 } };
    expect(merged(policy, { budgetsMs: { read: 900 }, adaptiveRead: null })).toEqual({ budgetsMs: { read: 900, total: 5_000 }, maxInFlight: 4, adaptiveRead: null });
    expect(merged({ ...policy, adaptiveRead: null }, { adaptiveRead: { minMs: 2_000 } })).toMatchObject({ adaptiveRead: { minMs: 2_000 } });
  });

  it('does not leave a list of waits below a backoff, which would mean nothing', () => {
    const below = { retry: { delaysS: [1, 2], attempts: 3 } };
    expect(merged(below, { retry: { baseS: 10 } })).toEqual({ retry: { attempts: 3, baseS: 10 } });
    expect(merged(below, { retry: { attempts: 4 } })).toEqual({ retry: { delaysS: [1, 2], attempts: 4 } });
    expect(merged(below, { retry: { baseS: 10, delaysS: [5] } })).toEqual({ retry: { delaysS: [5], attempts: 3, baseS: 10 } });
  });
});

describe('what is an endpoint\'s own', () => {
  const document = (settings: Record<string, unknown>) => configOf(settings);

  it('is, where nobody has kept it, whatever differs from the defaults', () => {
    expect(ownOf(document({}), {}, {})).toEqual({});
    expect(ownOf(document({ maxInFlight: 3, retry: { attempts: 5 }, headers: { a: 'b' }, adaptiveRead: { minMs: 4_000 }, maxAmbiguous: 2 }), {}, {}))
      .toEqual({ maxInFlight: 3, retry: { attempts: 5 }, adaptiveRead: { minMs: 4_000, maxMs: 15_000 }, maxAmbiguous: 2 });
  });

  it('is not what its policy says', () => {
    const policy = { budgetsMs: { read: 500 }, adaptiveRead: {} };
    expect(ownOf(document({ budgetsMs: { read: 500, write: 900 }, adaptiveRead: {} }), policy, { budgetsMs: { write: 900 } })).toEqual({ budgetsMs: { write: 900 } });
  });

  it('is kept also where it says the same as a default or the policy', () => {
    expect(ownOf(document({ maxInFlight: 8 }), { maxInFlight: 8 }, { maxInFlight: 8 })).toEqual({ maxInFlight: 8 });
  });

  it('is what somebody has changed at the table', () => {
    expect(ownOf({ ...document({}), maxInFlight: 99 }, { budgetsMs: {} }, {})).toEqual({ maxInFlight: 99 });
    expect(ownOf(document({ budgetsMs: { read: 700 } }), { budgetsMs: { read: 500 } }, {})).toEqual({ budgetsMs: { read: 700 } });
  });

  it('parts a document into what policies may hold and the rest', () => {
    const config = document({ maxInFlight: 3 });
    expect({ ...withoutShared(config), ...sharedOf(config) }).toEqual(config);
    expect(Object.keys(withoutShared(config))).toEqual(expect.arrayContaining(['url', 'headers', 'signing', 'lookup', 'status']));
  });
});

describe('the origin of what applies', () => {
  it('is said of each value that is no default', () => {
    const policy = { name: 'patient', version: 3, settings: { budgetsMs: { read: 9_000, total: 12_000 }, adaptiveRead: {}, maxPerSecond: 5 } };
    const own = { budgetsMs: { read: 500 }, maxInFlight: 8, maxPerSecond: null };
    const config = configOf({ ...merged(policy.settings, own), adaptiveRead: { maxMs: 12_000 }, headers: { a: 'b' } });
    expect(originsOf(config, own, policy)).toEqual({
      headers: 'own', 'budgetsMs.read': 'own', 'budgetsMs.total': 'policy patient v3', maxInFlight: 'own', maxPerSecond: 'own',
      'adaptiveRead.minMs': 'policy patient v3', 'adaptiveRead.maxMs': 'policy patient v3',
    });
    expect(originsOf(configOf({ status: 'paused', tenantId: 't' }), {}, undefined)).toEqual({});
  });
});

describe('a share of the endpoints', () => {
  const ids = Array.from({ length: 1_000 }, (_, i) => `ep-${i}`);
  const chosen = (percent: number) => ids.filter((id) => isInShare('patient', id, percent));

  it('is about so many of a hundred, and a larger one adds to it', () => {
    expect(chosen(10).length).toBeGreaterThan(70);
    expect(chosen(10).length).toBeLessThan(130);
    expect(chosen(50)).toEqual(expect.arrayContaining(chosen(10)));
    expect([chosen(0), chosen(100)]).toEqual([[], ids]);
  });

  it('is another one of those that have the policy: a tenth of a tenth, and not all of it', () => {
    const among = chosen(10).filter((id) => isInShare('patient#v2', id, 10));
    expect(among.length).toBeLessThan(chosen(10).length / 3);
  });
});

describe('what a budget would have cut off', () => {
  const answers = new Map([[binOf(100), 90], [binOf(2_000), 8], [binOf(9_000), 2]]);

  it('is every answer whose bin is longer', () => {
    expect(cutOffBy(5_000, answers)).toMatchObject({ successes: 100, cutOff: 2, share: 0.02 });
    expect(cutOffBy(1_000, answers)).toMatchObject({ cutOff: 10 });
    const [bin] = [binOf(2_000)];
    expect(cutOffBy(msOf(bin), answers).cutOff).toBe(2);
    expect(cutOffBy(msOf(bin) - 1, answers).cutOff).toBe(10);
    expect(cutOffBy(1_000, new Map())).toEqual({ budgetMs: 1_000, successes: 0, cutOff: 0, share: 0, p99Ms: undefined });
  });

  it('goes by the longest that an answer may take in the end', () => {
    expect(longestAnswerMs(configBy({ budgetsMs: { read: 20_000 } }))).toBe(15_000);
    expect(longestAnswerMs(configBy({ budgetsMs: { read: 500 } }))).toBe(500);
    expect(longestAnswerMs(configBy({ budgetsMs: { read: 500 }, adaptiveRead: { maxMs: 4_000 } }))).toBe(4_000);
  });
});
