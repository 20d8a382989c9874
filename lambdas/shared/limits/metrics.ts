/**
 * Every metric that the functions publish (R11, T12), by its name in CloudWatch. lib/ builds alarms and the dashboard of these names,
 * the functions publish under no others, and docs/metrics.md says what they cost.
 */

import type { replayReasons } from './replay-request.ts';

/** Each installation has a namespace of its own below it (lib/installation.ts): of two in one account neither hides the other's silence. */
export const metricNamespaceRoot = 'Sluice';

/** Dimensions: a metric is found only by exactly the set that it was published with. */
export const dimensions = { service: 'service', outcome: 'outcome', endpointId: 'endpointId' } as const;

export type MetricUnit = 'Count' | 'Seconds' | 'Milliseconds' | 'None';

interface Metric {
  readonly unit: MetricUnit;
  readonly says: string;
}

/** Of the whole fleet, always; dimension `service`. */
export const fleetMetrics = {
  attempts: { unit: 'Count', says: 'requests that were tried' },
  attempts_answered: { unit: 'Count', says: 'of these, with a status' },
  attempts_ambiguous: { unit: 'Count', says: 'of these, sent without an answer' },
  attempts_unsent: { unit: 'Count', says: 'of these, nothing was sent: name, connection, TLS' },
  attempts_invalid: { unit: 'Count', says: 'of these, the endpoint cannot be sent to as it is configured' },
  failed_attempts: { unit: 'Count', says: 'of these, without a delivery' },
  first_attempts: { unit: 'Count', says: 'first attempts of their generation' },
  first_attempts_delivered: { unit: 'Count', says: 'of these, delivered: the first-attempt delivery rate is their ratio (goal 98.5 %)' },
  delivered: { unit: 'Count', says: 'deliveries that ended well; with `dead` the eventual delivery rate (goal 99.95 %)' },
  dead: { unit: 'Count', says: 'deliveries that ended in the dead-letter queue' },
  dead_unaddressed: { unit: 'Count', says: 'of these, messages that are malformed, or to an endpoint that nobody has registered' },
  unknown: { unit: 'Count', says: 'deliveries that became unknown' },
  shed: { unit: 'Count', says: 'deliveries for which a lane had no room' },
  held: { unit: 'Count', says: 'deliveries that were put into the hold' },
  breaker_opened: { unit: 'Count', says: 'breakers that opened' },
  breaker_closed: { unit: 'Count', says: 'breakers that closed' },
  throttled: { unit: 'Count', says: 'times that an endpoint asked for less' },
  not_started: { unit: 'Count', says: 'attempts that ended before they began: no socket, no time' },
  stale_sockets: { unit: 'Count', says: 'sockets that were dead when they were used again' },
  faults: { unit: 'Count', says: 'bugs and failed infrastructure, by name in the log' },
  attempt_duration: { unit: 'Milliseconds', says: 'from the wait for a socket to the outcome' },
  delivery_latency: { unit: 'Milliseconds', says: 'from the message being sent to its delivery' },
  connections_in_use: { unit: 'Count', says: 'most sockets of one environment that were in use at once' },
  connections_idle: { unit: 'Count', says: 'sockets of one environment that are open and idle' },
  connections_reused: { unit: 'None', says: '1 where an attempt found an open socket, 0 where it set one up: the average is the reuse ratio' },
  swept: { unit: 'Count', says: 'runs of the sweep' },
  oldest_undelivered_age: { unit: 'Seconds', says: 'age of the oldest delivery that is held' },
  oldest_unknown_age: { unit: 'Seconds', says: 'for how long the oldest delivery has been unknown' },
  oldest_dead_letter_age: { unit: 'Seconds', says: 'age of the oldest copy that was seen in the dead-letter queue, of at most a hundred a minute, and left there' },
  held_deliveries: { unit: 'Count', says: 'deliveries that are held now, about' },
  breakers_open: { unit: 'Count', says: 'endpoints whose breaker is open or half-open' },
  endpoints_sick: { unit: 'Count', says: 'endpoints of which at least one gauge is published' },
} as const satisfies Readonly<Record<string, Metric>>;

export type FleetMetric = keyof typeof fleetMetrics;

/** Milliseconds of each phase of an attempt (T12); dimensions `service` and `outcome`. */
export const phaseMetric = (phase: string) => `phase_${phase}`;

/** Of one endpoint, only where there is something to report; dimension `endpointId` alone, so that both senders add up. */
export const endpointMetrics = {
  failed_attempts: { unit: 'Count', says: 'attempts without a delivery' },
  shed: { unit: 'Count', says: 'deliveries for which the lane had no room' },
  held: { unit: 'Count', says: 'deliveries that were put into the hold' },
  dead: { unit: 'Count', says: 'deliveries that ended in the dead-letter queue' },
  unknown: { unit: 'Count', says: 'deliveries that became unknown' },
} as const satisfies Readonly<Record<string, Metric>>;

export type EndpointMetric = keyof typeof endpointMetrics;

/** Of one endpoint that needs attention, published by the sweep each minute and ended by one zero; dimension `endpointId`. */
export const endpointGauges = {
  failure_ratio: { unit: 'None', says: 'attempts without a delivery, of all in the window' },
  connect_failure_ratio: { unit: 'None', says: 'attempts that got no connection, of all in the window' },
  shed_ratio: { unit: 'None', says: 'deliveries that found no room when they came, of all that came in the window (L6)' },
  occupancy_share: { unit: 'None', says: 'share of all delivery seconds, where it is above twice the share of all attempts (L6)' },
  breaker_open_age: { unit: 'Seconds', says: 'for how long the breaker has not been closed' },
  oldest_undelivered_age: { unit: 'Seconds', says: 'age of the oldest delivery that is held' },
  oldest_unknown_age: { unit: 'Seconds', says: 'for how long its oldest delivery has been unknown' },
} as const satisfies Readonly<Record<string, Metric>>;

export type EndpointGauge = keyof typeof endpointGauges;

interface EventMetric {
  readonly metric: FleetMetric;
  /** Field of the event that says how many; without one, each event counts once. */
  readonly amount?: 'copies';
  /** Also of the endpoint that the event names... */
  readonly forEndpoint?: EndpointMetric;
  /** ...or of this instead, where the event's `reason` says that the name is only what a producer wrote: metrics are paid for by the name. */
  readonly unaddressed?: { readonly metric: FleetMetric; readonly reasons: readonly string[] };
}

/** What the events of the flows count, by the event's name; the others are lines of the log only. */
export const eventMetrics: Readonly<Record<string, EventMetric>> = {
  shed: { metric: 'shed', amount: 'copies', forEndpoint: 'shed' },
  // A slow endpoint is left to the drain, and one has its own rate, or its day is spent: for who sends to it, there was no room either.
  'left-to-drain': { metric: 'shed', amount: 'copies', forEndpoint: 'shed' },
  'day-spent': { metric: 'shed', amount: 'copies', forEndpoint: 'shed' },
  'rate-reached': { metric: 'shed', amount: 'copies', forEndpoint: 'shed' },
  held: { metric: 'held', amount: 'copies', forEndpoint: 'held' },
  dead: { metric: 'dead', forEndpoint: 'dead', unaddressed: { metric: 'dead_unaddressed', reasons: ['malformed', 'unknown-endpoint'] satisfies (typeof replayReasons)[number][] } },
  unknown: { metric: 'unknown', forEndpoint: 'unknown' },
  'breaker-opened': { metric: 'breaker_opened' },
  'breaker-closed': { metric: 'breaker_closed' },
  throttled: { metric: 'throttled' },
  'not-started': { metric: 'not_started' },
  'stale-socket': { metric: 'stale_sockets' },
  swept: { metric: 'swept' },
};
