/** One history of one endpoint: what is there, who believes what, and one step after the other checked against both. */
import { inspect } from 'node:util';
import { bodyOf, namesOf, receivedOf } from '../builders.ts';
import type { Copy } from '../../../lambdas/deliver/types.ts';
import { parseMessage } from '../../../lambdas/shared/core/parse.ts';
import type { DeliveryRecord } from '../../../lambdas/shared/core/record.ts';
import type { GiveBack } from '../../../lambdas/shared/ports/index.ts';
import { explain, predict, type Asked } from './explain.ts';
import type { Operation } from './operations.ts';
import type { Reals } from './reals.ts';
import { checkChange, checkState, checkVerdicts, Sizes, verdictsOf, type Post, type Verdict } from './rules.ts';
import type { Instant, State } from './state.ts';

export const events = ['a', 'b', 'c', 'd'];

/** What a sender has to do about one delivery, and has done. */
export interface Delivery {
  readonly event: string;
  readonly copy: Copy;
  /**
   * `claimed`: nothing sent. `sent`: `to` is the verdict to write over `from`. `burying`: its mark is to be written.
   * `done`: the claim may go. `kept`: nobody knows whether the verdict is written, so the claim stays until it expires.
   */
  phase: 'claimed' | 'sent' | 'burying' | 'done' | 'kept';
  from?: DeliveryRecord | undefined;
  to?: DeliveryRecord | undefined;
}

/** A worker with a lease, as it sees itself. */
export interface Sender {
  readonly leaseId: string;
  /** True where it is the drain, which sends what is held too. */
  readonly isDrain: boolean;
  readonly cfg: string;
  readonly expiresEpochMs: number;
  readonly deliveries: readonly Delivery[];
  /** Sends nothing more: it has only its lease to give back. */
  gives: GiveBack | undefined;
  /** Does nothing more; until its lease expires nobody knows. */
  isDead: boolean;
}

/** A write that its sender has given up, on its way. */
export interface LateWrite {
  readonly label: string;
  readonly instant: Instant;
  readonly land: () => Promise<void>;
}

/**
 * What becomes of a write: `heard`: nothing special; `repeated`: applied, the answer lost, and sent again by the SDK;
 * `late`: it lands later or never, and its sender hears nothing; `copied`: applied, and a copy of it lands later;
 * `last`: late, and its sender dies.
 */
export type Fate = 'heard' | 'repeated' | 'late' | 'copied' | 'last';

/** An operation that can be issued now, and what its caller makes of the answer. */
export interface Planned {
  readonly op: Operation;
  readonly sender?: Sender | undefined;
  /** Deliveries, senders and writes that no other operation of the same step may touch. */
  readonly uses: readonly object[];
  /** Size that it would give the lane. */
  readonly slots?: number;
  /** It was sent long ago: it has no caller. */
  readonly isLate?: boolean;
  readonly hear: (answer: unknown) => void;
  /** What is left of its caller if this is the last that it does; else it is dead, and may have sent what it holds. */
  readonly endWith?: () => void;
}

interface Issued extends Asked {
  readonly planned: Planned;
  readonly label: string;
}

/** An invariant does not hold, or no order of the model explains what was seen. */
export class Broken extends Error {
  override readonly name = 'Broken';
}

export interface HistoryOptions {
  readonly endpointId: string;
  /** How many of the events there are: with fewer there is more on each. */
  readonly events: number;
}

export class History {
  readonly endpointId: string;
  readonly reals: Reals;
  readonly posts: Post[] = [];
  readonly verdicts: Verdict[] = [];
  readonly late: LateWrite[] = [];
  senders: Sender[] = [];
  state: State = { lane: undefined, version: undefined, records: new Map() };
  /** Versions that the endpoint has had, newest last. */
  readonly versions: string[] = [];
  /** Reasons to be refused that were tried by themselves. */
  readonly probed = new Set<string>();
  nowEpochMs: number;
  steps = 0;
  readonly #events: readonly string[];
  readonly #sizes = new Sizes();
  readonly #trace: string[] = [];
  readonly #recordKeys: readonly string[];

  constructor(reals: Reals, nowEpochMs: number, { endpointId, events: many }: HistoryOptions) {
    this.reals = reals;
    this.nowEpochMs = nowEpochMs;
    this.endpointId = endpointId;
    this.#events = events.slice(0, many);
    this.#recordKeys = events.map((event) => this.namesOf(event).recordKey);
  }

  /** Those of the events that occur in this history; one at least. */
  among(wanted: readonly string[]): readonly string[] {
    const found = wanted.filter((event) => this.#events.includes(event));
    return found.length > 0 ? found : this.#events.slice(0, 1);
  }

  namesOf(event: string) {
    return namesOf({ endpointId: this.endpointId, eventId: event });
  }

  /** The fields of a record that say whose it is. */
  keysOf(event: string) {
    const { endpointId, eventId, recordKey, payloadHash } = this.namesOf(event);
    return { endpointId, eventId, recordKey, payloadHash };
  }

  recordOf(event: string): DeliveryRecord | undefined {
    return this.state.records.get(this.namesOf(event).recordKey);
  }

  /** A received message for an event, as the flow would read it. */
  copyOf(event: string, resend: number, deadLetterGeneration: number | undefined): Copy {
    const body = bodyOf({ endpointId: this.endpointId, eventId: event, ...(resend > 0 ? { resend } : {}) });
    const parsed = parseMessage(body);
    if (!parsed.ok) throw new Error(parsed.detail);
    const { claimKey, shortHash, recordKey } = this.namesOf(event);
    return { received: receivedOf(body, { sentEpochMs: this.nowEpochMs, deadLetterGeneration }), message: parsed.message, claimKey, shortHash, recordKey };
  }

  /** Records that are there before anything happens. */
  async prepare(records: readonly DeliveryRecord[]): Promise<void> {
    for (const record of records) await this.reals.prepare(record);
    this.state = await this.#observe();
  }

  /** Something that happens without a call. */
  note(label: string): void {
    this.#trace.push(label);
  }

  /** Issues operations at the same time, and checks what they were told and what is there now. */
  async step(plans: readonly { readonly planned: Planned; readonly fate: Fate }[]): Promise<void> {
    const before = this.state;
    this.steps++;
    const issued = await Promise.all(plans.map(({ planned, fate }) => this.#issue(planned, fate)));
    const after = await this.#observe();
    const told = issued.map(({ label, answer }) => `${label}: ${brief(answer)}`);
    this.#trace.push(told.length === 1 ? `${told[0] ?? ''}` : `at once [${told.join(' | ')}]`);
    const path = explain(before, issued, after);
    this.#checkRules(before, issued, path, after);
    if (path === undefined) throw this.broken(unexplained(before, issued, after));
    this.state = after;
    for (const { planned, answer } of issued) planned.hear(answer);
    this.#checkOwners();
  }

  /** Rules first: they say what is wrong, and a difference from the model only that something is. */
  #checkRules(before: State, issued: readonly Issued[], path: readonly State[] | undefined, after: State): void {
    const sizes = [before.lane?.slots ?? 0, after.lane?.slots ?? 0, ...issued.flatMap(({ planned }) => planned.slots ?? [])];
    this.#sizes.note(this.steps, sizes, after.lane);
    const problems = [...checkState(after), ...this.#sizes.check(after.lane, this.nowEpochMs)];
    for (const { label, answer } of issued) if (isOverdrawn(answer)) problems.push(`${label} was granted what the lane has not`);
    // One by one, what several writes have changed is known only along an order of the model.
    const isKnown = path !== undefined || issued.length === 1;
    for (const [from, next] of pairs(before, path ?? [after])) {
      const added = verdictsOf(from, next);
      if (isKnown) problems.push(...checkChange(from, next), ...checkVerdicts(this.verdicts, added, this.posts, this.#sizes.revived));
      this.verdicts.push(...added);
    }
    if (problems.length > 0) throw this.broken(problems.join('; '));
  }

  /** Each key has one live owner, in the eyes of the owners themselves: the dead may be sending until their lease expires. */
  #checkOwners(): void {
    for (const event of events) {
      const owners = this.senders.filter((s) => s.gives === undefined && s.expiresEpochMs > this.nowEpochMs && s.deliveries.some((d) => d.event === event && d.phase !== 'done'));
      if (owners.length > 1) throw this.broken(`${owners.map((s) => s.leaseId).join(' and ')} both own ${event}`);
    }
  }

  broken(problem: string): Broken {
    const steps = this.#trace.map((line, i) => `  ${String(i + 1).padStart(2)}. ${line}`);
    return new Broken(`${problem}\nafter\n${steps.join('\n')}`);
  }

  async #issue(planned: Planned, fate: Fate): Promise<Issued> {
    const { op } = planned;
    const label = fate === 'heard' ? op.label : `${op.label} (${fate})`;
    try {
      if (fate === 'heard') return { planned, label, instants: [...op.reads, op.write], answer: await op.perform(this.reals.plain) };
      if (fate === 'repeated') return { planned, label, ...(await this.#repeated(op)) };
      return { planned: fate === 'last' ? this.#unheard(planned) : planned, label, ...(await this.#tapped(op, fate !== 'copied')) };
    } catch (error) {
      this.note(`${label}: ${String(error)}`);
      throw this.broken(`${label} threw ${String(error)}`);
    }
  }

  async #repeated(op: Operation): Promise<Asked> {
    const again = op.hasToken(this.state) ? [] : [op.again];
    this.reals.loseAnswerAfter(op.readRequests);
    return { instants: [...op.reads, op.write, ...again], answer: await op.perform(this.reals.repeating) };
  }

  /** Only in a step of its own: what it has read is what is there. */
  async #tapped(op: Operation, holds: boolean): Promise<Asked> {
    let [state, seen]: [State, unknown] = [this.state, undefined];
    for (const read of op.reads) ({ state, seen } = read(state, seen));
    const isTransaction = op.hasToken(state);
    const { answer, taken } = await this.reals.tap(holds, () => op.perform(this.reals.tapped));
    const instants = [...op.reads, op.write];
    if (taken === undefined) return { instants, answer };
    const land = () => this.reals.send(taken);
    if (!holds) {
      // A second copy of a transaction has its token, and does nothing.
      if (!isTransaction) this.late.push({ label: `a copy of ${op.label}`, instant: op.request ?? op.again, land });
      return { instants, answer };
    }
    this.late.push({ label: op.label, instant: (at) => (op.request ?? op.write)(at, seen), land });
    return { instants: [...op.reads, (at) => ({ state: at, seen: op.unsure })], answer };
  }

  #unheard(planned: Planned): Planned {
    const { sender, endWith } = planned;
    return { ...planned, hear: endWith ?? (() => void (sender === undefined || (sender.isDead = true))) };
  }

  async #observe(): Promise<State> {
    return this.reals.observe(this.endpointId, this.#recordKeys);
  }
}

function pairs(from: State, path: readonly State[]): [State, State][] {
  return path.map((next, i) => [path[i - 1] ?? from, next]);
}

/** A grant says how much is left: less than nothing is more in flight than the lane allows. */
function isOverdrawn(answer: unknown): boolean {
  const { kind, avail } = (answer ?? {}) as { kind?: string; avail?: number };
  return kind === 'granted' && (avail ?? 0) < 0;
}

function brief(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return String(answer);
  const { kind, lane: _lane, ...rest } = answer as { kind?: string; lane?: unknown };
  return [kind, ...(Object.keys(rest).length === 0 ? [] : [show(rest)])].filter((part) => part !== undefined).join(' ');
}

function show(value: unknown): string {
  return inspect(value, { depth: 6, breakLength: Infinity, compact: true });
}

function unexplained(before: State, issued: readonly Issued[], after: State): string {
  const model = predict(before, issued);
  const lines = issued.flatMap(({ label, answer }, i) => [`  ${label}`, `    model: ${show(model.answers[i])}`, `    found: ${show(answer)}`]);
  const one = issued.length === 1 ? 'the model does not explain this' : 'no order of the model explains this';
  return [one, ...lines, '  state', `    before: ${show(shown(before))}`, `    model: ${show(shown(model.state))}`, `    found: ${show(shown(after))}`].join('\n');
}

/** The parts of a state that differ from step to step, short enough to read. */
function shown({ lane, version, records }: State) {
  const brief = [...records.values()].map((r) => `${r.eventId ?? ''}: ${r.state}${r.state === 'dead' ? ` ${r.phase}` : ''} ${r.generation}/${r.attempt} by ${r.lastLease?.leaseId ?? 'none'}`);
  return { version, ...lane, records: brief };
}
