import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Folders of tests that take minutes: begun last, one of them would leave the other core idle. */
const longFirst = ['test/explore/', 'test/adapters/lanes-', 'test/e2e/', 'test/cli/'];

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = longFirst.findIndex((folder) => moduleId.includes(`/${folder}`));
      return at < 0 ? longFirst.length : at;
    };
    // Stable: within a folder as before.
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Two cores: more workers than that only make the emulators slower.
    maxWorkers: 2,
    sequence: { sequencer: LongFirst },
    // Programs that tests start hundreds of times, such as the command line, start in half the time.
    env: { NODE_COMPILE_CACHE: path.join(import.meta.dirname, 'node_modules/.cache/compiled') },
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
