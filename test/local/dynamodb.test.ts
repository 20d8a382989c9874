import { afterAll, beforeAll, describe } from 'vitest';
import { describeDynamoDb } from '../support/fidelity-dynamodb.ts';
import { type Subject, startSubject } from '../support/fidelity-subject.ts';

describe('DynamoDB', () => {
  let subject: Subject;
  beforeAll(async () => void (subject = await startSubject()));
  afterAll(() => subject.close());
  describeDynamoDb(() => subject);
});
