/** The explorer from the command line: `npm run explore -- --help`. */
import { parseArgs } from 'node:util';
import { catchers, nameOf, type Catcher } from './catchers.ts';
import { explore, type Explored } from './explore.ts';
import { runLanesModel } from '../support/lanes-model.ts';
import { worldNames, worldOf } from './worlds.ts';

const help = `Usage: npm run explore -- [WORLD …] [options]

Visits every state that small worlds can reach: workers that step the product's own flow over the conditions that it sends to
DynamoDB, with copies received twice, a process that dies, a write that fails, is lost, repeated or late.

  WORLD       only these (default: all): ${worldNames.join(', ')}
  --mutants   instead, remove each clause of each condition in turn; each must break something
  --model     with --mutants: look for each by random histories on the embedded DynamoDB too
  --traces    show how each broken state is reached
  --json      one object on standard output
  --help      this text

Exit code: 0 nothing is broken (with --mutants: every clause is needed), 1 otherwise, 2 usage.`;

const options = {
  mutants: { type: 'boolean', default: false },
  model: { type: 'boolean', default: false },
  traces: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;
type Flags = ReturnType<typeof parseArgs<{ options: typeof options }>>['values'];

/** Histories at most for each clause. */
const histories = 200;

/** Worlds remember the programs that they have run, so each is made once. */
const made = new Map(worldNames.map((name) => [name, worldOf(name)]));

function worldBy(name: string) {
  const world = made.get(name);
  if (world === undefined) usage(`There is no world ${name}: there are ${worldNames.join(', ')}.`);
  return world;
}

function usage(message: string): never {
  console.error(message);
  process.exit(2);
}

function arguments_(): { values: Flags; positionals: string[] } {
  try {
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    usage(`${(error as Error).message}\nSee npm run explore -- --help.`);
  }
}

/** On a terminal only: in a file it would be a page of carriage returns. */
const progress = (text: string) => process.stderr.isTTY && process.stderr.write(`\r${text}\u001b[K`);

const indented = (trace: readonly string[]) => trace.map((step, i) => `    ${String(i + 1).padStart(2)}  ${step}`).join('\n');

async function worlds(names: readonly string[], flags: Flags): Promise<boolean> {
  const rows = [];
  for (const name of names) {
    const world = worldBy(name);
    const startedMs = performance.now();
    const { states, histories, broken } = await explore(world, { onProgress: (n) => progress(`${name}: ${n} states`) });
    progress('');
    rows.push({ world: name, states, histories, problems: broken?.problems ?? [], trace: broken?.trace ?? [] });
    if (flags.json) continue;
    console.log(`${name.padEnd(12)}${String(states).padStart(9)} states  ${String(histories).padStart(6)} histories of a worker  ${((performance.now() - startedMs) / 1_000).toFixed(1).padStart(5)} s  ${broken?.problems.join('; ') ?? 'nothing is broken'}`);
    // A broken state without its trace is of no use.
    if (broken !== undefined) console.log(indented(broken.trace));
  }
  if (flags.json) console.log(JSON.stringify({ worlds: rows }));
  return rows.every((row) => row.problems.length === 0);
}

async function mutants(flags: Flags): Promise<boolean> {
  const rows: (Pick<Catcher, 'condition' | 'clause' | 'guards' | 'world'> & { broken: Explored['broken']; histories: number | undefined })[] = [];
  for (const [i, catcher] of catchers.entries()) {
    const { condition, clause, guards, world } = catcher;
    progress(`${i + 1} of ${catchers.length}: ${guards}`);
    const { broken } = await explore(worldBy(world), { dropped: catcher });
    const random = flags.model ? await runLanesModel({ seed: catcher.seed, runs: histories, dropped: catcher, shrinks: false }) : undefined;
    progress('');
    rows.push({ condition, clause, guards, world, broken, histories: random?.failed === true ? random.runs : undefined });
    if (flags.json) continue;
    console.log(`${guards}\n  without ${nameOf(catcher)}\n  ${broken === undefined ? `SURVIVES in the world ${world}` : `${broken.problems.join('; ')} (world ${world}, ${broken.trace.length} steps)`}`);
    if (random !== undefined) console.log(`  ${random.failed ? `seen in ${random.runs} random histories` : `NOT SEEN in ${random.runs} random histories`} (seed ${catcher.seed})`);
    if (flags.traces && broken !== undefined) console.log(indented(broken.trace));
  }
  const survivors = rows.filter((row) => row.broken === undefined || (flags.model && row.histories === undefined)).length;
  console.log(flags.json ? JSON.stringify({ mutants: rows }) : `${rows.length} clauses, ${survivors} that nothing needs`);
  return survivors === 0;
}

const { values: flags, positionals } = arguments_();
if (flags.help) console.log(help);
else process.exitCode = (flags.mutants ? await mutants(flags) : await worlds(positionals.length === 0 ? worldNames : positionals, flags)) ? 0 : 1;
