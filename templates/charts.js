// Vega-Lite charts: one way to draw them for all pages. THEMES comes from reporter.charts.styles.

import { all, find, make } from "./dom.js";
import { estimate, short } from "./numbers.js";
import { drawTheme } from "./page.js";

/** @type {WeakMap<Element, { view: any, finalize: () => void, own: any, spec: object, theme: string, height?: number, names?: object, look?: object, quantity?: string, press?: ChartOptions["press"] }>} */
const mounted = new WeakMap();

// The last call for each element.
const turns = /** @type {WeakMap<Element, { done: Promise<any> }>} */ (new WeakMap());

// Draws a spec with its dataset "rows" in an element. A chart of the same spec, height and theme that is already there takes
// on the new rows and signals. Of calls that come while a chart is being drawn only the last one counts.
export function mountChart(element, spec, rows, options) {
  const before = turns.get(element)?.done;
  const turn = /** @type {{ done: Promise<any> }} */ ({ done: Promise.resolve() });
  const drawn = Promise.resolve(before).then(() => (turns.get(element) === turn ? draw(element, spec, rows, options) : null));
  turn.done = drawn.then(() => {}, () => {});  // without the view: a chart that was taken down must not live on in it
  turns.set(element, turn);
  return drawn;
}
// Vega gives marks without a field, such as a floor, the role of a picture without a name: a screen reader needs a group.
const nameless = new MutationObserver(records => {
  const drawings = new Set(records.map(({ target }) => /** @type {Element} */ (target).closest(".vega-embed") ?? /** @type {Element} */ (target)));
  for (const drawing of drawings) for (const mark of all("[role=graphics-symbol]:not([aria-label])", drawing)) mark.setAttribute("role", "graphics-object");
});

// Vega writes an error of its data or scales to the console and draws nothing: here it is an error of the chart.
// The class of views is no export of Vega-Embed: a chart of nothing has it.
let prepared = /** @type {Promise<void> | null} */ (null);
const prepare = () => (prepared ??= window.vegaEmbed(make("div"), { data: { values: [] }, mark: "point" }, { mode: "vega-lite", actions: false, ast: true, logLevel: 1 }).then(({ view, finalize }) => {
  Object.getPrototypeOf(view).error = problem => { throw problem; };
  finalize();
}));

/** @type {typeof mountChart} */
async function draw(element, spec, rows, { label, signals = {}, dark = {}, height, names: called, look, quantity = "", renderer = "svg", tips = true, press }) {
  const theme = drawTheme();
  const named = called ? rows.map(row => renamed(row, called)) : rows;
  const names = (spec.params ?? []).map(param => param.name).filter(name => signals[name] !== undefined);
  const old = mounted.get(element);
  if (old && old.spec === spec && old.theme === theme && old.height === height && old.names === called && old.look === look && old.quantity === quantity) {
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
    if (called && key === "domain" && Array.isArray(value)) return value.map(name => called[name] ?? name);
    if (value?.type === "quantitative" && value.title === null) return { ...value, title: inLines(quantity) };
    return look && value?.field === "model" ? looking(value, look, swap) : value;
  });
  own.description = label;
  own.datasets = { ...own.datasets, rows: named };
  if (height) own.height = height;
  for (const param of own.params ?? []) if (names.includes(param.name)) param.value = signals[param.name];
  unmountChart(element);
  await prepare();
  nameless.observe(element, { subtree: true, childList: true, attributes: true, attributeFilter: ["role"] });
  const { view, finalize } = await window.vegaEmbed(element, own, {
    mode: "vega-lite",
    renderer,
    config: THEMES[theme],
    actions: false,
    tooltip: tips ? { theme, formatTooltip } : () => {},
    logLevel: 1,
    ast: true,  // expressions are read and not compiled: the page's policy lets no text become a script
  });
  const chart = { view, finalize, own, spec, theme, height, names: called, look, quantity, press };
  mounted.set(element, chart);
  // where the nearest mark counts, the pointer is on its cell, whose datum is the mark
  view.addEventListener("click", (_, item) => { if (item?.datum) chart.press?.(item.isVoronoi ? item.datum.datum : item.datum, item.mark?.marktype); });
  return view;
}
// The title of an axis, in lines that fit beside a small chart (axis_title in reporter.charts.parts).
const inLines = text => text.replace(/(.{1,28})(?: |$)/g, "$1\n").trim().split("\n");
// Models in the colours and the order that the reader chose: how a channel shows them.
function looking(channel, { colours, order }, swap) {
  const { scale } = channel, inOrder = names => [...order.filter(name => names.includes(name)), ...names.filter(name => !order.includes(name))];
  if (scale?.range?.[0]?.startsWith?.("#")) return { ...channel, scale: { ...scale, range: scale.domain.map((name, i) => (colours[name] ? swap[colours[name]] ?? colours[name] : scale.range[i])) } };
  if (scale?.domain && !scale.range) return { ...channel, scale: { ...scale, domain: inOrder(scale.domain) } };
  return Array.isArray(channel.sort) ? { ...channel, sort: inOrder(channel.sort) } : channel;
}
// Models by the names that the reader gave them: in a row, and in an expression that names models.
const WHO = ["model", "model_a", "model_b"];
const renamed = (row, called) => ({ ...row, ...Object.fromEntries(WHO.filter(name => row[name] in called).map(name => [name, called[row[name]]])) });
const quotedAs = (text, called) => Object.entries(called).reduce((now, [name, other]) => now.replaceAll(JSON.stringify(name), () => JSON.stringify(other)), text);

export function labelChart(element, label) {
  element.querySelector("[role=graphics-document]")?.setAttribute("aria-label", label);
}
// The Vega view that an element shows; null where it shows none.
export const viewOf = element => mounted.get(element)?.view ?? null;

// The specification that an element shows, with its rows, and its parameters as they are now; null where it shows none.
export function drawnIn(element) {
  const chart = mounted.get(element);
  if (!chart) return null;
  const { view, own } = chart;
  const params = (own.params ?? []).map(param => ("value" in param ? { ...param, value: view.signal(param.name) } : param));
  return { spec: { ...own, params }, rows: view.data("rows").map(row => ({ ...row })), width: view.width(), height: view.height() };
}
// Ends a chart; what it drew stays until something else takes its place.
export function unmountChart(element) {
  mounted.get(element)?.finalize();
  mounted.delete(element);
}
// Single marks of a chart, read one by one: arrow keys go from mark to mark, a press or a finger takes the nearest.
const FAR = 40;  // pixels between a finger and the mark that it means
export const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// What a mark says as labels and texts: numbers as everywhere, the one before `from` and `to` with its interval.
function written(says) {
  const parts = Object.entries(says).filter(([, value]) => value !== "undefined");
  const at = parts.findIndex(([name]) => name === "from");
  const text = (value, i) => (typeof value !== "number" ? value === "null" && !parts[i][0].startsWith("token") ? "–" : String(value) : i === at - 1 ? estimate(value, parts[at][1], parts[at + 1][1]) : short(value));
  return parts.map(([name, value], i) => [name, text(value, i)]).filter(([name]) => name !== "from" && name !== "to");
}
function formatTooltip(says, clean) {
  if (typeof says !== "object") return clean(String(says));
  const { title, ...rest } = says;
  const rows = written(rest).map(([name, text]) => `<tr><th>${clean(name)}</th><td>${clean(text)}</td></tr>`);
  return `${title ? `<h2>${clean(String(title))}</h2>` : ""}<table class="values">${rows.join("")}</table>`;
}

// The marks of a drawing that say something, wherever in its groups they lie.
export function marksOf(view) {
  const found = /** @type {Mark[]} */ ([]);
  const [left, top] = view.origin();
  const visit = (/** @type {any} */ mark, /** @type {number} */ x, /** @type {number} */ y) => {
    for (const item of mark.items ?? []) {
      if (mark.marktype === "group") for (const inner of item.items ?? []) visit(inner, x + (item.x ?? 0), y + (item.y ?? 0));
      else if (item.tooltip && typeof item.tooltip === "object" && item.bounds && item.opacity !== 0) {
        const { x1, x2, y1, y2 } = item.bounds;
        found.push({ x: left + x + (x1 + x2) / 2, y: top + y + (y1 + y2) / 2, says: item.tooltip });
      }
    }
  };
  visit(view.scenegraph().root, 0, 0);
  return found;
}
// The mark that lies nearest in a direction: what is aside counts twice, more aside than ahead is another direction.
export function nextMark(marks, from, way) {
  let best = null, least = Infinity;
  for (const mark of marks) {
    const [dx, dy] = [mark.x - from.x, mark.y - from.y];
    const along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
    if (along <= 0.01 || aside > along || along + 2 * aside >= least) continue;
    [best, least] = [mark, along + 2 * aside];
  }
  return best;
}
// Lets the marks of a panel be read. What was read is forgotten when the panel is drawn afresh.
export function letRead(plot) {
  if (plot.dataset.reads) return;
  plot.dataset.reads = "marks";
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  const told = make("p", { class: "told", "aria-live": "polite" });
  const ring = make("i", { class: "ring", "aria-hidden": "true" });
  let at = /** @type {Mark | null} */ (null);
  const tell = (/** @type {Mark | null} */ mark) => {
    at = mark;
    if (!mark) { told.remove(); return ring.remove(); }
    told.textContent = written(mark.says).map(pair => pair.join(" ")).join(" · ");
    const drawing = find("svg.marks, canvas.marks", plot).getBoundingClientRect(), box = plot.getBoundingClientRect();
    ring.style.left = `${drawing.left - box.left + mark.x}px`;
    ring.style.top = `${drawing.top - box.top + mark.y}px`;
    plot.append(ring);
    if (!told.isConnected) plot.after(told);
  };
  plot.addEventListener("keydown", event => {
    const view = viewOf(plot), way = WAYS[event.key];
    if (!view || event.ctrlKey || event.metaKey || event.altKey || event.target !== plot) return;
    if (event.key === "Escape" && at) {
      event.stopPropagation();  // the figure stays open
      return tell(null);
    }
    if (!way) return;
    event.preventDefault();
    const marks = marksOf(view);
    const first = marks.reduce((/** @type {Mark | null} */ left, mark) => (left && left.x <= mark.x ? left : mark), null);
    tell(at ? nextMark(marks, at, way) ?? at : first);
  });
  plot.addEventListener("click", event => {
    const view = viewOf(plot), drawing = plot.querySelector("svg.marks, canvas.marks")?.getBoundingClientRect();
    if (!view || !drawing || (event.target instanceof Element && event.target.closest("details"))) return;
    const [x, y] = [event.clientX - drawing.left, event.clientY - drawing.top];
    const away = (/** @type {Mark} */ mark) => Math.hypot(mark.x - x, mark.y - y);
    const near = marksOf(view).filter(mark => away(mark) < FAR).sort((a, b) => away(a) - away(b))[0];
    tell(near ?? null);
  });
  plot.addEventListener("blur", () => tell(null));
}
