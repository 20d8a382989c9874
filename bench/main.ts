import { runCli } from './cli.ts';
import { benches } from './registry.ts';

// A reader that has seen enough, such as `head`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});
// By an exit of our own, so that what a benchmark registered for it is cleaned up.
for (const [signal, number] of [['SIGINT', 2], ['SIGTERM', 15]] as const) process.once(signal, () => process.exit(128 + number));

const code = await runCli(process.argv.slice(2), benches, {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
});
// All output first; then not left to the event loop: a start that failed half-way holds it for ever.
process.stdout.write('', () => process.exit(code));
