/**
 * Queues and messages in one SQLite file. fauxqs has a persistence of its own, but it cannot write back a message that
 * was made visible again, and has no place for what we add to a message.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Message, Persistence, Queue, Store } from './types/fauxqs.d.ts';

const schema = `
CREATE TABLE IF NOT EXISTS queues (
  name TEXT PRIMARY KEY, url TEXT, arn TEXT, attributes TEXT, tags TEXT, created_s INTEGER, modified_s INTEGER, sequence INTEGER);
CREATE TABLE IF NOT EXISTS messages (
  id TEXT PRIMARY KEY, queue TEXT NOT NULL, message TEXT NOT NULL, receive_count INTEGER NOT NULL, first_receive_ms INTEGER,
  handle TEXT, visible_ms INTEGER, received_ms INTEGER);
CREATE INDEX IF NOT EXISTS messages_by_queue ON messages (queue);
`;

interface MessageRow {
  message: string;
  receive_count: number;
  first_receive_ms: number | null;
  handle: string | null;
  visible_ms: number | null;
  received_ms: number | null;
}

interface QueueRow {
  name: string;
  url: string;
  arn: string;
  attributes: string;
  tags: string;
  created_s: number;
  modified_s: number;
  sequence: number;
}

export class SqsPersistence implements Persistence {
  private readonly db: DatabaseSync;
  private readonly statements = new Map<string, ReturnType<DatabaseSync['prepare']>>();
  private isInTransaction = false;

  constructor(dataDir: string) {
    mkdirSync(dataDir, { recursive: true });
    this.db = new DatabaseSync(join(dataDir, 'sqs.sqlite'));
    // The write-ahead log survives the death of the process; only a power cut may lose the newest commits.
    this.db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
    this.db.exec(schema);
  }

  private sql(text: string): ReturnType<DatabaseSync['prepare']> {
    let statement = this.statements.get(text);
    if (!statement) this.statements.set(text, (statement = this.db.prepare(text)));
    return statement;
  }

  /** All of `work` or nothing: a message that moves between queues is never in neither. */
  transaction<T>(work: () => T): T {
    if (this.isInTransaction) return work();
    this.isInTransaction = true;
    this.db.exec('BEGIN');
    try {
      return work();
    } finally {
      // Also after an error: the queues in memory have changed by then, and the file must say the same.
      this.db.exec('COMMIT');
      this.isInTransaction = false;
    }
  }

  insertQueue(queue: Queue): void {
    this.sql('INSERT OR REPLACE INTO queues VALUES (?, ?, ?, ?, ?, ?, ?, ?)').run(
      queue.name, queue.url, queue.arn, JSON.stringify(queue.attributes), JSON.stringify(Object.fromEntries(queue.tags)),
      queue.createdTimestamp, queue.lastModifiedTimestamp, queue.sequenceCounter,
    );
  }

  deleteQueue(name: string): void {
    this.deleteQueueMessages(name);
    this.sql('DELETE FROM queues WHERE name = ?').run(name);
  }

  updateQueueAttributes(name: string, attributes: Record<string, string>, lastModified: number): void {
    this.sql('UPDATE queues SET attributes = ?, modified_s = ? WHERE name = ?').run(JSON.stringify(attributes), lastModified, name);
  }

  updateQueueSequenceCounter(name: string, counter: number): void {
    this.sql('UPDATE queues SET sequence = ? WHERE name = ?').run(counter, name);
  }

  insertMessage(queue: string, message: Message): void {
    this.sql('INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)').run(
      message.messageId, queue, JSON.stringify(message), message.approximateReceiveCount, message.approximateFirstReceiveTimestamp ?? null,
    );
  }

  deleteMessage(messageId: string): void {
    this.sql('DELETE FROM messages WHERE id = ?').run(messageId);
  }

  /** Called for a receive, with a new handle, and for a change of visibility, with the same one. */
  updateMessageInflight(messageId: string, handle: string, visibleMs: number, receiveCount: number, firstReceiveMs?: number): void {
    this.sql(
      `UPDATE messages SET received_ms = CASE WHEN handle = ?1 THEN received_ms ELSE ?2 END,
        handle = ?1, visible_ms = ?3, receive_count = ?4, first_receive_ms = ?5 WHERE id = ?6`,
    ).run(handle, Date.now(), visibleMs, receiveCount, firstReceiveMs ?? null, messageId);
  }

  updateMessageReady(messageId: string): void {
    this.sql('UPDATE messages SET visible_ms = 0 WHERE id = ?').run(messageId);
  }

  deleteQueueMessages(queue: string): void {
    this.sql('DELETE FROM messages WHERE queue = ?').run(queue);
  }

  /** Fills an empty store; `remember` is told of every handle that is still good. */
  load(store: Store, remember: (queue: Queue, message: Message, handle: string) => void): void {
    for (const row of this.sql('SELECT * FROM queues').all() as unknown as QueueRow[]) {
      const attributes = JSON.parse(row.attributes) as Record<string, string>;
      const queue = store.createQueue(row.name, row.url, row.arn, attributes, JSON.parse(row.tags) as Record<string, string>);
      queue.createdTimestamp = row.created_s;
      queue.lastModifiedTimestamp = row.modified_s;
      queue.sequenceCounter = row.sequence;
      const messages = this.sql('SELECT * FROM messages WHERE queue = ? ORDER BY rowid').all(row.name) as unknown as MessageRow[];
      for (const message of messages) place(queue, message, remember);
      queue.persistence = this;
    }
    store.persistence = this;
  }

  close(): void {
    this.db.close();
  }
}

function place(queue: Queue, row: MessageRow, remember: (queue: Queue, message: Message, handle: string) => void): void {
  const message = JSON.parse(row.message) as Message;
  message.approximateReceiveCount = row.receive_count;
  if (row.first_receive_ms !== null) message.approximateFirstReceiveTimestamp = row.first_receive_ms;
  if (row.received_ms !== null) message.receivedMs = row.received_ms;
  delete message.handle;
  if (row.handle) remember(queue, message, row.handle);
  if (row.handle && row.visible_ms !== null && row.visible_ms > Date.now()) {
    queue.inflightMessages.set(row.handle, { message, receiptHandle: row.handle, visibilityDeadline: row.visible_ms });
  } else if (message.delayUntil && message.delayUntil > Date.now() && !queue.isFifo()) {
    queue.delayedMessages.push(message);
  } else if (queue.isFifo()) {
    const group = message.messageGroupId ?? '';
    queue.fifoMessages.set(group, [...(queue.fifoMessages.get(group) ?? []), message]);
  } else {
    queue.messages.push(message);
  }
}
