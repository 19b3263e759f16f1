// @ts-check
// Vega-Lite charts: one way to draw them for all pages. The bundle stands beside this script as window.vegaEmbed; THEMES
// comes from the Python side (reporter.charts.styles).

import { all } from "./dom.js";
import { drawTheme } from "./page.js";

/** @type {WeakMap<Element, { view: any, finalize: () => void, spec: object, theme: string, height?: number, names?: object, press?: Options["press"] }>} */
const mounted = new WeakMap();

// The last call for each element.
/** @type {WeakMap<Element, { done: Promise<any> }>} */
const turns = new WeakMap();

/**
 * @typedef {object} Options
 * @property {string} label what the chart is called for those who do not see it
 * @property {string} file what it is called as a picture that is saved, without an ending
 * @property {Record<string, any>} [signals] values of the spec's params; what the spec has no param for is left out
 * @property {Record<string, string>} [dark] the colour of the dark theme for each of the light theme
 * @property {Record<string, string>} [names] what the reader calls models
 * @property {number} [height] in place of the spec's own
 * @property {"svg" | "canvas"} [renderer]
 * @property {(datum: any, mark: string) => void} [press] called when a mark is pressed, with its row and type
 */
/**
 * Draws a spec in an element, or gives the chart that is already there other rows and signals. It is drawn afresh when
 * spec, height or theme are others. The spec itself stays as it is; its dataset "rows" is filled here. Of calls that
 * come while a chart is being drawn only the last one counts.
 * @param {HTMLElement} element
 * @param {any} spec Vega-Lite
 * @param {object[]} rows
 * @param {Options} options
 * @returns {Promise<any>} the Vega view; null where a later call took over
 */
export function mountChart(element, spec, rows, options) {
  const before = turns.get(element)?.done;
  /** @type {{ done: Promise<any> }} */
  const turn = { done: Promise.resolve() };
  const drawn = Promise.resolve(before).then(() => (turns.get(element) === turn ? draw(element, spec, rows, options) : null));
  turn.done = drawn.then(() => {}, () => {});  // without the view: a chart that was taken down must not live on in it
  turns.set(element, turn);
  return drawn;
}

// Marks that stand on no field, such as a floor, and marks that are not there are pictures without a name to Vega, which
// says so again with every drawing: to who listens to the page they are groups.
const nameless = new MutationObserver(records => {
  const drawings = new Set(records.map(({ target }) => /** @type {Element} */ (target).closest(".vega-embed") ?? /** @type {Element} */ (target)));
  for (const drawing of drawings) for (const mark of all("[role=graphics-symbol]:not([aria-label])", drawing)) mark.setAttribute("role", "graphics-object");
});

/** @type {typeof mountChart} */
async function draw(element, spec, rows, { label, file, signals = {}, dark = {}, height, names: called, renderer = "svg", press }) {
  const theme = drawTheme();
  const named = called ? rows.map(row => renamed(row, called)) : rows;
  const names = (spec.params ?? []).map(param => param.name).filter(name => signals[name] !== undefined);
  const old = mounted.get(element);
  if (old && old.spec === spec && old.theme === theme && old.height === height && old.names === called) {
    old.press = press;
    for (const name of names) old.view.signal(name, signals[name]);
    // what stands beside a chart may have changed its width, of which Vega learns from windows alone
    if (spec.width === "container") old.view.width(old.view.container().clientWidth);
    await old.view.data("rows", named).runAsync();
    labelChart(element, label);
    return old.view;
  }
  const swap = theme === "dark" ? dark : {};
  const own = JSON.parse(JSON.stringify(spec), (key, value) => {
    if (typeof value === "string") return Object.hasOwn(swap, value) ? swap[value] : called && (key === "test" || key === "filter") ? quotedAs(value, called) : value;
    return called && key === "domain" && Array.isArray(value) ? value.map(name => called[name] ?? name) : value;
  });
  own.description = label;
  own.datasets = { ...own.datasets, rows: named };
  if (height) own.height = height;
  for (const param of own.params ?? []) if (names.includes(param.name)) param.value = signals[param.name];
  unmountChart(element);
  nameless.observe(element, { subtree: true, childList: true, attributes: true, attributeFilter: ["role"] });
  const { view, finalize } = await window.vegaEmbed(element, own, {
    mode: "vega-lite",
    renderer,
    config: THEMES[theme],
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    downloadFileName: file,
    tooltip: { theme },
    logLevel: 1,
  });
  const chart = { view, finalize, spec, theme, height, names: called, press };
  mounted.set(element, chart);
  element.querySelector("summary")?.setAttribute("aria-label", "Save this chart as a picture");
  // where the nearest mark counts, the pointer is on its cell, whose datum is the mark
  view.addEventListener("click", (_, item) => { if (item?.datum) chart.press?.(item.isVoronoi ? item.datum.datum : item.datum, item.mark?.marktype); });
  return view;
}

// Models by the names that the reader gave them: in a row, and in an expression that names models.
const WHO = ["model", "model_a", "model_b"];
/** @param {any} row @param {Record<string, string>} called */
const renamed = (row, called) => ({ ...row, ...Object.fromEntries(WHO.filter(name => row[name] in called).map(name => [name, called[row[name]]])) });
/** @param {string} text @param {Record<string, string>} called */
const quotedAs = (text, called) => Object.entries(called).reduce((now, [name, other]) => now.replaceAll(JSON.stringify(name), JSON.stringify(other)), text);

/**
 * @param {Element} element
 * @param {string} label
 */
export function labelChart(element, label) {
  element.querySelector("[role=graphics-document]")?.setAttribute("aria-label", label);
}

/**
 * The Vega view that an element shows; null where it shows none.
 * @param {Element} element
 */
export const viewOf = element => mounted.get(element)?.view ?? null;

/**
 * Ends a chart; what it drew stays until something else takes its place.
 * @param {Element} element
 */
export function unmountChart(element) {
  mounted.get(element)?.finalize();
  mounted.delete(element);
}
