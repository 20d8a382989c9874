import { Construct } from 'constructs';
import { Alarms } from './alarms.ts';
import { newDashboard } from './dashboard.ts';
import { DeliverFunction } from './deliver-function.ts';
import { DrainFunction } from './drain-function.ts';
import { metricNamespaceOf } from './installation.ts';
import { LogQueries } from './log-queries.ts';
import { metricsIn } from './metrics.ts';
import { Notices } from './notices.ts';
import { Queues } from './queues.ts';
import { ReplayFunction } from './replay-function.ts';
import { assertStage, resolveStage, type StageConfig } from './stage-config.ts';
import { StatusFunction } from './status-function.ts';
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
 * @throws StageConfigError if the stage's numbers do not fit together; Error if its id, or that of a construct around it, cannot be part of a CloudWatch namespace.
 */
export class WebhookDelivery extends Construct {
  readonly stage: StageConfig;
  readonly queues: Queues;
  readonly tables: Tables;
  readonly wakeUps: WakeUps;
  readonly notices: Notices;
  readonly deliver: DeliverFunction;
  readonly drain: DrainFunction;
  readonly sweep: SweepFunction;
  readonly replay: ReplayFunction;
  readonly status: StatusFunction;
  /** Its own: of two installations in one account neither hides what the other publishes. */
  readonly metricNamespace: string;
  /** Subscribe to `alarms.topics.page` and `alarms.topics.ticket`. */
  readonly alarms: Alarms;

  constructor(scope: Construct, id: string, props: WebhookDeliveryProps = {}) {
    super(scope, id);
    const stage = props.stage ?? resolveStage();
    assertStage(stage);
    this.stage = stage;
    this.queues = new Queues(this, 'Queues', stage);
    this.tables = new Tables(this, 'Tables', stage);
    this.wakeUps = new WakeUps(this, 'WakeUps', this.queues.drain);
    this.metricNamespace = metricNamespaceOf(this);
    this.notices = new Notices(this, 'Notices');
    const { queues, tables, wakeUps, notices, metricNamespace } = this;
    this.deliver = new DeliverFunction(this, 'Deliver', { stage, queues, tables, wakeUps, metricNamespace });
    this.drain = new DrainFunction(this, 'Drain', { stage, queues, tables, wakeUps, metricNamespace });
    this.sweep = new SweepFunction(this, 'Sweep', { stage, queues, tables, notices, metricNamespace });
    this.replay = new ReplayFunction(this, 'Replay', { stage, queues, tables, metricNamespace });
    this.status = new StatusFunction(this, 'Status', { stage, tables, metricNamespace });
    const functions = { deliver: this.deliver.function, drain: this.drain.function, sweep: this.sweep.function, replay: this.replay.function };
    const metrics = metricsIn(metricNamespace);
    this.alarms = new Alarms(this, 'Alarms', { stage, queues, functions, metrics });
    newDashboard(this, 'Dashboard', { queues, functions, alarms: this.alarms, metrics });
    new LogQueries(this, 'LogQueries', [this.deliver, this.drain, this.sweep, this.replay].map((part) => part.function.logGroup));
  }
}
