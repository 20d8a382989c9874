import { Stack } from 'aws-cdk-lib';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';

/**
 * Where alarms are told. Nobody is subscribed here: who is woken is the owner's choice.
 * Not encrypted under a key of SNS, which CloudWatch may not use: every alarm would be lost. What is told are names and numbers.
 */
export class AlarmTopics extends Construct {
  readonly page: Topic;
  readonly ticket: Topic;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    this.page = alarmTopic(this, 'Pages', 'Sluice: pages');
    this.ticket = alarmTopic(this, 'Tickets', 'Sluice: tickets');
  }
}

function alarmTopic(scope: Construct, id: string, displayName: string): Topic {
  const topic = new Topic(scope, id, { displayName, enforceSSL: true });
  // A policy takes the place of the one that every topic begins with, so CloudWatch must be named. Only for alarms of this account.
  topic.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      actions: ['sns:Publish'],
      resources: [topic.topicArn],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
  return topic;
}
