// The page of journeys: what is chosen on it, and what follows from that.

import { all, make } from "./dom.js";
import { explorer, narrowSql, part, readAddress, writeAddress } from "./explorer.js";
import { Journey, bareToken } from "./journey.js";
import { showBar, showChoose, showOwn } from "./journey_choose.js";
import { followed, showLines } from "./journey_lines.js";
import { showHeat, showNear } from "./journey_near.js";
import { showPath } from "./journey_path.js";
import { onTheme } from "./page.js";

// What each figure shows of a side: (slot, side, app, name of the side).
const VIEWS = { choose: showChoose, near: showNear, heat: showHeat, path: showPath };

export async function showJourneys() {
  const sides = { a: {}, b: null };
  const shared = { site: "path", measure: "cosine", positions: "without", heat: "rank", last: "with", texts: "over", zoom: "all" };
  const OPTIONS = { site: ["path", "attention"], measure: ["cosine", "distance"], positions: ["without", "with"], heat: ["rank", "value"], last: ["with", "without"], texts: ["over", "beside"], zoom: ["all", "chosen"] };
  const loaded = new Map();
  const entriesOf = (journey, model) => explorer.entries.filter(entry => entry.journey === journey && (!model || entry.model === model));
  const load = async entry => {
    if (!loaded.has(entry.part)) loaded.set(entry.part, part(entry.part).then(raw => new Journey(entry, raw)));
    return loaded.get(entry.part);
  };

  const app = {
    shared, sides, narrow: matchMedia("(max-width: 700px)"),
    styleOf: model => explorer.models.find(style => style.model === model) ?? { light: "#52525b", dark: "#c4c4cc", dash: [], shape: "circle" },
    get comparing() { return !!sides.b; },
    get rank() { return `rank_${shared.measure}`; },
    // The models of side A's journey, each at the checkpoint of its side or at its last one.
    others: [],
    choose(change, side = null, focus = null) {
      const turned = side && ["journey", "model", "checkpoint"].some(name => name in change);
      const before = side && sides[side];
      if (side) sides[side] = { ...before, ...change };
      else Object.assign(shared, change);
      // the other side follows to the same depth
      const other = sides[side === "a" ? "b" : "a"];
      if (side && change.layer && other) other.layer = other.data.asDeep(before.data.placesOf(shared.site).find(place => place.key === change.layer), shared.site);
      return show(focus, turned ? { [side]: before } : {}).catch(error => document.querySelector(".bar").after(make("p", { class: "broken", role: "alert", text: String(error) })));
    },
  };

  // Makes a side whole: whatever is not there is replaced by what is nearest to it.
  async function settle(side, before) {
    if (!explorer.journeys.includes(side.journey)) side.journey = explorer.journeys[0];
    const models = [...new Set(entriesOf(side.journey).map(entry => entry.model))];
    if (!models.includes(side.model)) side.model = models[0];
    const entries = entriesOf(side.journey, side.model);
    const entry = entries.find(one => one.checkpoint === side.checkpoint) ?? entries.at(-1);
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
      const all = [...side.data.texts.keys()].flatMap(text => side.data.tokens(text));
      const words = all.filter(one => !one.special);
      side.token = words.find(one => one.followed && /\p{L}{3}/u.test(one.token)) ?? words.find(one => one.followed) ?? words[0] ?? all[0];
    }
  }

  let turn = 0;
  // Shows what is chosen; before: what a side was, by its name, where its journey or model has changed.
  async function show(focus = null, before = {}) {
    const own = ++turn;
    await settle(sides.a, before.a);
    if (sides.b) await settle(sides.b, before.b);
    const { data } = sides.a;
    for (const name of Object.keys(OPTIONS)) if (!OPTIONS[name].includes(shared[name])) shared[name] = OPTIONS[name][0];
    const attention = data.places.attention.size > 0 || sides.b?.data.places.attention.size > 0;
    if (!attention) shared.site = "path";
    if (!data.positions.includes(shared.positions) && !sides.b?.data.positions.includes(shared.positions)) shared.positions = data.positions[0];
    for (const side of both()) {
      const places = side.data.placesOf(shared.site);
      if (places.some(place => place.key === side.layer)) continue;
      const blocks = places.filter(place => place.key !== "final");
      side.layer = (side.layer === "0" ? blocks[0] : blocks.at(-1)).key;
    }
    const models = [...new Set(entriesOf(sides.a.journey).map(entry => entry.model))];
    app.others = await Promise.all(models.map(model => {
      const entries = entriesOf(sides.a.journey, model);
      return model === sides.a.model ? data : load(entries.find(entry => entry.checkpoint === sides.a.checkpoint) ?? entries.at(-1));
    }));
    if (own === turn) draw(focus);
  }

  function draw(focus) {
    const key = focus ?? document.activeElement?.dataset?.key;
    document.querySelector(".stage").classList.toggle("comparing", app.comparing);
    showBar(document.querySelector(".bar"), app, { swap, attention: hasAttention(), positions: positionsOf() });
    for (const slot of all(".slot")) {
      const side = sides[slot.dataset.side];
      slot.hidden = !side;
      if (side) VIEWS[slot.dataset.part](slot, side, app, slot.dataset.side);
      else slot.replaceChildren();
    }
    showOwn(app);
    showLines(document.querySelector(".lines"), app);
    sql();
    address();
    if (key) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: !focus });
  }
  const both = () => [sides.a, ...(sides.b ? [sides.b] : [])];
  const hasAttention = () => both().some(side => side.data.places.attention.size > 0);
  const positionsOf = () => [...new Set(both().flatMap(side => side.data.positions))];

  function swap() {
    if (sides.b) { sides.b = null; return show("compare"); }
    const { data, ...own } = sides.a;
    sides.b = { ...own };
    const texts = [...data.texts.keys()];
    const other = entriesOf(own.journey).find(entry => entry.model !== own.model);
    // what a reader most likely wants beside it: the other text of a homonym, or else the other model
    if (texts.length > 1) {
      const next = texts[(texts.indexOf(own.token.text) + 1) % texts.length];
      const same = data.tokens(next).find(one => bareToken(one.token) === bareToken(own.token.token));
      sides.b.token = same ?? data.tokens(next).find(one => one.followed && !one.special) ?? data.tokens(next)[0];
      return show("compare");
    }
    if (!other) return show("compare");
    const before = { ...sides.b, data };
    Object.assign(sides.b, { model: other.model, checkpoint: undefined });
    return show("compare", { b: before });
  }

  function sql() {
    const sites = shared.site === "attention" ? ["attention"] : ["embedding", "block", "final"];
    const of = side => ({ model: side.model, checkpoint: side.checkpoint });
    const here = { positions: shared.positions, site: sites };
    narrowSql("neighbours", both().map(side => ({ ...of(side), journey: side.journey, text: side.token.text, position: side.token.position, ...here, measure: shared.measure })), document.getElementById("nearest"));
    narrowSql("journeys", both().map(side => ({ ...of(side), journey: side.journey, text: app.comparing ? side.token.text : undefined, ...here })), document.getElementById("strip"));
    const lines = followed(app).map(({ data, token }) => ({ ...of(data), journey: data.journey, text: token.text, position: token.position, ...here }));
    narrowSql("journeys", lines, document.getElementById("profile"));
    narrowSql("journey-paths", both().map(side => ({ ...of(side), item: side.journey, projection: shared.last === "with" ? "pca-joint" : "pca-joint-without-last" })), document.getElementById("path"));
  }

  function address() {
    const of = (side, prefix) => side && { [`${prefix}journey`]: side.journey, [`${prefix}model`]: side.model, [`${prefix}checkpoint`]: side.checkpoint, [`${prefix}text`]: side.token.text, [`${prefix}token`]: side.token.position, [`${prefix}layer`]: side.layer };
    writeAddress({ ...of(sides.a, ""), ...shared, ...of(sides.b, "b.") });
  }
  function fromAddress() {
    const given = readAddress();
    const of = prefix => ({
      journey: given[`${prefix}journey`], model: given[`${prefix}model`], checkpoint: given[`${prefix}checkpoint`], layer: given[`${prefix}layer`],
      token: given[`${prefix}token`] === undefined ? undefined : { text: Number(given[`${prefix}text`] ?? 0), position: Number(given[`${prefix}token`]) },
    });
    sides.a = of("");
    sides.b = given["b.journey"] ? of("b.") : null;
    for (const name of Object.keys(shared)) if (given[name] !== undefined) shared[name] = given[name];
    return show();
  }
  addEventListener("hashchange", () => { if (location.hash.includes("=")) fromAddress(); });
  for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => draw());
  onTheme(() => draw());
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(() => draw()); } });
  await fromAddress();
}
