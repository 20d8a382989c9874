// Loaded with `node --import`: makes Date show the shared, steerable time, so that one advance moves every process at once.
// Timers stay real: whoever waits for an hour must look at the clock now and then instead of sleeping for it.
import { constants, mkdirSync, openSync, readSync } from 'node:fs';
import { dirname } from 'node:path';

const trueDateKey = Symbol.for('sluice.trueDate');
const steerDateKey = Symbol.for('sluice.steerDate');
const TrueDate = Date;

/** @param {string} file @returns {number} A descriptor that stays valid, because the clock is only ever written in place. */
function openClock(file) {
  mkdirSync(dirname(file), { recursive: true });
  return openSync(file, constants.O_RDONLY | constants.O_CREAT, 0o600);
}

/** @param {string} file Replaces Date by one that is `offset` ahead; the offset is a little-endian double at the start of the file. */
function steerDate(file) {
  if (Reflect.has(globalThis, trueDateKey)) return;
  const descriptor = openClock(file);
  const bytes = Buffer.alloc(8);

  const now = () => {
    // Read each time (about a microsecond): a cached offset would let two processes disagree after an advance.
    const offsetMs = readSync(descriptor, bytes, 0, 8, 0) === 8 ? bytes.readDoubleLE(0) : 0;
    return TrueDate.now() + Math.round(offsetMs);
  };

  const Steered = new Proxy(TrueDate, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
    apply: () => new TrueDate(now()).toString(),
    get: (target, key, receiver) => (key === 'now' ? now : Reflect.get(target, key, receiver)),
  });
  // Libraries compare `value.constructor === Date`.
  Object.defineProperty(TrueDate.prototype, 'constructor', { value: Steered, writable: true, configurable: true });
  Object.defineProperty(globalThis, trueDateKey, { value: TrueDate });
  globalThis.Date = Steered;
}

// A process that makes the clock file itself cannot have it in its environment at start: SteerableClock.open calls this.
Object.defineProperty(globalThis, steerDateKey, { value: steerDate });

const file = process.env['SLUICE_CLOCK_FILE'];
if (file) steerDate(file);
