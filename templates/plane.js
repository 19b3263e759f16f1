// @ts-check
// Where the paths of tokens lie in a plane: its frame, and what of each path is marked and named.

import { brief } from "./tokens.js";

/**
 * @typedef {{ key: string, x: number, y: number }} Point a place of a journey, and where a token is there
 * @typedef {object} Way the path of one token
 * @property {string} name
 * @property {string} hue
 * @property {0 | 1 | 2 | 3} weight 3 chosen, 2 the same word in another text, 1 followed, 0 in the background
 * @property {Point[]} points
 * @typedef {{ x: [number, number], y: [number, number], scale: number }} Frame reach of both axes; pixels of one unit
 */

/**
 * The frame of some points: both axes have the same unit, and every point has room around it.
 * @param {Point[]} points at least one
 * @param {number} width in pixels
 * @param {number} height
 * @returns {Frame}
 */
export function frameOf(points, width, height, margin = 26) {
  const reach = (/** @type {number[]} */ values) => [Math.min(...values), Math.max(...values)];
  const [x0, x1] = reach(points.map(point => point.x));
  const [y0, y1] = reach(points.map(point => point.y));
  const scale = Math.min((width - 2 * margin) / (x1 - x0 || 1), (height - 2 * margin) / (y1 - y0 || 1));
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return { x: [x - width / 2 / scale, x + width / 2 / scale], y: [y - height / 2 / scale, y + height / 2 / scale], scale };
}

/**
 * The rows of the chart `path` (reporter.charts.journeys) but for their tips.
 * @template {Way} W
 * @param {W[]} ways
 * @param {Frame} frame
 * @param {string} here key of the chosen place
 */
export function rowsOf(ways, frame, here) {
  const across = (/** @type {Point} */ point) => (point.x - frame.x[0]) * frame.scale;
  const down = (/** @type {Point} */ point) => (frame.y[1] - point.y) * frame.scale;
  const ordered = [...ways].sort((a, b) => a.weight - b.weight);

  // numbers where they have room, on the strong ways first: at the chosen place, at the ends, and then between
  const rank = (/** @type {W} */ way, /** @type {number} */ i) => (way.points[i].key === here ? 0 : i === way.points.length - 1 ? 1 : i === 0 ? 2 : 3);
  const wanted = ordered.filter(way => way.weight >= 2).flatMap(way => way.points.map((point, i) => ({ point, rank: rank(way, i) - way.weight / 10 })));
  /** @type {Set<Point>} */
  const numbered = new Set();
  for (const { point } of wanted.sort((a, b) => a.rank - b.rank)) {
    if ([...numbered].every(other => Math.hypot(across(point) - across(other), down(point) - down(other)) > 12)) numbered.add(point);
  }

  // names at the ends of ways, the strong ones first; one that would cover another is left to the pointer
  const [width, height] = [(frame.x[1] - frame.x[0]) * frame.scale, (frame.y[1] - frame.y[0]) * frame.scale];
  const axis = { x: 0, y: 0, key: "" };
  const taken = [[width - 36, down(axis) - 16, 36], [across(axis), 0, 34]];  // the names of the axes
  /** @type {Map<W, { name: string, align: "left" | "right" }>} */
  const names = new Map();
  for (const way of [...ordered].reverse()) {
    const end = way.points[way.points.length - 1];
    const [x, y] = [across(end), down(end)];
    if (x < 0 || x > width || y < 0 || y > height) continue;
    const [sign, away] = way.weight >= 2 ? [7.4, 13] : [6.2, 6];
    const name = brief(way.name, 14);
    const long = name.length * sign + 6;
    const right = x + 12 + long < width;
    const [left, top] = [right ? x + away : x - away - long, y - 7];
    if (taken.some(box => left < box[0] + box[2] && left + long > box[0] && top < box[1] + 14 && top + 14 > box[1])) continue;
    taken.push([left, top, long]);
    names.set(way, { name: `\u2068${name}\u2069`, align: right ? "left" : "right" });
  }

  return ordered.flatMap((way, number) => way.points.map((point, i) => {
    const last = i === way.points.length - 1;
    const before = way.points[i - 1];
    const at = point.key === here;
    const mark = numbered.has(point) ? "number" : last && before && way.weight < 2 ? "head" : "dot";
    const radius = way.weight >= 2 ? 2.5 : at ? 3.2 : i ? 1.3 : 2;
    return {
      way: number, order: i, hue: way.hue, weight: way.weight, x: point.x, y: point.y, here: at, mark,
      number: point.key === "final" ? "n" : point.key,
      turn: before ? Math.atan2(point.x - before.x, point.y - before.y) * 180 / Math.PI : 0,
      size: Math.PI * radius ** 2,
      ...(last ? names.get(way) : undefined),
      source: { way, point },
    };
  }));
}
