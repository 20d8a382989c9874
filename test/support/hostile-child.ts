/** Hostile servers in a process of their own, so that their memory is not the sender's: `fork` it with the names of behaviours. */
import { startHostile } from '../../local/hostile/hostile-server.ts';

const servers = await Promise.all(process.argv.slice(2).map((name) => startHostile(name, { scheme: 'http' })));
process.send?.(servers.map(({ url }) => url));
process.once('disconnect', () => process.exit());
