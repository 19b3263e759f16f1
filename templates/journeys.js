// @ts-check
// The page of journeys: what is chosen on it, and what follows from that.

import { all, find, make } from "./dom.js";
import { explorer, narrowSql, readAddress, writeAddress } from "./explorer.js";
import { Journey, bareToken } from "./journey.js";
import { showBar, showChoose, showOwn } from "./journey_choose.js";
import { followed, showLines } from "./journey_lines.js";
import { showHeat, showNear } from "./journey_near.js";
import { showPath } from "./journey_path.js";
import { onTheme, part } from "./page.js";

/** @typedef {import("./journey.js").Side} Side */
/** @typedef {import("./journey.js").SideName} SideName */

/**
 * What each figure shows of a side.
 * @type {Record<string, (slot: HTMLElement, side: Side, app: import("./journey.js").App, name: SideName) => void>}
 */
const VIEWS = { choose: showChoose, near: showNear, heat: showHeat, path: showPath };

export async function showJourneys() {
  /** @type {{ a: Side, b: Side | null }} */
  const sides = { a: /** @type {any} */ ({}), b: null };
  /** @type {import("./journey.js").Shared} */
  const shared = { site: "path", measure: "cosine", positions: "without", heat: "rank", last: "with", texts: "over", zoom: "all" };
  /** @type {Record<string, string[]>} */
  const OPTIONS = { site: ["path", "attention"], measure: ["cosine", "distance"], positions: ["without", "with"], heat: ["rank", "value"], last: ["with", "without"], texts: ["over", "beside"], zoom: ["all", "chosen"] };
  /** @typedef {{ journey: string, model: string, checkpoint: string, part: string }} Entry */
  /** @type {Map<string, Promise<Journey>>} */
  const loaded = new Map();
  /** @type {(journey: string, model?: string) => Entry[]} */
  const entriesOf = (journey, model) => explorer.entries.filter(/** @type {Entry} */ entry => entry.journey === journey && (!model || entry.model === model));
  /** @param {Entry} entry */
  const load = entry => {
    const known = loaded.get(entry.part) ?? part(entry.part).then(raw => new Journey(entry, raw));
    loaded.set(entry.part, known);
    return known;
  };

  /** @type {import("./journey.js").App} */
  const app = {
    shared, sides,
    styleOf: model => explorer.models.find((/** @type {import("./journey.js").Style} */ style) => style.model === model) ?? { light: "#52525b", dark: "#c4c4cc", dash: [], shape: "circle" },
    get comparing() { return !!sides.b; },
    get both() { return sides.b ? [sides.a, sides.b] : [sides.a]; },
    get rank() { return `rank_${shared.measure}`; },
    others: [],
    choose(change, side = null, focus = null) {
      const turned = side && ["journey", "model", "checkpoint"].some(name => name in change);
      const before = side && sides[side];
      if (side && before) {
        if (turned && before.data) from[side] ??= before;
        else Object.assign(from[side] ?? {}, change);
        sides[side] = { ...before, ...change };
      } else Object.assign(shared, change);
      // the other side follows to the same depth
      const next = side === "a" ? "b" : "a";
      const layer = before?.data?.placesOf(shared.site).find(place => "layer" in change && place.key === change.layer);
      for (const other of [sides[next], from[next]]) if (layer && other?.data) other.layer = other.data.asDeep(layer, shared.site);
      return show(focus).catch(error => find(".bar").after(make("p", { class: "broken", role: "alert", text: String(error) })));
    },
  };

  /**
   * Makes a side whole: whatever is not there is replaced by what is nearest to it.
   * @param {any} side what is known of it
   * @param {Side | null} [before] what it was, where its journey or model has changed
   */
  async function settle(side, before) {
    if (!explorer.journeys.includes(side.journey)) side.journey = explorer.journeys[0];
    const models = [...new Set(entriesOf(side.journey).map(entry => entry.model))];
    if (!models.includes(side.model)) side.model = models[0];
    const entries = entriesOf(side.journey, side.model);
    const entry = entries.find(one => one.checkpoint === side.checkpoint) ?? entries[entries.length - 1];
    side.checkpoint = entry.checkpoint;
    side.data = await load(entry);
    const was = before?.data?.placesOf(shared.site).find(place => place.key === before.layer);
    if (was) side.layer = side.data.asDeep(was, shared.site);
    if (before?.token && before.journey === side.journey) {
      side.token = side.data.twin(before.token, before.data) ?? undefined;
    } else if (before) {
      side.token = undefined;
    }
    if (side.token) side.token = side.data.texts.get(side.token.text)?.get(side.token.position);
    if (!side.token) {
      const data = /** @type {Journey} */ (side.data);
      const all = [...data.texts.keys()].flatMap(text => data.tokens(text));
      const words = all.filter(one => !one.special);
      side.token = words.find(one => one.followed && /\p{L}{3}/u.test(one.token)) ?? words.find(one => one.followed) ?? words[0] ?? all[0];
    }
  }

  // Readers choose faster than data loads: only the last choice is made whole and drawn, from what was drawn last.
  let turn = 0, drawn = 0;
  /** @type {{ a?: Side, b?: Side }} what a side was when it was drawn last, where its journey or model has changed since */
  let from = {};
  /**
   * Shows what is chosen.
   * @param {string | null} focus see App.choose
   */
  async function show(focus = null) {
    const own = ++turn;
    await settle(sides.a, from.a);
    if (own === turn && sides.b) await settle(sides.b, from.b);
    if (own !== turn) return;
    const { data } = sides.a;
    const asked = /** @type {Record<string, string>} */ (shared);
    for (const name of Object.keys(OPTIONS)) if (!OPTIONS[name].includes(asked[name])) asked[name] = OPTIONS[name][0];
    if (!hasAttention()) shared.site = "path";
    if (!data.positions.includes(shared.positions) && !sides.b?.data.positions.includes(shared.positions)) shared.positions = data.positions[0];
    for (const side of app.both) {
      const places = side.data.placesOf(shared.site);
      if (places.some(place => place.key === side.layer)) continue;
      const blocks = places.filter(place => place.key !== "final");
      side.layer = (side.layer === "0" ? blocks[0] : blocks[blocks.length - 1]).key;
    }
    const models = [...new Set(entriesOf(sides.a.journey).map(entry => entry.model))];
    const others = await Promise.all(models.map(model => {
      const entries = entriesOf(sides.a.journey, model);
      return model === sides.a.model ? data : load(entries.find(entry => entry.checkpoint === sides.a.checkpoint) ?? entries[entries.length - 1]);
    }));
    if (own !== turn) return;
    app.others = others;
    from = {};
    drawn = own;
    draw(focus);
  }

  /** @param {string | null} [focus] */
  function draw(focus) {
    const key = focus ?? /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.key;
    find(".stage").classList.toggle("comparing", app.comparing);
    showBar(find(".bar"), app, { swap, attention: hasAttention(), positions: positionsOf() });
    for (const slot of all(".slot")) {
      const name = /** @type {SideName} */ (slot.dataset.side);
      const side = sides[name];
      slot.hidden = !side;
      if (side) VIEWS[String(slot.dataset.part)](slot, side, app, name);
      else slot.replaceChildren();
    }
    showOwn(app);
    showLines(find(".lines"), app);
    sql();
    address();
    if (key) /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus({ preventScroll: !focus });
  }
  const redraw = () => { if (drawn === turn) draw(); }; // else it will be drawn at once
  const hasAttention = () => app.both.some(side => side.data.places.attention.size > 0);
  const positionsOf = () => [...new Set(app.both.flatMap(side => side.data.positions))];

  // Begins to compare, or ends it.
  function swap() {
    if (sides.b) { sides.b = null; delete from.b; return show("compare"); }
    const own = from.a ?? sides.a, { data } = own;
    if (!data) return;
    const side = sides.b = { ...own };
    const texts = [...data.texts.keys()];
    const other = entriesOf(own.journey).find(entry => entry.model !== own.model);
    // what a reader most likely wants beside it: the other text of a homonym, or else the other model
    if (texts.length > 1) {
      const next = texts[(texts.indexOf(own.token.text) + 1) % texts.length];
      const same = data.tokens(next).find(one => bareToken(one.token) === bareToken(own.token.token));
      side.token = same ?? data.tokens(next).find(one => one.followed && !one.special) ?? data.tokens(next)[0];
      return show("compare");
    }
    if (!other) return show("compare");
    from.b = { ...side };
    Object.assign(side, { model: other.model, checkpoint: undefined });
    return show("compare");
  }

  function sql() {
    const sites = shared.site === "attention" ? ["attention"] : ["embedding", "block", "final"];
    const of = (/** @type {{ model: string, checkpoint: string }} */ side) => ({ model: side.model, checkpoint: side.checkpoint });
    const here = { positions: shared.positions, site: sites };
    narrowSql("neighbours", app.both.map(side => ({ ...of(side), journey: side.journey, text: side.token.text, position: side.token.position, ...here, measure: shared.measure })), find("#nearest"));
    narrowSql("journeys", app.both.map(side => ({ ...of(side), journey: side.journey, text: app.comparing ? side.token.text : undefined, ...here })), find("#strip"));
    const lines = followed(app).map(({ data, token }) => ({ ...of(data), journey: data.journey, text: token.text, position: token.position, ...here }));
    narrowSql("journeys", lines, find("#profile"));
    narrowSql("journey-paths", app.both.map(side => ({ ...of(side), item: side.journey, projection: shared.last === "with" ? "pca-joint" : "pca-joint-without-last" })), find("#path"));
  }

  function address() {
    const of = (/** @type {Side | null} */ side, /** @type {string} */ prefix) => side && { [`${prefix}journey`]: side.journey, [`${prefix}model`]: side.model, [`${prefix}checkpoint`]: side.checkpoint, [`${prefix}text`]: side.token.text, [`${prefix}token`]: side.token.position, [`${prefix}layer`]: side.layer };
    writeAddress({ ...of(sides.a, ""), ...shared, ...of(sides.b, "b.") });
  }
  function fromAddress() {
    const given = readAddress();
    /** @type {(prefix: string) => any} */
    const of = prefix => ({
      journey: given[`${prefix}journey`], model: given[`${prefix}model`], checkpoint: given[`${prefix}checkpoint`], layer: given[`${prefix}layer`],
      token: given[`${prefix}token`] === undefined ? undefined : { text: Number(given[`${prefix}text`] ?? 0), position: Number(given[`${prefix}token`]) },
    });
    from = {};
    sides.a = of("");
    sides.b = given["b.journey"] ? of("b.") : null;
    for (const name of Object.keys(shared)) if (given[name] !== undefined) Object.assign(shared, { [name]: given[name] });
    return show();
  }
  addEventListener("hashchange", () => { if (location.hash.includes("=")) fromAddress(); });
  for (const event of ["beforeprint", "afterprint"]) addEventListener(event, redraw);
  onTheme(redraw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(redraw); } });
  await fromAddress();
}
