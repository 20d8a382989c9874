/** What happens, one line a step, for somebody who sees it for the first time. */
export class Trace {
  /** By the steered clock, which the play moves. */
  readonly #startEpochMs = Date.now();
  readonly #width: number;

  /** @param names of those of whom it tells */
  constructor(names: readonly string[]) {
    this.#width = Math.max(...names.map((name) => name.length));
    console.log(`${'TIME'.padStart(9)}  ${'ENDPOINT'.padEnd(this.#width)}  WHAT HAPPENED`);
  }

  say(text: string, name = ''): void {
    console.log(`${this.at(Date.now()).padStart(9)}  ${name.padEnd(this.#width)}  ${text}`);
  }

  /** A moment as the trace names it. */
  at(epochMs: number): string {
    return `${((epochMs - this.#startEpochMs) / 1_000).toFixed(1)} s`;
  }
}
