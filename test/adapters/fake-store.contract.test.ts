import { describe } from 'vitest';
import { FakeStore } from '../support/fake-store.ts';
import { describeHeldRecords } from '../support/held-records-contract.ts';
import { describeHolding } from '../support/holding-contract.ts';
import { describeLanes } from '../support/lanes-contract.ts';
import { describeRecords } from '../support/records-contract.ts';
import { describeReplays } from '../support/replays-contract.ts';

describe('the fakes of the flow\'s tests', () => {
  const store = new FakeStore();
  describeLanes(() => store);
  describeRecords(() => store);
  describeHolding(() => store);
  describeHeldRecords(() => store);
  describeReplays(() => store);
});
