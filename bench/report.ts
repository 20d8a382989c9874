/** A report as people read it, and as one JSON object. */
import type { Ceiling, Cell, Report, Row } from './bench.ts';

/** Exactly `{name, rows, ceilings: [{name, value, max|min, ok}]}`. */
export function toJson({ name, rows, ceilings }: Report): string {
  return JSON.stringify({ name, rows, ceilings: ceilings.map(({ name: what, value, ok, source: _source, ...bound }) => ({ name: what, value, ...bound, ok })) });
}

/** Each table under its name, then the ceilings and the notes. */
export function toText(report: Report): string {
  const blocks = [...Map.groupBy(report.rows, (row) => row.table)].map(([title, rows]) => [title, ...table(rows.map(cellsOf))].join('\n'));
  if (report.ceilings.length > 0) blocks.push(['ceilings', ...table(report.ceilings.map(ceilingCells))].join('\n'));
  if (report.notes.length > 0) blocks.push(['notes', ...report.notes.map((note) => `  - ${note}`)].join('\n'));
  return blocks.join('\n\n');
}

/** The limits that were missed, a line each; empty when all hold. */
export function missed(ceilings: readonly Ceiling[]): string[] {
  return ceilings.filter(({ ok }) => !ok).map((ceiling) => `${ceiling.name}: ${shown(ceiling.value)}, must be ${boundOf(ceiling)}`);
}

function cellsOf({ table: _table, ...cells }: Row): Readonly<Record<string, Cell>> {
  return cells;
}

function ceilingCells(ceiling: Ceiling): Readonly<Record<string, Cell>> {
  const { name, value, ok, source } = ceiling;
  return { name, value, bound: boundOf(ceiling), result: ok ? 'ok' : 'MISSED', source };
}

function boundOf(ceiling: Ceiling): string {
  return 'max' in ceiling ? `at most ${ceiling.max}` : `at least ${ceiling.min}`;
}

/** Columns in the order in which rows first have them, numbers to the right. */
function table(rows: readonly Readonly<Record<string, Cell>>[]): string[] {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].map((key) => {
    const header = headerOf(key);
    const cells = rows.map((row) => shown(row[key] ?? '', key));
    const width = Math.max(header.length, ...cells.map((cell) => cell.length));
    const isNumeric = rows.every((row) => typeof (row[key] ?? 0) === 'number');
    return [header, ...cells].map((cell) => (isNumeric ? cell.padStart(width) : cell.padEnd(width)));
  });
  return Array.from({ length: rows.length + 1 }, (_, line) => `  ${columns.map((column) => column[line] ?? '').join('  ').trimEnd()}`);
}

/** `writeUnits` is shown as `write units`. */
function headerOf(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function shown(cell: Cell, key = ''): string {
  if (typeof cell === 'string') return cell;
  return /usd$/i.test(key) ? cell.toFixed(3) : String(Number(cell.toFixed(4)));
}
