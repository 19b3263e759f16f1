// What a chart says at a depth, or at a training step. The pointer has a tip with each model's value there, and moves a line in
// all charts over depth; a press, a finger, the keys , and . or the slider fix the line, and each chart then says its values.

import { viewOf } from "./charts.js";
import { all, make } from "./dom.js";
import { compared, estimates, short } from "./numbers.js";
import { given, keep, page, tip } from "./page.js";
import { chosen, nameOf, panels, sorted } from "./panels.js";
import { rowsAt } from "./rows.js";

const MOST = 14;  // models in a tip
let pinned = -1;

const follows = panel => panel.along === "depth";
const inSight = () => [...panels].filter(({ element, near }) => {
  if (!near || element.hidden || !element.checkVisibility()) return false;
  const { top, bottom } = element.getBoundingClientRect();
  return bottom - 60 > 0 && top + 60 < innerHeight;
});
// The depths that the models in sight have, where the keys stop.
function stops() {
  const depths = inSight().filter(follows).flatMap(panel => panel.rows.flatMap(row => (typeof row.depth === "number" ? [row.depth] : [])));
  return [...new Set(depths.length ? depths : [0, 1])].sort((a, b) => a - b);
}
const swatch = model => document.querySelector(`button.model[data-model="${CSS.escape(model)}"] .swatch`)?.cloneNode(true);
// What a panel shows there: where that is, and of each model its name, its value and the interval.
function valuesAt(panel, place) {
  const rows = rowsAt(panel.rows, place, panel.along), order = [...sorted(), ...page.baselines, ...Object.values(page.means ?? {})];
  const models = [...rows.keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const of = model => /** @type {Row} */ (rows.get(model));
  const layers = new Set(models.map(model => of(model).layer));
  const same = panel.along === "depth" && layers.size === 1 && new Set(models.map(model => of(model).depth)).size === 1 && typeof of(models[0]).layer === "number";
  // a step from layer 3 to layer 4 is a number of block 4
  const placeOf = layer => (panel.chart.options.blocks ? `block ${layer + 1}` : `layer ${layer}`);
  const here = () => `${placeOf([...layers][0]).replace(/^./, first => first.toUpperCase())} · depth ${of(models[0]).depth.toFixed(2)}`;
  const where = panel.along === "step" ? `Step ${short(models.length ? of(models[0]).step : place)}` : same ? here() : `Depth ${place.toFixed(2)}`;
  // a band over training is of a mean over models
  const measured = models.map(model => [of(model).value, ...(panel.along === "step" ? [] : [of(model).ci_low, of(model).ci_high])]);
  const [first, second] = page.bases?.[models[1]] === models[0] ? [1, 0] : [0, 1];  // of which its base is subtracted
  const [one, other] = [measured[first], measured[second]], two = typeof one?.[0] === "number" && typeof other?.[0] === "number";
  const both = two ? compared(one, other, [one[0] - other[0]]) : [];
  const texts = measured.length === 2 && two ? [both[first], both[second]] : estimates(measured);
  const lines = models.map((model, i) => ({ model, name: nameOf(model), about: same || typeof of(model).layer !== "number" ? "" : placeOf(of(model).layer), text: texts[i] }));
  if (two) lines.push({ model: "", name: `${nameOf(models[first])} − ${nameOf(models[second])}`, about: "", text: both[2] });
  return { where, lines };
}
function tipAt(event, panel, place) {
  const { where, lines } = valuesAt(panel, place);
  const shown = lines.length > MOST + 1 ? [...lines.slice(0, MOST), lines[lines.length - 1]] : lines;
  tip(event, lines.length ? [`${where}${panel.said.view ? ` · ${panel.said.view}` : ""}`, make("table", { class: "values" }, shown.map(line => make("tr", { class: !line.model && "difference" },
    make("th", { scope: "row" }, swatch(line.model), ` ${line.name}`, line.about && make("small", { text: ` ${line.about}` })),
    make("td", { class: "n" }, line.text.split(" [")[0], line.text.includes(" [") && make("small", { text: ` [${line.text.split(" [")[1]}` }))))), ...(shown.length < lines.length ? [`${lines.length - 1 - MOST} more in the table`] : [])] : null);
}

const depthSlider = /** @type {any} */ (document.getElementById("depth"));
const depthOutput = document.querySelector("output[for=depth]");
// The values at the fixed depth, in place of the sentence under a chart.
function showValues(panel) {
  panel.element.querySelector(".at-depth")?.remove();
  if (pinned < 0 || !follows(panel) || !panel.near) return;
  const { where, lines } = valuesAt(panel, pinned);
  if (lines.length) panel.sentence.after(make("p", { class: "at-depth" }, make("b", { text: where }), lines.map(line => make("span", { text: [`${line.name}: ${line.text}`, line.about].filter(Boolean).join(" ") }))));
}
let frameAsked = 0;
// Sets the line in what is near the window; what is not catches up when it comes.
function point(depth) {
  chosen.cursor = depth;
  if (frameAsked) return;
  frameAsked = requestAnimationFrame(() => {
    frameAsked = 0;
    for (const panel of panels) {
      if (!follows(panel)) continue;
      if (!panel.near) panel.stale = true;
      else viewOf(panel.plot)?.signal("cursor", chosen.cursor).runAsync();
    }
    const said = chosen.cursor < 0 ? "–" : chosen.cursor.toFixed(2);
    if (depthOutput) depthOutput.textContent = said;
    if (depthSlider) depthSlider.value = String(Math.max(0, chosen.cursor));
    depthSlider?.setAttribute("aria-valuetext", chosen.cursor < 0 ? "none" : `depth ${said}`);
  });
}
function pin(depth) {
  pinned = depth;
  keep("depth", depth < 0 ? null : String(Number(depth.toFixed(4))), true);
  document.documentElement.classList.toggle("reading-depth", depth >= 0);
  for (const panel of panels) showValues(panel);
  point(depth);
}
// The panel under a pointer, and the depth or step there; null where there is none.
function under(event) {
  const { clientX, target } = /** @type {PointerEvent} */ (event);
  const panel = /** @type {any} */ (target instanceof Element && target.closest(".plot")?.parentElement)?.panel;
  const view = panel?.along ? viewOf(panel.plot) : null;
  const box = view && panel.plot.querySelector("svg.marks, canvas.marks")?.getBoundingClientRect();
  if (!box) return null;
  const scale = view.scale("x"), [low, high] = [Math.min(...scale.range()), Math.max(...scale.range())];
  return { panel, place: scale.invert(Math.min(high, Math.max(low, clientX - box.left - view.padding().left - view.origin()[0]))) };
}

if (page.views) {
  depthSlider?.addEventListener("input", () => pin(Number(depthSlider.value)));
  let over = false;
  addEventListener("pointermove", event => {
    const here = under(event), depth = here && follows(here.panel) ? here.place : null;
    if (event.pointerType !== "mouse") {
      if (depth !== null) pin(depth);  // a finger that goes sideways; up and down it moves the page
      return;
    }
    if (here) tipAt(event, here.panel, here.place);
    else if (over) tip(event, null);
    if (depth !== null) point(depth);
    else if (over) point(pinned);
    over = !!here;
  });
  addEventListener("click", event => {
    const here = under(event);
    if (here && follows(here.panel) && !(event.target instanceof Element && event.target.closest("details, .mark-symbol, .mark-line"))) pin(here.place);
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
  addEventListener("panel-shown", event => showValues(/** @type {any} */ (event.target).panel));
  addEventListener("scroll", () => tip(null, null), { passive: true });
  const depth = Number(given("depth") ?? -1);
  if (depth >= 0 && depth <= 1) pin(depth);
}
