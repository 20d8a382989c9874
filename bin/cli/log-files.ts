import { open } from 'node:fs/promises';
import { isSelectedLine, type LogSelect } from '../../lambdas/shared/limits/log-queries.ts';
import { parseLogLine, type LogLine } from './log-lines.ts';

/** Selected lines of the logs of a local installation, in no order; one that it does not have yet is an empty one. */
export async function searchFiles(files: readonly string[], select: LogSelect, { fromEpochMs, toEpochMs = Infinity }: { fromEpochMs: number; toEpochMs?: number | undefined }): Promise<LogLine[]> {
  const found: LogLine[] = [];
  for (const file of files) {
    for await (const text of linesOf(file)) {
      // Most lines are of others, and parsing is what costs.
      if (!text.includes(select.endpointId)) continue;
      const line = parseLogLine(text);
      if (line !== undefined && line.epochMs >= fromEpochMs && line.epochMs < toEpochMs && isSelectedLine(line.fields, select)) found.push(line);
    }
  }
  return found;
}

async function* linesOf(file: string): AsyncIterable<string> {
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (handle === undefined) return;
  try {
    yield* handle.readLines({ encoding: 'utf8' });
  } finally {
    await handle.close();
  }
}
