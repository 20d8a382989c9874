import { timingSafeEqual } from 'node:crypto';
import { evidenceOf, measuredOf, sentenceOf } from '../shared/core/evidence.ts';
import { tokenHash } from '../shared/core/status-token.ts';
import { idPattern } from '../shared/limits/message-schema.ts';
import type { Clock, Standing, Standings, Telemetry, Windows } from '../shared/ports/index.ts';

export interface StatusDeps {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly standings: Standings;
  readonly windows: Pick<Windows, 'newest'>;
}

/** What a function URL hands over of a request (payload format 2.0). */
export interface UrlRequest {
  readonly rawPath: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly requestContext: { readonly http: { readonly method: string } };
}

export interface UrlAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * `GET /ENDPOINTID` with the endpoint's bearer token: what a consumer may see of itself (L7), and nothing of anybody else. Whoever
 * has no token that fits learns nothing, not even whether there is such an endpoint.
 */
export async function answer(deps: StatusDeps, { rawPath, headers, requestContext: { http } }: UrlRequest): Promise<UrlAnswer> {
  if (http.method !== 'GET' && http.method !== 'HEAD') return said(405, { error: 'only GET' }, { allow: 'GET, HEAD' });
  const endpointId = rawPath.replace(/^\/|\/$/g, '');
  const token = /^Bearer ([\w.~+/=-]{1,200})$/i.exec(headers['authorization'] ?? '')?.[1];
  if (token === undefined || !idPattern.test(endpointId)) return unauthorized();
  try {
    // Nothing else is read for who has no right to it.
    if (!isTheirs(await deps.standings.tokenHash(endpointId), token)) return unauthorized();
    const standing = await deps.standings.read(endpointId);
    if (standing === undefined) return unauthorized();
    return said(200, await statusOf(deps, endpointId, standing));
  } catch (error) {
    deps.telemetry.fault('status-unread', error, { endpointId });
    return said(503, { error: 'cannot be read now' }, { 'retry-after': '30' });
  }
}

async function statusOf({ clock, windows }: StatusDeps, endpointId: string, { lane, status, maxPerDay }: Standing) {
  const nowEpochMs = clock.nowEpochMs();
  const [before] = await windows.newest(endpointId, 1);
  const evidence = evidenceOf(lane, measuredOf(lane.window, before, nowEpochMs), nowEpochMs, maxPerDay);
  const { window, latencyMs, slots, inFlight, shedShare, backlog, offeredPerSecond, sustainablePerSecond, breaker, today } = evidence;
  const time = (epochMs: number) => new Date(epochMs).toISOString();
  return {
    v: 1,
    endpointId,
    at: time(nowEpochMs),
    status,
    breaker: { state: breaker, ...(lane.breaker?.state === 'open' ? { until: time(lane.breaker.untilEpochMs) } : {}) },
    outcomes: window === undefined ? null : { since: time(window.sinceEpochMs), attempts: window.attempts, failed: window.failed, lastFailure: window.lastFailure ?? null },
    failuresInARow: lane.failures,
    refuses: lane.flag === undefined ? null : { as: lane.flag.why, since: time(lane.flag.sinceEpochMs) },
    latencyMs: latencyMs ?? null,
    lane: { slots, inFlight },
    shedShare: shedShare ?? null,
    backlog,
    today: today === undefined ? null : { attempts: today.attempts, most: today.most, until: time(today.untilEpochMs) },
    offeredPerSecond: offeredPerSecond ?? null,
    sustainablePerSecond: sustainablePerSecond ?? null,
    says: sentenceOf(evidence),
  };
}

/** Compares in a time that says nothing, also where there is no endpoint or no token. */
function isTheirs(stored: string | undefined, token: string): boolean {
  const [a, b] = [tokenHash(token), stored ?? tokenHash('')].map((hash) => Buffer.from(hash));
  return a !== undefined && b !== undefined && a.length === b.length && timingSafeEqual(a, b) && stored !== undefined;
}

const unauthorized = () => said(401, { error: 'give the token of this endpoint: Authorization: Bearer TOKEN' }, { 'www-authenticate': 'Bearer' });

function said(statusCode: number, body: object, headers: Readonly<Record<string, string>> = {}): UrlAnswer {
  return { statusCode, headers: { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...headers }, body: `${JSON.stringify(body)}\n` };
}
