/** The table of the DynamoDB suites, and the calls on it. */
import * as D from '@aws-sdk/client-dynamodb';
import { type Subject, until } from './fidelity-subject.ts';

export const S = (value: string) => ({ S: value });
export const N = (value: number | string) => ({ N: String(value) });
export const key = (pk: string, sk = '1') => ({ pk: S(pk), sk: S(sk) });

export class TestTable {
  readonly TableName = `sluice-fidelity-${Date.now()}`;
  readonly client: D.DynamoDBClient;

  constructor(subject: Subject) {
    this.client = new D.DynamoDBClient(subject.config());
  }

  update(pk: string, request: Partial<D.UpdateItemCommandInput>): Promise<D.UpdateItemCommandOutput> {
    return this.client.send(new D.UpdateItemCommand({ TableName: this.TableName, Key: key(pk), ...request }));
  }

  put(Item: Record<string, D.AttributeValue>, request: Partial<D.PutItemCommandInput> = {}): Promise<D.PutItemCommandOutput> {
    return this.client.send(new D.PutItemCommand({ TableName: this.TableName, Item, ...request }));
  }

  async get(pk: string): Promise<Record<string, D.AttributeValue> | undefined> {
    return (await this.client.send(new D.GetItemCommand({ TableName: this.TableName, Key: key(pk), ConsistentRead: true }))).Item;
  }

  transact(TransactItems: D.TransactWriteItem[], request: Partial<D.TransactWriteItemsCommandInput> = {}): Promise<D.TransactWriteItemsCommandOutput> {
    return this.client.send(new D.TransactWriteItemsCommand({ TransactItems, ...request }));
  }

  async create(): Promise<void> {
    const { TableName, client } = this;
    const attribute = (AttributeName: string) => ({ AttributeName, AttributeType: 'S' as const });
    await client.send(
      new D.CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [attribute('pk'), attribute('sk'), attribute('g')],
        KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }, { AttributeName: 'sk', KeyType: 'RANGE' }],
        GlobalSecondaryIndexes: [
          {
            IndexName: 'all',
            KeySchema: [{ AttributeName: 'g', KeyType: 'HASH' }, { AttributeName: 'sk', KeyType: 'RANGE' }],
            Projection: { ProjectionType: 'ALL' },
          },
        ],
      }),
    );
    await until(async () => (await client.send(new D.DescribeTableCommand({ TableName }))).Table?.TableStatus === 'ACTIVE');
  }

  async close(): Promise<void> {
    await this.client.send(new D.DeleteTableCommand({ TableName: this.TableName }));
    this.client.destroy();
  }
}
