/**
 * List prices of us-east-1, in dollars a million, after the free tiers. Sources are AWS's price pages; the rates were read
 * from published copies of the AWS Price List, whose file and date stand beside them.
 */

export interface Price {
  /** What is counted. */
  readonly item: string;
  readonly usdPerMillion: number;
  /** Price page of AWS. */
  readonly source: string;
  /** Offer file of the AWS Price List, and the date of the copy. */
  readonly offer: string;
  readonly date: string;
}

export const prices = {
  writeUnits: {
    // $1.25 and $0.25 until the cut of November 2024.
    item: 'DynamoDB write request units, on demand',
    usdPerMillion: 0.625,
    source: 'https://aws.amazon.com/dynamodb/pricing/on-demand/',
    offer: 'AmazonDynamoDB',
    date: '2026-08-15',
  },
  readUnits: {
    item: 'DynamoDB read request units, on demand',
    usdPerMillion: 0.125,
    source: 'https://aws.amazon.com/dynamodb/pricing/on-demand/',
    offer: 'AmazonDynamoDB',
    date: '2026-08-15',
  },
  sqsRequests: {
    item: 'SQS requests, standard queue, each 64 KiB',
    usdPerMillion: 0.4,
    source: 'https://aws.amazon.com/sqs/pricing/',
    offer: 'AWSQueueService Requests-RBP',
    date: '2026-10-08',
  },
  fairQueueRequests: {
    // Comes on top of the request's own price for messages with a MessageGroupId.
    item: 'SQS fair queue surcharge (?)',
    usdPerMillion: 0.1,
    source: 'https://aws.amazon.com/sqs/pricing/',
    offer: 'AWSQueueService Requests-Fair-RBP',
    date: '2026-10-08',
  },
  schedules: {
    item: 'EventBridge Scheduler invocations',
    usdPerMillion: 1,
    source: 'https://aws.amazon.com/eventbridge/pricing/',
    offer: 'AWSEvents',
    date: '2026-05-29',
  },
  invocations: {
    item: 'Lambda requests',
    usdPerMillion: 0.2,
    source: 'https://aws.amazon.com/lambda/pricing/',
    offer: 'AWSLambda',
    date: '2026-09-11',
  },
} as const satisfies Record<string, Price>;

/** What is billed, each with a price above. */
export type Billed = keyof typeof prices;
