import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeSqs } from '../support/fidelity-sqs.ts';
import { Queues } from '../support/fidelity-sqs-queues.ts';
import { type Subject, refusal, startSubject } from '../support/fidelity-subject.ts';

describe('SQS', () => {
  let subject: Subject;
  beforeAll(async () => void (subject = await startSubject()));
  afterAll(() => subject.close());
  describeSqs(() => subject);
});

describe.skipIf(process.env['SLUICE_FIDELITY_AWS'] === '1')('the in-flight limit of a standard queue', () => {
  it('refuses short polls and leaves long ones empty until a message is deleted', async () => {
    const subject = await startSubject({ args: ['--max-in-flight', '12'] });
    const queues = new Queues(subject);
    const url = await queues.make({ VisibilityTimeout: '600' });
    for (let i = 0; i < 20; i++) await queues.send(url, `m${i}`);
    const received = [...(await queues.receive(url)), ...(await queues.receive(url))];
    expect(received).toHaveLength(12);
    expect((await refusal(queues.receive(url))).name).toBe('OverLimit');
    expect(await queues.receive(url, { WaitTimeSeconds: 1 })).toEqual([]);
    const waiting = queues.receive(url, { WaitTimeSeconds: 10 });
    await queues.delete(url, received[0]?.ReceiptHandle ?? '');
    expect(await waiting).toHaveLength(1);
    await queues.close();
    await subject.close();
  });
});
