import { GetItemCommand, type AttributeValue, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { z } from 'zod';
import { endpointSchema, isReservedHeader, type EndpointConfig } from '../limits/endpoint-schema.ts';
import { records } from '../limits/numbers.ts';
import { formatProblem, problemsOf, unknownKey, type Problem } from '../limits/problems.ts';
import type { Endpoints, Origin, StoredEndpoint } from '../ports/index.ts';
import { sk } from './dynamodb-lane-item.ts';

/** Endpoint configuration, read for sending: one strongly consistent read. */
export function createDynamoDbEndpoints(db: DynamoDBClient, table: string): Endpoints {
  return {
    async read(endpointId) {
      const answer = await db.send(
        new GetItemCommand({ TableName: table, Key: marshall({ pk: endpointId, sk: sk.config }), ConsistentRead: true }),
      );
      return answer.Item === undefined ? undefined : toEndpoint(toPlain(answer.Item));
    },
  };
}

/** An item of the Endpoints table; a number beyond the safe ones is rounded, for a bigint could be shown to nobody as JSON. */
export function toPlain(item: Record<string, AttributeValue>): Record<string, unknown> {
  return unmarshall(item, { wrapNumbers: Number });
}

/** The id of any stored endpoint, usable or not. */
export function endpointIdOf(endpoint: StoredEndpoint): string {
  return endpoint.config === undefined ? endpoint.endpointId : endpoint.config.endpointId;
}

const storedSecretsSchema = z.object({ secrets: z.array(z.string()).default([]), bodySecret: z.string().optional() });

/**
 * Reads a config item; keys that an older version did not write take their defaults. Never throws for what it holds: an
 * endpoint that one program cannot use must neither keep its messages circling nor hide the others from operators.
 */
export function toEndpoint(item: Record<string, unknown>): StoredEndpoint {
  const endpointId = item['pk'] as string;
  const document = withoutReservedHeaders(item['config']);
  const parsed = endpointSchema.safeParse(document);
  const secrets = storedSecretsSchema.safeParse(item);
  const problems = [
    ...(parsed.success ? misplaced(parsed.data, endpointId) : problemsOf(parsed.error.issues, document).map(withoutCredential)),
    // Of a secret only where it is, never what it is.
    ...(secrets.success ? [] : problemsOf(secrets.error.issues, undefined)),
  ];
  const stored = {
    version: item['version'] as string,
    secrets: secrets.data?.secrets ?? [],
    bodySecret: secrets.data?.bodySecret,
    ...originOf(item),
  };
  if (parsed.success && problems.length === 0) return { config: parsed.data, ...stored };
  const problem = problems.map(formatProblem).join('; ').slice(0, records.maxDetailLength).toWellFormed();
  return { config: undefined, endpointId, problem, document: isObject(document) ? document : {}, ...stored };
}

/** Of what lies beside the configuration, where an older version does not look. Nothing is delivered by it, so what is no origin is none. */
function originOf({ own, policy, policyVersion }: Record<string, unknown>): { origin?: Origin } {
  if (!isObject(own)) return {};
  return { origin: { own, policy: typeof policy === 'string' && typeof policyVersion === 'number' ? { name: policy, version: policyVersion } : undefined } };
}

/** Names that were reserved after they were stored: dropped, for an upgrade must not break an endpoint. */
function withoutReservedHeaders(document: unknown): unknown {
  if (!isObject(document) || !isObject(document['headers'])) return document;
  const headers = Object.entries(document['headers']).filter(([name]) => !isReservedHeader(name));
  return { ...document, headers: Object.fromEntries(headers) };
}

/** Under another's key it would be admitted to that one's lane, and be taken for it by the next read. */
function misplaced(config: EndpointConfig, endpointId: string): Problem[] {
  if (config.endpointId === endpointId) return [];
  return [{ field: 'endpointId', value: config.endpointId, bound: `must be ${endpointId}, under which it is stored` }];
}

/**
 * The problem goes into records, which live longer and are read by more. A URL may hold a token, and what a key or a structure
 * means that this version does not know cannot be told: their values stay where they are stored. Those of headers are left out
 * by formatProblem.
 */
function withoutCredential(problem: Problem): Problem {
  const { field, value, bound } = problem;
  const mayHoldOne = field === '' || field === 'url' || bound === unknownKey || typeof value === 'object';
  return mayHoldOne ? { ...problem, value: undefined } : problem;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
