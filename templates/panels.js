// @ts-check
// Charts on a page: the data of each, its selectors, and its panels, small drawings that follow the controls. They hold no
// rules about numbers: they pick the rows that the controls ask for, and look up axis and sentence.

import { labelChart, mountChart, unmountChart } from "./charts.js";
import { columnsOf } from "./columns.js";
import { all, element, find, make } from "./dom.js";
import { isPrinting, onTheme, page, part, twin } from "./page.js";
import { Points } from "./points.js";
import { table } from "./table.js";
import { isolated } from "./tokens.js";

// What the controls of the page say.
export const chosen = {
  view: page.views?.[0], site: "path", moment: (page.moments?.length ?? 0) - 1, baselines: "with", highlight: new Set(),
};

// ---------------------------------------------------------------- charts

// Which model stands in a row, and at which checkpoint; a row about two models has the last two pairs or one of them.
const WHO = [["model", "checkpoint"], ["model_a", "checkpoint_a"], ["model_b", "checkpoint_b"]];

// One chart: what data/<id>.js says of it, and its rows, there or in a part for each model. `picks` is what its own
// selectors say.
class Chart {
  // What data/<id>.js says: see Drawn.for_page in reporter.charts.chart.
  title = "";
  kind = "";
  /** @type {Record<string, any>} Vega-Lite, by variant; none until it is loaded */
  specs = {};
  /** @type {Record<string, [Record<string, string>, number?, number?, string?]>} sentences by panel and the axis, by state */
  states = {};
  /** @type {string[]} */
  keys = [];
  facet = "";
  value = "";
  positive = false;
  tall = false;
  key = "";
  byLayer = false;
  /** @type {any} */
  options = {};
  /** @type {any} */
  data = null;
  /** @type {Record<string, string> | undefined} */
  parts = undefined;

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {Record<string, string>} */
    this.picks = {};
    /** @type {Map<string, any>} */
    this.frames = new Map();
    /** @type {Set<Panel>} */
    this.panels = new Set();
    /** @type {Promise<unknown> | null} */
    this.loaded = null;
  }

  load() {
    this.loaded ??= part(this.id).then(own => Object.assign(this, own), error => { this.loaded = null; throw error; });
    return this.loaded;
  }

  /**
   * The rows of a model's key, column by column, or null where it has none; without parts all rows.
   * @param {string} key
   * @returns {Promise<any>}
   */
  async columns(key) {
    const name = this.parts ? this.parts[key] : this.id;
    if (!name) return null;
    if (!this.frames.has(name)) this.frames.set(name, columnsOf(this.parts ? await part(name) : this.data));
    return this.frames.get(name);
  }

  /** @returns {[Record<string, string>, number?, number?, string?]} */
  get state() {
    return this.states[this.keys.map(key => this.picks[key] ?? chosen[key]).join("|")] ?? [{}, 0, 1, ""];
  }

  get spec() { return this.specs[this.picks.variant] ?? Object.values(this.specs)[0]; }

  // The rows of a panel: of its value of the facet, of its place where one place is shown, and as the controls say.
  rows({ rows: count, ...columns }, { value, stop }, picks = this.picks) {
    const names = Object.keys(columns);
    const asks = [];
    if (this.facet) asks.push(i => String(columns[this.facet][i]) === value);
    if (this.byLayer && stop) asks.push(i => columns.site[i] === stop.site && columns.layer[i] === stop.layer);
    if (columns.view && chosen.view) asks.push(i => columns.view[i] === chosen.view);
    if (this.keys.includes("site")) asks.push(i => (columns.site[i] === "attention") === (chosen.site === "attention"));
    const shown = page.moments?.[chosen.moment]?.shown ?? {};
    for (const [model, checkpoint] of WHO.filter(([model]) => columns[model])) {
      if (this.keys.includes("moment") && columns[checkpoint]) asks.push(i => Object.hasOwn(shown, columns[model][i]) && shown[columns[model][i]] === columns[checkpoint][i]);
      if (chosen.baselines === "without") asks.push(i => !page.baselines.includes(columns[model][i]));
    }
    for (const [name, wanted] of Object.entries(picks)) {
      const own = name.split("|");
      if (own.every(column => columns[column])) asks.push(i => own.map(column => columns[column][i] ?? "mean").join("|") === wanted);
    }
    const rows = [];
    for (let i = 0; i < count; i++) {
      if (asks.every(ask => ask(i))) rows.push(Object.fromEntries(names.map(name => [name, columns[name][i]])));
    }
    return rows;
  }

  // the colours of what is drawn
  showKey() {
    const place = this.key && document.querySelector(`.key[data-chart="${this.id}"]`);
    const scale = place && findScale(this.spec, this.key);
    if (!scale) return;
    const present = new Set([...this.panels].flatMap(panel => (panel.rows ?? []).map(row => row[this.key])));
    place.replaceChildren(...scale.domain.map((name, i) => [name, scale.range[i]]).filter(([name]) => present.has(name)).map(([name, colour]) => {
      const mark = element("i");
      mark.style.background = twin(colour);
      return make("span", { class: "entry" }, mark, isolated(name));
    }));
  }
}

function findScale(spec, field) {
  if (!spec || typeof spec !== "object") return null;
  if (spec.field === field && spec.scale?.domain && spec.scale?.range) return spec.scale;
  for (const value of Object.values(spec)) {
    const found = findScale(value, field);
    if (found) return found;
  }
  return null;
}

/** @type {Map<string, Chart>} */
const charts = new Map();
/** @param {any} id @returns {Chart} */
export function chartOf(id) {
  const own = charts.get(id) ?? new Chart(id);
  charts.set(id, own);
  return own;
}

// ---------------------------------------------------------------- panels

// One panel is one small drawing of one chart. It draws when it comes near the window, and follows the controls while it
// is there; a panel that is out of sight catches up when it returns.
export class Panel {
  /** @param {Chart} chart @param {any} place its element */
  constructor(chart, place) {
    this.chart = chart;
    this.element = place;
    this.stale = true;
    this.near = false;
    this.busy = false;
    /** @type {Points | null} */
    this.cloud = null;
    /** @type {Record<string, any>[]} */
    this.rows = [];
    this.plot = find(".plot", place);
    this.sentence = find(".reading", place);
    this.wide = !!place.closest(".wide");
    /** @type {string[]} */
    this.models = JSON.parse(place.dataset.models ?? "[]");
    chart.panels.add(this);
    panels.add(this);
    place.panel = this;
    watcher.observe(place);
  }

  /** @returns {string} */
  get value() { return this.element.dataset.value; }
  /** @returns {string} */
  get label() { return this.element.querySelector(".panel-name").textContent; }
  get file() { return `${this.chart.id}-${this.value}`; }
  /** @returns {any} the place of the slider; null where there is none */
  get stop() { return null; }
  head() {}

  async refresh() {
    this.stale = true;
    if (!(this.near || isPrinting()) || this.busy || this.element.hidden) return;
    this.busy = true;
    try {
      while (this.stale) {
        this.stale = false;
        await this.show();
      }
    } catch (error) {
      unmountChart(this.plot);
      this.cloud = null;
      this.plot.replaceChildren(element("p", "broken", `This chart could not be drawn. ${error}`));
    } finally {
      this.busy = false;
    }
  }

  async show() {
    const { chart } = this;
    await chart.load();
    this.head();
    const columns = await chart.columns(this.value);
    let rows = columns ? chart.rows(columns, this) : [];
    if (rows.length === 0 && columns && chart.options.instead) {  // a model of one kind of vectors has no picture of several
      const { column, values } = chart.options.instead;
      rows = chart.rows(columns, this, { ...chart.picks, [column]: values[chart.picks[column]] });
    }
    this.rows = rows;
    const [readings, low, high, note] = chart.state;
    const reading = readings[this.value] ?? "";
    const valued = columns?.[chart.value];
    const empty = valued ? !rows.some(row => row[chart.value] !== null && !(chart.positive && row[chart.value] <= 0)) : rows.length === 0;
    this.plot.classList.toggle("void", empty);
    this.plot.dataset.void = columns === null ? "this model has no such numbers" : chosen.site === "attention" && chart.keys.includes("site") ? "not measured after attention" : "no numbers for this choice";
    this.sentence.replaceChildren(...reading.split(" · ").map(part => element("span", "", part)));
    const label = `${[chart.title, this.label, chosen.view].filter(Boolean).join(", ")}. ${reading}`;
    if (empty) return labelChart(this.plot, `${label} No numbers.`);  // a chart of nothing has no axes: what was drawn before waits under the note
    if (chart.kind === "points") (this.cloud ??= new Points(this.plot, chart)).set(rows);
    else if (chart.kind === "table") this.plot.replaceChildren(table(rows, chart));
    else {
      const own = Object.fromEntries(Object.entries(chart.picks).filter(([name]) => name.startsWith("$")).map(([name, value]) => [name.slice(1), value]));
      await mountChart(this.plot, chart.spec, rows, {
        label,
        file: this.file,
        signals: { low, high, note, highlight: [...chosen.highlight], at: this.stop?.layer ?? 0, ...own },
        dark: page.dark,
        height: this.wide && chart.tall ? 230 : undefined,
        renderer: this.stop !== null && rows.length > 1500 ? "canvas" : "svg",
        press: (datum, mark) => { if (datum.model && mark !== "area") this.element.dispatchEvent(new CustomEvent("press-model", { bubbles: true, detail: datum.model })); },
      });
    }
    chart.showKey();
  }

  drop() {
    watcher.unobserve(this.element);
    this.chart.panels.delete(this);
    panels.delete(this);
    unmountChart(this.plot);
    this.element.remove();
  }
}

/** @type {Set<Panel>} */
const panels = new Set();
const watcher = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    const { panel } = /** @type {any} */ (target);
    panel.near = isIntersecting;
    if (panel.near && panel.stale) panel.refresh();
  }
}, { rootMargin: "500px 0px" });

// Draws again what is near the window: all panels, or those that are wanted.
/** @param {(panel: Panel) => unknown} wanted */
export const refreshAll = (wanted = () => true) => Promise.all([...panels].filter(wanted).map(panel => panel.refresh()));

// Hides the panels that a selector or the control of null baselines leaves out.
export function hidePanels() {
  const shows = new Map(all("select[data-shows]").map(select => [select.dataset.chart, JSON.parse(select.dataset.shows ?? "{}")[select.value]]));
  for (const panel of panels) {
    const wanted = shows.get(panel.chart.id)?.includes(panel.value) ?? true;
    panel.element.hidden = !wanted || (chosen.baselines === "without" && panel.models.some(model => page.baselines.includes(model)));
    if (!panel.element.hidden && panel.near && panel.stale) panel.refresh();
  }
}

// A selector chooses rows by a column, a drawing (variant), a value for it ($…), or (with data-shows) the panels.
for (const select of all("select[data-chart]")) {
  const chart = chartOf(select.dataset.chart);
  const take = () => { chart.picks[String(select.dataset.pick)] = select.value; };
  take();
  select.addEventListener("change", () => {
    take();
    if (select.dataset.shows) hidePanels();
    for (const panel of chart.panels) panel.refresh();
  });
}

for (const place of all(".panel[data-chart]")) new Panel(chartOf(place.dataset.chart), place);
hidePanels();
onTheme(() => refreshAll());

// Paper shows every chart; what waits under a lid is opened for it.
const opened = [];
addEventListener("beforeprint", () => {
  for (const lid of all("details.more:not([open])")) { lid.open = true; opened.push(lid); }
  refreshAll();
});
addEventListener("afterprint", () => {
  for (const lid of opened.splice(0)) lid.open = false;
  refreshAll();
});
