import { type FunctionUrl, FunctionUrlAuthType } from 'aws-cdk-lib/aws-lambda';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Construct } from 'constructs';
import { env } from '../lambdas/shared/limits/names.ts';
import { status } from '../lambdas/shared/limits/numbers.ts';
import { allow, newFunction } from './function.ts';
import type { SenderFunctionProps } from './sender-function.ts';

/** What the status function works on. */
export type StatusFunctionProps = Pick<SenderFunctionProps, 'stage' | 'tables' | 'metricNamespace'>;

/** The status function with its role, log group and URL: each consumer asks with a token of its own. */
export class StatusFunction extends Construct {
  readonly function: NodejsFunction;
  /** Open to the internet; undefined where the stage wants none. */
  readonly url: FunctionUrl | undefined;

  constructor(scope: Construct, id: string, { stage, tables, metricNamespace }: StatusFunctionProps) {
    super(scope, id);
    this.function = newFunction(this, {
      name: 'status',
      entry: 'lambdas/status/handler.ts',
      description: 'Sluice: tells a consumer that has its token how its endpoint stands',
      timeoutS: status.timeoutS,
      memoryMb: status.memoryMb,
      environment: { [env.endpointsTable]: tables.endpoints.tableName, [env.statisticsTable]: tables.statistics.tableName },
      metricNamespace,
      statements: [allow(['dynamodb:GetItem'], tables.endpoints.tableArn), allow(['dynamodb:Query'], tables.statistics.tableArn)],
      isDisposable: stage.name === 'local',
      // Who floods it must not take the account's concurrency from the deliveries.
      settings: stage.status.url && stage.status.concurrency !== null ? { reservedConcurrentExecutions: stage.status.concurrency } : {},
    });
    if (stage.status.url) this.url = this.function.addFunctionUrl({ authType: FunctionUrlAuthType.NONE });
  }
}
