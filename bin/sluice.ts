#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addDeliveryCommands } from './cli/delivery-commands.ts';
import { addDlqCommands } from './cli/dlq-commands.ts';
import { addEndpointCommands, type Run } from './cli/endpoint-commands.ts';
import { addLogCommand } from './cli/log-command.ts';
import { CommandError, exit, Output, printable } from './cli/output.ts';
import { resolveTarget } from './cli/target.ts';
import { addPolicyCommands } from './cli/policy-commands.ts';
import { addUnknownCommands } from './cli/unknown-commands.ts';

// A reader that has seen enough, such as `head`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(exit.done);
});
// Nor is one that does not want to know how it goes on: the work does.
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const program = new Command('sluice')
  .description('Operate webhook delivery: endpoints, policies, deliveries, dead letters and what is unknown.')
  .version(packageVersion())
  .option('--stack <name>', 'a deployed stack (else $SLUICE_STACK, else the running local one)')
  .option('--local', 'the local installation that `npm start` runs ($SLUICE_LOCAL_FILE, else .sluice/local.json)')
  .option('--json', 'one JSON document on standard output')
  .showHelpAfterError('(--help shows what is possible)')
  .exitOverride()
  .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 usage, 3 partly done (repeating is safe).');

const run: Run = async (work) => {
  const options = program.opts<{ stack?: string; local?: boolean; json?: boolean }>();
  await work(await resolveTarget(options), new Output(options.json === true));
};
addEndpointCommands(program, run);
addPolicyCommands(program, run);
addDeliveryCommands(program, run);
addLogCommand(program, run);
addDlqCommands(program, run);
addUnknownCommands(program, run);
acceptGlobalsEverywhere(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

function packageVersion(): string {
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/** `sluice endpoint ls --json` is what people type; commander would want it before the command. */
function acceptGlobalsEverywhere(root: Command): void {
  const visit = (command: Command) => {
    for (const child of command.commands) {
      child.exitOverride().showHelpAfterError('(--help shows what is possible)');
      child.option('--stack <name>', 'see sluice --help').option('--local', 'see sluice --help').option('--json', 'see sluice --help');
      child.hook('preAction', (_this, action) => {
        for (const name of ['stack', 'local', 'json']) {
          const value: unknown = action.opts<Record<string, unknown>>()[name];
          if (value !== undefined) root.setOptionValue(name, value);
        }
      });
      visit(child);
    }
  };
  visit(root);
}

function report(error: unknown): number {
  // Commander has written its own message; help and version end here too, with code 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exit.done : exit.usage;
  const message = error instanceof Error ? error.message : String(error);
  // What a consumer or another operator has written may be quoted in it.
  process.stderr.write(`sluice: ${printable(message === '' ? String(error) : message)}\n`);
  return error instanceof CommandError ? error.code : exit.failed;
}
