/**
 * Visits every state that a small world can be in: two workers that step the product's own flow, copies that are received
 * twice, a process that dies, a write that fails, is lost or comes late. Breadth first, so that a trace is a shortest one.
 */
import { marshall } from '@aws-sdk/util-dynamodb';
import { firstRound } from '../../lambdas/shared/core/breaker.ts';
import { recordKeyOf } from '../../lambdas/shared/core/keys.ts';
import type { JsonObject } from '../../local/emulator.ts';
import { clausesOf, withoutClause, type Clause } from './clauses.ts';
import { MemoryDynamoDb, type Answered, type Items } from './memory-dynamodb.ts';
import { nowAt, tables, type Answer, type Call } from './program.ts';
import { checkLive, checkPost, checkVerdicts, checkWrite, copyName, laneIn, recordIn, type Post, type Verdict } from './rules.ts';
import type { NamedOutcome, World } from './world.ts';


/** A program under way. */
interface Worker {
  readonly node: number;
  /** Messages that it was given, by index. */
  readonly took: readonly number[];
  /** Version of the configuration under which its last admission was granted, and the breaker's round. */
  readonly admitted: string;
  readonly round: number;
}

interface State {
  readonly items: number;
  /** Writes of the dead, or given up by the living, that may still arrive. */
  readonly late: readonly number[];
  /** Messages in the queue, by index; received ones stay until they are acknowledged. */
  readonly queue: readonly number[];
  readonly dlq: readonly string[];
  /** Copies that were ever sent there. */
  readonly copied: readonly string[];
  readonly workers: readonly (Worker | undefined)[];
  readonly epoch: number;
  readonly started: number;
  /** Runs of the drain that have begun. */
  readonly drains: number;
  /** What the index shows, where it lags. */
  readonly indexed: number;
  readonly crashes: number;
  readonly failures: number;
  /** Commands of operators and redrives that have begun, by name. */
  readonly done: readonly string[];
  readonly posts: readonly Post[];
  readonly verdicts: readonly Verdict[];
}

interface Move {
  readonly label: string;
  readonly to: State;
  readonly problems: readonly string[];
}

export interface Explored {
  readonly states: number;
  readonly histories: number;
  readonly clauses: readonly Clause[];
  /** The first state found that breaks a rule, with how it is reached. */
  readonly broken: { readonly problems: readonly string[]; readonly trace: readonly string[] } | undefined;
  /** False where the limit ended the search. */
  readonly complete: boolean;
}

export interface ExploreOptions {
  /** Removed from every condition that has it. */
  readonly dropped?: Clause | undefined;
  readonly maxStates?: number;
  readonly onProgress?: (states: number) => void;
}

export async function explore(world: World, options: ExploreOptions = {}): Promise<Explored> {
  const search = new Search(world, options.dropped);
  const start = await search.initial();
  const ids = new Map<string, number>([[keyOf(start), 0]]);
  const states: State[] = [start];
  const from: [number, string][] = [[-1, 'start']];
  const done = (broken: Explored['broken'], complete = true): Explored => ({
    states: states.length, histories: world.programs.histories, clauses: search.clauses, broken, complete,
  });
  for (let at = 0; at < states.length; at++) {
    if (at % 10_000 === 9_999) options.onProgress?.(states.length);
    if (states.length > (options.maxStates ?? Infinity)) return done(undefined, false);
    const state = states[at] as State;
    states[at] = undefined as unknown as State;
    const moves = await search.moves(state);
    const quiet = state.workers.every((w) => w === undefined) ? await search.quietProblems(state) : [];
    if (quiet.length > 0) return done({ problems: quiet, trace: traceOf(from, at, 'nobody is at work') });
    for (const move of moves) {
      if (move.problems.length > 0) return done({ problems: move.problems, trace: traceOf(from, at, move.label) });
      const key = keyOf(move.to);
      if (ids.has(key)) continue;
      ids.set(key, states.length);
      states.push(move.to);
      from.push([at, move.label]);
    }
  }
  return done(undefined);
}

function traceOf(from: readonly [number, string][], at: number, last: string): string[] {
  const labels = [last];
  for (let i = at; i > 0; i = from[i]?.[0] ?? 0) labels.unshift(from[i]?.[1] ?? '');
  return labels;
}

/** Two workers are alike: which of them is the first makes no other state. */
function keyOf(state: State): string {
  const workers = state.workers.map((w) => (w === undefined ? '' : `${w.node}:${w.admitted}:${w.round}`)).sort();
  const { items, late, queue, dlq, copied, epoch, started, drains, indexed, crashes, failures, done, posts, verdicts } = state;
  const posted = posts.map((p) => `${p.recordKey}${p.leaseId}${p.generation}${p.outcome}${p.isAnsweredFor === true}`).sort();
  const judged = verdicts.map((v) => `${v.recordKey}${v.leaseId}${v.kind}`).sort();
  return [items, late, queue, dlq, copied, workers, epoch, started, drains, indexed, crashes, failures, done, posted, judged].join('|');
}

class Search {
  readonly #world: World;
  readonly #dropped: Clause | undefined;
  readonly #memory = new MemoryDynamoDb({ [tables.endpoints]: ['pk', 'sk'], [tables.deliveries]: ['pk'] });
  readonly #items: Items[] = [];
  readonly #itemIds = new Map<string, number>();
  readonly #answers = new Map<string, { answer: Answered; items: number; problems: readonly string[]; verdicts: readonly Verdict[] }>();
  readonly #clauses = new Map<string, Clause>();
  readonly #recovered = new Map<string, string[]>();
  readonly #known: Map<string, Answered>;

  constructor(world: World, dropped: Clause | undefined) {
    this.#world = world;
    this.#dropped = dropped;
    this.#known = world.answers;
  }

  get clauses(): Clause[] {
    return [...this.#clauses.values()];
  }

  async initial(): Promise<State> {
    await this.#world.prepare(this.#memory);
    const items = this.#intern(this.#memory.items);
    const state: State = {
      items, indexed: this.#world.spec.indexLags === true ? items : 0, drains: 0, late: [], queue: this.#world.queued, dlq: this.#world.copies, copied: this.#world.copies, workers: [undefined, undefined],
      epoch: 0, started: 0, crashes: 0, failures: 0, done: [], posts: [], verdicts: [],
    };
    return state;
  }

  async moves(state: State): Promise<Move[]> {
    const moves: Move[] = [];
    const { limits } = this.#world;
    const idle = state.workers.indexOf(undefined);
    if (idle >= 0 && state.started < limits.receives) {
      for (const batch of this.#world.batches) if (batch.every((m) => state.queue.includes(m))) moves.push(await this.#receive(state, idle, batch));
    }
    if (idle >= 0 && state.drains < (this.#world.spec.drains ?? 0)) moves.push(await this.#drain(state, idle));
    if (idle >= 0) for (const name of this.#world.commands) if (!state.done.includes(name)) moves.push(await this.#command(state, idle, name));
    for (const { name, copy, message } of this.#world.redrives) {
      if (!state.done.includes(name) && state.dlq.includes(copy)) {
        moves.push({ label: name, problems: [], to: { ...state, done: [...state.done, name], dlq: state.dlq.filter((c) => c !== copy), queue: [...state.queue, message] } });
      }
    }
    for (const [i, worker] of state.workers.entries()) if (worker !== undefined) moves.push(...(await this.#work(state, i, worker)));
    for (const call of new Set(state.late)) {
      const write = await this.#perform(state, this.#world.programs.call(call));
      const rest = [...state.late];
      rest.splice(rest.indexOf(call), 1);
      moves.push({ label: `late: ${this.#world.programs.call(call).label} arrives${write.note}`, problems: write.problems, to: { ...write.to, late: rest } });
    }
    // Whoever is at work when leases expire is dead: Lambda has killed it.
    if (state.epoch < limits.epochs && state.workers.every((w) => w === undefined)) {
      moves.push({ label: 'an hour passes: leases expire', problems: [], to: this.#anHourLater(state) });
    }
    return moves;
  }

  /** By then the index has all that the table had. */
  #anHourLater(state: State): State {
    return { ...state, epoch: state.epoch + 1, indexed: this.#world.spec.indexLags === true ? state.items : 0 };
  }

  async #drain(state: State, i: number): Promise<Move> {
    const drains = state.drains + 1;
    const node = await this.#world.programs.begin({ ordinal: firstDrain + drains, epoch: state.epoch, received: [], drains: this.#world.endpointId });
    return { label: `D${drains} is woken`, problems: [], to: { ...withWorker(state, i, { node: node.id, took: [], admitted: '', round: 0 }), drains } };
  }

  async #receive(state: State, i: number, batch: readonly number[]): Promise<Move> {
    const received = batch.map((m) => this.#world.message(m));
    const node = await this.#world.programs.begin({ ordinal: state.started + 1, epoch: state.epoch, received });
    const worker: Worker = { node: node.id, took: batch, admitted: '', round: 0 };
    return { label: `W${state.started + 1} receives ${batch.map((m) => this.#world.names[m]).join(' and ')}`, problems: [], to: { ...withWorker(state, i, worker), started: state.started + 1 } };
  }

  async #command(state: State, i: number, name: string): Promise<Move> {
    const node = await this.#world.programs.begin({ ordinal: 0, epoch: state.epoch, received: [], command: name });
    return { label: `operator begins: ${name}`, problems: [], to: { ...withWorker(state, i, { node: node.id, took: [], admitted: '', round: 0 }), done: [...state.done, name].sort() } };
  }

  async #work(state: State, i: number, worker: Worker): Promise<Move[]> {
    const node = this.#world.programs.node(worker.node);
    const name = this.#nameOf(worker);
    const faults = node.faults.map((fault) => `a bug was reported: ${fault}`);
    const moves: Move[] = [];
    if (node.ended !== undefined) {
      const { retained } = node.ended;
      const acked = worker.took.filter((m) => !retained.includes(this.#world.message(m).messageId));
      const queue = state.queue.filter((m) => !acked.includes(m));
      const label = acked.length === 0 ? `${name} ends` : `${name} acknowledges ${acked.map((m) => this.#world.names[m]).join(' and ')}`;
      moves.push({ label, problems: faults, to: { ...withWorker(state, i, undefined), queue } });
    }
    for (const [index, call] of node.pending.entries()) moves.push(...(await this.#answerCall(state, i, index, call, faults)));
    if (state.crashes < this.#world.limits.crashes && this.#world.canDieIn(node.pending)) {
      const dead = { ...withWorker(state, i, undefined), crashes: state.crashes + 1 };
      const writes = node.pending.filter((call) => call.kind === 'write');
      // A write under way may arrive at once, later or never: that it never left is one of these.
      if (writes.length === 0) moves.push({ label: `${name} dies`, problems: faults, to: dead });
      for (const call of writes) moves.push({ label: `${name} dies, its ${call.label} under way`, problems: faults, to: { ...dead, late: [...dead.late, call.id].sort() } });
    }
    return moves;
  }

  async #answerCall(state: State, i: number, index: number, call: Call, faults: readonly string[]): Promise<Move[]> {
    const worker = state.workers[i] as Worker;
    const name = this.#nameOf(worker);
    const step = async (from: State, answer: Answer, label: string, problems: readonly string[] = []): Promise<Move> => {
      const next = await this.#world.programs.next(worker.node, index, answer);
      return { label: `${name} ${label}`, problems: [...faults, ...problems], to: withWorker(from, i, { ...(from.workers[i] as Worker), node: next.id }) };
    };
    if (call.operation === 'get') return this.#looks(state, call, step);
    if (call.kind === 'post') return Promise.all(this.#world.outcomes.map((outcome) => this.#post(state, worker, call, outcome, step)));
    const canFail = state.failures < this.#world.limits.failures && this.#world.canFail(call);
    const failed = { ...state, failures: state.failures + 1 };
    if (call.kind === 'bury') {
      const copy = copyName(call.input as unknown as Parameters<typeof copyName>[0]);
      const added = (copies: readonly string[]) => [...new Set([...copies, copy])].sort();
      const sent = (from: State): State => ({ ...from, dlq: added(from.dlq), copied: added(from.copied) });
      return Promise.all([
        step(sent(state), answers.ok, 'sends to the DLQ'),
        ...(canFail ? [step(failed, answers.unsure, 'does not reach the DLQ'), step(sent(failed), answers.unsure, 'sends to the DLQ and hears nothing')] : []),
      ]);
    }
    const performed = await this.#perform(state, call, i);
    const moves = [await step(performed.to, performed.answer, `${call.label}${performed.note}`, performed.problems)];
    if (!canFail) return moves;
    // A configuration that cannot be read is a fault that is reported, and nothing has begun.
    if (call.operation === 'GetItem') return moves;
    moves.push(await step(failed, answers.throttled, `${call.label}: throttled`));
    if (call.kind === 'read') return moves;
    const repeated = await this.#perform(failed, call, i);
    moves.push(
      // It may arrive at once, later or never.
      await step({ ...failed, late: [...failed.late, call.id].sort() }, answers.unsure, `${call.label}: no answer`),
      // The program still waits: the SDK sends the same write again.
      { label: `${name} ${call.label}: applied, the answer lost; the SDK will repeat it`, problems: [...faults, ...repeated.problems], to: repeated.to },
    );
    return moves;
  }

  #post(state: State, worker: Worker, call: Call, outcome: NamedOutcome, step: (from: State, answer: Answer, label: string, problems: readonly string[]) => Promise<Move>): Promise<Move> {
    const { eventId, attempt, duplicate, version } = call.input as { eventId: string; attempt: string; duplicate?: string; version: string };
    const { claimKey, endpointId } = this.#world.keysOf(eventId);
    const recordKey = recordKeyOf(endpointId, claimKey);
    const items = this.#items[state.items] as Items;
    const { ordinal } = this.#world.programs.start(worker.node);
    const { problems, leaseId, generation } = checkPost(
      {
        lane: laneIn(items, this.#laneKey(endpointId)), record: recordIn(items, this.#recordKey(recordKey)), claimKey, recordKey,
        sender: `L${ordinal}-`, version, admittedVersion: worker.admitted, admittedRound: worker.round,
        isReconciled: this.#world.spec.endpoint.config.onAmbiguous === 'reconcile',
        attempt: Number(attempt), saysDuplicate: duplicate === 'true', nowEpochMs: nowAt(state.epoch),
      },
      state.posts, state.verdicts,
    );
    const { name } = outcome;
    const posts = outcome.kind === 'notStarted' || outcome.kind === 'unsent' ? state.posts : [...state.posts, { recordKey, leaseId, generation, outcome: name }];
    const { mostPosts = Infinity } = this.#world.spec;
    const hurried = state.epoch === 0 && posts.length > mostPosts ? ['more requests than the rate allows'] : [];
    return step({ ...state, posts }, posted(outcome), `POST ${eventId}: ${name}`, [...problems, ...hurried]);
  }

  /** What a look finds. An absence that the world lets prove something answers for every request that was made. */
  #looks(state: State, call: Call, step: (from: State, answer: Answer, label: string) => Promise<Move>): Promise<Move[]> {
    const { claimKey, endpointId } = this.#world.keysOf(call.input['eventId'] as string);
    const isOf = (post: Post) => post.recordKey === recordKeyOf(endpointId, claimKey);
    const provesAfterS = this.#world.spec.endpoint.config.lookup?.absenceProvesAfterS;
    return Promise.all(this.#world.looksOf(state.posts.some(isOf)).map((outcome) => {
      const isAbsent = outcome.kind === 'answered' && outcome.status === 404;
      const posts = isAbsent && typeof provesAfterS === 'number' ? state.posts.map((post) => (isOf(post) ? { ...post, isAnsweredFor: true } : post)) : state.posts;
      return step({ ...state, posts }, posted(outcome), `GET ${String(call.input['eventId'])}: ${outcome.name}`);
    }));
  }

  /** A call's effect on the items, its answer, and what is wrong with it. */
  async #perform(state: State, call: Call, i?: number): Promise<{ answer: Answered; to: State; problems: readonly string[]; note: string }> {
    const copied = call.label === 'markBuried' ? state.copied.join() : '';
    const key = `${state.items} ${call.id} ${call.operation === 'Query' ? state.indexed : call.label === 'moveWakeUp' ? state.epoch : copied}`;
    const known = this.#answers.get(key) ?? (await this.#run(state, call));
    this.#answers.set(key, known);
    const { answer, items, problems, verdicts } = known;
    let to: State = { ...state, items, verdicts: verdicts.length === 0 ? state.verdicts : [...state.verdicts, ...verdicts] };
    const worker = i === undefined ? undefined : state.workers[i];
    let live: readonly string[] = [];
    if (worker !== undefined && i !== undefined && items !== state.items && (call.label === 'admit' || call.label === 'exchange')) {
      const lane = laneIn(this.#items[items] as Items, this.#laneKey(this.#world.endpointId));
      to = withWorker(to, i, { ...worker, admitted: lane?.cfg ?? '', round: lane?.breaker?.round ?? firstRound });
      const { drains } = this.#world.programs.start(worker.node);
      if (this.#world.serves === 'queue' && drains === undefined) live = checkLive(lane);
    }
    const note = answer.kind === 'error' ? ' is refused' : '';
    if (worker !== undefined && call.kind === 'write' && answer.kind === 'ok' && this.#isOperator(worker)) {
      return { answer, to, note, problems: [...problems, ...this.#unseen(state, worker)] };
    }
    return { answer, to, problems: [...problems, ...live, ...(verdicts.length === 0 ? [] : checkVerdicts(state.verdicts, verdicts, state.posts))], note };
  }

  #isOperator(worker: Worker): boolean {
    const { command } = this.#world.programs.start(worker.node);
    return command !== undefined && !this.#world.isStranger(command);
  }

  async #run(state: State, call: Call) {
    const before = this.#items[state.items] as Items;
    const input: JsonObject = this.#dropped === undefined ? call.input : withoutClause(call.operation, call.input, this.#dropped);
    if (call.kind === 'write') for (const clause of clausesOf(call.operation, call.input)) this.#clauses.set(`${clause.condition} | ${clause.clause}`, clause);
    this.#memory.items = before;
    this.#memory.indexed = this.#world.spec.indexLags === true ? this.#items[state.indexed] : undefined;
    const answer = this.#same(await this.#memory.call(call.operation, input));
    const after = this.#memory.items;
    const written = checkWrite(before, after, state.copied, { names: namesIn(call.input), nowEpochMs: nowAt(state.epoch) });
    const problems = [...written.problems, ...(await this.#refusedForNothing(before, call, answer))];
    return { answer, items: after === before ? state.items : this.#intern(after), verdicts: written.verdicts, problems };
  }

  /**
   * Of alternatives in a condition a missing one refuses more. Live traffic that is refused goes to the hold, and an exchange that
   * is refused costs two writes more: neither is ever wrong, so it is asked whether the whole condition would have refused.
   */
  async #refusedForNothing(before: Items, call: Call, answer: Answered): Promise<string[]> {
    if (this.#dropped === undefined || answer.kind !== 'error' || (call.label !== 'admit' && call.label !== 'exchange')) return [];
    this.#memory.items = before;
    const whole = await this.#memory.call(call.operation, call.input);
    this.#memory.items = before;
    return whole.kind === 'ok' ? [`${call.label} is refused, and nothing stands in its way`] : [];
  }

  /** Equal answers are one object, over all searches of a world: programs tell them apart by identity. */
  #same(answer: Answered): Answered {
    const key = JSON.stringify(answer);
    const found = this.#known.get(key) ?? answer;
    this.#known.set(key, found);
    return found;
  }

  /** An operator's write must not overwrite a change that it has not read. */
  #unseen(state: State, worker: Worker): string[] {
    const { programs, endpointId } = this.#world;
    const read = (sortKey: string, name: string) => (programs.itemsRead(worker.node, sortKey).at(-1)?.[name] as { S?: string } | undefined)?.S;
    const seen = [read('lane', 'cfg'), read('config', 'version')];
    const now = laneIn(this.#items[state.items] as Items, this.#laneKey(endpointId))?.cfg;
    return seen.includes(now) ? [] : [`an operator's command that read configuration ${seen.join(' and ')} overwrote ${now ?? 'none'}`];
  }

  #intern(items: Items): number {
    const key = JSON.stringify([...items].sort(([a], [b]) => (a < b ? -1 : 1)));
    const found = this.#itemIds.get(key);
    if (found !== undefined) return found;
    this.#itemIds.set(key, this.#items.length);
    return this.#items.push(items) - 1;
  }

  #laneKey(endpointId: string): string {
    return this.#memory.keyOf(tables.endpoints, marshall({ pk: endpointId, sk: 'lane' }));
  }

  #recordKey(recordKey: string): string {
    return this.#memory.keyOf(tables.deliveries, marshall({ pk: recordKey }));
  }

  #nameOf(worker: Worker): string {
    const { ordinal, command, drains } = this.#world.programs.start(worker.node);
    if (drains !== undefined) return `D${ordinal - firstDrain}`;
    return command === undefined ? `W${ordinal}` : this.#world.isStranger(command) ? 'somebody' : 'operator';
  }

  /** While nobody is at work: is everything somewhere, and does it come to its end if nothing more goes wrong? */
  async quietProblems(state: State): Promise<string[]> {
    const lost = this.#lost(state);
    if (lost.length > 0) return lost;
    const key = [state.items, state.indexed, state.queue, state.dlq, state.copied, state.posts.map((p) => `${p.leaseId}${p.outcome}${p.isAnsweredFor === true}`), state.verdicts.map((v) => v.leaseId + v.kind)].join('|');
    const known = this.#recovered.get(key) ?? (await this.#recover(state));
    this.#recovered.set(key, known);
    return known;
  }

  #lost(state: State): string[] {
    return this.#world.lost(state.queue, state.dlq, (recordKey) => recordIn(this.#items[state.items] as Items, this.#recordKey(recordKey)), this.#saysHeld(state));
  }

  /** The drain is woken for a lane that says so: by a wake-up, or by the sweep. */
  #saysHeld(state: State): boolean {
    return laneIn(this.#items[state.items] as Items, this.#laneKey(this.#world.endpointId))?.holding !== undefined;
  }

  /** Nothing fails any more, every consumer answers 200, and time passes: each message must be gone within a few receives. */
  async #recover(from: State): Promise<string[]> {
    // Leases and hours of its own: what was found out once is then known for every state that looks the same.
    let state: State = { ...from, late: [], queue: [...new Set([...from.queue, ...this.#world.probes])], started: 90, drains: 90, epoch: 90 };
    for (let round = 0; round < 8 && (state.queue.length > 0 || this.#saysHeld(state)); round++) {
      state = this.#anHourLater(state);
      const begins = state.queue.map((message) => (at: State) => this.#receive(at, 0, [message]));
      for (const begin of [...begins, (at: State) => (this.#saysHeld(at) ? this.#drain(at, 0) : undefined)]) {
        const begun = await begin(state);
        if (begun === undefined) continue;
        const move = await this.#undisturbed(begun.to);
        if (move.problems.length > 0) return move.problems.map((problem) => `later: ${problem}`);
        state = { ...move.to, late: [], queue: [...move.to.queue] };
      }
    }
    if (this.#saysHeld(state)) return ['never ends: the lane says that something is held'];
    if (state.queue.length > 0) return [`never ends: ${state.queue.map((m) => this.#world.names[m]).join(' and ')} still in the queue`];
    return this.#lost(state);
  }

  async #undisturbed(from: State): Promise<{ to: State; problems: readonly string[] }> {
    let to: State = { ...from, failures: Infinity, crashes: Infinity };
    for (let worker = to.workers[0]; worker !== undefined; worker = to.workers[0]) {
      const [move] = await this.#work(to, 0, worker);
      if (move === undefined) throw new Error('a worker that cannot go on');
      if (move.problems.length > 0) return move;
      to = move.to;
    }
    return { to: { ...to, failures: from.failures, crashes: from.crashes }, problems: [] };
  }
}

const answers = { ok: { kind: 'ok', body: {} }, throttled: { kind: 'throttled' }, unsure: { kind: 'unsure' } } as const satisfies Record<string, Answer>;

/** Above the ordinals of receives. */
const firstDrain = 500;

/** The texts that a request is given. */
function namesIn(input: JsonObject): string[] {
  const values = (input['ExpressionAttributeValues'] ?? {}) as Record<string, { S?: string; L?: { S?: string }[] }>;
  return Object.values(values).flatMap(({ S, L }) => [...(S === undefined ? [] : [S]), ...(L ?? []).flatMap((one) => one.S ?? [])]);
}

const postedBy = new Map<NamedOutcome, Answer>();

function posted(named: NamedOutcome): Answer {
  const { name: _name, ...outcome } = named;
  const found = postedBy.get(named) ?? { kind: 'posted', outcome };
  postedBy.set(named, found);
  return found;
}

function withWorker(state: State, i: number, worker: Worker | undefined): State {
  return { ...state, workers: state.workers.map((w, k) => (k === i ? worker : w)) };
}
