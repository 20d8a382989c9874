import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, ProjectionType, TableEncryptionV2, TableV2, type TablePropsV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Construct } from 'constructs';
import { attentionIndex, holdingIndex, laneAttributes, unknownIndex } from '../lambdas/shared/limits/names.ts';
import { hold } from '../lambdas/shared/limits/numbers.ts';
import type { StageConfig } from './stage-config.ts';

/** Attribute of all tables that holds when an item may go, in epoch seconds. Items without it stay. */
const ttlAttribute = 'ttlEpochS';

/**
 * The tables: Endpoints (small and precious: configuration and lanes), Deliveries (one record per endpoint and event), Payloads
 * (of what is held) and Statistics (what lanes have counted).
 */
export class Tables extends Construct {
  readonly endpoints: TableV2;
  readonly deliveries: TableV2;
  readonly payloads: TableV2;
  readonly statistics: TableV2;

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
      globalSecondaryIndexes: [
        {
          // Sparse: a lane is in it while it holds something, so the sweep reads what is due and not the customers.
          indexName: holdingIndex,
          partitionKey: { name: laneAttributes.holding, type: AttributeType.STRING },
          sortKey: { name: laneAttributes.wakeAt, type: AttributeType.NUMBER },
          projectionType: ProjectionType.KEYS_ONLY,
        },
      ],
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
        {
          // Sparse: only unknown records carry `upk`, so the oldest of the installation is found by a few keys.
          indexName: unknownIndex,
          partitionKey: { name: 'upk', type: AttributeType.STRING },
          sortKey: { name: 'sinceEpochMs', type: AttributeType.NUMBER },
          projectionType: ProjectionType.KEYS_ONLY,
        },
      ],
    });

    this.payloads = new TableV2(this, 'Payloads', {
      ...common,
      billing: Billing.onDemand({ maxReadRequestUnits: hold.maxReadUnits, maxWriteRequestUnits: hold.maxWriteUnits }),
      partitionKey: { name: 'pk', type: AttributeType.STRING },
    });

    this.statistics = new TableV2(this, 'Statistics', {
      ...common,
      // Measurements of the last weeks: nothing is decided by them, so no point of them is worth coming back to.
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: false },
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      sortKey: { name: 'sinceEpochMs', type: AttributeType.NUMBER },
    });
  }
}

/** For a statement: permissions on a table do not reach its indexes. */
export function indexArn(table: TableV2, index: string): string {
  return `${table.tableArn}/index/${index}`;
}
