import { ArnFormat, Stack } from 'aws-cdk-lib';
import { PolicyDocument, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { CfnScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { allow } from './function.ts';

/** Where the senders' one-time schedules live, and as whom they send to the drain queue. */
export class WakeUps extends Construct {
  /** A group of its own: it goes with the stack, and its schedules with it. */
  readonly group: CfnScheduleGroup;
  readonly role: Role;
  /** Stands for every schedule of the group: their names are the senders' choice. */
  readonly schedulesArn: string;

  constructor(scope: Construct, id: string, drainQueue: Queue) {
    super(scope, id);
    this.group = new CfnScheduleGroup(this, 'Group');
    this.role = schedulerRole(this, 'Role', { policyName: 'wake', action: 'sqs:SendMessage', resource: drainQueue.queueArn });
    this.schedulesArn = Stack.of(this).formatArn({
      service: 'scheduler',
      resource: 'schedule',
      resourceName: `${this.group.ref}/*`,
      arnFormat: ArnFormat.SLASH_RESOURCE_NAME,
    });
  }
}

/** A role that EventBridge Scheduler acts as, for schedules of this account only: nobody else's may borrow it. */
export function schedulerRole(scope: Construct, id: string, may: { policyName: string; action: string; resource: string }): Role {
  return new Role(scope, id, {
    assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
    inlinePolicies: { [may.policyName]: new PolicyDocument({ statements: [allow([may.action], may.resource)] }) },
  });
}
