/** The commands of a random history, and how likely each is. */
import fc from 'fast-check';
import { predict } from './explain.ts';
import { isExpired } from '../../../lambdas/shared/core/lane.ts';
import { leaseMs, giveBackOf, narrowlyRefused, plan, planReapClaim, post, reapLeaseOf, writeOf, type Asking, type Choice, type OutcomeName } from './choices.ts';
import { events, type Delivery, type Fate, type History, type Planned, type Sender } from './history.ts';

export type Command = fc.AsyncCommand<History, undefined>;

const command = (name: string, check: (h: History) => boolean, run: (h: History) => Promise<void>): Command => ({ check, run, toString: () => name });

const named = (choice: Choice) => {
  const { kind, ...rest } = choice;
  return [kind, ...Object.values(rest).filter((v) => v !== false).map((v) => (Array.isArray(v) ? v.join('+') : String(v)))].join(' ');
};

/** One operation by itself. */
const one = (choice: Choice, fate: Fate, isFutile: boolean): Command =>
  command(fate === 'heard' ? named(choice) : `${named(choice)} (${fate})`, (h) => isPossible(h, choice, isFutile), async (h) => {
    const planned = plan(h, choice, String(h.steps));
    await issue(h, planned === undefined ? [] : [{ planned, fate }]);
  });

/** Most of what nobody would expect to succeed is left out: it would be most of a history. */
function isPossible(h: History, choice: Choice, isFutile: boolean): boolean {
  const planned = plan(h, choice, '');
  if (planned === undefined) return false;
  return isFutile || !hopeful.has(choice.kind) || predict(h.state, [{ instants: [...planned.op.reads, planned.op.write] }]).state !== h.state;
}

const hopeful: ReadonlySet<string> = new Set<Choice['kind']>(['admit', 'buryUnclaimed', 'remove']);

/** Operations that are issued at the same time; those that touch what another one does are left out. */
const atOnce = (choices: readonly Choice[], repeats: boolean): Command =>
  command(`at once [${choices.map(named).join(' | ')}]${repeats ? ' (repeated)' : ''}`, (h) => disjoint(h, choices).length > 1, async (h) => {
    const plans = disjoint(h, choices);
    // What a repeat does must be known before; only one operation at a time has a client that loses answers.
    const isHeld = plans.some(({ op }) => op.isHold === true);
    const repeated = repeats ? plans.find(({ op, isLate }) => op.readRequests === 0 && isLate !== true && !(isHeld && op.request !== undefined)) : undefined;
    await issue(h, plans.map((planned) => ({ planned, fate: planned === repeated ? 'repeated' : 'heard' })));
  });

function disjoint(h: History, choices: readonly Choice[]): Planned[] {
  const used = new Set<object>();
  return choices.flatMap((choice, i) => {
    const planned = plan(h, choice, `${h.steps}${'xyz'[i] ?? ''}`);
    if (planned === undefined || planned.uses.some((one) => used.has(one))) return [];
    for (const one of planned.uses) used.add(one);
    return [planned];
  });
}

const heard = (h: History, planned: Planned | undefined) => issue(h, planned === undefined ? [] : [{ planned, fate: 'heard' }]);

/** Steps, and then what they have made possible and seldom is. */
async function issue(h: History, plans: readonly { readonly planned: Planned; readonly fate: Fate }[]): Promise<void> {
  if (plans.length > 0) await h.step(plans);
  await probe(h);
}

/**
 * Tries whatever one thing alone stops, once for each such thing in a history: a condition that lacks it lets this through,
 * and chance alone seldom comes at the right time.
 */
async function probe(h: History): Promise<void> {
  for (let next = untried(h); next !== undefined; next = untried(h)) {
    h.probed.add(next.why);
    await h.step([{ planned: next.planned, fate: 'heard' }]);
  }
}

function untried(h: History): { readonly why: string; readonly planned: Planned } | undefined {
  const found = narrowlyRefused(h, h.steps, String(h.steps)).find(({ why }) => !common.has(why) && !h.probed.has(why));
  return found;
}

/** What every history meets by itself. */
const common: ReadonlySet<string> = new Set([
  'admit: another configuration', 'admit: no room', 'admit: claimed', 'exchange: another configuration', 'bury: another configuration', 'bury: claimed',
  'bury as unknown: another configuration',
]);

/** Workers that are not interrupted: each clears what is in its way, or delivers what it was granted. */
const receive = (asking: Asking, outcomes: readonly OutcomeName[], waitMs: number): Command =>
  command(`receive ${named({ kind: 'admit', isStale: false, ...asking })}: ${outcomes.join(', ')}`, (h) => isPossible(h, { kind: 'admit', isStale: false, ...asking }, false) || h.among(asking.events).some((e) => planReapClaim(h, e) !== undefined), async (h) => {
    // The first as it was asked for; after that each asks for what has ended once more.
    let goesOn = true;
    for (const [i, outcome] of outcomes.entries()) goesOn &&= await receiveOnce(h, i === 0 ? asking : { ...asking, resend: true }, [outcome, waitMs]);
  });

/** False where nothing could be done. */
async function receiveOnce(h: History, asking: Asking, how: readonly [OutcomeName, number]): Promise<boolean> {
  const before = h.senders.length;
  await heard(h, plan(h, { kind: 'admit', isStale: false, ...asking }, String(h.steps)));
  const sender = h.senders[before];
  if (sender === undefined) return clear(h, h.among(asking.events));
  for (const d of sender.deliveries) await finish(h, sender, d, how);
  await heard(h, giveBackOf(h, sender));
  return true;
}

async function finish(h: History, sender: Sender, d: Delivery, how: readonly [OutcomeName, number]): Promise<void> {
  // A renewal, its request, its verdict and a mark at most.
  for (let writes = 0; writes < 4; writes++) {
    post(h, sender, d, ...how);
    const owed = writeOf(h, sender, d);
    if (owed === undefined) return;
    await heard(h, owed);
  }
}

/** As an admission does that finds expired claims: they go, and beside them every expired lease. */
async function clear(h: History, wanted: readonly string[]): Promise<boolean> {
  let reaped = 0;
  for (const event of wanted) {
    const planned = planReapClaim(h, event);
    if (planned === undefined) continue;
    await heard(h, planned);
    reaped++;
  }
  if (reaped === 0 && (h.state.lane?.avail ?? 0) >= wanted.length) return false;
  const expired = [...(h.state.lane?.leases ?? [])].filter(([, lease]) => lease.expiresEpochMs <= h.nowEpochMs);
  for (const [leaseId, lease] of expired) await heard(h, reapLeaseOf(h, leaseId, lease));
  return reaped + expired.length > 0;
}

/** The requests of a sender's deliveries leave, and nothing is written yet. */
const send = (which: number, outcome: OutcomeName, waitMs: number): Command => {
  const able = (h: History) => h.senders.filter((s) => !s.isDead && s.gives === undefined && s.expiresEpochMs > h.nowEpochMs && s.deliveries.some((d) => d.phase === 'claimed'));
  return command(`send #${which}: ${outcome}`, (h) => able(h).length > 0, (h) => {
    const senders = able(h);
    const sender = senders[which % senders.length];
    for (const d of sender?.deliveries ?? []) if (sender !== undefined) post(h, sender, d, outcome, waitMs);
    return Promise.resolve();
  });
};

/** A canary that gives its place back and dies before its lease: chance alone seldom does all of it in a row. */
const returned = (eventId: string): Command =>
  command(`canary of ${eventId} that says nothing, and dies`, (h) => h.state.lane?.breaker?.state === 'open', async (h) => {
    const probing = plan(h, { kind: 'probe', event: eventId, isStale: false }, String(h.steps));
    await issue(h, probing === undefined ? [] : [{ planned: probing, fate: 'copied' }]);
    await heard(h, plan(h, { kind: 'report', health: 'unknown', isStale: false }, String(h.steps)));
    for (const sender of h.senders) sender.isDead = true;
    h.nowEpochMs += leaseMs;
    await heard(h, planReapClaim(h, h.among([eventId])[0] ?? ''));
  });

const crash = (which: number): Command =>
  command(`crash #${which}`, (h) => h.senders.some((s) => !s.isDead), (h) => {
    const living = h.senders.filter((s) => !s.isDead);
    const sender = living[which % living.length];
    if (sender !== undefined) sender.isDead = true;
    h.note(`${sender?.leaseId ?? ''} dies`);
    return Promise.resolve();
  });

const pass = (ms: number): Command =>
  command(`pass ${ms} ms`, () => true, (h) => {
    h.nowEpochMs += ms;
    h.note(`${ms} ms pass`);
    return Promise.resolve();
  });

const which = fc.nat(5);
const event = fc.constantFrom(...events);
const rarely = fc.nat(9).map((n) => n === 9);
const asking = fc.record<Asking>({
  events: fc.oneof(fc.subarray(events, { minLength: 1, maxLength: 1 }), fc.subarray(events, { minLength: 1 })),
  resend: fc.boolean(),
  redrive: fc.boolean(),
  live: fc.boolean(),
});
const slots = fc.integer({ min: 1, max: 4 });

/** Choices by kind, with the fates that tell most of them. */
const choices: { readonly [K in Choice['kind']]: { readonly fates: readonly Fate[]; readonly of: fc.Arbitrary<Choice> } } = {
  admit: { fates: ['heard', 'heard', 'heard', 'copied', 'copied', 'late', 'repeated', 'last'], of: fc.record({ asking, isStale: rarely }).map(({ asking: a, isStale }) => ({ kind: 'admit', isStale, ...a })) },
  exchange: { fates: ['heard', 'heard', 'repeated', 'late', 'copied', 'last'], of: fc.record({ asking, isStale: rarely, which }).map(({ asking: a, ...rest }) => ({ kind: 'exchange', ...rest, ...a })) },
  settle: { fates: ['heard', 'heard', 'repeated', 'late', 'copied', 'last'], of: fc.record({ kind: fc.constant('settle'), which }) },
  probe: { fates: ['heard', 'heard', 'copied', 'copied', 'repeated', 'late', 'last'], of: fc.record({ kind: fc.constant('probe'), event, isStale: rarely }) },
  report: { fates: ['heard', 'heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('report'), health: fc.constantFrom('answered', 'failed', 'unreachable', 'unreachable', 'unreachable', 'unknown'), isStale: rarely }) },
  spend: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('spend'), isStale: rarely }) },
  giveBack: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('giveBack'), which }) },
  reapLease: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('reapLease'), which }) },
  reapClaim: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('reapClaim'), event }) },
  land: { fates: ['heard'], of: fc.record({ kind: fc.constant('land'), which }) },
  markBuried: { fates: ['heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('markBuried'), event }) },
  buryUnclaimed: { fates: ['heard', 'heard', 'repeated', 'late', 'late'], of: fc.record({ kind: fc.constant('buryUnclaimed'), event, isStale: rarely, renews: fc.boolean() }) },
  put: { fates: ['heard', 'heard', 'heard', 'repeated', 'late', 'late'], of: fc.record({ kind: fc.constant('put'), slots }) },
  remove: { fates: ['heard', 'heard', 'heard', 'repeated', 'late'], of: fc.constant({ kind: 'remove' }) },
  holdRecord: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('holdRecord'), event, resend: fc.nat(1) }) },
  note: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('note'), count: fc.nat(2), isReady: fc.boolean() }) },
  wake: { fates: ['heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('wake'), isStale: rarely, isEmpty: fc.constant(false) }) },
  beginDrain: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.constant({ kind: 'beginDrain' }) },
  endDrain: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('endDrain'), isStale: rarely, isEmpty: fc.boolean() }) },
  pace: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('pace'), to: fc.nat(4), isStale: rarely }) },
  look: { fates: ['heard', 'heard', 'repeated', 'late', 'copied'], of: fc.record({ kind: fc.constant('look'), event, found: fc.nat(2) }) },
};

type Kind = Choice['kind'] | 'receive' | 'send' | 'lose' | 'crash' | 'pass' | 'atOnce' | 'returned';

/** What happens in a history, and how often: with fewer kinds of things it goes deeper into each. */
export const themes = {
  everything: {
    admit: 5, exchange: 4, settle: 5, giveBack: 3, reapLease: 2, reapClaim: 3, land: 3, markBuried: 2, buryUnclaimed: 2, put: 2, remove: 1,
    receive: 4, send: 4, crash: 2, pass: 3, atOnce: 5, probe: 1, report: 1, spend: 1,
    holdRecord: 2, note: 1, wake: 1, beginDrain: 1, endDrain: 1, pace: 1,
  },
  holding: {
    holdRecord: 6, note: 3, wake: 2, beginDrain: 3, endDrain: 4, pace: 1, receive: 3, admit: 3, exchange: 2, settle: 4, giveBack: 2, reapClaim: 2, send: 4,
    buryUnclaimed: 1, put: 1, remove: 1, land: 4, pass: 3, crash: 1, atOnce: 4,
  },
  pace: { pace: 6, note: 2, beginDrain: 1, endDrain: 1, admit: 4, exchange: 4, giveBack: 2, send: 1, land: 2, put: 1, pass: 1, atOnce: 2 },
  breaker: { probe: 6, report: 8, admit: 2, exchange: 2, giveBack: 1, reapClaim: 4, reapLease: 1, put: 1, land: 3, pass: 4, crash: 2, atOnce: 3, returned: 1, spend: 1 },
  looking: { look: 8, lose: 5, admit: 4, settle: 5, giveBack: 3, reapClaim: 2, reapLease: 1, land: 3, pass: 3, crash: 1, holdRecord: 1, atOnce: 2 },
  operators: { put: 6, remove: 4, land: 2, admit: 2, buryUnclaimed: 2, giveBack: 1, atOnce: 2 },
  senders: { admit: 5, exchange: 6, settle: 3, giveBack: 2, reapLease: 2, reapClaim: 2, land: 2, put: 1, send: 3, pass: 3, atOnce: 2 },
  reaping: { admit: 6, exchange: 1, send: 1, reapLease: 2, reapClaim: 5, pass: 4, atOnce: 1 },
  records: { receive: 6, admit: 3, settle: 5, reapClaim: 2, land: 1, markBuried: 2, buryUnclaimed: 4, giveBack: 2, send: 3, crash: 1, pass: 3, atOnce: 2 },
} as const satisfies Record<string, Partial<Record<Kind, number>>>;

export type Theme = keyof typeof themes;

export function commandsOf(theme: Theme): fc.Arbitrary<Command> {
  const weights: Partial<Record<Kind, number>> = themes[theme];
  const among = (Object.keys(choices) as Choice['kind'][]).map((kind) => ({ weight: weights[kind] ?? 0, ...choices[kind] })).filter(({ weight }) => weight > 0);
  const anyChoice = fc.oneof(...among.map(({ weight, of }) => ({ weight, arbitrary: of })));
  const others: Record<Exclude<Kind, Choice['kind']>, fc.Arbitrary<Command>> = {
    receive: fc.tuple(asking, fc.array(outcome, { minLength: 1, maxLength: 3, size: 'max' }), waitMs).map((args) => receive(...args)),
    send: fc.tuple(which, outcome, waitMs).map((args) => send(...args)),
    lose: which.map((w) => send(w, 'lost', 0)),
    crash: which.map(crash),
    returned: event.map(returned),
    pass: fc.constantFrom(leaseMs * 0.3, leaseMs, leaseMs).map(pass),
    atOnce: fc.tuple(fc.array(anyChoice, { minLength: 2, maxLength: 3, size: 'max' }), fc.boolean()).map((args) => atOnce(...args)),
  };
  return fc.oneof(
    ...among.map(({ weight, fates, of }) => ({ weight, arbitrary: fc.tuple(of, fc.constantFrom(...fates), rarely).map((args) => one(...args)) })),
    ...Object.entries(others).map(([kind, arbitrary]) => ({ weight: weights[kind as Kind] ?? 0, arbitrary })).filter(({ weight }) => weight > 0),
  );
}

const outcome = fc.constantFrom<OutcomeName>('ok', 'ok', 'busy', 'busy', 'rejected', 'silent', 'expired');
const waitMs = fc.constantFrom(0, 0, 600);

/** Everything that can still come, comes; then time passes, and whoever needs the room clears what the dead have left. */
export async function heal(h: History): Promise<void> {
  for (const sender of h.senders) sender.isDead = true;
  for (let rounds = 0; rounds < 2; rounds++) {
    h.nowEpochMs += 10 * leaseMs;
    await clearAll(h);
    const left = h.state.lane;
    if (left !== undefined && (left.avail !== left.slots || left.leases.size + left.claims.size > 0)) {
      throw h.broken(`slots are lost: ${left.avail} of ${left.slots}, ${left.leases.size} leases and ${left.claims.size} claims are left`);
    }
    while (h.late.length > 0) await heard(h, plan(h, { kind: 'land', which: 0 }, ''));
  }
}

async function clearAll(h: History): Promise<void> {
  for (const event of events) {
    const { lane } = h.state;
    const claim = lane?.claims.get(h.namesOf(event).claimKey);
    if (lane !== undefined && claim !== undefined && isExpired(lane, claim, h.nowEpochMs)) await heard(h, planReapClaim(h, event));
  }
  for (const [leaseId, lease] of h.state.lane?.leases ?? []) await heard(h, reapLeaseOf(h, leaseId, lease));
}
