import { afterAll, beforeAll, describe } from 'vitest';
import { startDynamoSubject, type DynamoSubject } from '../support/dynamo-subject.ts';
import { describeHeldRecords } from '../support/held-records-contract.ts';
import { describeHolding } from '../support/holding-contract.ts';
import { describeLanes } from '../support/lanes-contract.ts';
import { describeRecords } from '../support/records-contract.ts';
import { describeReplays } from '../support/replays-contract.ts';

describe('the DynamoDB adapters', () => {
  let subject: DynamoSubject;
  beforeAll(async () => void (subject = await startDynamoSubject()));
  afterAll(() => subject.close());
  describeLanes(() => subject.world);
  describeRecords(() => subject.world);
  describeHolding(() => subject.world);
  describeHeldRecords(() => subject.world);
  describeReplays(() => subject.world);
});
