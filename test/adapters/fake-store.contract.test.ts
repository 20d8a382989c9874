import { describe } from 'vitest';
import { FakeStore } from '../support/fake-store.ts';
import { describeLanes } from '../support/lanes-contract.ts';
import { describeRecords } from '../support/records-contract.ts';

describe('the fakes of the flow\'s tests', () => {
  const store = new FakeStore();
  describeLanes(() => store);
  describeRecords(() => store);
});
