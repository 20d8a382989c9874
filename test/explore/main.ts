import { explore } from './explore.ts';
import type { Clause } from './clauses.ts';
import { worlds } from './worlds.ts';

const all = worlds().filter((w) => !process.argv[2] || w.spec.name.includes(process.argv[2]));
const clauses = new Map<string, Clause>();
const sizes = new Map<string, number>();
for (const world of all) {
  const startedMs = performance.now();
  const { states, histories, broken, clauses: found, complete } = await explore(world, { maxStates: 2e6 });
  sizes.set(world.spec.name, states);
  console.log(world.spec.name, states, histories, complete, Math.round(performance.now() - startedMs), process.memoryUsage().rss >> 20);
  if (broken) console.log(broken);
  for (const c of found) clauses.set(`${c.condition} ||| ${c.clause}`, c);
}
all.sort((a, b) => (sizes.get(a.spec.name) ?? 0) - (sizes.get(b.spec.name) ?? 0));
for (const [name, clause] of [...clauses].sort()) {
  const startedMs = performance.now();
  let found = 'SURVIVES';
  for (const world of all) {
    const { broken, states } = await explore(world, { dropped: clause, maxStates: 1e6 });
    if (broken) { found = `${world.spec.name} (${states}): ${broken.problems[0]} [${broken.trace.length}]`; break; }
  }
  console.log(name, '==>', found, Math.round(performance.now() - startedMs));
}
