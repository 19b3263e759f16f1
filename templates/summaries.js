// @ts-check
// What is drawn of rows that a reader put together: the mean of a role, the reach of an axis, the values at a depth.

/** @typedef {Record<string, any>} Row */

const isFloor = row => String(row.statistic ?? "").endsWith("_floor");
const isNumber = value => typeof value === "number" && Number.isFinite(value);

/**
 * The value of a line at a depth, on a straight line between its layers; null beyond its ends and beside what is missing.
 * @param {Row[]} line rows of one model, by rising depth
 * @param {number} depth
 */
function valueAt(line, depth) {
  const after = line.findIndex(row => row.depth >= depth - 1e-9);
  if (after < 0) return null;
  const right = line[after];
  if (Math.abs(right.depth - depth) <= 1e-9) return isNumber(right.value) ? right.value : null;
  const left = line[after - 1];
  if (!left || !isNumber(left.value) || !isNumber(right.value)) return null;
  return left.value + ((right.value - left.value) * (depth - left.depth)) / (right.depth - left.depth);
}

/**
 * Each role's mean in place of its models, with the lowest and the highest of them as its band; a role with one model
 * keeps that model. Models with other numbers of layers meet at the same relative depth. There is a mean only where
 * every model has a number: otherwise it would jump where one begins or ends.
 * @param {Row[]} rows of one panel
 * @param {Record<string, string>} roles the role of each model that counts
 * @param {(role: string) => string} name what the mean of a role is called
 * @returns {Row[]}
 */
export function roleMeans(rows, roles, name) {
  /** @type {Map<string, Map<string, Row[]>>} */
  const groups = new Map();
  for (const row of rows) {
    if (!roles[row.model]) continue;
    const key = [roles[row.model], row.statistic, row.site === "final"].join("|");
    const models = groups.get(key) ?? new Map();
    groups.set(key, models.set(row.model, [...(models.get(row.model) ?? []), row]));
  }
  return [...groups.values()].flatMap(models => {
    const lines = [...models.values()].map(line => line.filter(row => isNumber(row.depth)).sort((a, b) => a.depth - b.depth)).filter(line => line.some(row => isNumber(row.value)));
    if (lines.length < 2) return lines.flat();
    const depths = [...new Set(lines.flat().map(row => row.depth))].sort((a, b) => a - b);
    const role = roles[lines[0][0].model];
    return depths.flatMap(depth => {
      const values = lines.map(line => valueAt(line, depth));
      if (!values.every(isNumber)) return [];
      const value = values.reduce((sum, one) => sum + one, 0) / values.length;
      return [{ ...lines[0][0], model: name(role), checkpoint: `${values.length} models`, step: null, layer: null, depth, value, ci_low: Math.min(...values), ci_high: Math.max(...values), n: null }];
    });
  });
}

/**
 * The reach of an axis for what is left of a chart when models are hidden, by the rules of the whole chart: an axis that
 * began at 0 still does, and the floor is drawn as long as a quarter of the height is left to the values.
 * @param {Row[]} rows
 * @param {{ low: number, high: number, log: boolean }} whole
 * @returns {[number, number]}
 */
export function reachOf(rows, { low, high, log }) {
  const fits = value => isNumber(value) && (!log || value >= low * 0.999);  // what stands at the edge stays there
  const of = wanted => rows.filter(row => isFloor(row) === wanted).flatMap(row => [row.value, row.ci_low, row.ci_high].filter(fits));
  const values = of(false);
  if (!values.length) return [low, high];
  let [least, most] = [Math.min(...values), Math.max(...values)];
  if (!log && low === 0) least = Math.min(0, least);
  if (least === most) [least, most] = log ? [least / 2, most * 2] : [least - (Math.abs(least) * 0.1 || 0.5), most + (Math.abs(most) * 0.1 || 0.5)];
  const floors = of(true);
  const all = [Math.min(least, ...floors), Math.max(most, ...floors)];
  return log || all[1] - all[0] <= 4 * (most - least) ? [all[0], all[1]] : [least, most];
}

/**
 * The row of each model that lies nearest to a depth; the floor and the state after the closing norm are none.
 * @param {Row[]} rows
 * @param {number} depth
 * @returns {Map<string, Row>}
 */
export function rowsAt(rows, depth) {
  /** @type {Map<string, Row>} */
  const nearest = new Map();
  for (const row of rows) {
    if (isFloor(row) || row.site === "final" || !isNumber(row.depth)) continue;
    const best = nearest.get(row.model);
    if (!best || Math.abs(row.depth - depth) < Math.abs(best.depth - depth)) nearest.set(row.model, row);
  }
  return nearest;
}
