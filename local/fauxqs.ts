/** fauxqs's queue engine without its server, which would listen on every interface and speak for SNS and S3 too. */
import { AwsError } from './emulator.ts';
import type { Handler, MessageAttribute, SqsErrorLike, StoreClass } from './types/fauxqs.d.ts';

const load = (path: string) => import(new URL(path, import.meta.resolve('fauxqs')).href) as Promise<Record<string, unknown>>;

const handlerNames = [
  'createQueue', 'deleteQueue', 'getQueueUrl', 'listQueues', 'getQueueAttributes', 'setQueueAttributes', 'purgeQueue', 'sendMessage',
  'tagQueue', 'untagQueue', 'listQueueTags',
];

export const SqsStore = (await load('./sqs/sqsStore.js'))['SqsStore'] as StoreClass;

export const md5OfMessageAttributes = (await load('./common/md5.js'))['md5OfMessageAttributes'] as (
  attributes: Record<string, MessageAttribute>,
) => string;

/** By operation, as in `CreateQueue`. */
export const handlers = new Map<string, Handler>();
for (const name of handlerNames) {
  const module = await load(`./sqs/actions/${name}.js`);
  handlers.set(name.charAt(0).toUpperCase() + name.slice(1), module[name] as Handler);
}

export function toAwsError(error: unknown): unknown {
  if (!(error instanceof Error) || !('queryCode' in error)) return error;
  const { code, message, statusCode, queryCode } = error as SqsErrorLike;
  return new AwsError(code, message, { status: statusCode, ...(queryCode === code ? {} : { queryCode }) });
}
