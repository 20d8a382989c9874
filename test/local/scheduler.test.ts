import { afterAll, beforeAll, describe } from 'vitest';
import { describeScheduler } from '../support/fidelity-scheduler.ts';
import { type Subject, startSubject } from '../support/fidelity-subject.ts';

describe('EventBridge Scheduler', () => {
  let subject: Subject;
  beforeAll(async () => void (subject = await startSubject()));
  afterAll(() => subject.close());
  describeScheduler(() => subject);
});
