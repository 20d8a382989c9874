import type { Construct } from 'constructs';
import { allow } from './function.ts';
import { SenderFunction, type SenderFunctionProps } from './sender-function.ts';

/** The deliver function with its role, log group and event source. */
export class DeliverFunction extends SenderFunction {
  constructor(scope: Construct, id: string, props: SenderFunctionProps) {
    const { stage, queues, tables } = props;
    super(scope, id, props, {
      name: 'deliver',
      entry: 'lambdas/deliver/handler.ts',
      description: 'Sluice: delivers messages of the delivery queue over HTTPS',
      config: stage.deliver,
      source: queues.delivery,
      statements: [
        // Three are Lambda's own, made under this role; ChangeMessageVisibility is the code's.
        allow(['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:ChangeMessageVisibility'], queues.delivery.queueArn),
        allow(['dynamodb:PutItem', 'dynamodb:DeleteItem'], tables.payloads.tableArn),
      ],
    });
  }
}
