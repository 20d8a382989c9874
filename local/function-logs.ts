import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import path from 'node:path';
import type { FunctionSpec } from './template.ts';
import type { Wire } from './wire.ts';

/** Stands in for CloudWatch Logs: one file a function, and the calls that Lambda would make under the function's role. */
export class FunctionLogs {
  readonly #files = new Map<string, WriteStream>();

  constructor(dir: string, wire: Wire, functions: readonly FunctionSpec[]) {
    mkdirSync(dir, { recursive: true });
    for (const fn of functions) {
      this.#files.set(fn.name, createWriteStream(path.join(dir, `${fn.name}.log`)));
      if (fn.logGroupArn === undefined) continue;
      const call = { atMs: Date.now(), caller: fn.roleName, service: 'logs', resource: `${fn.logGroupArn}:log-stream:local`, outcome: 'ok', durationMs: 0, requestBytes: 0 };
      wire.calls.record({ ...call, action: 'logs:CreateLogStream', operation: 'CreateLogStream' });
      wire.calls.record({ ...call, action: 'logs:PutLogEvents', operation: 'PutLogEvents' });
    }
  }

  write(functionName: string, line: string): void {
    this.#files.get(functionName)?.write(`${line}\n`);
  }

  close(): void {
    for (const file of this.#files.values()) file.end();
  }
}
