import { Stack } from 'aws-cdk-lib';
import { CfnQueryDefinition, type ILogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { savedQueries } from '../lambdas/shared/limits/log-queries.ts';

/** The queries that operators need of the functions' logs, saved for the console of Logs Insights in a folder named like the stack. */
export class LogQueries extends Construct {
  constructor(scope: Construct, id: string, groups: readonly ILogGroup[]) {
    super(scope, id);
    for (const [key, { name, text }] of Object.entries(savedQueries)) {
      new CfnQueryDefinition(this, key, {
        name: `${Stack.of(this).stackName}/${name}`,
        queryString: text,
        logGroupNames: groups.map((group) => group.logGroupName),
      });
    }
  }
}
