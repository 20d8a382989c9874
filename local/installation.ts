/** The embedded AWS as `npm start` runs it: it can be stopped and started again, and is stopped whatever is under way. */
import { addControlRoutes } from './control.ts';
import { type EmbeddedAws, type EmbeddedOptions, startEmbeddedAws } from './embedded-aws.ts';

export class Installation {
  readonly #options: EmbeddedOptions;
  #running: Promise<EmbeddedAws>;

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.#running = this.#start();
  }

  /** As it runs now, or will in a moment. */
  running(): Promise<EmbeddedAws> {
    return this.#running;
  }

  restart(stopped: () => void): Promise<EmbeddedAws> {
    this.#running = this.#running.then(async (embedded) => {
      await embedded.stop();
      stopped();
      return this.#start();
    });
    return this.#running;
  }

  async stop(): Promise<void> {
    await (await this.#running).stop();
  }

  async #start(): Promise<EmbeddedAws> {
    const embedded = await startEmbeddedAws(this.#options);
    addControlRoutes(embedded);
    return embedded;
  }
}
