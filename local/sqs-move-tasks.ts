/** StartMessageMoveTask and its siblings: what the console calls a dead-letter queue redrive. */
import { randomUUID } from 'node:crypto';
import { type JsonObject } from './emulator.ts';
import { boundedInteger, invalidValue, messageBytes, sqsError } from './sqs-strict.ts';
import { SqsStore } from './fauxqs.ts';
import type { Message, Queue, Store } from './types/fauxqs.d.ts';

/** Largest MaxNumberOfMessagesPerSecond; without one AWS chooses the pace, and we do not hold back. */
const maxPerSecond = 500;
const stepMs = 100;
const stepMessages = 1_000;

interface Task {
  id: string;
  sourceArn: string;
  destinationArn: string | undefined;
  perSecond: number | undefined;
  startedMs: number;
  toMove: number;
  moved: number;
  status: 'RUNNING' | 'COMPLETED' | 'CANCELLED' | 'FAILED';
  failureReason?: string;
}

const handleOf = (task: Task) => Buffer.from(JSON.stringify({ taskId: task.id, sourceArn: task.sourceArn })).toString('base64');

function parseHandle(handle: unknown): { taskId: string; sourceArn: string } {
  try {
    const parsed = JSON.parse(Buffer.from(String(handle), 'base64').toString()) as { taskId?: unknown; sourceArn?: unknown };
    if (typeof parsed.taskId === 'string' && typeof parsed.sourceArn === 'string') return { taskId: parsed.taskId, sourceArn: parsed.sourceArn };
  } catch {
    // Falls through: whatever is not a handle of ours is refused in the same words.
  }
  throw invalidValue('Value for parameter TaskHandle is invalid.');
}

/** The queue that a task handle is about, for the call log. */
export function sourceOfTaskHandle(handle: unknown): string | undefined {
  try {
    return parseHandle(handle).sourceArn;
  } catch {
    return undefined;
  }
}

function deadLetterTarget(queue: Queue): string | undefined {
  const policy = queue.attributes['RedrivePolicy'];
  return policy ? (JSON.parse(policy) as { deadLetterTargetArn: string }).deadLetterTargetArn : undefined;
}

/** Queues whose redrive policy names `arn`. */
export function sourceQueuesOf(store: Store, arn: string): Queue[] {
  return [...store.allQueues()].filter((queue) => deadLetterTarget(queue) === arn);
}

export class MoveTasks {
  private readonly tasks: Task[] = [];
  private readonly timers = new Set<NodeJS.Timeout>();
  private readonly store: Store;
  private readonly transaction: <T>(work: () => T) => T;
  private readonly forget: (queue: Queue, message: Message) => void;

  constructor(store: Store, transaction: <T>(work: () => T) => T, forget: (queue: Queue, message: Message) => void) {
    this.store = store;
    this.transaction = transaction;
    this.forget = forget;
  }

  private queueAt(arn: unknown, parameter: string): Queue {
    const queue = typeof arn === 'string' ? this.store.getQueueByArn(arn) : undefined;
    if (queue) return queue;
    throw sqsError('ResourceNotFoundException', `The resource that you specified for the ${parameter} parameter doesn't exist.`, 404);
  }

  start(input: JsonObject): JsonObject {
    const source = this.queueAt(input['SourceArn'], 'SourceArn');
    if (sourceQueuesOf(this.store, source.arn).length === 0) throw invalidValue('Source queue must be configured as a Dead Letter Queue.');
    const destination = input['DestinationArn'] === undefined ? undefined : this.queueAt(input['DestinationArn'], 'DestinationArn');
    if (destination === source) throw invalidValue('Source queue arn and destination queue arn cannot be the same.');
    const perSecond = boundedInteger(input, 'MaxNumberOfMessagesPerSecond', 1, maxPerSecond);
    if (this.tasks.some((task) => task.sourceArn === source.arn && task.status === 'RUNNING')) {
      throw invalidValue('There is already a task running. Only one active task is allowed for a source queue arn at a given time.');
    }
    source.processTimers();
    const task: Task = {
      id: randomUUID(), sourceArn: source.arn, destinationArn: destination?.arn, perSecond, startedMs: Date.now(),
      toMove: source.messages.length, moved: 0, status: 'RUNNING',
    };
    this.tasks.unshift(task);
    this.schedule(task, 0);
    return { TaskHandle: handleOf(task) };
  }

  list(input: JsonObject): JsonObject {
    const source = this.queueAt(input['SourceArn'], 'SourceArn');
    const count = boundedInteger(input, 'MaxResults', 1, 10) ?? 1;
    const tasks = this.tasks.filter(({ sourceArn }) => sourceArn === source.arn).slice(0, count);
    return {
      Results: tasks.map((task) => ({
        ...(task.status === 'RUNNING' ? { TaskHandle: handleOf(task) } : {}),
        Status: task.status,
        SourceArn: task.sourceArn,
        ...(task.destinationArn ? { DestinationArn: task.destinationArn } : {}),
        ...(task.perSecond ? { MaxNumberOfMessagesPerSecond: task.perSecond } : {}),
        ApproximateNumberOfMessagesMoved: task.moved,
        ApproximateNumberOfMessagesToMove: task.toMove,
        ...(task.failureReason ? { FailureReason: task.failureReason } : {}),
        StartedTimestamp: task.startedMs,
      })),
    };
  }

  cancel(input: JsonObject): JsonObject {
    const { taskId, sourceArn } = parseHandle(input['TaskHandle']);
    this.queueAt(sourceArn, 'SourceArn');
    const task = this.tasks.find(({ id }) => id === taskId);
    if (!task) throw sqsError('ResourceNotFoundException', 'Task does not exist.', 404);
    if (task.status !== 'RUNNING') throw sqsError('UnsupportedOperation', 'Only active tasks can be cancelled.');
    task.status = 'CANCELLED';
    return { ApproximateNumberOfMessagesMoved: task.moved };
  }

  private schedule(task: Task, budget: number): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      if (task.status !== 'RUNNING') return;
      const allowed = task.perSecond ? budget + (task.perSecond * stepMs) / 1000 : stepMessages;
      const moved = this.transaction(() => this.step(task, Math.floor(allowed)));
      task.moved += moved;
      if (task.status === 'RUNNING') this.schedule(task, allowed - moved);
    }, stepMs);
    this.timers.add(timer);
  }

  /** Moves up to `count` visible messages. What is in flight in the dead-letter queue stays there. */
  private step(task: Task, count: number): number {
    const source = this.store.getQueueByArn(task.sourceArn);
    source?.processTimers();
    let moved = 0;
    for (; moved < count; moved++) {
      const message = source?.messages[0];
      if (!source || !message) {
        task.status = 'COMPLETED';
        break;
      }
      const problem = this.move(task, source, message);
      if (!problem) continue;
      task.status = 'FAILED';
      task.failureReason = problem;
      break;
    }
    return moved;
  }

  /** @returns why the message cannot move; it stays where it is. */
  private move(task: Task, source: Queue, message: Message): string | undefined {
    // A message that was sent to the dead-letter queue, rather than moved there by a redrive policy, has no source.
    const arn = task.destinationArn ?? message.sourceArn;
    if (!arn) return 'CouldNotDetermineMessageSource';
    const destination = this.store.getQueueByArn(arn);
    if (!destination) return 'AWS.SimpleQueueService.NonExistentQueue';
    const bytes = messageBytes(message.body, message.messageAttributes);
    if (bytes > Number(destination.attributes['MaximumMessageSize'])) return 'InvalidParameterValue';
    const delayS = Number(destination.attributes['DelaySeconds']) || undefined;
    // A new message in all but its contents: its id, receive count and retention start afresh.
    const copy = SqsStore.createMessage(message.body, message.messageAttributes, delayS, message.messageGroupId);
    if (message.traceHeader) copy.traceHeader = message.traceHeader;
    destination.enqueue(copy);
    source.messages.shift();
    source.persistence?.deleteMessage(message.messageId);
    this.forget(source, message);
    return undefined;
  }

  close(): void {
    for (const timer of this.timers) clearTimeout(timer);
  }
}
