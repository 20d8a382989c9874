/** `npm run bench`: the one form in which every benchmark runs, prints and is checked. */
import { Command, CommanderError } from 'commander';
import { missed, toJson, toText } from './report.ts';
import type { Entry } from './registry.ts';

export const exit = { done: 0, failed: 1, usage: 2 } as const;

/** Where a run writes; results only to `out`. */
export interface Streams {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** Runs one command line. @returns the exit code; never rejects. */
export async function runCli(args: readonly string[], benches: Readonly<Record<string, Entry>>, streams: Streams): Promise<number> {
  let code: number = exit.done;
  const program = commandLine(benches, streams).action(async (name: string, options: Options) => {
    code = await runBench(name, options, benches, streams);
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
    return code;
  } catch (error) {
    // Commander has written its own message; help ends here too, with code 0.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exit.done : exit.usage;
    streams.err(`bench: ${messageOf(error)}\n`);
    return exit.failed;
  }
}

interface Options {
  readonly json?: boolean;
  readonly check?: boolean;
}

function commandLine(benches: Readonly<Record<string, Entry>>, { out, err }: Streams): Command {
  const width = Math.max(...Object.keys(benches).map((name) => name.length));
  const list = Object.entries(benches).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return new Command('npm run bench --')
    .description('Measures Sluice on this machine, in the embedded AWS: no account is needed and nothing leaves it.')
    .argument('<name>', 'which benchmark; see the list below')
    .option('--json', 'one JSON object on standard output; `npm run` adds a banner, so: npm run -s bench -- NAME --json')
    .option('--check', 'exit with 1 if a ceiling or floor is missed')
    .showHelpAfterError()
    .exitOverride()
    .configureOutput({ writeOut: out, writeErr: err })
    .addHelpText('after', `\nBenchmarks:\n${list.join('\n')}\n\nExit codes: 0 done, 1 failed or, with --check, a ceiling missed, 2 usage.`);
}

async function runBench(name: string, options: Options, benches: Readonly<Record<string, Entry>>, { out, err }: Streams): Promise<number> {
  const entry = Object.hasOwn(benches, name) ? benches[name] : undefined;
  if (entry === undefined) {
    err(`bench: there is no benchmark ${name}; there are: ${Object.keys(benches).join(', ')}\n`);
    return exit.usage;
  }
  const { bench } = await entry.load();
  const report = await bench.run((line) => err(`bench ${name}: ${line}\n`));
  out(`${options.json === true ? toJson(report) : toText(report)}\n`);
  if (options.check !== true) return exit.done;
  const misses = missed(report.ceilings);
  for (const line of misses) err(`bench ${name}: MISSED ${line}\n`);
  return misses.length === 0 ? exit.done : exit.failed;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
