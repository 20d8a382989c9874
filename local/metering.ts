/** Asks DynamoDB for consumed capacity on behalf of callers that did not, so that every call can be costed. */
import type { Emulator, JsonObject } from './emulator.ts';

const metered = new Set([
  'BatchGetItem', 'BatchWriteItem', 'DeleteItem', 'GetItem', 'PutItem', 'Query', 'Scan', 'TransactGetItems', 'TransactWriteItems', 'UpdateItem',
]);

interface Consumed {
  TableName: string;
  CapacityUnits: number;
}

export interface Metered {
  body: JsonObject;
  /** By table. */
  capacityUnits?: Record<string, number>;
}

export async function meter(dynamodb: Emulator, operation: string, input: JsonObject): Promise<Metered> {
  if (!metered.has(operation)) return { body: await dynamodb.call(operation, input) };
  const asked = input['ReturnConsumedCapacity'];
  const isOurs = asked === undefined || asked === 'NONE';
  const answer = await dynamodb.call(operation, isOurs ? { ...input, ReturnConsumedCapacity: 'TOTAL' } : input);
  const consumed = [answer['ConsumedCapacity'] ?? []].flat() as Consumed[];
  const capacityUnits: Record<string, number> = {};
  for (const { TableName, CapacityUnits } of consumed) capacityUnits[TableName] = (capacityUnits[TableName] ?? 0) + CapacityUnits;
  if (!isOurs) return { body: answer, capacityUnits };
  const { ConsumedCapacity: _consumed, ...body } = answer;
  return { body, capacityUnits };
}
