// @ts-check
// One cursor over depth for all charts of a page: a line in each of them, and a table of what they read there. A pointer
// that moves over a chart carries it along; a press, a finger, the keys , and . or the slider of the table let it stay.

import { unmountChart, viewOf } from "./charts.js";
import { all, find, make } from "./dom.js";
import { given, keep, page } from "./page.js";
import { chosen, nameOf, panels } from "./panels.js";
import { rowsAt } from "./rows.js";
import { short } from "./tokens.js";

const MOST = 8;  // columns of the table
let pinned = -1;

const follows = panel => panel.chart.spec?.params?.some(param => param.name === "cursor");
const inSight = () => [...panels].filter(({ element, near }) => {
  if (!near || element.hidden || !element.checkVisibility()) return false;
  const { top, bottom } = element.getBoundingClientRect();
  return bottom - 60 > 0 && top + 60 < innerHeight;
}).sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
// The depths that the models in sight have, where the keys stop.
function stops() {
  const depths = inSight().filter(follows).flatMap(panel => panel.rows.flatMap(row => (typeof row.depth === "number" ? [row.depth] : [])));
  return [...new Set(depths.length ? depths : [0, 1])].sort((a, b) => a - b);
}

// ---------------------------------------------------------------- the table

const slider = make("input", { type: "range", min: 0, max: 1, step: "any", id: "cursor", "aria-label": "Relative depth of the cursor" });
const said = make("output", { for: "cursor" });
const place = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values at the cursor" });
const dock = make("aside", { class: "readout", "aria-label": "Readout", hidden: true },
  make("div", { class: "readout-head" }, make("label", { for: "cursor", text: "Depth" }), slider, said,
    make("button", { type: "button", class: "unread", "aria-label": "Put the cursor away", text: "✕", onclick: () => pin(-1) })),
  place);

const swatch = model => document.querySelector(`button.model[data-model="${CSS.escape(model)}"] .swatch`)?.cloneNode(true);
const interval = row => (typeof row.ci_low === "number" && typeof row.ci_high === "number" ? make("small", { text: `${short(row.ci_low)} to ${short(row.ci_high)}` }) : null);
function readout() {
  dock.hidden = chosen.cursor < 0;
  dock.classList.toggle("passing", chosen.cursor !== pinned);  // it must not come between the pointer and its chart
  document.documentElement.classList.toggle("reading-depth", !dock.hidden);
  if (dock.hidden) return;
  slider.value = String(chosen.cursor);
  said.textContent = chosen.cursor.toFixed(2);
  const shown = inSight().filter(follows).slice(0, MOST);
  const columns = shown.map(panel => rowsAt(panel.rows, chosen.cursor));
  const order = [...all("button.model").map(button => String(button.dataset.model)), ...Object.values(page.means ?? {})];
  const models = [...new Set(columns.flatMap(column => [...column.keys()]))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  if (!models.length) return place.replaceChildren(make("p", { class: "hint", text: "No chart over depth is in sight." }));
  // the layer that is read, or how many models a mean is of
  const about = model => columns.flatMap(column => column.get(model) ?? []).map(row => (typeof row.layer === "number" ? `layer ${row.layer}` : `${row.checkpoint}, lowest to highest`))[0];
  place.replaceChildren(make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col", text: "Model" }),
      shown.map(panel => make("th", { scope: "col", class: "n" }, panel.chart.title, make("small", { text: panel.label }))))),
    make("tbody", {}, models.map(model => make("tr", {},
      make("th", { scope: "row" }, swatch(model), ` ${nameOf(model)}`, make("small", { text: about(model) })),
      columns.map(column => {
        const row = column.get(model);
        return make("td", { class: "n" }, row ? short(row.value, 4) : "", row && interval(row));
      }))))));
}

// ---------------------------------------------------------------- the line

let asked = 0;
// Sets the line in what is near the window; what is not catches up when it comes.
function point(depth) {
  chosen.cursor = depth;
  if (asked) return;
  asked = requestAnimationFrame(() => {
    asked = 0;
    for (const panel of panels) {
      if (!follows(panel)) continue;
      if (!panel.near) panel.stale = true;
      else viewOf(panel.plot)?.signal("cursor", chosen.cursor).runAsync();
    }
    readout();
  });
}
function pin(depth) {
  pinned = depth;
  keep("depth", depth < 0 ? null : String(Number(depth.toFixed(4))));
  point(depth);
}
// The depth under a pointer, or null where there is no chart over depth.
function depthAt(event) {
  const { clientX, target } = /** @type {PointerEvent} */ (event);
  /** @type {any} */
  const panel = target instanceof Element && target.closest(".plot")?.parentElement;
  const view = panel?.panel && follows(panel.panel) ? viewOf(panel.panel.plot) : null;
  const box = view && panel.querySelector("svg.marks")?.getBoundingClientRect();
  if (!box) return null;
  dock.classList.toggle("high", /** @type {PointerEvent} */ (event).clientY > innerHeight / 2);
  return Math.min(1, Math.max(0, (clientX - box.left - view.padding().left - view.origin()[0]) / view.width()));
}

if (page.views) {
  document.body.append(dock);
  slider.addEventListener("input", () => pin(Number(slider.value)));
  let over = false;
  addEventListener("pointermove", event => {
    const depth = depthAt(event);
    if (event.pointerType !== "mouse") {
      if (depth !== null) pin(depth);  // a finger that goes sideways; up and down it moves the page
    } else if (depth !== null) point(depth);
    else if (over) point(pinned);
    over = depth !== null;
  });
  addEventListener("click", event => {
    const depth = depthAt(event);
    if (depth !== null && !(event.target instanceof Element && event.target.closest("details, .mark-symbol, .mark-line"))) pin(depth);
  });
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input:not([type=range]), select, textarea, dialog"))) return;
    if (event.key === "Escape" && pinned >= 0) pin(-1);
    const step = { ",": -1, ".": 1 }[event.key];
    if (!step) return;
    const own = stops();
    const at = chosen.cursor;
    const next = at < 0 ? own[0] : step > 0 ? own.find(depth => depth > at + 1e-6) : own.filter(depth => depth < at - 1e-6).pop();
    if (next !== undefined) pin(next);
  });
  let waits = 0;
  addEventListener("scroll", () => { if (chosen.cursor >= 0) waits ||= window.setTimeout(() => { waits = 0; readout(); }, 200); }, { passive: true });
  addEventListener("panel-shown", () => { if (chosen.cursor >= 0) waits ||= window.setTimeout(() => { waits = 0; readout(); }, 60); });
  const depth = Number(given("depth") ?? -1);
  if (depth >= 0 && depth <= 1) pin(depth);
}
