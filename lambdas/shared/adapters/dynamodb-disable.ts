import { randomBytes } from 'node:crypto';
import { TransactWriteItemsCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { ulid } from '../core/version.ts';
import type { DisableEndpoint } from '../ports/index.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { sk } from './dynamodb-lane-item.ts';
import { laneUpdate } from './dynamodb-lane-write.ts';
import { Expressions } from './expressions.ts';
import { pauseBriefly, whileNotApplied, type Pause } from './repeat.ts';

/**
 * Disables an endpoint as an operator would: configuration and lane in one transaction, both still at the version that was read.
 * Of the configuration only what says so: nothing that another version of the program has written is lost.
 */
export function createDisableEndpoint(db: DynamoDBClient, table: string, pause: Pause = pauseBriefly): DisableEndpoint {
  return async ({ config: { endpointId }, version }, reason) => {
    const next = ulid(reason.atEpochMs, randomBytes(10));
    const [config, lane] = [new Expressions(), new Expressions()];
    const document = config.name('config');
    const cfg = lane.name('cfg');
    const of = (name: string) => `${document}.${config.name(name)}`;
    const members = [
      {
        Update: {
          TableName: table, Key: marshall({ pk: endpointId, sk: sk.config }),
          UpdateExpression: `SET ${of('status')} = ${config.value('disabled')}, ${of('disabledFor')} = ${config.value(reason)}, ${config.name('version')} = ${config.value(next)}`,
          ConditionExpression: `${config.name('version')} = ${config.value(version)}`,
          ...config.attributes(),
        },
      },
      { Update: laneUpdate(table, endpointId, lane, { sets: [`${cfg} = ${lane.value(next)}`], removes: [], clauses: [`${cfg} = ${lane.value(version)}`] }) },
    ];
    const answer = await whileNotApplied<'disabled' | 'changed' | 'notApplied' | 'unsure'>(async () => {
      try {
        await db.send(new TransactWriteItemsCommand({ TransactItems: members }));
        return 'disabled';
      } catch (error) {
        const { kind } = writeFailure(error);
        return kind === 'refused' ? 'changed' : kind;
      }
    }, 'notApplied', pause);
    return answer === 'disabled' || answer === 'changed' ? answer : 'busy';
  };
}
