/**
 * Resolves the intrinsic functions of a synthesised template as CloudFormation would, to the names that the embedded AWS uses:
 * a physical name is the explicit name, else the logical id.
 */
import { z } from 'zod';
import { account, region } from './emulator.ts';

export const templateSchema = z.looseObject({
  Resources: z.record(z.string(), z.looseObject({ Type: z.string(), Properties: z.record(z.string(), z.unknown()).default({}) })),
  Parameters: z.record(z.string(), z.looseObject({ Default: z.unknown().optional() })).default({}),
  Outputs: z.record(z.string(), z.looseObject({ Value: z.unknown() })).default({}),
});
export type Template = z.output<typeof templateSchema>;

/** A resource with names given and intrinsic functions resolved. */
export interface Resource {
  logicalId: string;
  name: string;
  arn: string;
  url: string;
  properties: Record<string, unknown>;
}

const arnPrefixes: Record<string, string> = {
  'AWS::SQS::Queue': `sqs:${region}:${account}:`,
  'AWS::DynamoDB::GlobalTable': `dynamodb:${region}:${account}:table/`,
  'AWS::DynamoDB::Table': `dynamodb:${region}:${account}:table/`,
  'AWS::Lambda::Function': `lambda:${region}:${account}:function:`,
  'AWS::Lambda::EventSourceMapping': `lambda:${region}:${account}:event-source-mapping:`,
  'AWS::Scheduler::ScheduleGroup': `scheduler:${region}:${account}:schedule-group/`,
  'AWS::Scheduler::Schedule': `scheduler:${region}:${account}:schedule/`,
  'AWS::IAM::Role': `iam::${account}:role/`,
  'AWS::Logs::LogGroup': `logs:${region}:${account}:log-group:`,
  'AWS::SNS::Topic': `sns:${region}:${account}:`,
  'AWS::CloudWatch::Alarm': `cloudwatch:${region}:${account}:alarm:`,
};

const nameProperties = ['QueueName', 'TableName', 'FunctionName', 'RoleName', 'LogGroupName', 'AlarmName', 'Name'];
/** Attributes that are the physical name, or the id that stands for it. */
const nameAttributes = ['QueueName', 'Id'];
const arnAttributes = ['Arn', 'EventSourceMappingArn'];

/** Where the wire serves the URL of a function; ends in a slash, as AWS's do. */
export const functionUrlPath = (functionName: string) => `/_sluice/url/${functionName}/`;

/** Resolves Ref, Fn::GetAtt, Fn::Join and Fn::Sub; anything else is an error, never a silent gap. */
export class Resolver {
  readonly #template: Template;
  readonly #pseudo: Record<string, string>;
  readonly #endpoint: string;

  constructor(template: Template, stackName: string, endpoint: string) {
    this.#template = template;
    this.#endpoint = endpoint;
    this.#pseudo = {
      'AWS::Region': region,
      'AWS::AccountId': account,
      'AWS::Partition': 'aws',
      'AWS::URLSuffix': 'amazonaws.com',
      'AWS::StackName': stackName,
    };
  }

  all(type: string): Resource[] {
    return Object.keys(this.#template.Resources)
      .filter((id) => this.#resource(id).Type === type)
      .map((logicalId) => ({
        logicalId,
        name: this.#name(logicalId),
        arn: type in arnPrefixes ? this.#arn(logicalId) : '',
        url: this.#url(logicalId),
        properties: z.record(z.string(), z.unknown()).parse(this.value(this.#resource(logicalId).Properties)),
      }));
  }

  value(input: unknown): unknown {
    if (Array.isArray(input)) return input.map((item) => this.value(item));
    if (typeof input !== 'object' || input === null) return input;
    const entries = Object.entries(input);
    const [key, argument] = entries.length === 1 ? (entries[0] ?? []) : [];
    if (key === 'Ref') return this.#ref(z.string().parse(argument));
    if (key === 'Fn::GetAtt') return this.#attribute(z.tuple([z.string(), z.string()]).parse(argument));
    if (key === 'Fn::Join') return this.#join(z.tuple([z.string(), z.array(z.unknown())]).parse(argument));
    if (key === 'Fn::Sub') return this.#sub(z.string().parse(argument));
    if (key?.startsWith('Fn::')) throw new Error(`The embedded AWS does not resolve ${key}`);
    return Object.fromEntries(entries.map(([name, item]) => [name, this.value(item)]));
  }

  #join([separator, parts]: [string, unknown[]]): string {
    return parts.map((part) => String(this.value(part))).join(separator);
  }

  #sub(text: string): string {
    return text.replace(/\$\{([^}]+)\}/g, (_, name: string) => {
      const [id = '', attribute] = name.split('.');
      return String(attribute === undefined ? this.#ref(id) : this.#attribute([id, attribute]));
    });
  }

  #ref(id: string): unknown {
    if (id in this.#pseudo) return this.#pseudo[id];
    const parameter = this.#template.Parameters[id];
    if (parameter) return parameter.Default;
    const type = this.#resource(id).Type;
    if (type === 'AWS::SQS::Queue') return this.#url(id);
    return type === 'AWS::SNS::Topic' ? this.#arn(id) : this.#name(id);
  }

  #attribute([id, attribute]: [string, string]): string {
    if (nameAttributes.includes(attribute)) return this.#name(id);
    if (attribute === 'FunctionUrl') return `${this.#endpoint}${functionUrlPath(this.#functionOfUrl(id))}`;
    if (!arnAttributes.includes(attribute)) throw new Error(`The embedded AWS does not resolve ${id}.${attribute}`);
    // CloudFormation's ARN of a log group ends in `:*`, which stands for its streams.
    return this.#resource(id).Type === 'AWS::Logs::LogGroup' ? `${this.#arn(id)}:*` : this.#arn(id);
  }

  #functionOfUrl(id: string): string {
    const arn = z.string().parse(this.value(this.#resource(id).Properties['TargetFunctionArn']));
    return arn.slice(arn.lastIndexOf(':') + 1);
  }

  #name(id: string): string {
    const properties = this.#resource(id).Properties;
    return nameProperties.map((key) => properties[key]).find((value) => typeof value === 'string') ?? id;
  }

  #arn(id: string): string {
    const { Type, Properties } = this.#resource(id);
    const prefix = arnPrefixes[Type];
    if (prefix === undefined) throw new Error(`The embedded AWS has no ARN for ${Type}`);
    const group = Type === 'AWS::Scheduler::Schedule' ? `${String(this.value(Properties['GroupName'] ?? 'default'))}/` : '';
    return `arn:aws:${prefix}${group}${this.#name(id)}`;
  }

  #url(id: string): string {
    return `${this.#endpoint}/${account}/${this.#name(id)}`;
  }

  #resource(id: string): Template['Resources'][string] {
    const resource = this.#template.Resources[id];
    if (!resource) throw new Error(`The template has no resource ${id}`);
    return resource;
  }
}
