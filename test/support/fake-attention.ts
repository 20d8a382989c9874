import type { Remembered } from '../../lambdas/shared/core/attention.ts';
import type { EndedWindow } from '../../lambdas/shared/core/statistics.ts';
import type { Notice } from '../../lambdas/shared/ports/index.ts';
import type { AttendDeps } from '../../lambdas/sweep/attend.ts';
import type { EscalateDeps } from '../../lambdas/sweep/escalate.ts';
import type { Harness } from './deliver-harness.ts';

/** What the sweep looks at, over a harness's store. */
export interface FakeAttention {
  readonly deps: Pick<AttendDeps, 'attention' | 'windows' | 'laneCeiling'> & Pick<EscalateDeps, 'endpoints' | 'changeStatus' | 'notices'>;
  /** What somebody was told. */
  readonly notices: Notice[];
  readonly ended: Map<string, EndedWindow[]>;
  readonly held: Map<string, number>;
  readonly unknown: Map<string, number>;
  /** Endpoints whose lanes there are. */
  endpoints: string[];
  remembered: ReadonlyMap<string, Remembered>;
  /** Writes of what is remembered. */
  writes: number;
}

export function fakeAttention(h: Harness): FakeAttention {
  const fake: FakeAttention = {
    notices: [], ended: new Map(), held: new Map(), unknown: new Map(), endpoints: ['acme'], remembered: new Map(), writes: 0,
    deps: {
      endpoints: h.store.endpoints,
      changeStatus: h.store.changeStatus,
      notices: { publish: (notice) => Promise.resolve(void fake.notices.push(notice)) },
      laneCeiling: 20,
      windows: {
        put: (endpointId, window) => Promise.resolve(void fake.ended.set(endpointId, [window, ...(fake.ended.get(endpointId) ?? [])])),
        newest: (endpointId, limit) => Promise.resolve((fake.ended.get(endpointId) ?? []).slice(0, limit)),
      },
      attention: {
        async *lanes() {
          // A page each.
          for (const endpointId of fake.endpoints) {
            const lane = await h.store.lane(endpointId);
            yield { lanes: lane === undefined ? [] : [{ endpointId, lane }], unreadable: new Map() };
          }
        },
        heldSince: (endpointId) => Promise.resolve(fake.held.get(endpointId)),
        unknownSince: () => Promise.resolve(fake.unknown),
        remembered: () => Promise.resolve({ endpoints: fake.remembered, version: fake.writes }),
        remember: (all, { version }) => {
          if (version !== fake.writes) return Promise.resolve(false);
          fake.writes++;
          fake.remembered = structuredClone(all);
          return Promise.resolve(true);
        },
      },
    },
  };
  return fake;
}
