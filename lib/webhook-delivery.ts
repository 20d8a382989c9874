import { Construct } from 'constructs';
import { DeliverFunction } from './deliver-function.ts';
import { DrainFunction } from './drain-function.ts';
import { LogQueries } from './log-queries.ts';
import { Queues } from './queues.ts';
import { ReplayFunction } from './replay-function.ts';
import { assertStage, resolveStage, type StageConfig } from './stage-config.ts';
import { SweepFunction } from './sweep-function.ts';
import { Tables } from './tables.ts';
import { WakeUps } from './wake-ups.ts';

/** Properties of WebhookDelivery. */
export interface WebhookDeliveryProps {
  /** A stage from resolveStage(); default: the stage `aws` with every default. */
  stage?: StageConfig;
}

/**
 * Webhook delivery as one construct, for an app of your own: producers send to `queues.delivery`.
 * @throws StageConfigError if the stage's numbers do not fit together.
 */
export class WebhookDelivery extends Construct {
  readonly stage: StageConfig;
  readonly queues: Queues;
  readonly tables: Tables;
  readonly wakeUps: WakeUps;
  readonly deliver: DeliverFunction;
  readonly drain: DrainFunction;
  readonly sweep: SweepFunction;
  readonly replay: ReplayFunction;

  constructor(scope: Construct, id: string, props: WebhookDeliveryProps = {}) {
    super(scope, id);
    const stage = props.stage ?? resolveStage();
    assertStage(stage);
    this.stage = stage;
    this.queues = new Queues(this, 'Queues', stage);
    this.tables = new Tables(this, 'Tables', stage);
    this.wakeUps = new WakeUps(this, 'WakeUps', this.queues.drain);
    const { queues, tables, wakeUps } = this;
    this.deliver = new DeliverFunction(this, 'Deliver', { stage, queues, tables, wakeUps });
    this.drain = new DrainFunction(this, 'Drain', { stage, queues, tables, wakeUps });
    this.sweep = new SweepFunction(this, 'Sweep', { stage, queues, tables });
    this.replay = new ReplayFunction(this, 'Replay', { stage, queues, tables });
    new LogQueries(this, 'LogQueries', [this.deliver, this.drain, this.sweep, this.replay].map((part) => part.function.logGroup));
  }
}
