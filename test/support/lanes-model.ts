/** Random histories of one endpoint against a sequential model, on an embedded DynamoDB of their own; without vitest. */
import fc from 'fast-check';
import type { DeliveryRecord } from '../../lambdas/shared/core/record.ts';
import type { Clause } from '../explore/clauses.ts';
import { deadOf, deliveredOf, t0EpochMs, waitingOf } from './builders.ts';
import { plan } from './lanes-model/choices.ts';
import { commandsOf, heal, themes, type Command, type Theme } from './lanes-model/commands.ts';
import { events, History } from './lanes-model/history.ts';
import { startReals, type Reals, type RealsOptions } from './lanes-model/reals.ts';
import { repeating } from './seeds.ts';

export interface LanesModelRun {
  readonly seed: number;
  /** Histories at most; the first that fails is the last. */
  readonly runs: number;
  /** Removed from every condition that has it. */
  readonly dropped?: Clause | undefined;
  /** Whether a history that fails is made as short as it can be. Default true; it takes seconds. */
  readonly shrinks?: boolean;
}

export interface LanesModelResult {
  readonly failed: boolean;
  /** What is broken, after which steps, and how to have it again. */
  readonly message?: string;
  /** Histories that were made, the one that failed included. */
  readonly runs: number;
}

export async function runLanesModel(run: LanesModelRun): Promise<LanesModelResult> {
  return check(run, { dropped: run.dropped });
}

/** Every clause of the conditions that a run's requests had. */
export async function clausesOfLanesModel(run: Pick<LanesModelRun, 'seed' | 'runs'>): Promise<Clause[]> {
  const clauses = new Map<string, Clause>();
  const { message } = await check(run, { onClause: (found) => clauses.set(`${found.condition} | ${found.clause}`, found) });
  if (message !== undefined) throw new Error(message);
  return [...clauses].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, clause]) => clause);
}

async function check(run: LanesModelRun, options: RealsOptions): Promise<LanesModelResult> {
  const reals = await startReals(options);
  try {
    const property = fc.asyncProperty(histories, ([start, commands]) => play(reals, start, commands));
    const details = await fc.check(property, { seed: run.seed, numRuns: run.runs, endOnFailure: run.shrinks === false, unbiased: true });
    if (!details.failed) return { failed: false, runs: details.numRuns };
    const [[start, commands] = []] = details.counterexample ?? [];
    const error = details.errorInstance;
    const why = error instanceof Error ? (error.name === 'Broken' ? error.message : (error.stack ?? error.message)) : String(error);
    const commandLine = `${repeating('LANES', run)} npx vitest run test/adapters/lanes-model.test.ts`;
    return {
      failed: true,
      runs: details.numRuns,
      message: `${why}\nhistory ${details.numRuns} of seed ${run.seed}, shortened ${details.numShrinks} times: ${JSON.stringify(start)} ${(commands as { toString(): string } | undefined)?.toString() ?? ''}\nagain: ${commandLine}`,
    };
  } finally {
    await reals.close();
  }
}

/** What is there before a history begins. */
interface Start {
  /** 0 where the endpoint was never registered. */
  readonly slots: number;
  readonly records: readonly ('absent' | 'waiting' | 'renewed' | 'delivered' | 'buried')[];
  readonly theme: Theme;
  /** Events that occur. */
  readonly many: number;
}

const record = fc.constantFrom<Start['records'][number]>('absent', 'absent', 'waiting', 'waiting', 'renewed', 'delivered', 'buried');

const histories = fc.oneof(
  ...(Object.keys(themes) as Theme[]).map((theme) =>
    fc.tuple(
      fc.record<Start>({
        theme: fc.constant(theme),
        slots: fc.constantFrom(0, 1, 2, 3, 4),
        many: fc.constantFrom(1, 2, 3, 4),
        records: fc.array(record, { minLength: events.length, maxLength: events.length }),
      }),
      fc.commands([commandsOf(theme)], { size: 'max', maxCommands: 100 }),
    ),
  ),
);

let endpoints = 0;

async function play(reals: Reals, { slots, records, theme, many }: Start, commands: Iterable<Command>): Promise<void> {
  const h = new History(reals, t0EpochMs, { endpointId: `ep-${++endpoints}`, events: many });
  await h.prepare(records.flatMap((kind, i) => recordOf(h, events[i] ?? '', kind) ?? []));
  // Where nobody registers endpoints there is one from the start.
  const first = slots === 0 && 'put' in themes[theme] ? undefined : plan(h, { kind: 'put', slots: slots === 0 ? 3 : slots }, '0');
  if (first !== undefined) await h.step([{ planned: first, fate: 'heard' }]);
  await fc.asyncModelRun(() => ({ model: h, real: undefined }), commands);
  await heal(h);
}

function recordOf(h: History, eventId: string, kind: Start['records'][number]): DeliveryRecord | undefined {
  const names = { endpointId: h.endpointId, eventId };
  const settled = { attempt: 1, lastLease: { leaseId: 'L-before', kind: 'settled' as const } };
  if (kind === 'waiting') return waitingOf(settled, names);
  if (kind === 'renewed') return waitingOf({ ...settled, generation: 1, attempt: 0 }, names);
  if (kind === 'delivered') return deliveredOf(settled, names);
  return kind === 'buried' ? { ...deadOf('buried', settled), ...h.keysOf(eventId) } : undefined;
}
