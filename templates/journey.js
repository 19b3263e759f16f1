// One journey in one checkpoint: its tokens, its places, and its numbers by what is chosen.

import { columnsOf } from "./rows.js";
import { brief } from "./tokens.js";

export const placeKey = (site, layer) => (site === "final" ? "final" : String(layer));
export const placeName = key => (key === "final" ? "after the final norm" : key === "0" ? "the embedding" : `layer ${key}`);
export const placeShort = key => (key === "final" ? "norm" : key === "0" ? "emb" : key);
// The letters of a token without what a tokenizer adds to them.
export const bareToken = token => (token ?? "").replace(/^##|[␣ ]/g, "").normalize("NFKC").toLowerCase();

const NOTHING = { rows: 0, columns: {} };

// One journey in one checkpoint: its texts, its places, and rows by what is chosen.
export class Journey {
  constructor({ journey, model, checkpoint }, raw) {
    this.journey = journey;
    this.model = model;
    this.checkpoint = checkpoint;
    this.steps = columnsOf(raw.steps ?? NOTHING);
    this.paths = columnsOf(raw.paths ?? NOTHING);
    this.rows = /** @type {Map<string, number>} */ (new Map());
    this.texts = /** @type {Map<number, Map<number, Token>>} */ (new Map());
    this.places = /** @type {Record<Site, Map<string, Place>>} */ ({ path: new Map(), attention: new Map() });
    this.positions = /** @type {string[]} */ ([...new Set(this.steps.positions)]);
    const { text, position, token, token_id, special, followed, positions, site, layer, depth } = this.steps;
    for (let i = 0; i < this.steps.rows; i++) {
      const stretch = site[i] === "attention" ? "attention" : "path";
      const key = placeKey(site[i], layer[i]);
      this.rows.set(`${text[i]}|${position[i]}|${positions[i]}|${stretch}|${key}`, i);
      const tokens = this.texts.get(text[i]) ?? new Map();
      this.texts.set(text[i], tokens);
      tokens.set(position[i], { text: text[i], position: position[i], token: token[i], id: token_id[i], special: !!special[i], followed: !!followed[i] });
      this.places[stretch].set(key, { key, site: site[i], layer: layer[i], depth: depth[i] });
    }
    this.listed = /** @type {Map<string, Neighbour[]>} */ (new Map());
    const own = columnsOf(raw.neighbours ?? NOTHING);
    for (let i = 0; i < own.rows; i++) {
      const stretch = own.site[i] === "attention" ? "attention" : "path";
      const key = `${own.text[i]}|${own.position[i]}|${own.positions[i]}|${stretch}|${placeKey(own.site[i], own.layer[i])}|${own.measure[i]}`;
      const listed = this.listed.get(key) ?? [];
      this.listed.set(key, listed);
      listed.push({ place: own.place[i], id: own.neighbour_id[i], token: own.neighbour[i], cosine: own.cosine[i], distance: own.distance[i] });
    }
  }

  tokens(text) { return [...(this.texts.get(text) ?? new Map()).values()]; }
  everyToken() { return [...this.texts.keys()].flatMap(text => this.tokens(text)); }
  // The places of a site, first to last.
  stretch(site) { return [...this.places[site].values()]; }
  // The same, or the places of the path where the model has none after attention.
  placesOf(site) { return this.places[site].size ? this.stretch(site) : this.stretch("path"); }
  // The key of the place here that is as deep as one of another model.
  asDeep(place, site) {
    const own = this.placesOf(site);
    if (place.key === "final" && own.some(one => one.key === "final")) return "final";
    return own.filter(one => one.key !== "final").reduce((best, one) => (Math.abs(one.depth - place.depth) < Math.abs(best.depth - place.depth) ? one : best)).key;
  }
  // The numbers of a token at a place, by the name of their column; null where there are none.
  at(token, positions, site, key) {
    const i = this.rows.get(`${token.text}|${token.position}|${positions}|${site}|${key}`);
    return i === undefined ? null : name => this.steps[name][i];
  }
  // The vocabulary tokens nearest to a token at a place, the nearest first.
  nearest(token, positions, site, key, measure) {
    return this.listed.get(`${token.text}|${token.position}|${positions}|${site}|${key}|${measure}`) ?? [];
  }
  // Where each token of a text ends in the text without spaces and special tokens.
  ends(text) {
    let written = "";
    const ends = /** @type {Map<number, number>} */ (new Map());  // by position
    for (const token of this.tokens(text).filter(one => !one.special)) {
      written += bareToken(token.token);
      ends.set(token.position, written.length);
    }
    return { written, ends };
  }
  // The piece in which another model's token ends; if the two write the text differently, the token with the same letters.
  twin(token, other) {
    const [own, its] = [this.ends(token.text), other.ends(token.text)];
    const end = its.ends.get(token.position);
    if (bareToken(token.token) && end !== undefined && own.written.slice(0, end) === its.written.slice(0, end)) {
      return this.tokens(token.text).find(one => (own.ends.get(one.position) ?? 0) >= end) ?? null;
    }
    const alike = journey => journey.tokens(token.text).filter(one => one.special === token.special && bareToken(one.token) === bareToken(token.token));
    return alike(this)[alike(other).findIndex(one => one.position === token.position)] ?? null;
  }
}
// Where the paths of tokens lie in a plane: its frame, and what of each path is marked and named.
// The frame of some points: both axes have the same unit, and every point has room around it.
/** @returns {Frame} */
export function frameOf(points, width, height, margin = 26) {
  const reach = (/** @type {number[]} */ values) => [Math.min(...values), Math.max(...values)];
  const [x0, x1] = reach(points.map(point => point.x));
  const [y0, y1] = reach(points.map(point => point.y));
  const scale = Math.min((width - 2 * margin) / (x1 - x0 || 1), (height - 2 * margin) / (y1 - y0 || 1));
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return { x: [x - width / 2 / scale, x + width / 2 / scale], y: [y - height / 2 / scale, y + height / 2 / scale], scale };
}
// The rows of the chart `path` (reporter.charts.journeys) but for their tips; `here` is the key of the chosen place.
/** @template {Way} W @param {W[]} ways @param {Frame} frame @param {string} here */
export function rowsOf(ways, frame, here) {
  const across = (/** @type {PathPoint} */ point) => (point.x - frame.x[0]) * frame.scale;
  const down = (/** @type {PathPoint} */ point) => (frame.y[1] - point.y) * frame.scale;
  const ordered = [...ways].sort((a, b) => a.weight - b.weight);

  // numbers where they have room, on the strong ways first: at the chosen place, at the ends, and then between
  const rank = (/** @type {W} */ way, /** @type {number} */ i) => (way.points[i].key === here ? 0 : i === way.points.length - 1 ? 1 : i === 0 ? 2 : 3);
  const wanted = ordered.filter(way => way.weight >= 2).flatMap(way => way.points.map((point, i) => ({ point, rank: rank(way, i) - way.weight / 10 })));
  const numbered = /** @type {Set<PathPoint>} */ (new Set());
  for (const { point } of wanted.sort((a, b) => a.rank - b.rank)) {
    if ([...numbered].every(other => Math.hypot(across(point) - across(other), down(point) - down(other)) > 12)) numbered.add(point);
  }
  // names at the ends of ways, the strong ones first; one that would cover another is left to the pointer
  const [width, height] = [(frame.x[1] - frame.x[0]) * frame.scale, (frame.y[1] - frame.y[0]) * frame.scale];
  const axis = { x: 0, y: 0, key: "" };
  const taken = [[width - 36, down(axis) - 16, 36], [across(axis), 0, 34]];  // the names of the axes, and the numbers
  for (const point of numbered) taken.push([across(point) - 7, down(point) - 7, 14]);
  const names = /** @type {Map<W, { name: string, align: "left" | "right" }>} */ (new Map());
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
