import type { NoticeStep } from '../core/escalation.ts';
import type { Evidence } from '../core/evidence.ts';

/** What somebody is told of an endpoint: the body of a message, as JSON. */
export interface Notice {
  readonly v: 1;
  readonly step: NoticeStep;
  readonly endpointId: string;
  readonly tenantId: string | null;
  /** ISO 8601. */
  readonly at: string;
  /** For people: what is wrong, what waits, and what to do next. */
  readonly text: string;
  /** As measured (L7), and the sentence that does the arithmetic. */
  readonly evidence: Evidence & { readonly says: string };
}

export interface Notices {
  /** Rejects where it is not known to be stored. */
  publish(notice: Notice): Promise<void>;
}
