/**
 * Configuration of one stage: defaults from lambdas/shared/limits, overrides from the caller, refused where it is written.
 * The shape is strict, so a misspelt key is an error and not a silent default.
 */
import { z } from 'zod';
import { defaultEgress } from '../lambdas/shared/limits/egress.ts';
import { aws, budgets, deliver, drain, faultQueue, message, queues, runbook, status } from '../lambdas/shared/limits/numbers.ts';
import { checkStage, type FunctionLimits, type SenderNumbers, type StageNumbers, type Violation } from '../lambdas/shared/limits/relations.ts';

const positive = z.number().int().positive();
const nonNegative = z.number().int().nonnegative();

const senderSchema = z
  .strictObject({
    timeoutS: positive,
    memoryMb: positive,
    batchSize: positive,
    batchingWindowS: nonNegative,
    maxConcurrency: positive,
    settleMarginMs: positive,
    admitMarginMs: positive,
  })
  .partial();

const overridesSchema = z.strictObject({
  deliver: senderSchema.optional(),
  drain: senderSchema.optional(),
  // The budgets that the stage's endpoints are expected to use: a short timeout is accepted only together with them.
  // Each endpoint's own are checked against the timeout again when it is registered.
  budgetsMs: z
    .strictObject({ connection: positive, setup: positive, write: positive, read: positive, total: positive })
    .partial()
    .optional(),
  deliveryQueue: z
    .strictObject({ visibilityTimeoutS: positive, retentionS: positive, maxReceiveCount: nonNegative, maxMessageBytes: positive })
    .partial()
    .optional(),
  deadLetterQueue: z.strictObject({ retentionS: positive, maxMessageBytes: positive }).partial().optional(),
  faultQueue: z.strictObject({ retentionS: positive, maxMessageBytes: positive }).partial().optional(),
  drainQueue: z.strictObject({ visibilityTimeoutS: positive, retentionS: positive }).partial().optional(),
  egress: z
    .strictObject({ allow: z.array(z.string()), deny: z.array(z.string()), ports: z.array(z.number().int()), http: z.boolean() })
    .partial()
    .optional(),
  // The URL where consumers ask how they stand, and how many may at once; null reserves none, for a young account that has too little concurrency.
  status: z.strictObject({ url: z.boolean(), concurrency: positive.nullable() }).partial().optional(),
  // A fragment of its own would hide the heading's, and a space would end the link.
  runbookUrl: z.string().min(1).max(runbook.maxUrlLength).regex(/^[^\s#]+$/, 'a URL without spaces and without #').optional(),
});

const nameSchema = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, 'a stage name is 1 to 32 of a-z, 0-9 and -, and begins with a letter');

/** What a stage may set; each key left out takes the default of lambdas/shared/limits/numbers.ts. */
export type StageOverrides = z.input<typeof overridesSchema>;

/** A function that sends. */
export type SenderConfig = SenderNumbers & { memoryMb: number };

/** A complete stage. `name` is `aws` unless the caller says otherwise; only `local` may be destroyed with its data. */
export interface StageConfig extends StageNumbers {
  deliver: SenderConfig;
  drain: SenderConfig;
  /** The URL where consumers ask how they stand, and how many may at once. */
  status: { url: boolean; concurrency: number | null };
  /** Where the runbook can be read: the description of each alarm links to its heading there. */
  runbookUrl: string;
}

/** Thrown at synth; the message holds every violation, one a line. */
export class StageConfigError extends Error {
  override readonly name = 'StageConfigError';
  readonly violations: readonly Violation[];

  constructor(stageName: string, violations: readonly Violation[]) {
    super([`Stage "${stageName}" is refused:`, ...violations.map((violation) => `  ${violation.message}`)].join('\n'));
    this.violations = violations;
  }
}

/**
 * Completes and checks a stage.
 * @param name `aws` by default; `local` for the embedded AWS.
 * @param overrides unknown keys are refused.
 * @throws StageConfigError with all violations, of shape or of relation.
 */
export function resolveStage(name = 'aws', overrides: unknown = {}): StageConfig {
  const shapeErrors = [...shapeViolations('stage', nameSchema, name), ...shapeViolations('stageConfig', overridesSchema, overrides)];
  if (shapeErrors.length > 0) throw new StageConfigError(name, shapeErrors);
  const stage = withDefaults(name, overridesSchema.parse(overrides));
  assertStage(stage);
  return stage;
}

/** What a sender must know of itself, and the registration of endpoints of the deliver function. */
export function functionLimitsOf({ timeoutS, settleMarginMs, admitMarginMs }: SenderConfig): FunctionLimits {
  return { timeoutS, settleMarginMs, admitMarginMs };
}

/** Deliveries that all senders of the queue may have under way at once: a lane that sizes itself gets a share of them. */
export function fleetSlotsOf({ deliver: { maxConcurrency, batchSize } }: Pick<StageConfig, 'deliver'>): number {
  return maxConcurrency * batchSize;
}

/** @throws StageConfigError if a relation between the stage's numbers does not hold. */
export function assertStage(stage: StageConfig): void {
  const violations = checkStage(stage);
  if (violations.length > 0) throw new StageConfigError(stage.name, violations);
}

function shapeViolations(root: string, schema: z.ZodType, value: unknown): Violation[] {
  const result = schema.safeParse(value);
  if (result.success) return [];
  return result.error.issues.map((issue) => {
    const field = [root, ...issue.path].join('.');
    return { field, value: typeof value === 'string' ? value : JSON.stringify(value), bound: issue.code, message: `${field}: ${issue.message}` };
  });
}

/** A key given as undefined would otherwise erase its default. */
function merged<T extends object>(defaults: T, overrides: { [K in keyof T]?: T[K] | undefined } = {}): T {
  return { ...defaults, ...Object.fromEntries(Object.entries(overrides).filter(([, value]) => value !== undefined)) };
}

function withDefaults(name: string, overrides: z.output<typeof overridesSchema>): StageConfig {
  const deliverConfig = merged(senderDefaults(deliver), overrides.deliver);
  const ownDrain = senderDefaults(drain);
  const drainConfig = merged({ ...ownDrain, timeoutS: Math.max(ownDrain.timeoutS, deliverConfig.timeoutS) }, overrides.drain);
  return {
    name,
    deliver: deliverConfig,
    drain: drainConfig,
    budgetsMs: merged(defaultBudgetsMs, overrides.budgetsMs),
    deliveryQueue: merged<StageConfig['deliveryQueue']>(
      {
        visibilityTimeoutS: visibilityFor(deliverConfig),
        retentionS: queues.deliveryRetentionS,
        maxReceiveCount: queues.maxReceiveCount,
        maxMessageBytes: message.maxBytes,
      },
      overrides.deliveryQueue,
    ),
    deadLetterQueue: merged<StageConfig['deadLetterQueue']>(
      { retentionS: queues.deadLetterRetentionS, maxMessageBytes: queues.deadLetterMaxBytes },
      overrides.deadLetterQueue,
    ),
    faultQueue: merged<StageConfig['faultQueue']>(
      { retentionS: queues.faultRetentionS, maxMessageBytes: faultQueue.maxBytes },
      overrides.faultQueue,
    ),
    drainQueue: merged<StageConfig['drainQueue']>(
      { visibilityTimeoutS: visibilityFor(drainConfig), retentionS: queues.drainRetentionS },
      overrides.drainQueue,
    ),
    egress: merged(defaultEgress, overrides.egress),
    status: merged<StageConfig['status']>({ url: true, concurrency: status.concurrency }, overrides.status),
    runbookUrl: overrides.runbookUrl ?? 'docs/runbook.md',
  };
}

function senderDefaults({ timeoutS, memoryMb, batchSize, batchingWindowS, maxConcurrency, settleMarginMs, admitMarginMs }: SenderConfig): SenderConfig {
  return { timeoutS, memoryMb, batchSize, batchingWindowS, maxConcurrency, settleMarginMs, admitMarginMs };
}

/** The least that Lambda takes of the queue that feeds a function. */
function visibilityFor({ timeoutS, batchingWindowS }: SenderConfig): number {
  return aws.visibilityPerTimeout * timeoutS + batchingWindowS;
}

const defaultBudgetsMs: StageConfig['budgetsMs'] = {
  connection: budgets.connectionMs,
  setup: budgets.setupMs,
  write: budgets.writeMs,
  read: budgets.readMs,
  total: budgets.totalMs,
};
