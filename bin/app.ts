/**
 * CDK entry. Context: `stage` (default `aws`), `stackName` (default `Sluice`) and `stageConfig`, overrides of the stage as JSON:
 *   cdk deploy -c stageConfig='{"deliver":{"maxConcurrency":50}}'
 */
import { App } from 'aws-cdk-lib';
import { SluiceStack } from '../lib/sluice-stack.ts';
import { resolveStage, StageConfigError } from '../lib/stage-config.ts';

/** Context that cannot be read; shown without a stack trace, like a refused stage. */
class ContextError extends Error {}

try {
  // Synthesized by hand: a refused stage must not leave an empty assembly that looks like a good one.
  const app = new App({ autoSynth: false });
  const stage = resolveStage(contextString(app, 'stage'), contextJson(app, 'stageConfig'));
  new SluiceStack(app, contextString(app, 'stackName') ?? 'Sluice', { stage });
  app.synth();
} catch (error) {
  if (!(error instanceof StageConfigError) && !(error instanceof ContextError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}

function contextString(app: App, key: string): string | undefined {
  const value: unknown = app.node.tryGetContext(key);
  if (value === undefined || typeof value === 'string') return value;
  throw new ContextError(`Context "${key}" must be a string`);
}

/** `-c` gives text, cdk.json and CDK_CONTEXT_JSON give the object itself. */
function contextJson(app: App, key: string): unknown {
  const value: unknown = app.node.tryGetContext(key);
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    throw new ContextError(`Context "${key}" is not JSON: ${value}`);
  }
}
