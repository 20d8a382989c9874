import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, ProjectionType, TableEncryptionV2, TableV2, type TablePropsV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Construct } from 'constructs';
import { attentionIndex } from '../lambdas/shared/limits/names.ts';
import type { StageConfig } from './stage-config.ts';

/** Attribute of both tables that holds when an item may go, in epoch seconds. Items without it stay. */
const ttlAttribute = 'ttlEpochS';

/** The two tables: Endpoints (small and precious: configuration and lanes) and Deliveries (one record per endpoint and event). */
export class Tables extends Construct {
  readonly endpoints: TableV2;
  readonly deliveries: TableV2;

  constructor(scope: Construct, id: string, stage: StageConfig) {
    super(scope, id);
    const isLocal = stage.name === 'local';
    const common = {
      billing: Billing.onDemand(),
      // DynamoDB's own key: no KMS request is billed, and no role needs a KMS permission.
      encryption: TableEncryptionV2.dynamoOwnedKey(),
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      deletionProtection: !isLocal,
      removalPolicy: isLocal ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
      timeToLiveAttribute: ttlAttribute,
    } satisfies Partial<TablePropsV2>;

    this.endpoints = new TableV2(this, 'Endpoints', {
      ...common,
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      sortKey: { name: 'sk', type: AttributeType.STRING },
    });

    this.deliveries = new TableV2(this, 'Deliveries', {
      ...common,
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      globalSecondaryIndexes: [
        {
          // Sparse: only records that need somebody carry `gpk`, so its size follows them and not the traffic.
          indexName: attentionIndex,
          partitionKey: { name: 'gpk', type: AttributeType.STRING },
          sortKey: { name: 'gsk', type: AttributeType.NUMBER },
          projectionType: ProjectionType.KEYS_ONLY,
        },
      ],
    });
  }
}
