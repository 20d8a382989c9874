/** Schedules and groups in memory, and in a JSON file where they should outlive the process. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Target {
  Arn: string;
  RoleArn: string;
  Input?: string;
  RetryPolicy?: { MaximumRetryAttempts?: number; MaximumEventAgeInSeconds?: number };
  DeadLetterConfig?: { Arn?: string };
  SqsParameters?: { MessageGroupId?: string };
}

export interface Schedule {
  Name: string;
  GroupName: string;
  Arn: string;
  State: 'ENABLED' | 'DISABLED';
  ScheduleExpression: string;
  ScheduleExpressionTimezone: string;
  ActionAfterCompletion: 'NONE' | 'DELETE';
  FlexibleTimeWindow: { Mode: 'OFF' | 'FLEXIBLE'; MaximumWindowInMinutes?: number };
  Target: Target;
  Description?: string;
  /** Times as the API gives them: seconds since the epoch. */
  StartDate?: number;
  EndDate?: number;
  CreationDate: number;
  LastModificationDate: number;

  /** Ours: when it is due, and undefined once it is complete. */
  dueEpochMs?: number | undefined;
  /** Ours: when the invocation that is being retried was first due, and how often it was tried. */
  retry?: { dueEpochMs: number; attempts: number; nextEpochMs: number } | undefined;
  clientToken?: string;
}

interface Stored {
  groups: string[];
  schedules: Schedule[];
}

export class ScheduleStore {
  readonly groups = new Set(['default']);
  readonly schedules = new Map<string, Schedule>();
  private readonly file: string | undefined;
  private isSaving = false;

  constructor(dataDir: string | undefined) {
    if (!dataDir) return;
    mkdirSync(dataDir, { recursive: true });
    this.file = join(dataDir, 'scheduler.json');
    this.load(this.file);
  }

  private load(file: string): void {
    let text: string;
    try {
      text = readFileSync(file, 'utf8');
    } catch {
      return;
    }
    const stored = JSON.parse(text) as Stored;
    for (const group of stored.groups) this.groups.add(group);
    for (const schedule of stored.schedules) this.schedules.set(schedule.Arn, schedule);
  }

  /** Written once for all changes of one turn of the event loop. */
  changed(): void {
    if (!this.file || this.isSaving) return;
    this.isSaving = true;
    setImmediate(() => this.save());
  }

  save(): void {
    this.isSaving = false;
    if (!this.file) return;
    const stored: Stored = { groups: [...this.groups], schedules: [...this.schedules.values()] };
    // Renamed into place: a process killed while it writes leaves the old file, never half a one.
    writeFileSync(`${this.file}.new`, JSON.stringify(stored));
    renameSync(`${this.file}.new`, this.file);
  }
}
