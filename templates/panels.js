// Charts on a page: the data of each, its selectors, and its panels, small drawings that follow the controls.

import { labelChart, letRead, mountChart, unmountChart, viewOf } from "./charts.js";
import { all, find, make } from "./dom.js";
import { given, givenAll, givenUnder, isPrinting, keep, onBack, onTheme, page, part, twin } from "./page.js";
import { Points } from "./points.js";
import { clausesOf, columnsOf, hullOf, isFloor, roleMeans, roomFor } from "./rows.js";
import { table } from "./tables.js";
import { isolated } from "./tokens.js";

// What the controls of the page say, from the address: `hidden` models are not drawn, `names` is what the reader calls models,
// `means` draws the mean of each role in place of its models, `beside` is a second token set, drawn dashed or next to the
// first, `corpus` the only one that cards show, `cursor` a relative depth, below 0 where there is none.
const moments = page.moments ?? [];
export const momentOf = label => moments.findIndex(moment => moment.label === label);
const models = new Set([...Object.keys(page.roles ?? {}), ...(page.baselines ?? [])]);
const views = page.views ?? [];
// The token set that stands beside the first one where a reader wants both.
export const second = views.includes("without sinks") && views[0] !== "without sinks" ? "without sinks" : views[1] ?? "";
const meansOffered = !!Object.keys(page.means ?? {}).length;
const firstView = page.both ? "both" : views[0];
function choices() {
  const asked = given("view") ?? firstView;
  const both = asked === "both" && !!second;
  const view = views.includes(asked) ? asked : views[0];
  const moment = momentOf(given("moment"));
  const corpus = given("corpus");
  return {
    view,
    beside: both ? second : "",
    site: given("site") === "attention" ? "attention" : "path",
    moment: moment < 0 ? moments.length - 1 : moment,
    baselines: given("baselines") === "without" ? "without" : "with",
    highlight: new Set(givenAll("highlight").filter(name => models.has(name))),
    hidden: new Set([...givenAll("hide").filter(name => models.has(name)), ...filteredOut()]),
    names: givenNames(),
    // who looks at a property of models looks at models
    means: meansOffered && (given("means") ?? (page.many && !["colour", "facet", "only"].some(given) ? "yes" : "no")) === "yes",
    ...properties(),
    corpus: corpus === "all" ? "" : page.corpora?.includes(corpus) ? corpus : page.corpora?.[0] ?? "",
  };
}
// The properties by which the legend on the page colours, divides, sorts and filters models: see legend.js.
export const PROPERTIES = /** @type {Record<string, Record<string, string | number>>} */ (page.properties ?? {});
function properties() {
  const of = name => (Object.hasOwn(PROPERTIES, given(name) ?? "") ? String(given(name)) : "");
  return { colour: of("colour"), divide: of("facet"), sort: of("sort") };
}
// What the filter leaves out: models that have another value of a property, or none.
function filteredOut() {
  const [name, value] = (given("only") ?? "").split(/:(.*)/s);
  return Object.hasOwn(PROPERTIES, name) ? Object.keys(page.roles).filter(model => String(PROPERTIES[name][model]) !== value) : [];
}
// The values of a property, in order.
export const valuesOf = name => [...new Set(Object.values(PROPERTIES[name] ?? {}))].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
// The models in the order that the legend gives them.
export function sorted() {
  const values = valuesOf(chosen.sort), place = model => values.indexOf(PROPERTIES[chosen.sort]?.[model] ?? "");
  return Object.keys(page.roles ?? {}).sort((a, b) => place(a) - place(b));
}
// Colours for values: numbers along the ramp, a role as in the study, others as they come.
export const colourOf = (name, value) => {
  const values = valuesOf(name), at = values.indexOf(value), { ramp, categories, roles } = page.palette;
  if (name === "role") return roles[value] ?? roles.other;
  return typeof value === "number" ? ramp[values.length < 2 ? 0 : Math.round(at / (values.length - 1) * (ramp.length - 1))] : categories[at % categories.length];
};
// Colours and order of models by the names that the page shows, the same object until something else is chosen.
let looks = /** @type {{ key: string, colours: Record<string, string>, order: string[] } | null} */ (null);
function look() {
  if (!chosen.colour && !chosen.sort) return undefined;
  const key = JSON.stringify([chosen.colour, chosen.sort, chosen.names]);
  if (looks?.key !== key) looks = { key, order: chosen.sort ? sorted().map(nameOf) : [], colours: chosen.colour ? Object.fromEntries(Object.entries(PROPERTIES[chosen.colour]).map(([model, value]) => [nameOf(model), colourOf(chosen.colour, value)])) : {} };
  return looks;
}
// Names that a reader gave to models, in one line of at most 60 characters; no two models have the same.
function givenNames() {
  const names = /** @type {Record<string, string>} */ (Object.create(null));
  for (const [model, text] of givenUnder("name.")) {
    const name = text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").trim().slice(0, 60);
    if (models.has(model) && name && name !== model) names[model] = name;
  }
  for (const [model, name] of Object.entries(names)) if ([...models].some(other => other !== model && (names[other] ?? other) === name)) delete names[model];
  return names;
}
export const chosen = { ...choices(), cursor: -1 };
// Chooses something: the address has it, and all else follows the address. What is chosen at first has no place there.
export function choose(name, value, passing = false) {
  keep(name, value, passing);
  Object.assign(chosen, choices());
}
onBack(() => Object.assign(chosen, choices()));
const opening = { view: views[0], site: "path", moment: moments.length - 1 };
// What a model is called.
export const nameOf = model => chosen.names[model] ?? model;

// Which model stands in a row, and at which checkpoint; a row about two models has the last two pairs or one of them.
const WHO = [["model", "checkpoint"], ["model_a", "checkpoint_a"], ["model_b", "checkpoint_b"]];

// One chart: what data/<id>.js says of it, its rows, there or in a part for each model, and its own selectors (`picks`).
class Chart {
  // What data/<id>.js says: see Drawn.for_page in reporter.charts.chart.
  title = "";
  naming = "";  // its title with places for the choices of its selectors
  kind = "";
  specs = /** @type {Record<string, any>} */ ({});  // Vega-Lite, by variant; none until it is loaded
  captions = /** @type {Record<string, string>} */ ({});  // the sentence under each panel as the page opens
  axes = /** @type {Record<string, Record<"fixed" | "log", [number, number, string]>>} */ ({});  // reaches of the axis that all token sets share, by the choice of the selector `by`
  by = "";
  flat = 0;  // a part of as many times less reach is a flat line
  reaches = /** @type {any} */ (null);  // the axis of each part that a reader can choose
  reachColumns = /** @type {any} */ (null);
  keys = /** @type {string[]} */ ([]);
  facet = "";
  value = "";
  key = "";
  byLayer = false;
  options = /** @type {any} */ ({});
  data = /** @type {any} */ (null);
  means = /** @type {any} */ (null);  // of a profile, the means over the models of each role
  meanColumns = /** @type {any} */ (null);
  parts = /** @type {Record<string, string> | undefined} */ (undefined);

  constructor(id) {
    this.id = id;
    this.picks = /** @type {Record<string, string>} */ ({});
    this.firstPicks = /** @type {Record<string, string>} */ ({});
    this.frames = /** @type {Map<string, any>} */ (new Map());
    this.panels = /** @type {Set<Panel>} */ (new Set());
    this.loaded = /** @type {Promise<unknown> | null} */ (null);
  }

  load() {
    this.loaded ??= part(this.id).then(own => Object.assign(this, own), error => { this.loaded = null; throw error; });
    return this.loaded;
  }
  // The title for what its selectors have chosen.
  showTitle() {
    if (!this.naming) return;
    this.title = this.naming.replace(/\{(\w+)\}/g, (place, name) => textOf(this.id, name) ?? place);
    for (const place of all(`[data-title="${this.id}"]`)) place.textContent = this.title;
  }
  // The rows of a model's key, column by column, or null where it has none; without parts all rows.
  async columns(key) {
    const name = this.parts ? this.parts[key] : this.id;
    if (!name) return null;
    if (!this.frames.has(name)) this.frames.set(name, columnsOf(this.parts ? await part(name) : this.data));
    return this.frames.get(name);
  }
  // The means of roles that a panel shows, as rows of models that are called so.
  meansAt(value, said) {
    if (!this.means) return [];
    this.meanColumns ??= columnsOf(this.means);
    const { rows: count, ...columns } = this.meanColumns, step = moments[said.moment]?.step ?? null;
    const rows = Array.from({ length: count }, (_, i) => /** @type {any} */ (Object.fromEntries(Object.keys(columns).map(name => [name, columns[name][i]]))));
    return rows.filter(row => {
      const inPanel = !this.facet || value === row.corpus || value === `${row.corpus}, ${row.role}s`;
      const atSite = !this.keys.includes("site") || (row.site === "attention") === (said.site === "attention");
      return inPanel && atSite && row.step === step && (!said.view || row.view === said.view);
    }).map(row => ({ ...row, model: page.means[row.role], checkpoint: `${row.models} models`, n: null }));
  }
  // Captions are about the opening state: the first choice of every control and selector that chooses rows.
  caption(value, said = chosen) {
    const opens = this.keys.every(key => said[key] === opening[key]) && said.baselines === "with";
    const first = Object.entries(this.picks).every(([name, pick]) => /^(axis|variant|\$)/.test(name) || pick === this.firstPicks[name]);
    return opens && first ? this.captions[value] ?? "" : "";
  }
  // The reach of its value axis and a note on it: that of all token sets, unless models are hidden, a reader wants it fitted,
  // or what is shown would be a flat line on it.
  axis(said = chosen) {
    const axes = this.axes[this.picks[this.by] ?? ""];
    if (!axes) return [0, 1, ""];
    const axis = this.axisPick, log = axis === "log", whole = axes[log ? "log" : "fixed"];
    const fewer = said.hidden.size || said.baselines === "without", close = axis === "close" || !axis && !fewer;
    if (!close && !fewer) return whole;
    this.reachColumns ??= columnsOf(this.reaches);
    const own = hullOf(this.rows(this.reachColumns, {}, this.picks, close ? said : { ...said, view: "", moment: -1 }), whole, { log, close });
    return axis || fewer || (own[1] - own[0]) * this.flat < whole[1] - whole[0] ? own : whole;
  }
  // where a page has no selector of the axis, it is that of the first drawing
  get axisPick() { return this.picks.axis ?? (Object.keys(this.specs)[0] === "log" ? "log" : undefined); }
  // a logarithmic axis is another drawing, other reaches of a linear one are the same
  get spec() {
    const axis = this.axisPick, name = axis ? (axis === "log" ? "log" : "") : this.picks.variant;
    return this.specs[name] ?? Object.values(this.specs)[0];
  }
  // The rows of a panel: of its value of the facet, of its place where one place is shown, and as the controls say.
  /** @param {any} columns @param {{ value?: string, stop?: any, said?: any }} panel */
  rows({ rows: count, ...columns }, { value, stop, said: own }, picks = this.picks, said = own ?? chosen) {
    const names = Object.keys(columns);
    const asks = [];
    if (this.facet && value !== undefined) asks.push(i => String(columns[this.facet][i]) === value);
    if (this.byLayer && stop) asks.push(i => columns.site[i] === stop.site && columns.layer[i] === stop.layer);
    if (columns.view && said.view) asks.push(i => columns.view[i] === said.view);
    if (this.keys.includes("site")) asks.push(i => (columns.site[i] === "attention") === (said.site === "attention"));
    const shown = page.moments?.[said.moment]?.shown ?? {};
    for (const [model, checkpoint] of WHO.filter(([model]) => columns[model])) {
      if (this.keys.includes("moment") && columns[checkpoint] && said.moment >= 0) asks.push(i => Object.hasOwn(shown, columns[model][i]) && shown[columns[model][i]] === columns[checkpoint][i]);
      if (said.hidden.size) asks.push(i => !said.hidden.has(columns[model][i]));
      if (said.baselines === "without") asks.push(i => !page.baselines.includes(columns[model][i]));
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
    const entries = scale.domain.map((name, i) => [nameOf(name), scale.range[i], present.has(name)]).filter(entry => entry[2]);
    const grey = entries.filter(([, colour]) => colour === page.grey), several = grey.length > 1;  // those that stand out have a colour
    place.replaceChildren(...[...entries.filter(entry => !(several && grey.includes(entry))), ...(several ? [[`${grey.length} others`, page.grey]] : [])].map(([name, colour]) => (
      make("span", { class: "entry" }, make("i", { style: `background:${twin(colour)}` }), isolated(name)))));
  }
}

export function findScale(spec, field) {
  if (!spec || typeof spec !== "object") return null;
  if (spec.field === field && spec.scale?.domain && spec.scale?.range) return spec.scale;
  return Object.values(spec).reduce((scale, part) => scale ?? findScale(part, field), null);
}

const charts = /** @type {Map<string, Chart>} */ (new Map());
export function chartOf(id) {
  const own = charts.get(id) ?? new Chart(id);
  charts.set(id, own);
  return own;
}
const TALL = /\b(profile|training|differences)\b/;
// Rows of a panel, and of all panels of a chart, that are drawn as SVG elements; more of them are drawn on a canvas.
const MOST_ELEMENTS = [600, 4000];

// One small drawing of one chart. It follows the controls while it is near the window, and catches up when it returns.
export class Panel {
  /** @param {Panel | null} [of] */
  constructor(chart, place, of = null) {
    this.chart = chart;
    this.of = /** @type {Panel | null} */ (of);  // the panel beside which it stands, if it shows another part of the same
    this.twins = /** @type {Panel[]} */ ([]);
    this.shows = { view: "", group: /** @type {string | number | null} */ (null) };  // another token set; the models of one value of a property
    this.element = place;
    this.stale = true;
    this.near = false;
    this.busy = false;
    this.cloud = /** @type {Points | null} */ (null);
    this.rows = /** @type {Record<string, any>[]} */ ([]);
    this.plot = find(".plot", place);
    this.kind = this.plot.className;
    this.name = String(place.querySelector(".panel-name")?.textContent);
    this.sentence = find(".reading", place);
    this.wide = !!place.closest(".wide");
    this.models = /** @type {string[]} */ (JSON.parse(place.dataset.models ?? "[]"));
    chart.panels.add(this);
    panels.add(this);
    place.panel = this;
    watcher.observe(place);
    closer.observe(place);
  }

  get value() { return this.element.dataset.value; }
  get label() { return this.element.querySelector(".panel-name").textContent; }
  /** @returns {any} */
  get stop() { return null; }
  get said() {
    const { view, group } = this.shows;
    const others = group === null ? [] : Object.keys(page.roles).filter(model => PROPERTIES[chosen.divide][model] !== group);
    return { ...chosen, view: view || chosen.view, hidden: others.length ? new Set([...chosen.hidden, ...others]) : chosen.hidden };
  }
  // What its horizontal axis is, where a pointer reads all models at once.
  get along() { return this.chart.kind === "training" ? "step" : this.chart.spec?.params?.some(param => param.name === "cursor") ? "depth" : ""; }
  // Profiles draw a second token set dashed, in the same panel.
  get overlays() { return this.chart.kind === "profile" && this.chart.keys.includes("view") && !!chosen.beside; }

  head() {
    const names = this.models.map(nameOf);
    const own = names.length === 2 && names[0] !== names[1] ? `${names[0]} ↑ ${names[1]} →` : names[0] ?? this.name;
    const { view, group } = this.shows;
    const which = view || (this.twins.some(twin => twin.shows.view) ? chosen.view : "");
    this.element.querySelector(".panel-name").textContent = [own, group === null ? "" : `${chosen.divide} ${group}`, which].filter(Boolean).join(" · ");
  }
  // The same once more for each further part: under the second token set where a chart cannot draw both in one panel, and for
  // each value of the property by which a reader divides the models.
  parts() {
    const { kind, keys } = this.chart;
    const views = chosen.beside && !this.overlays && keys.includes("view") ? ["", chosen.beside] : [""];
    const shown = group => Object.keys(page.roles).some(model => PROPERTIES[chosen.divide][model] === group && !chosen.hidden.has(model));
    const groups = chosen.divide && ["profile", "training", "differences", "dots"].includes(kind) ? valuesOf(chosen.divide).filter(shown) : [];
    return (groups.length ? groups : [null]).flatMap(group => views.map(view => ({ view, group })));
  }
  pair() {
    if (this.of) return;
    const [own, ...others] = this.parts();
    this.shows = own;
    while (this.twins.length > others.length) this.twins.pop()?.drop();
    others.forEach((shows, i) => {
      if (!this.twins[i]) {
        const { chart, value: facet, models: about, corpus } = this.element.dataset;
        const place = make("div", { class: "panel twin", "data-chart": chart, "data-value": facet, "data-models": about, "data-corpus": corpus },
          make("p", { class: "panel-name", text: this.name }), make("div", { class: this.kind, style: this.plot.getAttribute("style") }), make("p", { class: "reading" }));
        (this.twins[i - 1] ?? this).element.after(place);
        this.twins[i] = new Panel(this.chart, place, this);
        this.twins[i].element.hidden = this.element.hidden;
      }
      this.twins[i].shows = shows;
      this.twins[i].refresh();
    });
  }

  async refresh() {
    this.stale = true;
    // a figure that fills the window lies over all others
    const covered = document.documentElement.classList.contains("with-open") && !this.element.closest(".figure.open");
    if (!(this.near && !covered || isPrinting()) || this.busy || this.element.hidden) return;
    this.busy = true;
    try {
      while (this.stale) {
        this.stale = false;
        await this.show();
      }
    } catch (error) {
      unmountChart(this.plot);
      this.cloud = null;
      this.plot.classList.remove("void");
      const name = `data/${this.chart.id}.csv`;
      const numbers = window.reporterPacked ? `Its numbers: ${name} in the results folder` : make("a", { href: name, download: "", text: "Its numbers as CSV" });
      this.plot.replaceChildren(make("p", { class: "broken", role: "note" }, make("strong", { text: "This chart could not be drawn." }), ` ${String(error).replace(/\.?$/, ".")} `, numbers, "."));
    } finally {
      this.busy = false;
    }
  }

  async show() {
    const { chart } = this;
    await chart.load();
    chart.showTitle();
    this.pair();
    const { said } = this;
    this.head();
    const columns = await chart.columns(this.value);
    let rows = columns ? chart.rows(columns, this) : [];
    if (rows.length === 0 && columns && chart.options.instead) {  // a model of one kind of vectors has no picture of several
      const { column, values } = chart.options.instead;
      rows = chart.rows(columns, this, { ...chart.picks, [column]: values[chart.picks[column]] });
    }
    const averaged = chosen.means && chart.kind === "profile";
    const means = (drawn, shown) => (averaged ? roleMeans(drawn, chart.meansAt(this.value, shown), page.roles) : drawn);
    rows = means(rows, said);
    if (this.overlays && columns) {
      const beside = { ...said, view: chosen.beside };
      const others = means(chart.rows(columns, this, chart.picks, beside), beside);
      rows = [...rows, ...others.filter(row => !isFloor(row)).map(row => ({ ...row, beside: true }))];
    }
    this.rows = rows;
    const [low, high, note] = chart.axis({ ...said, hidden: chosen.hidden });  // parts share their axis
    const reading = this.shows.group === null ? chart.caption(this.value, said) : "";
    const empty = columns?.[chart.value] ? !rows.some(row => row[chart.value] !== null) : rows.length === 0;
    this.plot.classList.toggle("void", empty);
    this.plot.dataset.void = columns === null ? "this model has no such numbers" : said.site === "attention" && chart.keys.includes("site") ? "not measured after attention" : "no numbers for this choice";
    const clauses = reading ? clausesOf(reading, chosen.hidden, chosen.names) : [];
    // a range of a role holds the numbers of its hidden models, and a mean is of all of them
    const whole = chart.kind === "profile" && (averaged || clauses.some(clause => chosen.hidden.size && /^\d+ \w+: /.test(clause)));
    this.sentence.replaceChildren(...clauses.map((clause, i) => make("span", { text: whole && i === 0 ? `all models: ${clause}` : clause })));
    const label = `${[chart.title, this.label, said.view].filter(Boolean).join(", ")}. ${reading}`;
    if (empty) return labelChart(this.plot, `${label} No numbers.`);  // a chart of nothing has no axes: what was drawn before waits under the note
    if (chart.kind === "points") (this.cloud ??= new Points(this.plot, chart)).set(rows);
    else if (chart.kind === "table") this.plot.replaceChildren(table(rows, { options: chart.options, title: `${chart.title}, ${this.label}` }));
    else {
      const own = Object.fromEntries(Object.entries(chart.picks).filter(([name]) => name.startsWith("$")).map(([name, value]) => [name.slice(1), value]));
      await mountChart(this.plot, chart.spec, rows, {
        label,
        signals: {
          low, high, note: [note, averaged && !this.overlays && "bands: 95 % intervals over models", this.overlays && `dashed: ${chosen.beside}`].filter(Boolean).join(" · "),
          highlight: highlighted(averaged), cursor: chosen.cursor, at: this.stop?.layer ?? -1,
          room: roomFor([...new Set(rows.map(row => row.model).filter(model => model && !page.baselines?.includes(model)).map(nameOf))]), ...own,
        },
        dark: page.dark,
        tips: !this.along,
        names: Object.keys(chosen.names).length ? chosen.names : undefined,
        look: look(),
        quantity: textOf(chart.id, "statistic") ?? chart.title,
        height: this.height,
        renderer: rows.length > MOST_ELEMENTS[0] || rows.length * chart.panels.size > MOST_ELEMENTS[1] ? "canvas" : "svg",
        press: (datum, mark) => { if (datum.model && mark !== "area") this.element.dispatchEvent(new CustomEvent("press-model", { bubbles: true, detail: datum.model })); },
      });
    }
    if (viewOf(this.plot) && this.along !== "depth") {
      letRead(this.plot);
      this.plot.setAttribute("aria-label", `${chart.title}, ${this.label}: arrow keys read its marks`);
    }
    chart.showKey();
    this.element.dispatchEvent(new CustomEvent("panel-shown", { bubbles: true }));
  }
  // Taller where there is room: in a figure that fills the window, or has its width; on paper not so tall.
  get height() {
    if (isPrinting() && this.kind.includes("profile")) return 104;  // three stand on a sheet
    const figure = this.element.closest(".figure.open");
    if (!figure || /\b(dots|correlations)\b/.test(this.kind)) return (this.wide || innerWidth >= 2000) && TALL.test(this.kind) ? 230 : undefined;
    const shown = all(".panel", figure).filter(panel => !panel.hidden).length;
    return Math.max(230, Math.round((innerHeight - 260) / (shown > 2 ? 2 : 1)) - 60);
  }
  // Takes a drawing down that is far from the window, to save memory; its place stays as high. Points stay as turned.
  close() {
    if (isPrinting() || this.busy || this.cloud || !this.plot.firstElementChild) return;
    if (this.plot.offsetHeight) this.plot.style.minHeight = `${this.plot.offsetHeight}px`;
    unmountChart(this.plot);
    this.plot.replaceChildren();
    this.rows = [];
    this.stale = true;
    if (![...this.chart.panels].some(panel => panel.near)) this.chart.frames.clear();
  }

  drop() {
    watcher.unobserve(this.element);
    closer.unobserve(this.element);
    this.chart.panels.delete(this);
    panels.delete(this);
    unmountChart(this.plot);
    this.element.remove();
  }
}
// The models to bring out; where means are drawn, those of their roles.
function highlighted(averaged) {
  if (!averaged) return [...chosen.highlight].map(nameOf);
  return [...chosen.highlight].flatMap(model => [nameOf(model), page.means[page.roles[model]]].filter(Boolean));
}

export const panels = /** @type {Set<Panel>} */ (new Set());
const watcher = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    const { panel } = /** @type {any} */ (target);
    panel.near = isIntersecting;
    if (panel.near && panel.stale) panel.refresh();
  }
}, { rootMargin: "500px 0px" });
const closer = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) if (!isIntersecting) /** @type {any} */ (target).panel.close();
}, { rootMargin: "1500px 0px" });

// Draws again what is near the window: all panels, or those that are wanted.
export const refreshAll = (wanted = () => true) => Promise.all([...panels].filter(wanted).map(panel => panel.refresh()));

// Hides the panels that a selector or the control of null baselines leaves out.
export function hidePanels() {
  document.documentElement.classList.toggle("all-corpora", !chosen.corpus && page.corpora?.length > 1);
  document.documentElement.classList.toggle("divided", !!chosen.divide);
  const shows = new Map(all("select[data-shows]").map(select => [select.dataset.chart, JSON.parse(select.dataset.shows ?? "{}")[select.value]]));
  for (const panel of panels) {
    const wanted = shows.get(panel.chart.id)?.includes(panel.value) ?? true;
    const other = !!chosen.corpus && page.corpora?.includes(panel.element.dataset.corpus ?? "") && panel.element.dataset.corpus !== chosen.corpus && !panel.element.closest(".figure.open");
    panel.element.hidden = !wanted || other || (chosen.baselines === "without" && panel.models.some(model => page.baselines.includes(model))) || panel.models.some(model => chosen.hidden.has(model));
    if (!panel.element.hidden && panel.near && panel.stale) panel.refresh();
  }
}
const textOf = (id, name) => /** @type {HTMLSelectElement | null} */ (document.querySelector(`select[data-chart="${id}"][data-pick="${name}"]`))?.selectedOptions[0]?.textContent;
// A selector chooses rows by a column, a drawing (variant), a value for it ($…), or (with data-shows) the panels.
const selectors = all("select[data-chart]");
function takeChoice(select) {
  const chart = chartOf(select.dataset.chart), name = String(select.dataset.pick);
  const asked = given(`${select.dataset.chart}:${name}`);
  select.value = asked !== null && [...select.options].some(option => option.value === asked) ? asked : chart.firstPicks[name];
  chart.picks[name] = select.value;
}
onBack(() => { for (const select of selectors) takeChoice(select); });
for (const select of selectors) {
  const chart = chartOf(select.dataset.chart);
  const name = String(select.dataset.pick);
  const address = `${select.dataset.chart}:${name}`;
  const first = select.value;
  chart.firstPicks[name] = first;
  takeChoice(select);
  select.addEventListener("change", () => {
    chart.picks[name] = select.value;
    keep(address, select.value === first ? null : select.value);
    if (select.dataset.shows) hidePanels();
    for (const panel of chart.panels) panel.refresh();
  });
}

for (const place of all(".panel[data-chart]")) new Panel(chartOf(place.dataset.chart), place);
hidePanels();
onTheme(() => refreshAll());

// A page of many models would fetch tens of megabytes that nobody asked for: what is left waits until it is scrolled to.
const MOST_FETCHED = 200000;  // rows
// Fetches what the panels show, one after the other while the browser is idle: it waits for no data before it prints.
export async function fetchAll() {
  document.documentElement.classList.remove("all-data");
  const rows = new Map();
  for (const panel of [...panels]) {
    if ([...rows.values()].reduce((sum, own) => sum + own, 0) > MOST_FETCHED) break;
    await idle();
    const name = () => panel.chart.parts?.[panel.value] ?? panel.chart.id;
    const own = await panel.chart.load().then(() => part(name())).catch(() => null);
    rows.set(name(), own?.data?.rows ?? own?.rows ?? 0);
  }
  document.documentElement.classList.add("all-data");
}
const idle = () => new Promise(done => ("requestIdleCallback" in window ? requestIdleCallback(done, { timeout: 2000 }) : setTimeout(done, 50)));
if (document.readyState === "complete") fetchAll();
else addEventListener("load", fetchAll);

// What the controls say, as far as a chart follows them.
export function controlsSaid(chart) {
  const follows = name => chart.keys.includes(name);
  const moment = moments[chosen.moment]?.label;
  const picks = all("select[data-chart]").filter(select => select.dataset.chart === chart.id && select.options.length > 1 && !(select.dataset.pick === "axis" && select.selectedIndex === 0));
  return [
    follows("view") && chosen.view ? `tokens: ${[chosen.view, chosen.beside].filter(Boolean).join(" (solid), ")}${chosen.beside ? " (dashed)" : ""}` : "",
    follows("moment") && moments.length > 1 ? `checkpoint: ${moment}` : "",
    follows("site") && chosen.site === "attention" ? "after attention" : "",
    chosen.baselines === "without" ? "without null baselines" : "",
    chosen.means && chart.kind === "profile" ? "mean of each role" : "",
    ...picks.map(select => `${String(select.closest("label")?.firstChild?.textContent).trim().toLowerCase()}: ${select.selectedOptions[0]?.textContent}`),
  ].filter(Boolean);
}

// The pages of charts on which a reader chooses one model or two, and a layer.
// Which model stands in each slot, and which stop of the slider is chosen.
const slots = /** @type {(number | null)[]} */ ([0, null]);
let at = 0;
const stops = who => page.who[who]?.[chosen.site === "attention" ? "attention" : "path"] ?? [];
// Two models need not have as many layers: the second one stands at the same relative depth.
function stopOf(slot) {
  const own = stops(slots[slot]);
  const lead = stops(slots[0]);
  if (slot === 0 || own.length === lead.length) return own[Math.min(at, own.length - 1)];
  return own[Math.round((at / Math.max(1, lead.length - 1)) * (own.length - 1))];
}
// A panel that shows the model of a slot; or all models, where one drawing has them together.
class Slot extends Panel {
  constructor(place, slot) {
    const chart = chartOf(place.dataset.slots);
    const own = make("div", { class: "panel" }, make("p", { class: "panel-name" }), make("div", { class: `plot ${place.dataset.kind}` }), make("p", { class: "reading" }));
    place.append(own);
    super(chart, own);
    this.slot = slot;
    this.together = place.dataset.together === "true";
    // a chart that is drawn learns of a new width from windows alone; these change theirs with what stands beside them
    this.sizes = new ResizeObserver(([{ contentRect }]) => {
      const width = Math.round(contentRect.width);
      if (this.width && width && width !== this.width && chart.kind !== "points" && chart.kind !== "table") {
        unmountChart(this.plot);
        this.refresh();
      }
      this.width = width || this.width;
    });
    this.sizes.observe(this.plot);
  }

  get who() { return page.who[slots[this.slot] ?? 0]; }
  get value() { return this.together ? "" : this.who.key; }
  get label() { return this.together ? "all models" : this.who.label; }
  get stop() { return stopOf(this.slot); }

  head() {
    if (this.together) return;
    const mark = make("i", { class: "model-mark", style: `--light:${this.who.light};--dark:${this.who.dark}` });
    const place = this.chart.byLayer && this.stop ? ` · ${this.stop.label}` : "";
    this.element.firstChild.replaceChildren(mark, make("span", { text: this.who.label + place }));
  }

  drop() {
    this.sizes.disconnect();
    super.drop();
  }
}

const slotPanels = /** @type {Map<Element, Slot[]>} */ (new Map(all("[data-slots]").map(place => [place, []])));
// One panel for each model that is chosen; a single one for all.
function arrange() {
  for (const [place, own] of slotPanels) {
    const wanted = slots[1] === null ? 1 : 2;
    while (own.length > wanted) own.pop()?.drop();
    while (own.length < 1 || (own.length < wanted && !own[0].together)) own.push(new Slot(place, own.length));
    place.classList.toggle("two", own.length === 2);
  }
  document.documentElement.classList.toggle("comparing", slots[1] !== null);
  for (const option of /** @type {HTMLOptionElement[]} */ (all("#slot-1 option"))) option.hidden = option.disabled = option.value === String(slots[0]);
  const models = slots.flatMap(slot => (slot === null ? [] : [page.who[slot].key.replace(/\|[^|]*$/, "")]));
  for (const sentence of all(".said[data-of]")) sentence.hidden = !models.includes(sentence.dataset.of);
}

/** @returns {any} */
const theSlider = () => document.getElementById("stop");
function setSlider() {
  const slider = theSlider();
  if (!slider) return;
  const own = stops(slots[0]);
  at = Math.max(0, Math.min(at, own.length - 1));
  Object.assign(slider, { max: Math.max(0, own.length - 1), value: at });
  const said = [0, 1].filter(slot => slots[slot] !== null).map(slot => stopOf(slot)?.label ?? "–");
  const text = said.length === 2 && said[0] !== said[1] ? `${said[0]} | ${said[1]}` : said[0];
  find("#stop-label").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}
// Only what shows one place, or marks it, is drawn again.
const marksStop = ({ chart }) => chart.byLayer || chart.spec?.params?.some(param => param.name === "at");
function chooseStop(stop) {
  at = stop;
  setSlider();
  keepStop();
  return refreshAll(panel => !panel.chart.specs || marksStop(panel));
}

const middle = () => Math.floor((stops(slots[0]).length - 1) / 2);
const keepStop = () => keep("layer", stops(slots[0]).length && at !== middle() ? at : null);

export function showSlots() {
  for (const [slot, name] of [[0, "model"], [1, "beside"]]) {
    const who = page.who.findIndex(({ key }) => key === given(String(name)));
    if (who >= 0) slots[slot] = who;
  }
  if (slots[0] === slots[1]) slots[1] = null;
  const layer = given("layer");
  at = layer !== null && /^\d+$/.test(layer) ? Math.min(Number(layer), stops(slots[0]).length - 1) : middle();
  for (const slot of [0, 1]) {
    const select = /** @type {any} */ (document.getElementById(`slot-${slot}`));
    if (select && slots[slot] !== null) select.value = String(slots[slot]);
    select?.addEventListener("change", () => {
      const depth = at / Math.max(1, stops(slots[0]).length - 1);
      slots[slot] = select.value === "" ? null : Number(select.value);
      if (slots[0] === slots[1]) {  // no model stands beside itself
        slots[1] = null;
        /** @type {any} */ (find("#slot-1")).value = "";
        keep("beside", null);
      }
      if (slot === 0) at = Math.round(depth * Math.max(0, stops(slots[0]).length - 1));
      keep(slot ? "beside" : "model", select.value === (slot ? "" : "0") ? null : page.who[Number(select.value)].key);
      keepStop();
      setSlider();
      arrange();
      refreshAll();
      fetchAll();
    });
  }
  for (const radio of all("input[name=stop-site]")) {
    radio.checked = radio.value === chosen.site;
    radio.addEventListener("change", () => { choose("site", radio.value === "path" ? null : radio.value); setSlider(); refreshAll(); });
  }
  const slider = theSlider();
  slider?.addEventListener("input", () => chooseStop(Number(slider.value)));
  addEventListener("keydown", event => {
    const step = { ",": -1, ".": 1 }[event.key];
    if (!slider || !step || event.ctrlKey || event.metaKey || event.altKey || /** @type {any} */ (event.target).closest?.("input:not([type=range]), select, textarea")) return;
    chooseStop(Math.max(0, Math.min(Number(slider.max), at + step)));
  });
  setSlider();
  arrange();
}
