import { Construct } from 'constructs';
import { DeliverFunction } from './deliver-function.ts';
import { Queues } from './queues.ts';
import { assertStage, resolveStage, type StageConfig } from './stage-config.ts';
import { Tables } from './tables.ts';

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
  readonly deliver: DeliverFunction;

  constructor(scope: Construct, id: string, props: WebhookDeliveryProps = {}) {
    super(scope, id);
    const stage = props.stage ?? resolveStage();
    assertStage(stage);
    this.stage = stage;
    this.queues = new Queues(this, 'Queues', stage);
    this.tables = new Tables(this, 'Tables', stage);
    this.deliver = new DeliverFunction(this, 'Deliver', { stage, queues: this.queues, tables: this.tables });
  }
}
