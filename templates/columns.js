// Frames as the Python side packs them (reporter.report.columns), back into columns of values.

export function unpack(column) {
  if (column.plain) return column.plain;
  if (column.codes) return column.codes.map(code => column.levels[code]);
  const values = [];
  for (let i = 0; i < column.runs.length; i += 2) {
    for (let k = 0; k < column.runs[i + 1]; k++) values.push(column.levels[column.runs[i]]);
  }
  return values;
}

// A packed frame as columns: {rows, model: […], …}.
export const columnsOf = packed => packed && { rows: packed.rows, ...Object.fromEntries(Object.entries(packed.columns).map(([name, column]) => [name, unpack(column)])) };
