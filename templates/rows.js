// Frames as the Python side packs them (reporter.charts.drawing), back into columns of values.

// The values of a column, in whichever of its three forms it comes.
export function unpack(column) {
  if (column.plain) return column.plain;
  const { levels = [], codes, runs = [] } = column;
  if (codes) return codes.map(code => levels[code]);
  return runs.flatMap((code, i) => (i % 2 ? [] : Array(runs[i + 1]).fill(levels[code])));
}
// A packed frame as columns: {rows, model: […], …}.
/** @type {(packed: Packed) => { rows: number } & Record<string, any>} */
export const columnsOf = packed => ({ rows: packed.rows, ...Object.fromEntries(Object.entries(packed.columns).map(([name, column]) => [name, unpack(column)])) });

// A table as CSV, by the rules of reporter.store.formats, which come as data.
function csvField(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value.replace(new RegExp(CSV_RULES.formula, "gu"), "'") : String(value);
  return text === "" || new RegExp(CSV_RULES.quoted, "u").test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
export function csvOf(frames) {
  const names = Object.keys(frames[0] ?? {}).filter(name => name !== "rows");
  const line = values => values.map(csvField).join(",") || '""';  // readers skip an empty line
  const lines = frames.flatMap(frame => Array.from({ length: frame.rows }, (_, i) => line(names.map(name => frame[name][i]))));
  return `${[line(names), ...lines].join("\n")}\n`;
}

// What is drawn of rows that a reader put together: means of roles, the axis that holds it, the values at a depth.
export const isFloor = row => row.kind === "floor" || String(row.statistic ?? "").endsWith("_floor");
const isNumber = value => typeof value === "number" && Number.isFinite(value);

// The mean of each role in place of its models, as the run stored it; a role without one keeps its models.
export function roleMeans(rows, means, roles) {
  const averaged = new Set(means.map(row => row.role));
  return [...rows.filter(row => roles[row.model] && !averaged.has(roles[row.model])), ...means];
}
// The pixels that names at the ends of lines take (room_for in reporter.charts.parts): none for one line, and for many.
export const roomFor = names => (names.length > 1 && names.length <= 6 ? Math.min(130, 26 + 7 * Math.max(...names.map(name => name.length))) : 0);
// The clauses of a caption, `NAME: numbers`, without those of hidden models, and models by the names that a reader gave them.
export function clausesOf(reading, hidden, names) {
  const leads = (clause, model) => clause.startsWith(`${model}: `);
  return reading.split(" · ").filter(clause => ![...hidden].some(model => leads(clause, model))).map(clause => {
    const model = Object.keys(names).find(name => leads(clause, name));
    return model === undefined ? clause : names[model] + clause.slice(model.length);
  });
}
// The axis that holds those of the chosen parts of a chart, with its note (hull in reporter.charts.captions).
export function hullOf(reaches, whole, { log = false, close = false } = {}) {
  if (!reaches.length) return whole;
  const [least, most] = log ? ["log_low", "log_high"] : ["low", "high"];
  const low = Math.min(...reaches.map(row => row[least])), high = Math.max(...reaches.map(row => row[most]));
  if (log) return [low, high, whole[2]];
  const notes = [...new Set(reaches.map(row => row.note).filter(Boolean))];
  return [whole[0] === 0 && !close ? Math.min(low, 0) : low, high, [close && "of this token set", notes.length > 1 ? "some chance levels are off this axis" : notes[0]].filter(Boolean).join(" · ")];
}
// The row of each model that lies nearest to a depth, or to a training step; the floor and the state after the final norm are
// none. Steps are as far from each other as on their axis.
export function rowsAt(rows, place, along = "depth") {
  const away = row => (along === "step" ? Math.abs(Math.log1p(row.step) - Math.log1p(place)) : Math.abs(row[along] - place));
  const nearest = /** @type {Map<string, Row>} */ (new Map());
  for (const row of rows) {
    if (isFloor(row) || row.site === "final" || !isNumber(row[along])) continue;
    const best = nearest.get(row.model);
    if (!best || away(row) < away(best)) nearest.set(row.model, row);
  }
  return nearest;
}
