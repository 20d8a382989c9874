import { Topic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';

/**
 * Where is told what becomes of an endpoint: it fails, refuses, was disabled or paused, delivers again. Nobody is subscribed here; whoever
 * does may filter by the attributes step, endpointId and tenantId, and pass it on to the customer.
 */
export class Notices extends Construct {
  readonly topic: Topic;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    this.topic = new Topic(this, 'Topic', { displayName: 'Sluice: notices', enforceSSL: true });
  }
}
