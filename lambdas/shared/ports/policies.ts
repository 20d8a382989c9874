import type { NamedPolicy, Settings } from '../core/policy.ts';

/** One version of a policy. What it says never changes. */
export interface PolicyVersion extends NamedPolicy {
  readonly why: string;
  readonly by: string;
  readonly atEpochMs: number;
  /** Endpoints were given it. */
  readonly isGiven?: boolean;
  /** The earlier version that it brought back. */
  readonly restores?: number;
}

/** Named delivery settings with their history (T11). Functions never read them: an endpoint's configuration holds what its policy comes to. */
export interface Policies {
  /** The current version of each, by name. */
  list(): Promise<PolicyVersion[]>;
  /** Strongly consistent; undefined where there is none of the name. */
  current(name: string): Promise<PolicyVersion | undefined>;
  version(name: string, version: number): Promise<PolicyVersion | undefined>;
  /** The oldest first. */
  versions(name: string): Promise<PolicyVersion[]>;
  /** Notes that endpoints are given a version. */
  noteGiven(name: string, version: number): Promise<void>;
  /** Makes the version that follows the current one. `changed`: somebody else has made it meanwhile. */
  add(next: PolicyVersion): Promise<'written' | 'changed'>;
}

/** Where an endpoint's delivery settings come from: kept beside its configuration, for the command line alone. */
export interface Origin {
  /** Undefined where it has none. */
  readonly policy: { readonly name: string; readonly version: number } | undefined;
  /** What was set for the endpoint itself, and wins over its policy. */
  readonly own: Settings;
}
