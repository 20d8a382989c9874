import { constants, mkdirSync, openSync, readSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

const trueDateKey = Symbol.for('sluice.trueDate');
const steerDateKey = Symbol.for('sluice.steerDate');

/** The Date that the preload put aside, or the only one there is: adding the offset to a steered Date would count it twice. */
function trueNowMs(): number {
  const trueDate = (Reflect.get(globalThis, trueDateKey) ?? Date) as DateConstructor;
  return trueDate.now();
}

/**
 * The one clock of a local installation: real time plus an offset that all its processes read from one file.
 * Processes started with `--import clock-preload.mjs` and SLUICE_CLOCK_FILE see it as their Date.
 */
export class SteerableClock {
  readonly file: string;
  private readonly descriptor: number;

  private constructor(file: string, descriptor: number) {
    this.file = file;
    this.descriptor = descriptor;
  }

  /** Opens or creates the clock file. With the preload loaded, this process's own Date follows it from here on. */
  static open(file: string): SteerableClock {
    mkdirSync(dirname(file), { recursive: true });
    // Never truncated nor replaced: other processes keep it open and an installation keeps its time over a restart.
    const clock = new SteerableClock(file, openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600));
    const steerDate = Reflect.get(globalThis, steerDateKey) as ((file: string) => void) | undefined;
    steerDate?.(file);
    return clock;
  }

  offsetMs(): number {
    const bytes = Buffer.alloc(8);
    return readSync(this.descriptor, bytes, 0, 8, 0) === 8 ? bytes.readDoubleLE(0) : 0;
  }

  nowMs(): number {
    return trueNowMs() + Math.round(this.offsetMs());
  }

  /** Moves everybody's clock by `ms`. Negative steps it back, as a clock correction would. @throws RangeError if not finite. */
  advance(ms: number): void {
    if (!Number.isFinite(ms)) throw new RangeError(`advance: ${ms} is not a number of milliseconds`);
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(this.offsetMs() + ms, 0);
    writeSync(this.descriptor, bytes, 0, 8, 0);
  }
}
