/** Names that two parts must agree on: environment variables, attributes, indexes, headers. */

/** Environment of the functions, written by lib/ and read by each function's deps.ts. */
export const env = {
  endpointsTable: 'SLUICE_ENDPOINTS_TABLE',
  deliveriesTable: 'SLUICE_DELIVERIES_TABLE',
  deliveryQueueUrl: 'SLUICE_DELIVERY_QUEUE_URL',
  deadLetterQueueUrl: 'SLUICE_DEAD_LETTER_QUEUE_URL',
  payloadsTable: 'SLUICE_PAYLOADS_TABLE',
  statisticsTable: 'SLUICE_STATISTICS_TABLE',
  drainQueueUrl: 'SLUICE_DRAIN_QUEUE_URL',
  noticesTopicArn: 'SLUICE_NOTICES_TOPIC_ARN',
  /** What a wake-up's schedule sends to, in which group, and as whom. */
  drainQueueArn: 'SLUICE_DRAIN_QUEUE_ARN',
  wakeUpGroup: 'SLUICE_WAKE_UP_GROUP',
  wakeUpRoleArn: 'SLUICE_WAKE_UP_ROLE_ARN',
  /** JSON of the function's own timeout and margins (FunctionLimits), which Lambda does not tell it. */
  functionLimits: 'SLUICE_FUNCTION_LIMITS',
  /** JSON of what the stage lets senders reach (EgressRules). */
  egress: 'SLUICE_EGRESS',
  /** Deliveries that all senders of the queue may have under way at once. */
  fleetSlots: 'SLUICE_FLEET_SLOTS',
  /** Of all metrics of the installation. */
  metricNamespace: 'SLUICE_METRIC_NAMESPACE',
} as const;

/** Sparse index of the Deliveries table over deliveries that need somebody: partition `state#endpointId`, sorted by time. */
export const attentionIndex = 'attention';

/** Sparse index of the Deliveries table over all that is unknown: a few partitions `unknown#shard`, sorted by since when. */
export const unknownIndex = 'unknown';

/** Sparse index of the Endpoints table over lanes that hold deliveries: partition `holding`, sorted by `wakeAt`. */
export const holdingIndex = 'holding';

/** Attributes of the messages we write; the prefix is reserved, producers' attributes are ignored. */
export const messageAttributes = {
  generation: 'sluice-gen',
  reason: 'sluice-reason',
  endpoint: 'sluice-endpoint',
  attempts: 'sluice-attempts',
  firstAt: 'sluice-first-at',
  lastAt: 'sluice-last-at',
  lastOutcome: 'sluice-last-outcome',
} as const;

/** Type of the test event of `sluice endpoint ping`: sent once, whatever becomes of it. */
export const pingEventType = 'sluice.ping';

/** When a ping is due: before everything else that is held. */
export const pingDueEpochMs = 0;

/** Headers that Sluice itself sets on a delivery, among them the Standard Webhooks ones. */
export const headers = {
  id: 'webhook-id',
  timestamp: 'webhook-timestamp',
  signature: 'webhook-signature',
  /** Of the preset `hub256`, as GitHub names it. */
  hubSignature: 'x-hub-signature-256',
  attempt: 'sluice-attempt',
  possibleDuplicate: 'sluice-possible-duplicate',
  /** On a GET that asks whether an event has arrived: a number that rises with each. */
  look: 'sluice-look',
} as const;

/** Attributes of a lane that the sparse index reads; `holding` is there while anything is held. */
export const laneAttributes = { holding: 'holding', wakeAt: 'wakeAt' } as const;

/** Keys of the stack's outputs; the CLI finds an installation by them. */
export const outputs = {
  deliveryQueueUrl: 'DeliveryQueueUrl',
  deadLetterQueueUrl: 'DeadLetterQueueUrl',
  faultQueueUrl: 'FaultQueueUrl',
  drainQueueUrl: 'DrainQueueUrl',
  endpointsTable: 'EndpointsTableName',
  deliveriesTable: 'DeliveriesTableName',
  payloadsTable: 'PayloadsTableName',
  /** Where is told what becomes of endpoints. */
  noticesTopic: 'NoticesTopicArn',
  /** Windows of measurements that have ended. */
  statisticsTable: 'StatisticsTableName',
  deliverFunction: 'DeliverFunctionName',
  drainFunction: 'DrainFunctionName',
  sweepFunction: 'SweepFunctionName',
  replayFunction: 'ReplayFunctionName',
  statusFunction: 'StatusFunctionName',
  /** Where the functions log: named by CloudFormation, so nobody can tell them from the functions' names. */
  deliverLogGroup: 'DeliverLogGroupName',
  drainLogGroup: 'DrainLogGroupName',
  sweepLogGroup: 'SweepLogGroupName',
  replayLogGroup: 'ReplayLogGroupName',
  /** Event source mappings, for who wants to switch receiving itself off. */
  deliverSource: 'DeliverEventSourceId',
  drainSource: 'DrainEventSourceId',
  /** JSON of FunctionLimits: endpoint budgets must fit into them, so registration needs them. */
  deliverLimits: 'DeliverLimits',
  /** JSON of EgressRules: an endpoint's URL must keep to them, so registration needs them. */
  egress: 'EgressRules',
  /** Deliveries that all senders of the queue may have under way at once. */
  fleetSlots: 'FleetSlots',
  /** Where a consumer asks how it stands; `none` where the stage wants none. */
  statusUrl: 'StatusUrl',
  /** Newest version of records that the functions read: a command line that is newer must not ask them for more. */
  recordVersion: 'RecordVersion',
  /** Where alarms are told; nobody is subscribed by the stack. */
  pagesTopic: 'PagesTopicArn',
  ticketsTopic: 'TicketsTopicArn',
  /** In which the functions publish; for who asks CloudWatch by hand. */
  metricNamespace: 'MetricNamespace',
} as const;
