/** URLs of functions: a request becomes an event in payload format 2.0, and what the function returns the answer. */
import { z } from 'zod';
import type { LambdaHost } from './lambda-host.ts';
import { functionUrlPath } from './template-resolver.ts';
import type { Wire } from './wire.ts';

const answerSchema = z.object({ statusCode: z.number(), headers: z.record(z.string(), z.string()).default({}), body: z.string().default('') });

/** As AWS answers where the function failed, or returned no answer. */
const failed = { status: 502, headers: { 'content-type': 'application/json' }, body: '{"Message":"Internal Server Error"}' };

export function serveFunctionUrl(wire: Wire, functionName: string, host: Pick<LambdaHost, 'invoke'>): void {
  const base = functionUrlPath(functionName);
  wire.serveBelow(base, async ({ method, url, headers }) => {
    const rawPath = url.pathname.slice(base.length - 1);
    const event = {
      version: '2.0', rawPath, rawQueryString: url.search.slice(1), headers, isBase64Encoded: false,
      requestContext: { http: { method, path: rawPath, protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: headers['user-agent'] ?? '' } },
    };
    const outcome = await host.invoke(event);
    if (outcome.kind !== 'ok') return failed;
    const answer = answerSchema.safeParse(outcome.payload);
    return answer.success ? { status: answer.data.statusCode, headers: answer.data.headers, body: answer.data.body } : failed;
  });
}
