// @ts-check
// Frames as the Python side packs them (reporter.charts.columns), back into columns of values.

/**
 * @typedef {string | number | boolean | null} Cell
 * @typedef {{ plain?: Cell[], levels?: Cell[], codes?: number[], runs?: number[] }} PackedColumn
 * @typedef {{ rows: number, columns: Record<string, PackedColumn> }} Packed
 */

/**
 * The values of a column, in whichever of its three forms it comes.
 * @param {PackedColumn} column
 * @returns {any[]} cells; of which type is the caller's knowledge
 */
export function unpack(column) {
  if (column.plain) return column.plain;
  const { levels = [], codes, runs = [] } = column;
  if (codes) return codes.map(code => levels[code]);
  const values = [];
  for (let i = 0; i < runs.length; i += 2) {
    for (let k = 0; k < runs[i + 1]; k++) values.push(levels[runs[i]]);
  }
  return values;
}

/**
 * A packed frame as columns: {rows, model: […], …}.
 * @param {Packed} packed
 * @returns {{ rows: number } & Record<string, any>}
 */
export const columnsOf = packed => ({ rows: packed.rows, ...Object.fromEntries(Object.entries(packed.columns).map(([name, column]) => [name, unpack(column)])) });
