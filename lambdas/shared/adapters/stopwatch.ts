import type { Phase, Timing } from '../core/outcome.ts';

/** Times the phases of one attempt by the monotonic clock. */
export class Stopwatch {
  readonly #startedMs = performance.now();
  readonly #phasesMs: Partial<Record<Phase, number>> = {};
  #phase: Phase | undefined;
  #beganMs = this.#startedMs;

  /** Ends the phase under way and begins the next. */
  begin(phase: Phase): void {
    const nowMs = performance.now();
    this.#add(nowMs);
    this.#phase = phase;
    this.#beganMs = nowMs;
  }

  elapsedMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** Ends the phase under way. */
  timing(reused: boolean): Timing {
    const nowMs = performance.now();
    this.#add(nowMs);
    this.#phase = undefined;
    return { durationMs: Math.round(nowMs - this.#startedMs), phasesMs: this.#phasesMs, reused };
  }

  /** A phase that is come to twice, after a socket that was dead, counts both times. */
  #add(nowMs: number): void {
    if (this.#phase !== undefined) this.#phasesMs[this.#phase] = Math.round((this.#phasesMs[this.#phase] ?? 0) + nowMs - this.#beganMs);
  }
}
