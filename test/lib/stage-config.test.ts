import { describe, expect, it } from 'vitest';
import { drainQueue } from '../../lambdas/shared/limits/numbers.ts';
import { checkBudgets, checkStage } from '../../lambdas/shared/limits/relations.ts';
import { functionLimitsOf, resolveStage, StageConfigError } from '../../lib/stage-config.ts';

const defaultBudgetsMs = { connection: 2_000, setup: 3_000, write: 5_000, read: 10_000, total: 15_000 };
const phasesSum = 'connection 2000 + setup 3000 + write 5000 + read 10000 + settle margin 4000 + admit margin 2000 = 26000 ms';

function refusal(name: string, overrides: unknown): string {
  try {
    resolveStage(name, overrides);
  } catch (error) {
    if (error instanceof StageConfigError) return error.message;
    throw error;
  }
  return '';
}

describe('resolveStage', () => {
  it('has defaults that fit together', () => {
    const stage = resolveStage();
    expect(stage).toMatchObject({ name: 'aws', budgetsMs: defaultBudgetsMs, egress: { allow: [], deny: [], ports: [], http: false } });
    expect(checkStage(stage)).toEqual([]);
  });

  it('follows the function timeout and the window with the visibility timeout', () => {
    const stage = resolveStage('aws', { deliver: { timeoutS: 60, batchingWindowS: 5 } });
    expect(stage.deliveryQueue.visibilityTimeoutS).toBe(365);
  });

  it('follows the drain with the visibility of its queue, and the deliver function with its timeout', () => {
    expect(resolveStage().drainQueue.visibilityTimeoutS).toBe(drainQueue.visibilityTimeoutS);
    expect(resolveStage('aws', { drain: { timeoutS: 200, batchingWindowS: 5 } }).drainQueue.visibilityTimeoutS).toBe(1_205);
    expect(resolveStage('aws', { deliver: { timeoutS: 300 } })).toMatchObject({ drain: { timeoutS: 300 }, drainQueue: { visibilityTimeoutS: 1_800 } });
  });

  it('takes for each sender its own limits', () => {
    const stage = resolveStage('aws', { drain: { settleMarginMs: 5_000 } });
    expect([functionLimitsOf(stage.deliver), functionLimitsOf(stage.drain)]).toEqual([
      { timeoutS: 30, settleMarginMs: 4_000, admitMarginMs: 2_000 },
      { timeoutS: 120, settleMarginMs: 5_000, admitMarginMs: 2_000 },
    ]);
  });

  it('keeps a default whose override is undefined', () => {
    expect(resolveStage('aws', { deliver: { timeoutS: undefined } }).deliver.timeoutS).toBe(30);
  });

  it.each([
    ['deliver.timeoutS', { deliver: { timeoutS: 10 } }, `deliver.timeoutS 10 is too short: ${phasesSum} > 10000 ms`],
    ['equality is no margin', { deliver: { timeoutS: 26 } }, `deliver.timeoutS 26 is too short: ${phasesSum} = 26000 ms`],
    ['deliver.timeoutS above Lambda', { deliver: { timeoutS: 901 } }, 'deliver.timeoutS 901 is above the most of 900 s'],
    [
      'budgetsMs.read',
      { budgetsMs: { read: 15_000 } },
      'connection 2000 + setup 3000 + write 5000 + read 15000 + settle margin 4000 + admit margin 2000 = 31000 ms > 30000 ms',
    ],
    [
      'budgetsMs.total in the timeout',
      { budgetsMs: { connection: 5_000, setup: 1_000, total: 20_000 } },
      'connection 5000 + total 20000 + settle margin 4000 + admit margin 2000 = 31000 ms > 30000 ms',
    ],
    ['budgetsMs.total above the limit', { budgetsMs: { total: 20_001 } }, 'budgetsMs.total 20001 is above the most of 20000 ms'],
    ['budgetsMs.write too small', { budgetsMs: { write: 99 } }, 'budgetsMs.write 99 is below the least of 100 ms'],
    [
      'visibility',
      { deliver: { batchingWindowS: 5 }, deliveryQueue: { visibilityTimeoutS: 184 } },
      'deliveryQueue.visibilityTimeoutS 184 is too short: 6 × deliver.timeoutS 30 + deliver.batchingWindowS 5 = 185 s > 184 s',
    ],
    ['visibility above SQS', { deliveryQueue: { visibilityTimeoutS: 43_201 } }, 'deliveryQueue.visibilityTimeoutS 43201 is above the most of 43200 s'],
    ['DLQ retention', { deadLetterQueue: { retentionS: 1_209_599 } }, 'deadLetterQueue.retentionS 1209599 must be 14 days = 1209600 s'],
    [
      'DLQ retention below delivery',
      { deadLetterQueue: { retentionS: 345_600 } },
      'deadLetterQueue.retentionS 345600 is shorter than deliveryQueue.retentionS 864000',
    ],
    ['fault retention', { faultQueue: { retentionS: 345_600 } }, 'faultQueue.retentionS 345600 is shorter than deliveryQueue.retentionS 864000'],
    ['delivery retention', { deliveryQueue: { retentionS: 1_209_601 } }, 'deliveryQueue.retentionS 1209601 is above the most of 1209600 s'],
    ['drain retention', { drainQueue: { retentionS: 59 } }, 'drainQueue.retentionS 59 is below the least of 60 s'],
    ['maxReceiveCount 0', { deliveryQueue: { maxReceiveCount: 0 } }, 'deliveryQueue.maxReceiveCount 0 is below the least of 1 receives'],
    ['maxReceiveCount 1001', { deliveryQueue: { maxReceiveCount: 1_001 } }, 'deliveryQueue.maxReceiveCount 1001 is above the most of 1000 receives'],
    ['message size small', { deliveryQueue: { maxMessageBytes: 1_023 } }, 'deliveryQueue.maxMessageBytes 1023 is below the least of 1024 bytes'],
    ['message size large', { deliveryQueue: { maxMessageBytes: 1_048_577 } }, 'deliveryQueue.maxMessageBytes 1048577 is above the most of 1048576 bytes'],
    [
      'DLQ message size',
      { deadLetterQueue: { maxMessageBytes: 262_143 } },
      'deadLetterQueue.maxMessageBytes 262143 is below the least of 262144 bytes (deliveryQueue.maxMessageBytes)',
    ],
    ['fault message size', { faultQueue: { maxMessageBytes: 1_024 } }, 'faultQueue.maxMessageBytes 1024 is below the least of 262144 bytes'],
    ['maxConcurrency', { deliver: { maxConcurrency: 1 } }, 'deliver.maxConcurrency 1 is below the least of 2 invocations'],
    ['batch size', { deliver: { batchSize: 11 } }, 'deliver.batchSize 11 is above the most of 10 messages'],
    ['settle margin', { deliver: { settleMarginMs: 999 } }, 'deliver.settleMarginMs 999 is below the least of 1000 ms'],
    ['admit margin', { deliver: { admitMarginMs: 499 } }, 'deliver.admitMarginMs 499 is below the least of 500 ms'],
    ['window', { deliver: { batchingWindowS: 301 } }, 'deliver.batchingWindowS 301 is above the most of 300 s'],
    ['drain.timeoutS', { drain: { timeoutS: 10 } }, `drain.timeoutS 10 is too short: ${phasesSum} > 10000 ms`],
    ['drain.timeoutS above Lambda', { drain: { timeoutS: 901 } }, 'drain.timeoutS 901 is above the most of 900 s'],
    ['a drain shorter than the deliver function', { drain: { timeoutS: 29 } }, 'drain.timeoutS 29 is below the least of 30 s (deliver.timeoutS)'],
    [
      'a drain with less room for an attempt',
      { drain: { timeoutS: 31, settleMarginMs: 6_000 } },
      'drain.timeoutS 31 leaves 23000 ms beside its margins, and deliver.timeoutS 30 leaves 24000 ms: an attempt that fits there must fit here',
    ],
    [
      'visibility of the drain queue',
      { drain: { batchingWindowS: 5 }, drainQueue: { visibilityTimeoutS: 720 } },
      'drainQueue.visibilityTimeoutS 720 is too short: 6 × drain.timeoutS 120 + drain.batchingWindowS 5 = 725 s > 720 s',
    ],
    ['visibility of the drain queue above SQS', { drainQueue: { visibilityTimeoutS: 43_201 } }, 'drainQueue.visibilityTimeoutS 43201 is above the most of 43200 s'],
    ['maxConcurrency of the drain', { drain: { maxConcurrency: 1 } }, 'drain.maxConcurrency 1 is below the least of 2 invocations'],
    ['batch size of the drain', { drain: { batchSize: 11 } }, 'drain.batchSize 11 is above the most of 10 messages'],
    ['settle margin of the drain', { drain: { settleMarginMs: 999 } }, 'drain.settleMarginMs 999 is below the least of 1000 ms'],
    ['admit margin of the drain', { drain: { admitMarginMs: 499 } }, 'drain.admitMarginMs 499 is below the least of 500 ms'],
    ['window of the drain', { drain: { batchingWindowS: 301 } }, 'drain.batchingWindowS 301 is above the most of 300 s'],
    ['unknown key of the drain', { drain: { timeoutSec: 10 } }, 'stageConfig.drain: Unrecognized key: "timeoutSec"'],
    ['no CIDR', { egress: { allow: ['localhost'] } }, 'egress.allow localhost is not a CIDR block'],
    ['no CIDR to deny', { egress: { deny: ['8.8.8.8'] } }, 'egress.deny 8.8.8.8 is not a CIDR block'],
    ['an IPv4 block in IPv6', { egress: { deny: ['::ffff:8.8.8.0/120'] } }, 'egress.deny ::ffff:8.8.8.0/120 is IPv4 in IPv6: write it as an IPv4 block'],
    ['port 0', { egress: { ports: [443, 0] } }, 'egress.ports 0 is below the least of 1'],
    ['port 65,536', { egress: { ports: [65_536] } }, 'egress.ports 65536 is above the most of 65535'],
    ['an unknown key of egress', { egress: { allowed: [] } }, 'egress'],
    ['unknown key', { deliver: { timeoutSec: 10 } }, 'stageConfig.deliver: Unrecognized key: "timeoutSec"'],
    ['unknown part', { delivery: {} }, 'stageConfig: Unrecognized key: "delivery"'],
    ['wrong type', { deliver: { timeoutS: '30' } }, 'stageConfig.deliver.timeoutS: Invalid input: expected number'],
  ])('refuses %s', (_, overrides, fragment) => {
    expect(refusal('aws', overrides)).toContain(fragment);
  });

  it('shows all violations at once', () => {
    const lines = refusal('aws', { deliver: { maxConcurrency: 1 }, deliveryQueue: { maxReceiveCount: 0 } }).split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0]).toBe('Stage "aws" is refused:');
  });

  it('refuses a name that could not be part of an identifier', () => {
    expect(refusal('Prod 1', {})).toContain('a stage name is');
  });
});

describe('egress.allow', () => {
  const special = [
    ['127.0.0.0/8', 'loopback'],
    ['127.0.0.1/32', 'loopback'],
    ['169.254.169.254/32', 'link-local'],
    ['10.1.0.0/16', 'private'],
    ['172.16.0.0/12', 'private'],
    ['192.168.1.0/24', 'private'],
    ['100.64.0.0/10', 'carrier-grade NAT'],
    ['0.0.0.0/0', 'loopback'],
    ['8.0.0.0/5', 'private'],
    ['224.0.0.1/32', 'multicast'],
    ['::1/128', 'loopback'],
    ['::/0', 'loopback'],
    ['fe80::/64', 'link-local'],
    ['fd00:ec2::254/128', 'private'],
    ['::ffff:127.0.0.1/128', 'IPv4 in IPv6'],
    ['64:ff9b::7f00:1/128', 'IPv4 in IPv6'],
    ['4000::/3', 'reserved'],
    ['0.0.0.0/8', 'unspecified'],
    ['255.255.255.255/32', 'reserved'],
    ['192.0.0.8/32', 'reserved'],
    ['192.0.2.1/32', 'reserved'],
    ['198.19.0.0/16', 'reserved'],
    ['198.51.100.0/24', 'reserved'],
    ['203.0.113.0/24', 'reserved'],
    ['192.88.99.1/32', 'reserved'],
    ['::/128', 'unspecified'],
    ['ff02::1/128', 'multicast'],
    ['::7f00:1/128', 'IPv4 in IPv6'],
    ['64:ff9b:1::/64', 'IPv4 in IPv6'],
    ['2002:7f00:1::/48', 'IPv4 in IPv6'],
    ['2001:0:7f00:1::/64', 'IPv4 in IPv6'],
    ['100::1/128', 'reserved'],
    ['2001:db8::/48', 'reserved'],
    ['2001:20::/28', 'reserved'],
    ['3fff::/20', 'reserved'],
  ] as const;

  it.each(special)('refuses %s (%s) for AWS and takes it for the local stage', (cidr, kind) => {
    expect(refusal('aws', { egress: { allow: [cidr] } })).toContain(`egress.allow ${cidr} covers ${kind} addresses, which only the stage "local" may reach`);
    expect(refusal('staging', { egress: { allow: [cidr] } })).toContain(kind);
    // Only written otherwise: an address is judged as the IPv4 address that it stands for.
    if (!cidr.startsWith('::ffff:')) expect(refusal('local', { egress: { allow: [cidr] } })).toBe('');
    expect(refusal('aws', { egress: { deny: [cidr.startsWith('::ffff:') ? '127.0.0.1/32' : cidr] } })).toBe('');
  });

  it.each(['8.8.8.0/24', '2600:1f00::/24'])('takes public %s anywhere', (cidr) => {
    expect(refusal('aws', { egress: { allow: [cidr] } })).toBe('');
  });
});

describe('checkBudgets', () => {
  it('takes the defaults', () => {
    expect(checkBudgets(defaultBudgetsMs)).toEqual([]);
  });

  it('shows the sum that does not fit the function', () => {
    expect(checkBudgets({ ...defaultBudgetsMs, read: 14_000 })).toEqual([
      {
        field: 'budgetsMs phases',
        value: 30_000,
        bound: '< 30000 ms',
        message:
          "budgetsMs phases do not fit the function's timeout: connection 2000 + setup 3000 + write 5000 + read 14000" +
          ' + settle margin 4000 + admit margin 2000 = 30000 ms, must be < 30000 ms',
      },
    ]);
  });

  it('judges against the function that it is given', () => {
    const limits = { timeoutS: 20, settleMarginMs: 4_000, admitMarginMs: 2_000 };
    expect(checkBudgets(defaultBudgetsMs, limits).map(({ value }) => value)).toEqual([26_000, 23_000]);
  });

  it('refuses a total above and a phase below the limits', () => {
    expect(checkBudgets({ ...defaultBudgetsMs, total: 20_001, setup: 50 }).map(({ field }) => field)).toEqual(['budgetsMs.setup', 'budgetsMs.total']);
  });
});
