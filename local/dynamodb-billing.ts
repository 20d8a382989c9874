/** Write units that dynalite leaves out: secondary indexes, and conditions that failed. */
import type { ConsumedCapacity, Db, IndexDescription, Item, Table } from './types/dynalite.d.ts';

const writeUnits = (db: Db, item: Item) => Math.max(1, Math.ceil(db.itemSize(item) / 1024));

/** A refused write is billed by the item that refused it, or as one unit where there is none. */
export function conditionUnits(db: Db, existing: Item | undefined): number {
  return existing ? writeUnits(db, existing) : 1;
}

/** Units of one index for a write that turns `existing` into `item`: nothing if what it projects stays the same. */
function indexUnits(db: Db, index: IndexDescription, existing: Item | undefined, item: Item | null, table: Table): number {
  const entryOf = (one: Item | null | undefined) => (one ? db.getIndexActions([index], undefined, one, table).puts[0] : undefined);
  const before = entryOf(existing);
  const after = entryOf(item);
  if (!before || !after) return (before ? writeUnits(db, before.item) : 0) + (after ? writeUnits(db, after.item) : 0);
  if (before.key !== after.key) return writeUnits(db, before.item) + writeUnits(db, after.item);
  if (JSON.stringify(before.item) === JSON.stringify(after.item)) return 0;
  return Math.max(writeUnits(db, before.item), writeUnits(db, after.item));
}

/** Adds index writes to the ConsumedCapacity that an action has already prepared, found by the items it was computed from. */
export function billIndexWrites(db: Db): void {
  const capacityOf = new WeakMap<Item, ConsumedCapacity>();
  const addConsumedCapacity = db.addConsumedCapacity;
  const updateIndexes = db.updateIndexes;

  db.addConsumedCapacity = (data, isRead, one, other) => {
    const consumed = addConsumedCapacity(data, isRead, one, other);
    if (consumed && !isRead) for (const item of [one, other]) if (item) capacityOf.set(item, consumed);
    return consumed;
  };

  db.updateIndexes = (store, table, existing, item, callback) => {
    const consumed = (item && capacityOf.get(item)) ?? (existing && capacityOf.get(existing));
    if (consumed) {
      for (const kind of ['GlobalSecondaryIndexes', 'LocalSecondaryIndexes'] as const) {
        for (const index of table[kind] ?? []) {
          const units = indexUnits(db, index, existing, item, table);
          consumed.CapacityUnits += units;
          if (consumed.Table && units > 0) (consumed[kind] ??= {})[index.IndexName] = { CapacityUnits: units };
        }
      }
    }
    updateIndexes(store, table, existing, item, callback);
  };
}
