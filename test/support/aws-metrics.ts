/**
 * Metrics of AWS itself, for the alarms that watch them: they are in no function's log, so a sampler asks the embedded AWS each minute
 * (`GET /_sluice/measured`). Of a queue: what is visible, what is hidden, and the age of the oldest message, without those that SQS
 * leaves out. Of a function: errors and throttles since the sample before. Names and dimensions are those of CloudWatch.
 *
 * Otherwise than on AWS: a queue that nobody looks at goes on being reported; of what comes and goes within a minute nothing is seen.
 */
import type { Datapoint } from './alarm-evaluator.ts';
import type { Embedded } from './embedded.ts';

export function awsMetrics(embedded: Embedded): () => Promise<Datapoint[]> {
  const before = new Map<string, number>();
  const since = (what: string, count: number) => {
    const more = count - (before.get(what) ?? 0);
    before.set(what, count);
    return more;
  };
  return async () => {
    const { atEpochMs, queues, functions } = await embedded.measured();
    const point = (namespace: string, name: string, dimensions: Datapoint['dimensions'], value: number): Datapoint => ({ namespace, name, dimensions, atEpochMs, values: [value] });
    return [
      ...queues.flatMap(({ name: QueueName, visible, notVisible, oldestAgeS }) => [
        point('AWS/SQS', 'ApproximateNumberOfMessagesVisible', { QueueName }, visible),
        point('AWS/SQS', 'ApproximateNumberOfMessagesNotVisible', { QueueName }, notVisible),
        point('AWS/SQS', 'ApproximateAgeOfOldestMessage', { QueueName }, oldestAgeS),
      ]),
      ...functions.flatMap(({ name: FunctionName, errors, throttles }) => [
        point('AWS/Lambda', 'Errors', { FunctionName }, since(`${FunctionName} errors`, errors)),
        point('AWS/Lambda', 'Throttles', { FunctionName }, since(`${FunctionName} throttles`, throttles)),
      ]),
    ];
  };
}
