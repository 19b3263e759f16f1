// @ts-check
// The pages of charts on which a reader chooses one model or two, and a layer.

import { unmountChart } from "./charts.js";
import { all, element, find } from "./dom.js";
import { given, keep, page } from "./page.js";
import { Panel, chartOf, chosen, fetchAll, refreshAll } from "./panels.js";

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
    const own = element("div", "panel");
    own.append(element("p", "panel-name"), element("div", `plot ${place.dataset.kind}`), element("p", "reading"));
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
  get file() { return this.chart.id; }
  get stop() { return stopOf(this.slot); }

  head() {
    if (this.together) return;
    const mark = element("i", "model-mark");
    mark.style.setProperty("--light", this.who.light);
    mark.style.setProperty("--dark", this.who.dark);
    const place = this.chart.byLayer && this.stop ? ` · ${this.stop.label}` : "";
    this.element.firstChild.replaceChildren(mark, element("span", "", this.who.label + place));
  }

  drop() {
    this.sizes.disconnect();
    super.drop();
  }
}

const shown = /** @type {Map<Element, Slot[]>} */ (new Map(all("[data-slots]").map(place => [place, []])));
// One panel for each model that is chosen; a single one for all.
function arrange() {
  for (const [place, own] of shown) {
    const wanted = slots[1] === null ? 1 : 2;
    while (own.length > wanted) own.pop()?.drop();
    while (own.length < 1 || (own.length < wanted && !own[0].together)) own.push(new Slot(place, own.length));
    place.classList.toggle("two", own.length === 2);
  }
  document.documentElement.classList.toggle("comparing", slots[1] !== null);
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
const follows = ({ chart }) => chart.byLayer || chart.spec?.params?.some(param => param.name === "at");
function chooseStop(stop) {
  at = stop;
  setSlider();
  keepStop();
  return refreshAll(panel => !panel.chart.specs || follows(panel));
}

const middle = () => Math.floor((stops(slots[0]).length - 1) / 2);
const keepStop = () => keep("layer", stops(slots[0]).length && at !== middle() ? at : null);

export function showSlots() {
  for (const [slot, name] of [[0, "model"], [1, "beside"]]) {
    const who = page.who.findIndex(({ key }) => key === given(String(name)));
    if (who >= 0) slots[slot] = who;
  }
  const layer = given("layer");
  at = layer !== null && /^\d+$/.test(layer) ? Math.min(Number(layer), stops(slots[0]).length - 1) : middle();
  for (const slot of [0, 1]) {
    const select = /** @type {any} */ (document.getElementById(`slot-${slot}`));
    if (select && slots[slot] !== null) select.value = String(slots[slot]);
    select?.addEventListener("change", () => {
      const depth = at / Math.max(1, stops(slots[0]).length - 1);
      slots[slot] = select.value === "" ? null : Number(select.value);
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
    radio.addEventListener("change", () => { chosen.site = radio.value; keep("site", radio.value === "path" ? null : radio.value); setSlider(); refreshAll(); });
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
