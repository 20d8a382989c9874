import { Stack, Token } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { metricNamespaceRoot } from '../lambdas/shared/limits/metrics.ts';
import { aws } from '../lambdas/shared/limits/numbers.ts';

/**
 * What tells an installation from all others of its account and region: its stack, and its path within it. Where two came to the same
 * name, CloudFormation would refuse the second one's alarms, which bear it.
 */
export function installationName(installation: Construct): string {
  return partsOf(installation).join('-');
}

/**
 * Where the functions of an installation publish their metrics, and where its alarms and its dashboard look for them.
 * @throws Error for what CloudWatch takes in no namespace. It is not replaced: two installations could then come to the same one.
 */
export function metricNamespaceOf(installation: Construct): string {
  // Of a nested stack the name is known at deployment only, and made of letters, digits and hyphens by CloudFormation.
  const known = partsOf(installation).filter((part) => !Token.isUnresolved(part));
  const odd = known.find((part) => oddInNamespace.test(part));
  if (odd !== undefined) throw new Error(`"${odd}" cannot be part of a CloudWatch namespace: letters, digits, spaces within it and . - _ # : can. Give the construct another id`);
  const length = [metricNamespaceRoot, known.join('-')].join('/').length;
  if (length > aws.namespaceLength) throw new Error(`A metric namespace of ${length} characters, must be <= ${aws.namespaceLength}: ${known.join('-')}`);
  return `${metricNamespaceRoot}/${installationName(installation)}`;
}

const oddInNamespace = /[^\w.\-#: ]|^ | $/;

function partsOf(installation: Construct): string[] {
  const stack = Stack.of(installation);
  return [stack.stackName, ...installation.node.scopes.slice(stack.node.scopes.length).map(({ node }) => node.id)];
}
