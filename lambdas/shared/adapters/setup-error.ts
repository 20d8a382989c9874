/** Why a connection was not made; nothing of a request has left when it is thrown. */
export class SetupError extends Error {
  readonly phase: 'dns' | 'address' | 'connect' | 'tls';
  constructor(phase: SetupError['phase'], cause: string) {
    super(cause);
    this.name = 'SetupError';
    this.phase = phase;
  }
}

/** A short, stable name of a fault: the code of Node or OpenSSL where there is one. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const code = (error as { code?: unknown }).code;
  return typeof code === 'string' ? code : error.name;
}
