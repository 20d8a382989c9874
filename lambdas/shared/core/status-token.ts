import { createHash } from 'node:crypto';

/** Tells what it is where somebody finds it in a log or a repository. */
const prefix = 'slst_';

/** A token that a consumer asks for its status with, from so many random bytes. */
export function formatStatusToken(random: Buffer): string {
  return `${prefix}${random.toString('base64url')}`;
}

/** What is stored of it: who reads the table cannot ask with it. */
export function tokenHash(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
