/** The phases of an attempt, in their order (T1). `connection` is the wait for a socket. */
export const phases = ['connection', 'dns', 'connect', 'tls', 'write', 'headers', 'body'] as const;
export type Phase = (typeof phases)[number];
