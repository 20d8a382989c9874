/** Every clause of every condition, what it guards, and the world in which its absence shows. */
import type { Clause } from './clauses.ts';

export interface Catcher extends Clause {
  readonly guards: string;
  readonly world: string;
  /** Of random histories (test/support/lanes-model.ts) that show it soon. */
  readonly seed: number;
}

const taking = 'endpoints: cfg = ? AND avail >= ? AND attribute_not_exists(claims.?) AND attribute_not_exists(open) AND attribute_not_exists(leases.?)';
const probing = 'endpoints: cfg = ? AND avail >= ? AND attribute_not_exists(claims.?) AND open = ? AND attribute_not_exists(leases.?)';
const firstReport = 'endpoints: attribute_not_exists(tally) AND attribute_not_exists(open)';
const exchanging = 'endpoints: leases.?[0] = ? AND cfg = ? AND avail >= ? AND attribute_not_exists(claims.?) AND attribute_not_exists(open)';
const returning = 'endpoints: leases.?[0] = ?';
const sameRecord = 'deliveries: generation = ? AND attempt = ? AND state = ?';
const noEndpoint = 'endpoints: attribute_not_exists(pk) OR (cfg = ? AND attribute_not_exists(claims.?))';
const sameEndpoint = 'endpoints: cfg = ? AND attribute_not_exists(claims.?)';
const resizing = 'endpoints: cfg = ? AND slots = ?';

const of = (condition: string, clause: string, world: string, guards: string, seed = 1): Catcher => ({ condition, clause, world, guards, seed });

export const catchers: readonly Catcher[] = [
  of(taking, 'cfg = ?', 'shrinking', 'admit: nothing is sent by a configuration that was replaced'),
  of(taking, 'avail >= ?', 'shrinking', 'admit: no more in flight than the lane allows'),
  of(taking, 'attribute_not_exists(claims.?)', 'wide', 'admit: one owner of a delivery at a time'),
  of(taking, 'attribute_not_exists(leases.?)', 'wide', 'admit: a repeat that comes late takes no slots twice'),
  of(taking, 'attribute_not_exists(open)', 'half-open', 'admit: nothing passes an open breaker'),
  of(probing, 'cfg = ?', 'half-open-narrow', 'canary: nothing is sent by a configuration that was replaced'),
  of(probing, 'avail >= ?', 'half-open-narrow', 'canary: no more in flight than the lane allows'),
  of(probing, 'attribute_not_exists(claims.?)', 'half-open', 'canary: one owner of a delivery at a time'),
  of(probing, 'open = ?', 'half-open', 'canary: one at a time'),
  of(probing, 'attribute_not_exists(leases.?)', 'half-open', 'canary: a repeat that comes late takes no slots twice'),
  of(firstReport, 'attribute_not_exists(tally)', 'failing', 'a first report: there is no other'),
  of(firstReport, 'attribute_not_exists(open)', 'failing', 'a first report: the breaker has not opened meanwhile'),
  of('endpoints: tally = ?', 'tally = ?', 'failing', 'a report: on what it was counted from'),
  of('endpoints: open = ?', 'open = ?', 'half-open', 'a canary\'s verdict: while it is the canary'),
  of(exchanging, 'attribute_not_exists(open)', 'failing-wave', 'exchange: nothing passes an open breaker'),
  of('endpoints: attribute_not_exists(nextAt)', 'attribute_not_exists(nextAt)', 'rated', 'rate: nobody has begun to spend it'),
  of('endpoints: nextAt = ?', 'nextAt = ?', 'rated-again', 'rate: of what is left of it'),
  of(exchanging, 'cfg = ?', 'shrinking', 'exchange: nothing is sent by a configuration that was replaced'),
  of(exchanging, 'avail >= ?', 'waves', 'exchange: no more in flight than the lane allows'),
  of(exchanging, 'attribute_not_exists(claims.?)', 'shrinking', 'exchange: one owner of a delivery at a time'),
  of(exchanging, 'leases.?[0] = ?', 'two-keys', 'exchange: slots are returned once'),
  of(exchanging, 'claims.?[0] = ?', 'late-wave', 'exchange: releases only claims that are still its own'),
  of(returning, 'leases.?[0] = ?', 'two-keys', 'give back: slots are returned once'),
  of(returning, 'claims.?[0] = ?', 'wide', 'give back: releases only claims that are still its own'),
  of('endpoints: leases.? = ?', 'leases.? = ?', 'wide', 'reap of a lease: slots are returned once'),
  of('endpoints: claims.? = ?', 'claims.? = ?', 'conflict', 'reap of a claim: of exactly the owner that was seen dead'),
  of('deliveries: attribute_not_exists(pk)', 'attribute_not_exists(pk)', 'wide', 'a first verdict: there is no other'),
  of(sameRecord, 'generation = ?', 'resend', 'a verdict: of this generation', 4),
  of(sameRecord, 'attempt = ?', 'resend', 'a verdict: none has come since the record was read', 2),
  of(sameRecord, 'state = ?', 'aged', 'a verdict: the delivery was not given up meanwhile'),
  of('deliveries: generation = ?', 'generation = ?', 'resend', 'a next generation, a mark, a retirement: of the verdict that was read'),
  of(noEndpoint, 'attribute_not_exists(pk)', 'newcomers', 'burial without an endpoint: also where there never was one'),
  of(noEndpoint, 'cfg = ?', 'newcomers', 'burial without an endpoint: none was registered meanwhile'),
  of(noEndpoint, 'attribute_not_exists(claims.?)', 'settings', 'burial without an endpoint: nobody is sending'),
  of(sameEndpoint, 'cfg = ?', 'disabled', 'burial of what is disabled or aged: the endpoint is still as it was read'),
  of(sameEndpoint, 'attribute_not_exists(claims.?)', 'disabled', 'burial of what is disabled or aged: nobody is sending'),
  of('endpoints: attribute_not_exists(pk)', 'attribute_not_exists(pk)', 'newcomers', 'first put: nobody else was first'),
  of(resizing, 'cfg = ?', 'operators', 'put: over the configuration that was read'),
  of(resizing, 'slots = ?', 'operators', 'put: from the size that was read'),
  of('endpoints: cfg = ?', 'cfg = ?', 'operators', 'remove: the configuration that was read'),
];

export const nameOf = ({ condition, clause }: Clause): string => `${condition} | ${clause}`;
