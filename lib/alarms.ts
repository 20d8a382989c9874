import type { CfnAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import { AlarmTopics } from './alarm-topics.ts';
import { newEndpointAlarms } from './endpoint-alarms.ts';
import { type FleetAlarmsProps, newFleetAlarms } from './fleet-alarms.ts';
import { installationName } from './installation.ts';

/** All alarms of the installation that it is made in, and the topics at which they are told. */
export class Alarms extends Construct {
  readonly topics: AlarmTopics;
  readonly fleet: readonly CfnAlarm[];
  readonly endpoints: readonly CfnAlarm[];

  constructor(scope: Construct, id: string, props: FleetAlarmsProps) {
    super(scope, id);
    this.topics = new AlarmTopics(this, 'Topics');
    const home = { scope: this, prefix: installationName(scope), topics: this.topics, runbookUrl: props.stage.runbookUrl };
    this.fleet = newFleetAlarms(home, props);
    this.endpoints = newEndpointAlarms(home, props.metrics);
  }
}
