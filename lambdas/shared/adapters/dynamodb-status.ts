import { randomBytes } from 'node:crypto';
import { TransactWriteItemsCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { ulid } from '../core/version.ts';
import type { ChangeStatus, DisableEndpoint } from '../ports/index.ts';
import { writeFailure } from './dynamodb-errors.ts';
import { sk, toldNames, toldValue } from './dynamodb-lane-item.ts';
import { laneUpdate } from './dynamodb-lane-write.ts';
import { Expressions } from './expressions.ts';
import { pauseBriefly, whileNotApplied, type Pause } from './repeat.ts';

/**
 * Changes an endpoint's status as an operator would: configuration and lane in one transaction, both still at the version that was
 * read. Of the configuration only what says so: nothing that another version of the program has written is lost.
 */
export function createChangeStatus(db: DynamoDBClient, table: string, pause: Pause = pauseBriefly): ChangeStatus {
  return async ({ endpointId, version }, { fields, slots, atEpochMs, told, whileFailingSinceEpochMs }) => {
    const next = ulid(atEpochMs, randomBytes(10));
    const [config, lane] = [new Expressions(), new Expressions()];
    const document = config.name('config');
    const cfg = lane.name('cfg');
    const assigned = Object.entries(fields).map(([name, value]) => `${document}.${config.name(name)} = ${config.value(value)}`);
    const failing = whileFailingSinceEpochMs === undefined ? [] : [`${lane.name('rs')} = ${lane.value(whileFailingSinceEpochMs)}`];
    const noted = told === undefined ? [] : [`${lane.name(toldNames[told.subject])} = ${lane.value(toldValue(told.note))}`];
    const sized = slots === undefined ? undefined : resized(lane, slots);
    const members = [
      {
        Update: {
          TableName: table, Key: marshall({ pk: endpointId, sk: sk.config }),
          UpdateExpression: `SET ${[...assigned, `${config.name('version')} = ${config.value(next)}`].join(', ')}`,
          ConditionExpression: `${config.name('version')} = ${config.value(version)}`,
          ...config.attributes(),
        },
      },
      { Update: laneUpdate(table, endpointId, lane, { sets: [`${cfg} = ${lane.value(next)}`, ...noted, ...(sized?.sets ?? [])], removes: [], clauses: [`${cfg} = ${lane.value(version)}`, ...failing, ...(sized?.clauses ?? [])] }) },
    ];
    const answer = await whileNotApplied<'written' | 'changed' | 'notApplied' | 'unsure'>(async () => {
      try {
        await db.send(new TransactWriteItemsCommand({ TransactItems: members }));
        return 'written';
      } catch (error) {
        const { kind } = writeFailure(error);
        return kind === 'refused' ? 'changed' : kind;
      }
    }, 'notApplied', pause);
    return answer === 'written' || answer === 'changed' ? answer : 'busy';
  };
}

function resized(x: Expressions, { from, to }: { from: number; to: number }): { sets: string[]; clauses: string[] } {
  const [slots, avail] = [x.name('slots'), x.name('avail')];
  return { sets: [`${slots} = ${x.value(to)}`, `${avail} = ${avail} + ${x.value(to - from)}`], clauses: [`${slots} = ${x.value(from)}`] };
}

/** Disables an endpoint that said that it is gone, and notes in the same write that somebody is to be told. */
export function createDisableEndpoint(db: DynamoDBClient, table: string, pause?: Pause): DisableEndpoint {
  const change = createChangeStatus(db, table, pause);
  return async ({ config: { endpointId }, version }, reason) => {
    // Not claimed by anybody: long over.
    const told = { subject: 'gone' as const, note: { what: `${reason.why}@${reason.atEpochMs}`, atEpochMs: 0, isTold: false } };
    const answer = await change({ endpointId, version }, { fields: { status: 'disabled', disabledFor: reason }, atEpochMs: reason.atEpochMs, told });
    return answer === 'written' ? 'disabled' : answer;
  };
}
