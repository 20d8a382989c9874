/**
 * Every number that the product depends on, with its unit in the name, the reason and, where AWS sets it, the source.
 * relations.ts asserts how they must fit together; lib/ checks that at synth.
 */

/** Limits that AWS sets (SQS and Lambda developer guides, quotas pages, 2026). */
export const aws = {
  /** SQS: a message stays invisible for at most 12 h, counted from its receive, not from the call. */
  sqsMaxVisibilityS: 43_200,
  /** SQS: entries of one batch call, and messages of one receive. */
  sqsBatchEntries: 10,
  /** SQS: bytes of one batch request, all entries together (1 MiB since August 2025; by the older figure nothing is refused). */
  sqsMaxRequestBytes: 262_144,
  /** What an entry of such a request has beside its receipt handle, at most. */
  sqsEntryOverheadBytes: 100,
  /** SQS: message attributes of one message. */
  sqsMessageAttributes: 10,
  /** SQS: the largest MaximumMessageSize a queue can have (1 MiB since August 2025). */
  sqsMaxMessageBytes: 1_048_576,
  /** SQS: longest MessageRetentionPeriod, 14 days. */
  sqsMaxRetentionS: 1_209_600,
  /** Lambda: the SQS event source needs a visibility of at least six function timeouts plus the batching window. */
  visibilityPerTimeout: 6,
  /** Lambda: smallest MaximumConcurrency of an SQS event source. */
  minEventSourceConcurrency: 2,
  /** SQS: messages of a standard queue that may be in flight, about: above it receives come back empty. */
  sqsMaxInFlight: 120_000,
  /** CloudWatch: an alarm on a query sees the last three hours, and no metric by less than a minute. */
  queryWindowS: 10_800,
  queryPeriodS: 60,
  /** CloudWatch: the longest time that an alarm with periods below an hour looks at. */
  alarmWindowS: 86_400,
  /** SQS: from so many receives on a message is left out of the age of the oldest. */
  sqsAgeReceives: 3,
  /** CloudWatch: characters of a metric's namespace. */
  namespaceLength: 255,
  /** CloudWatch: series that one query returns. */
  querySeries: 500,
  /** CloudWatch: contributors of one alarm that it tells of at once. */
  alarmContributors: 100,
} as const;

/** The message that producers send. */
export const message = {
  version: 1,
  /** 256 KiB: what the delivery queue accepts (MaximumMessageSize), and what still fits a DynamoDB item once deflated. */
  maxBytes: 262_144,
  maxIdLength: 128,
  maxEventTypeLength: 128,
} as const;

/** Budgets of one attempt, in milliseconds (T1). `total` bounds write + read + body together with the setup. */
export const budgets = {
  connectionMs: 2_000,
  setupMs: 3_000,
  writeMs: 5_000,
  readMs: 10_000,
  totalMs: 15_000,
  /** Highest `total` that an endpoint may ask for: it must fit the function's timeout with the margins below. */
  maxTotalMs: 20_000,
  /** Smallest budget of any phase: below it, loss of one packet is a failure. */
  minPhaseMs: 100,
} as const;

/** The deliver function. */
export const deliver = {
  timeoutS: 30,
  memoryMb: 512,
  batchSize: 10,
  batchingWindowS: 0,
  maxConcurrency: 20,
  /** Threads of libuv, half of which may resolve names at once; an abandoned look-up keeps its thread. */
  resolverThreads: 64,
  /** Granted slots are used again within an invocation while a wave takes less than this. */
  waveMs: 2_000,
  /** Kept free at the end of an invocation for settle, dead letter, give-back and the answer. */
  settleMarginMs: 4_000,
  /** Below it one slow answer of DynamoDB costs the verdict. */
  minSettleMarginMs: 1_000,
  /** Needed before the first byte: parsing, admission, the read and their second tries. */
  admitMarginMs: 2_000,
  minAdmitMarginMs: 500,
} as const;

/** The drain function: it delivers what is held, and alone serves the endpoints that are slow or ill. */
export const drain = {
  timeoutS: 120,
  /** Ten endpoints with lanes of 32 may have read three pages of the largest bodies each. */
  memoryMb: 1_024,
  /** Endpoints at once; each wake-up is one message. */
  batchSize: 10,
  batchingWindowS: 0,
  maxConcurrency: 20,
  settleMarginMs: 4_000,
  admitMarginMs: 2_000,
  /** To one host, beside those of `sockets`: as many as a lane has slots. One run serves an endpoint alone, and a slot that waits for a socket is wasted. */
  socketsPerHost: 32,
  /** After so long an endpoint goes to the tail of the drain queue, so that one backlog does not hold the others up. */
  turnMs: 30_000,
  /** Looks come when nothing more is sent: they begin within so long... */
  lookMs: 10_000,
  /** ...and take this share of the lane at most, one slot at least: whoever is asked may be another host, and may hang. */
  lookShare: 0.25,
  /** One that is not answered is the last of its run, and no run comes for another before this: a host that hangs must not take the lane. */
  lookPauseMs: 60_000,
  /** Held deliveries that are read together, in lanes; the next page is read while one is sent. */
  pageLanes: 1,
  /** Held deliveries of one run, about: it remembers each, and after so many it goes to the tail. */
  maxPerRun: 20_000,
  /** At its end a run looks for what is due next in so many pages of so many keys: what it has settled may still be shown. */
  lookPages: 20,
  lookPage: 100,
  /** Who began a burial has finished it after so long, or is dead: deliver's timeout, and clocks that differ. */
  burialMs: 35_000,
  /** What is held while a run ends makes it look at the lane again; after so many times its lease's expiry is the wake-up. */
  endTries: 30,
  /** A run that finds no room, or is too early by a little, looks again this much later, and at most so long within its turn. */
  pollMs: 100,
  idleMs: 1_000,
  /** Before it wakes an endpoint again that it could send nothing to for a reason that has no end of its own: a full lane. */
  busyMs: 5_000,
} as const;

/** The sweep function: each minute it finds what lost its wake-up. */
export const sweep = {
  timeoutS: 50,
  /** It reads the lanes of all customers, about 10 MB of 5,000, and ends a thousand windows a minute: more memory is more processor. */
  memoryMb: 1_024,
  periodS: 60,
  /** A wake-up counts as lost where it is overdue by this much. Some are only late, and a second one then finds nothing to do. */
  graceMs: 5_000,
  /** What is held is looked through in so many parts, one a run: all of it once an hour. */
  parts: 60,
  /** Endpoints that are woken in one run, and for how long it goes on. */
  maxWoken: 1_000,
  wakeMs: 25_000,
  /** A burial that is as old as this was left by whoever began it. */
  burialMs: 3_600_000,
  /** Of the dead-letter queue so many receives are looked through for stale copies in one run, ten copies each: 144,000 copies a day... */
  tidyReceives: 10,
  /** ...for so long at most. */
  tidyMs: 10_000,
  /** No page of it is begun later in a run than this: one whose every call takes its whole time must still fit (18 s, awsCalls). */
  tidyUntilMs: 30_000,
  /** Its copies are hidden for no longer, whatever becomes of the run: until the next one. */
  tidyLookS: 60,
} as const;

/** The status function: what a consumer asks of itself. */
export const status = {
  /** Three reads in a row, each with all its tries. */
  timeoutS: 12,
  memoryMb: 256,
  /** At once: more are turned away, so that nobody who floods it takes anything from the deliveries. */
  concurrency: 5,
  tokenBytes: 32,
} as const;

/** Deliveries that are held, with their payloads. */
export const hold = {
  /** A record may be in the index this much later than in the table: until then an empty index proves nothing. */
  indexLagMs: 10_000,
  /** A wake-up sooner than this is a message of the drain queue with a delay; Scheduler's precision is a minute. */
  directMs: 60_000,
  /** A wake-up that others have moved to a time that is too late is moved again, at most as often as a lane has slots: by then all others have written. */
  wakeTries: 32,
  /** The drain looks at a paused endpoint, and at one that asked to be left alone, this often: something may be held too long, and a resume may have lost its wake-up. */
  pausedLookMs: 300_000,
  /** Of one endpoint, at 4 KB each about $250 a month. */
  maxCount: 1_000_000,
  /** Payloads end by themselves long after their records are over (30 days of pause, 7 of age, 30 as a dead letter). */
  payloadTtlS: 90 * 86_400,
  /** On-demand throughput of the payload table at most, in units a second: a flood is put back, and not paid for without end. */
  maxWriteUnits: 4_000,
  maxReadUnits: 4_000,
} as const;

/** Leases fence the POST (T3, U4): they end after any sender that could still hold them has been killed. */
export const lease = {
  /** Clocks of two machines may differ by this much. */
  skewMs: 5_000,
} as const;

/** The lane of one endpoint (L1, L2). */
export const lane = {
  defaultSlots: 8,
  minSlots: 1,
  /** Every write is billed by the whole item, and each lease in flight adds to it. */
  maxSlots: 32,
} as const;

/** Lanes that size themselves (L2). */
export const autoLane = {
  /** Share of the slots of all senders that one endpoint may have. */
  fleetShare: 0.1,
  /** A p95 above this is slow, and gets so many slots at most, until it is below the other. */
  slowMs: 3_000,
  quickMs: 2_000,
  slowSlots: 4,
  /** Of what is well: a quiet night must not shed the morning, nor look like one that is slow. */
  leastSlots: 5,
  /** A burst has as many times more in flight at its end than on average. */
  burst: 2,
  /** A window with fewer attempts says too little. */
  minAttempts: 20,
  /** More than this share of what came had no room: it comes in bursts. */
  shedShare: 0.05,
  healthyShare: 0.9,
  /** A change by less than this share of the lane waits. */
  grain: 0.2,
} as const;

/** Sockets of one execution environment (T6, T7). */
export const sockets = {
  /** In all, idle ones and ones being set up included. Lambda lets an environment open 1,024 files. */
  total: 200,
  /** To one host and port, whichever endpoints are there. */
  perHost: 8,
  /** Attempts that wait for a socket; one more is turned away at once, so that nothing queues without a bound. */
  maxWaiting: 200,
  /** Below what servers commonly keep an idle connection open for (5 s): a socket that its peer has closed costs an attempt. */
  idleMs: 4_000,
  /** Where the peer's Keep-Alive header allows more than `idleMs`. */
  maxIdleMs: 30_000,
  /** Subtracted from the peer's own figure: the way there takes time. */
  keepAliveMarginMs: 1_000,
  /** 16 KiB of a response's body are read, then the socket is destroyed (T9). */
  maxResponseBytes: 16_384,
  maxHeaderBytes: 16_384,
  /** Of everything that a response is on the wire: interim responses, head, body and its framing, which have no bound of their own. */
  maxWireBytes: 65_536,
  /** A first line that is longer is none. */
  maxStatusLineBytes: 4_096,
  /** Bytes that may come on a socket while nothing is asked: a line end too many behind a body. */
  maxUnaskedBytes: 2,
  /** TLS session tickets of one connection; servers send two or so. */
  maxTlsTickets: 16,
  /** Kept of a failure's body, in the record only (T9). */
  keptBodyBytes: 512,
  /** Of a host's addresses, the first are tried; each is judged. */
  maxAddresses: 6,
  /** The next address is tried beside the first after this long (RFC 8305, section 8). */
  staggerMs: 250,
  /** Hosts of which the share of reused sockets is kept. */
  maxHosts: 200,
} as const;

/** Default retry policy (R2, R3) and the bounds of what an endpoint may set. */
export const retry = {
  baseS: 5,
  factor: 4,
  capS: 86_400,
  /** Full jitter may draw almost nothing: the least that spares the consumer an immediate repeat. */
  minWaitMs: 1_000,
  attempts: 12,
  maxAttempts: 25,
  maxAgeS: 259_200,
  /** An age limit above the delivery queue's retention could never be kept. */
  maxMaxAgeS: 604_800,
  minMaxAgeS: 60,
  /** A schedule that is over sooner, of its age limit, gives up within minutes what its policy promises for days (T4). */
  leastSpanShare: 1 / 3,
  /** Waits that an error shows one by one. */
  shownWaits: 12,
  /** Of one pause, so much does not count as age: it bounds how long anything is kept. */
  maxPauseS: 30 * 86_400,
  /** Pauses that are remembered. */
  maxPauses: 20,
} as const;

/** Default circuit breaker (R7, C5) and the bounds of what an endpoint may set. */
export const breaker = {
  windowS: 60,
  minWindowS: 10,
  maxWindowS: 600,
  minAttempts: 20,
  maxMinAttempts: 1_000,
  failureRatio: 0.5,
  /** Below it an endpoint that is a little unreliable would be shut off. */
  minFailureRatio: 0.05,
  connectFailures: 5,
  maxConnectFailures: 100,
  openS: 30,
  minOpenS: 5,
  maxOpenS: 900,
  /** A recovery must be seen within the hour. */
  maxMaxOpenS: 3_600,
  /** A ceiling of latency (L5) is for the 95th percentile of 5 min, at least 20 attempts, and cools down for 10 min. */
  slowShare: 0.05,
  slowWindowS: 300,
  slowMinAttempts: 20,
  slowOpenS: 600,
  minSlowMs: 100,
  /** A report that others overtake is counted anew, at most as often as a lane has slots: by then all others have written. */
  swaps: 32,
} as const;

/** An endpoint that answers 429, or 503 with a time, asks for less. */
export const throttle = {
  /** Nothing is sent to it for so long, over the whole fleet, where it does not say how long. */
  pauseMs: 5_000,
  /** The least that it can say in whole seconds. */
  leastHintMs: 1_000,
  /** A pause that lies further off is not believed: no policy lets an endpoint ask for more than the longest `retry.capS`. */
  maxMs: 86_400_000,
} as const;

/** What an endpoint asks for by Retry-After or X-RateLimit-Reset (R5). */
export const hints = {
  /** Added to it, so that those who were turned away together do not come together. */
  jitterMinMs: 1_000,
  jitterMaxMs: 3_000,
  /** Characters of a header; the longest HTTP date has 33. */
  maxLength: 64,
  /** X-RateLimit-Reset: from here on a number is a time in seconds (the year 2001), and from here in milliseconds; below, seconds from now. */
  epochSFrom: 1e9,
  epochMsFrom: 1e12,
  /** Of a delivery's attempts, so many may come sooner than its backoff because the endpoint said so: or it would be given up within minutes. */
  soonerShare: 0.5,
} as const;

/** What makes an endpoint a slow one, which the drain serves alone; and what ends that. */
export const pace = {
  /** Attempts that are remembered. */
  kept: 20,
  /** Slow is above it at the 95th percentile, or in so many of the last few. */
  slowMs: 3_000,
  few: 5,
  slowOfFew: 3,
  /** Slow no longer is below it at the 95th percentile. */
  quickMs: 2_000,
  /** Of `kept`, so many may lie beyond the 95th percentile. */
  outliers: 1,
  /** A report that others overtake is counted anew, at most so often: one that is lost makes it known a little later. */
  swaps: 8,
} as const;

/** What each lane counts of its attempts (L6, L7, T5, T11). */
export const statistics = {
  /** Share by which a percentile may be off; 5 % are promised, and the rest is for rounding. */
  accuracy: 0.049,
  /** Durations below and beyond are not told apart: no budget is that short, and none that long. */
  minMs: 5,
  maxMs: 60_000,
  /** Bins of a lane: with 4.9 % they span durations of one to twenty-three. Each is billed with every write of the lane, so that what comes beside them is counted by every fourth: 24 more at most. */
  maxBins: 32,
  coarseBins: 4,
  /** A window ends after so long where it has counted `minSamples`, and after `maxWindowS` whatever it has. */
  windowS: 300,
  /** By so much more at most, by endpoint. */
  spreadS: 120,
  minSamples: 20,
  maxWindowS: 3_600,
  /** Windows that have ended are kept for 30 days: a policy that is to be changed is checked against weeks. */
  ttlS: 30 * 86_400,
  /** Kept of what the last failure said. */
  maxFailureLength: 40,
  /** Above these nobody is told that they keep up. */
  failedShare: 0.1,
  shedShare: 0.05,
  /** Below any part of a rank that matters: 0.95 of 20 is 19.000000000000004 somewhere. */
  rankGrain: 1e-9,
} as const;

/** Read budgets that follow what is measured (T5). */
export const adaptive = {
  /** Bounds of a budget, where an endpoint names none. */
  minMs: 3_000,
  maxMs: 15_000,
  /** Times what so many of its answers take. */
  factor: 3,
  share: 0.99,
  /** Fewer answers say nothing of the slowest, and a window of which less was delivered is one of an endpoint that fails. */
  minAnswers: 20,
  healthyShare: 0.9,
  /** As many answers as make an older and longer time forgotten. */
  memory: 300,
  /** So many cut off in a window, or half of it, and more than this share of its attempts: it may have become slow. */
  doubtCutOffs: 3,
  doubtShare: 0.02,
} as const;

/** Rolling out a policy to the endpoints that have it, and asking what one would have cut off (T11). */
export const policies = {
  /** Endpoints that are read or written side by side: each has items of its own, so they are not in each other's way. */
  atOnce: 8,
  /** An endpoint that others write each time is left to the next run. */
  tries: 5,
  /** Before each further try, times its number: a busy lane is written every few milliseconds. */
  pauseMs: 50,
  /** A week has every hour of a week in it. */
  checkDays: 7,
  maxCheckDays: statistics.ttlS / 86_400,
} as const;

/** When somebody is told of an endpoint that fails, and when it is no longer sent to (R12). */
export const escalation = {
  /** Attempts in a row, of all its deliveries, over the whole fleet. */
  warnFrom: 10,
  alertFrom: 50,
  /** Answered ones in a row, over a day at least: a bad deployment is rolled back sooner. */
  disableFrom: 100,
  disableAfterMs: 86_400_000,
  /** From the first attempt without an answer to the last: the longest that a delivery is tried, so nothing is lost by holding what comes. */
  pauseAfterMs: 7 * 86_400_000,
  /** A notice that was claimed and not told after so long was left by a run that died: less than the sweep's period, more than a run takes for one. */
  claimMs: 45_000,
  /** So long after it was told of a row, or that one has ended, nobody is told as much of another: 24 pairs a day of one that is ill and well in turns. */
  quietMs: 3_600_000,
  /** A flag goes with the next success, and comes with the next refusal: told once a day, it is one thing to do. */
  flagAgainMs: 86_400_000,
  /** Notices that one run tries at most; the rest follow in a minute. */
  maxNotices: 100,
  /** None is begun later in a run of the sweep than this: one whose every call takes its whole time must still fit (18 s, awsCalls). */
  untilMs: 30_000,
} as const;

/** From when on an endpoint needs attention: its gauges are published, and it is looked at by its alarms. */
export const attention = {
  /** Below these a ratio says nothing. */
  minAttempts: 5,
  minOffers: 10,
  /** The least that is reported; the alarms' thresholds lie above. */
  least: { failure_ratio: 0.1, connect_failure_ratio: 0.1, shed_ratio: 0.05, occupancy_share: 0.05 },
  /** Occupancy is unfair above this many times the share of attempts (L6). */
  unfairFactor: 2,
  /** A held delivery is reported from this age on: a wait before the next attempt is none of anybody's business. */
  undeliveredS: 300,
  /** A window that has just begun is no shorter for a rate. */
  leastWindowMs: 10_000,
  /** What a window said holds for as long as the next one takes at least. */
  carriedMs: 300_000,
  /** Unknown deliveries that are looked at, of each part of their index. */
  unknownPage: 100,
  /** Endpoints with gauges: as many as a query alarm of CloudWatch can follow. */
  maxEndpoints: 500,
  /** Lanes that are looked at beside each other, each with two calls at most. */
  atOnce: 25,
  /** For how long a run of the sweep looks at lanes. */
  lookMs: 25_000,
} as const;

/** Requests to one endpoint in a second (O7) and in a day (O8), beside its lane. */
export const rate = {
  /** One in a hundred seconds. */
  minPerSecond: 0.01,
  maxPerSecond: 1_000,
  /** A day at the highest rate: more would bound nothing. */
  maxPerDay: 86_400_000,
  /** Below any part of a request that matters. */
  grain: 1e-4,
  /** Workers that overtake each other on one endpoint's rate, at most as many as a lane has slots. */
  swaps: 32,
} as const;

/** How a message waits in its queue. */
export const putBack = {
  minS: 1,
  /** Longest waits after the first two receives that find a lane full; the third is held (L4). Short: a lane is rarely full for long. */
  fullCeilingsS: [3, 9],
  /** Longest wait of the first receives, jittered. */
  earlyCeilingsS: [5, 15, 30, 60],
  /** From the 5th receive on the ceiling doubles from here up to `doublingCapS`: a day of outage costs about 40 receives. */
  maxS: 60,
  doublingCapS: 3_600,
  /** From here on the cap is four hours: the queue gives up on a message at its 100th receive, and that must be later than any age limit. */
  lateReceive: 50,
  lateCapS: 14_400,
  /** What waits for a breaker comes back spread over this share of the time that is left of it, and at least over so many seconds. */
  openSpread: 0.1,
  openSpreadMinS: 5,
  /** After a live claim of another worker expires, the message is looked at again this much later. */
  afterClaimMs: 5_000,
  /** Subtracted from the 12 h of SQS, which count from the receive: the call itself takes time. */
  visibilityMarginS: 60,
} as const;

/** Queues. */
export const queues = {
  /** 10 days: SQS deletes silently at its end, and put-backs do not reset it. */
  deliveryRetentionS: 864_000,
  deadLetterRetentionS: 1_209_600,
  faultRetentionS: 1_209_600,
  drainRetentionS: 345_600,
  /** Sheds, put-backs and throttles receive too, so this counts receives that crashed us, not attempts. */
  maxReceiveCount: 100,
  /** Room for the attributes that a dead letter carries beside an untouched body of the largest size. */
  deadLetterMaxBytes: aws.sqsMaxMessageBytes,
} as const;

/** Hidden messages of the delivery queue, fleet-wide: a standard queue stops handing out messages at about 120,000, silently. */
export const inFlight = {
  /** From here on what waits is held instead of hidden. */
  crowdedFrom: 60_000,
  /** Each environment looks at most this often. */
  lookMs: 10_000,
} as const;

/** The switch of the whole installation. */
export const fleet = {
  /** Each environment looks at it at most this often: so long sending goes on after it was stopped, beside what is under way. */
  lookMs: 5_000,
} as const;

/** How the dead-letter queue is walked. */
export const dlqWalk = {
  /** By the command line: a copy is hidden this long while it is looked at; an interrupted walk frees it after that. */
  lookS: 120,
  /** By the command line: a receive waits this long for a copy, for one that does not wait asks some of SQS's servers only. */
  waitS: 1,
  /** Newest move tasks that are looked at; SQS lets one run at a time, and lists no more than ten. */
  moveTasks: 10,
  /** Calls that put ten copies back each, at the same time. */
  putBacks: 10,
  /** The walk ends after so many empty receives in a row. */
  emptyReceives: 3,
} as const;

/** The replay function, and the command line over it. */
export const replay = {
  /** `maxForMs`, and a batch whose every call takes its whole time. */
  timeoutS: 120,
  /** A batch of the largest bodies, as text, as bytes and deflated. */
  memoryMb: 512,
  /** How long one call works; the shortest has room for one batch at its pace. */
  forMs: 20_000,
  minForMs: 1_000,
  maxForMs: 60_000,
  /** Of the command line: short, so that its progress moves and an interrupt is soon heard. */
  cliForMs: 2_000,
  /** Deliveries a second: above it their records cost more write units than a table that has slept can take at once. */
  perSecond: 100,
  maxPerSecond: 1_000,
  /** Deliveries of one transaction, beside the lane: it may have 100 members and 4 MB, and all are tried again where one is refused. */
  batch: 25,
  /** Keys of one page of the index, and records of one read: what BatchGetItem takes. */
  page: 100,
  maxEventIds: 100,
  /** Explained in one answer. */
  maxProblems: 20,
  maxCursorLength: 1_024,
  /** Generations after which only an event's name replays it: what has died so often is not mended by another replay. */
  maxGeneration: 10,
  /** A transaction that was refused or not applied is tried so often, after `pauseMs` and up to twice as long each time: the lane is written by every worker that sends. */
  tries: 8,
  pauseMs: 25,
} as const;

/** Looking for what an attempt may have done (U5). */
export const lookup = {
  /** Waits before each look, the first from when it became unknown: a quick consumer is found at once, one that is ill for half a day too. */
  delaysS: [60, 300, 1_800, 7_200, 43_200],
  minDelayS: 5,
  maxDelayS: 86_400,
  /** With the attempts they share the entries of a history. */
  maxLooks: 10,
  /** No consumer is believed to work for longer on one event: a week, as long as the oldest delivery is tried. */
  maxProcessingS: 604_800,
  maxStatuses: 10,
  maxMatches: 10,
  maxPathLength: 200,
  /** Of an id that the consumer returns. */
  maxReferenceLength: 200,
  /** The template, with an id of 128 characters and one that the consumer returned, every byte of it escaped. */
  maxUrlLength: 2_048 + 128 + 3 * 200,
  /** Of a value in a difference that a person is shown. */
  maxShownLength: 60,
} as const;

/** Records of deliveries. */
export const records = {
  version: 1,
  /** Of a record that is held: a program that knows nothing of holding must leave it alone, or it would take it out of the index. */
  heldVersion: 2,
  /** Of a record that was dropped: a program that does not know the state must leave it alone, and its messages to one that does. */
  droppedVersion: 3,
  /** Of a record that is unknown, likewise: what does not know the state might send it again. */
  unknownVersion: 4,
  /** The newest that this program reads; what is newer is as good as unread. */
  newestVersion: 4,
  /** Terminal records stay this long; a console redrive restarts the retention of a copy, so at least 30 days. */
  ttlS: 30 * 86_400,
  /** From here on are the places in the index of what nobody looks for any more: the last day that JavaScript knows. */
  neverEpochMs: 8_640_000_000_000_000,
  /** Partitions of the index over all that is unknown: each takes 1,000 writes a second. */
  unknownShards: 4,
  /** Entries of a record's history: the first and the newest are kept (R9). */
  maxHistory: 12,
  /** Characters kept of an explanation: what a stranger sent must not decide the size of a record or a log line. */
  maxDetailLength: 300,
  /** A claim key is this many bytes of a hash of the event id. */
  keyBytes: 12,
} as const;

/** Endpoint configuration. */
export const endpoint = {
  maxUrlLength: 2_048,
  maxHeaders: 20,
  maxHeaderNameLength: 64,
  maxHeaderValueLength: 1_024,
  maxSecrets: 4,
  /** Standard Webhooks: secrets hold 24 to 64 bytes. */
  minSecretBytes: 24,
  maxSecretBytes: 64,
  /** Of a secret that is made for an endpoint: as long as the digest, which HMAC recommends (RFC 2104). */
  madeSecretBytes: 32,
  /** A migration needs the old signature beside the new one, and one to spare; each is computed for every attempt. */
  maxSchemes: 3,
  /** Longer than any algorithm's name with its separator, such as `sha256=`. */
  maxSignaturePrefixLength: 64,
  /** The secret of a body HMAC is what the receiver already has, however short; an empty one would sign for everybody. */
  minBodySecretBytes: 1,
  /** HMAC-SHA256 hashes keys above 64 bytes: four times that takes every secret in use, and refuses a file given by mistake. */
  maxBodySecretBytes: 256,
  /** A cached configuration is validated by the admission write; age only bounds memory. */
  maxCached: 5_000,
} as const;

/** Limits of our own AWS calls (C1): every one is set, none inherited. */
export const awsCalls = {
  /** Together with `requestMs` they fit the settle margin, so that a verdict is written before the function is killed. */
  maxAttempts: 3,
  connectMs: 500,
  requestMs: 1_200,
  /** Of a settle margin that is shorter than the default: what one request may take of it. */
  requestShare: 0.3,
  /** A write that was certainly not applied (throttle, conflict) is repeated this often by us, after `repeatMs`. */
  repeats: 2,
  repeatMs: 100,
  /** Of requests that may take their whole time, this many must still fit before an optional write is begun. */
  spareRequests: 2,
  maxSockets: 64,
} as const;

/** What a stage may set at all; beyond these AWS refuses the deployment, so synth says it first. */
export const stageBounds = {
  /** Lambda: longest function timeout. */
  maxTimeoutS: 900,
  /** Lambda: longest MaximumBatchingWindowInSeconds of an event source. */
  maxBatchingWindowS: 300,
  /** Lambda: largest MaximumConcurrency of an SQS event source. */
  maxEventSourceConcurrency: 1_000,
  /** SQS: shortest MessageRetentionPeriod. */
  minRetentionS: 60,
  /** SQS: smallest MaximumMessageSize. */
  minMessageBytes: 1_024,
  /** SQS: maxReceiveCount of a redrive policy. */
  minReceiveCount: 1,
  maxReceiveCount: 1_000,
} as const;

/** The fault queue. */
export const faultQueue = {
  /** Nothing of ours receives from it; the policy exists so that the console offers a redrive of the DLQ. The most SQS takes. */
  maxReceiveCount: 1_000,
  /** A message of any size that the delivery queue can be set to take fits. */
  maxBytes: aws.sqsMaxMessageBytes,
} as const;

/** The drain queue: wake-ups that name an endpoint, no payload. */
export const drainQueue = {
  /** An endpoint id of 128 characters and a few fields. */
  maxBytes: 4_096,
  /** Six timeouts of the drain function, 120 s each (aws.visibilityPerTimeout). */
  visibilityTimeoutS: 720,
} as const;

/** A bound, and how many of the last `periods` must be beyond it before the alarm speaks. */
export interface AlarmRule {
  readonly bound: number;
  readonly periodS: number;
  readonly periods: number;
  readonly datapoints: number;
}

/** When the alarms speak. The first are of the whole installation, those of `endpoint` of one endpoint each. */
export const alarms = {
  /** Any message is an incident, and each of them has waited for days already. */
  faultQueue: { bound: 0, periodS: 60, periods: 1, datapoints: 1 },
  /** Seconds. A worker that dies costs its messages a visibility of 180 s; three in a row are not a backlog yet. */
  deliveryQueueAge: { bound: 900, periodS: 60, periods: 5, datapoints: 5 },
  /** Seconds, of a wake-up: an endpoint's turn takes 30, and it goes to the tail then. */
  drainQueueAge: { bound: 900, periodS: 60, periods: 5, datapoints: 5 },
  /** Messages. From 60,000 on nothing more should be hidden, and at 120,000 receiving stops without a word. */
  inFlight: { bound: 90_000, periodS: 60, periods: 2, datapoints: 2 },
  /** Minutes with an error. One crash repairs itself; a message that crashes its worker comes back after 180 s, and is seen to three times. */
  errors: { bound: 0, periodS: 60, periods: 15, datapoints: 3 },
  /** Minutes with a throttle: the account's concurrency is exhausted. A throttled batch counts as a receive of its messages. */
  throttles: { bound: 0, periodS: 60, periods: 5, datapoints: 3 },
  /** Replays are asked for, and seldom: each one that fails is told. */
  replay: { bound: 0, periodS: 300, periods: 1, datapoints: 1 },
  /** Seconds: 10 days of 14. Four are left to save what has no record to be replayed from. One copy that is seen is enough; in so many hours the sweep looks at 36,000, so that of a large queue it does not end each time the old one is not among them. */
  deadLetterAge: { bound: 864_000, periodS: 3_600, periods: 6, datapoints: 1 },
  /** Runs a minute, below which it is silent. One is as good as none late: Scheduler is precise to the minute. */
  sweepSilent: { bound: 1, periodS: 60, periods: 5, datapoints: 5 },
  /** Minutes with a fault. One throttled call is mended by the next try; while DynamoDB refuses everything no other alarm would say so. */
  faults: { bound: 0, periodS: 60, periods: 10, datapoints: 5 },
  /** Messages a minute, as `endpoint.dead`: a producer that is wrong hears it of us only. */
  unaddressed: { bound: 0, periodS: 60, periods: 1, datapoints: 1 },
  /** Endpoints. Above it CloudWatch does not tell of each any more; and so many at once are hardly ill by themselves. */
  endpointsSick: { bound: aws.alarmContributors, periodS: 60, periods: 5, datapoints: 5 },

  endpoint: {
    /** Of all attempts. From a half on its breaker opens; between the two it fails on and on, and nobody is told. */
    failing: { bound: 0.2, periodS: 60, periods: 15, datapoints: 12 },
    /** Of all attempts. With no connection at all the breaker leaves a few attempts, all of which fail. */
    unreachable: { bound: 0.5, periodS: 60, periods: 15, datapoints: 12 },
    /** Of all that came (L6), sustained: a burst that is over in minutes is what lanes are for. */
    shedding: { bound: 0.2, periodS: 60, periods: 15, datapoints: 12 },
    /** Of all delivery seconds (L6). */
    occupancy: { bound: 0.15, periodS: 60, periods: 15, datapoints: 12 },
    /** Seconds: beyond the longest wait between two tries, so it has been tried and has failed. */
    breakerOpen: { bound: 3_600, periodS: 60, periods: 3, datapoints: 2 },
    /** Seconds: a day of the three for which a delivery is tried. Two are left to reach the customer. */
    undelivered: { bound: 86_400, periodS: 60, periods: 3, datapoints: 2 },
    /** Seconds: after four of the five looks, of which the last is half a day later. */
    unknown: { bound: 14_400, periodS: 60, periods: 3, datapoints: 2 },
    /** Deliveries a minute, and none are enough to end it: a depth would speak at the first only. Short, for CloudWatch goes on with the last data for some periods. */
    dead: { bound: 0, periodS: 60, periods: 1, datapoints: 1 },
  },
} as const;

/** Where the runbook is. */
export const runbook = {
  /** An alarm's description has 1,024 characters, of which half are for the link. */
  maxUrlLength: 400,
  maxDescriptionLength: 1_024,
} as const;

/** The dashboard. */
export const dashboard = {
  /** Rows of a table of endpoints: what a person reads. */
  rows: 20,
  /** As the grid of CloudWatch has them. */
  columns: 24,
  height: 6,
  periodS: 60,
  /** Of the tables: long enough that an endpoint with a rare failure is in it. */
  tablePeriodS: 300,
} as const;

/** Log groups of the functions, and what is read of them. */
export const logs = {
  /** One month: longer than the longest life of a message, and CloudWatch offers this value. */
  retentionDays: 30,
  /** `sluice log` looks so far back unasked: a customer who calls means what just happened, and a search is billed by what it scans. */
  sinceH: 1,
  /** Newest lines that are shown unasked: two screens. */
  lines: 50,
  /** What one page of GetQueryResults holds at most. */
  maxLines: 10_000,
  /** A search is stopped when it has scanned about so many GB, unless more is allowed: about ten cents. */
  maxScanGb: 20,
  /** List price of CloudWatch Logs Insights in us-east-1, for the estimate that is shown. */
  usdPerScannedGb: 0.005,
  /** A search is asked for its answer this often: an account may ask five times a second or so, in all. */
  pollMs: 500,
  /** A search that is not over by then is stopped; Insights itself would go on for an hour. */
  maxSearchMs: 300_000,
  /** Of the saved queries: attempts are counted over so many minutes, and so many hosts are listed. */
  binMinutes: 5,
  hosts: 50,
} as const;
