/** Every clause of every condition, what it guards, and the world in which its absence shows. */
import type { Clause } from './clauses.ts';

export interface Catcher extends Clause {
  readonly guards: string;
  readonly world: string;
  /** Of random histories (test/support/lanes-model.ts) that show it soon. */
  readonly seed: number;
}

/** What every taking of slots requires, in its order; live traffic leaves a slow endpoint to the drain, and a part of the lane while anything is held. */
const asked = 'cfg = ? AND avail >= ? AND attribute_not_exists(claims.?)';
const leftToDrain = 'attribute_not_exists(slow) AND (attribute_not_exists(ready) OR avail >= ?)';
const leftRoom = 'avail >= ? of (attribute_not_exists(ready) OR avail >= ?)';
const taking = `endpoints: ${asked} AND attribute_not_exists(open) AND ${leftToDrain} AND attribute_not_exists(leases.?)`;
const drainTaking = `endpoints: ${asked} AND attribute_not_exists(open) AND attribute_not_exists(leases.?)`;
const probing = `endpoints: ${asked} AND open = ? AND attribute_not_exists(leases.?)`;
const exchanging = `endpoints: leases.?[0] = ? AND ${asked} AND attribute_not_exists(open) AND ${leftToDrain}`;
const drainExchanging = `endpoints: leases.?[0] = ? AND ${asked} AND attribute_not_exists(open)`;
const firstReport = 'endpoints: attribute_not_exists(tally) AND attribute_not_exists(open)';
const returning = 'endpoints: leases.?[0] = ?';
const firstPace = 'endpoints: attribute_not_exists(pace) AND attribute_exists(cfg)';
const slowPace = 'endpoints: pace = ? AND attribute_exists(slow)';
const otherPace = 'endpoints: pace = ? AND attribute_not_exists(slow)';
const noting = 'endpoints: attribute_exists(cfg) AND cfg <> ?';
const beginning = 'endpoints: attribute_exists(holding) AND (attribute_not_exists(drain) OR drain[1] <= ?)';
const ending = 'endpoints: drain[0] = ? AND holdSeq = ? AND wakeAt = ?';
const sameRecord = 'deliveries: generation = ? AND attempt = ? AND home = ?';
const sameVerdict = 'deliveries: generation = ? AND state = ?';
const sameLook = 'deliveries: generation = ? AND attempt = ? AND looks = ?';
const holding = 'deliveries: generation = ? AND attempt = ? AND state = ? AND resend <= ?';
const noEndpoint = 'endpoints: attribute_not_exists(pk) OR (cfg = ? AND attribute_not_exists(claims.?))';
const sameEndpoint = 'endpoints: cfg = ? AND attribute_not_exists(claims.?)';
const resizing = 'endpoints: cfg = ? AND slots = ?';

const of = (condition: string, clause: string, world: string, guards: string, seed = 1): Catcher => ({ condition, clause, world, guards, seed });

export const catchers: readonly Catcher[] = [
  of(taking, 'cfg = ?', 'shrinking', 'admit: nothing is sent by a configuration that was replaced'),
  of(taking, 'avail >= ?', 'shrinking', 'admit: no more in flight than the lane allows'),
  of(taking, 'attribute_not_exists(claims.?)', 'wide', 'admit: one owner of a delivery at a time'),
  of(taking, 'attribute_not_exists(leases.?)', 'wide', 'admit: a repeat that comes late takes no slots twice'),
  of(taking, 'attribute_not_exists(open)', 'failing', 'admit: nothing passes an open breaker'),
  of(taking, 'attribute_not_exists(slow)', 'slowing', 'admit: only the drain serves a slow endpoint'),
  of(taking, 'attribute_not_exists(ready)', 'wide', 'admit: while nothing is held, all slots are live traffic\'s'),
  of(taking, leftRoom, 'holding-wave', 'admit: while anything is held, live traffic goes on in its part of the lane'),
  of(drainTaking, 'cfg = ?', 'shrinking-held', 'the drain\'s admit: nothing is sent by a configuration that was replaced'),
  of(drainTaking, 'avail >= ?', 'shrinking-held', 'the drain\'s admit: no more in flight than the lane allows'),
  of(drainTaking, 'attribute_not_exists(claims.?)', 'wide-held', 'the drain\'s admit: one owner of a delivery at a time'),
  of(drainTaking, 'attribute_not_exists(leases.?)', 'wide-held', 'the drain\'s admit: a repeat that comes late takes no slots twice'),
  of(drainTaking, 'attribute_not_exists(open)', 'half-open', 'the drain\'s admit: nothing passes an open breaker'),
  of(probing, 'cfg = ?', 'half-open-narrow', 'canary: nothing is sent by a configuration that was replaced'),
  of(probing, 'avail >= ?', 'half-open-narrow', 'canary: no more in flight than the lane allows'),
  of(probing, 'attribute_not_exists(claims.?)', 'half-open', 'canary: one owner of a delivery at a time'),
  of(probing, 'open = ?', 'half-open', 'canary: one at a time'),
  of(probing, 'attribute_not_exists(leases.?)', 'half-open', 'canary: a repeat that comes late takes no slots twice'),
  of(firstReport, 'attribute_not_exists(tally)', 'failing', 'a first report: there is no other'),
  of(firstReport, 'attribute_not_exists(open)', 'failing', 'a first report: the breaker has not opened meanwhile'),
  of('endpoints: tally = ?', 'tally = ?', 'failing', 'a report: on what it was counted from'),
  of('endpoints: open = ?', 'open = ?', 'half-open', 'a canary\'s verdict: while it is the canary'),
  of(firstPace, 'attribute_not_exists(pace)', 'slowing-first', 'a first pace: there is no other'),
  of(firstPace, 'attribute_exists(cfg)', 'strangers', 'a first pace: of a lane that is there'),
  of(slowPace, 'pace = ?', 'slow', 'the pace of a slow endpoint: on the one that it was counted from'),
  of(slowPace, 'attribute_exists(slow)', 'strangers', 'the pace of a slow endpoint: while it is slow'),
  of(otherPace, 'pace = ?', 'slowing', 'a pace: on the one that it was counted from'),
  of(otherPace, 'attribute_not_exists(slow)', 'strangers', 'a pace: while the endpoint is not slow'),
  of('endpoints: attribute_not_exists(nextAt)', 'attribute_not_exists(nextAt)', 'rated', 'rate: nobody has begun to spend it'),
  of('endpoints: nextAt = ?', 'nextAt = ?', 'rated-again', 'rate: of what is left of it'),
  of('endpoints: attribute_not_exists(day)', 'attribute_not_exists(day)', 'rationed', 'day: nobody has begun to spend it'),
  of('endpoints: day = ?', 'day = ?', 'rationed-again', 'day: of what is left of it'),
  of(exchanging, 'cfg = ?', 'shrinking', 'exchange: nothing is sent by a configuration that was replaced', 11),
  of(exchanging, 'avail >= ?', 'waves', 'exchange: no more in flight than the lane allows'),
  of(exchanging, 'attribute_not_exists(claims.?)', 'shrinking', 'exchange: one owner of a delivery at a time'),
  of(exchanging, 'attribute_not_exists(open)', 'failing-wave', 'exchange: nothing passes an open breaker'),
  of(exchanging, 'attribute_not_exists(slow)', 'slowing-wave', 'exchange: only the drain serves a slow endpoint'),
  of(exchanging, 'attribute_not_exists(ready)', 'shrinking', 'exchange: while nothing is held, all slots are live traffic\'s'),
  of(exchanging, leftRoom, 'holding-wave', 'exchange: while anything is held, live traffic goes on in its part of the lane', 29),
  of(exchanging, 'leases.?[0] = ?', 'two-keys', 'exchange: slots are returned once'),
  of(exchanging, 'claims.?[0] = ?', 'late-wave', 'exchange: releases only claims that are still its own'),
  of(drainExchanging, 'cfg = ?', 'shrinking-held', 'the drain\'s exchange: nothing is sent by a configuration that was replaced'),
  of(drainExchanging, 'avail >= ?', 'waves-held', 'the drain\'s exchange: no more in flight than the lane allows'),
  of(drainExchanging, 'attribute_not_exists(claims.?)', 'shrinking-held', 'the drain\'s exchange: one owner of a delivery at a time'),
  of(drainExchanging, 'attribute_not_exists(open)', 'failing-wave-held', 'the drain\'s exchange: nothing passes an open breaker'),
  of(drainExchanging, 'leases.?[0] = ?', 'two-keys-held', 'the drain\'s exchange: slots are returned once'),
  of(drainExchanging, 'claims.?[0] = ?', 'late-wave-held', 'the drain\'s exchange: releases only claims that are still its own'),
  of(returning, 'leases.?[0] = ?', 'two-keys', 'give back: slots are returned once'),
  of(returning, 'claims.?[0] = ?', 'wide', 'give back: releases only claims that are still its own'),
  of('endpoints: leases.? = ?', 'leases.? = ?', 'wide', 'reap of a lease: slots are returned once'),
  of('endpoints: claims.? = ?', 'claims.? = ?', 'conflict', 'reap of a claim: of exactly the owner that was seen dead'),
  of(noting, 'attribute_exists(cfg)', 'strangers', 'a hold: on a lane that is there'),
  of(noting, 'cfg <> ?', 'strangers', 'a hold: not for an endpoint that was removed'),
  of('endpoints: wakeAt = ?', 'wakeAt = ?', 'draining', 'a wake-up: over the one that was seen, and not over that of a run that has begun'),
  of(beginning, 'attribute_exists(holding)', 'drains', 'a run of the drain: where something is held'),
  of(beginning, 'attribute_not_exists(drain)', 'drains', 'a run of the drain: where there is none'),
  of(beginning, 'drain[1] <= ?', 'drains', 'a run of the drain: in the place of one that has died'),
  of(ending, 'drain[0] = ?', 'drains', 'the end of a run: of one\'s own'),
  of(ending, 'wakeAt = ?', 'drains', 'the end of a run: nobody has asked for another meanwhile', 29),
  of(ending, 'holdSeq = ?', 'draining', 'the end of a run: nothing was held since it looked'),
  of('deliveries: attribute_not_exists(pk)', 'attribute_not_exists(pk)', 'wide', 'a first verdict: there is no other'),
  of(sameRecord, 'generation = ?', 'resend', 'a verdict: of this generation', 4),
  of(sameRecord, 'attempt = ?', 'resend', 'a verdict: none has come since the record was read', 2),
  of(sameRecord, 'home = ?', 'aged', 'a verdict: the delivery was not given up meanwhile, and what was held stays held'),
  of(sameLook, 'generation = ?', 'resolved', 'what a look found: in this generation'),
  of(sameLook, 'attempt = ?', 'absent', 'what a look found: nothing was sent meanwhile'),
  of(sameLook, 'looks = ?', 'looking', 'what a look found: nobody has looked meanwhile, and it is unknown still'),
  of(holding, 'generation = ?', 'held-resend', 'a hold of what waits: in this generation'),
  of(holding, 'attempt = ?', 'held-resend', 'a hold of what waits: nothing was sent meanwhile'),
  of(holding, 'state = ?', 'held-aged', 'a hold of what waits: it still waits'),
  of(holding, 'resend <= ?', 'held-twice', 'a hold of what waits: nobody has asked for it again meanwhile'),
  of(sameVerdict, 'generation = ?', 'resend', 'a next generation, a mark, a retirement: of the verdict that was read'),
  of(sameVerdict, 'state = ?', 'dropped', 'a next generation, a mark, a retirement: it was not dropped meanwhile'),
  of(noEndpoint, 'attribute_not_exists(pk)', 'newcomers', 'burial without an endpoint: also where there never was one'),
  of(noEndpoint, 'cfg = ?', 'newcomers', 'burial without an endpoint: none was registered meanwhile'),
  of(noEndpoint, 'attribute_not_exists(claims.?)', 'settings', 'burial without an endpoint: nobody is sending'),
  of(sameEndpoint, 'cfg = ?', 'disabled', 'burial of what is disabled or aged: the endpoint is still as it was read'),
  of(sameEndpoint, 'attribute_not_exists(claims.?)', 'disabled', 'burial of what is disabled or aged: nobody is sending'),
  of('endpoints: attribute_not_exists(pk)', 'attribute_not_exists(pk)', 'newcomers', 'first put: nobody else was first', 12),
  of(resizing, 'cfg = ?', 'operators', 'put: over the configuration that was read'),
  of(resizing, 'slots = ?', 'operators', 'put: from the size that was read'),
  of('endpoints: cfg = ?', 'cfg = ?', 'operators', 'remove: the configuration that was read'),
];

export const nameOf = ({ condition, clause }: Clause): string => `${condition} | ${clause}`;
