// Exhibits: the pages where a reader chooses models and layers, and compares two.

import { mountChart, unmountChart } from "./charts.js";
import { columnsOf } from "./columns.js";
import { all, element, make } from "./dom.js";
import { explorer, part, twin } from "./explorer.js";
import { number } from "./numbers.js";
import { isPrinting, onTheme } from "./page.js";
import { Points } from "./points.js";
import { isolated, tokenNode } from "./tokens.js";

// ---------------------------------------------------------------- what is chosen

// slots: which model stands in each column; place: which stop of the slider.
const asked = { slots: [0, null], site: "path", stop: 0 };
const stops = who => (explorer.who[who] ? explorer.who[who][asked.site === "attention" ? "attention" : "path"] : []);
// Two models need not have as many layers: the second one stands at the same relative depth.
function stopOf(slot) {
  const own = stops(asked.slots[slot]);
  const lead = stops(asked.slots[0]);
  if (slot === 0 || own.length === lead.length) return own[Math.min(asked.stop, own.length - 1)];
  return own[Math.round((asked.stop / Math.max(1, lead.length - 1)) * (own.length - 1))];
}

const unpacked = new Map();
async function rowsOf(id, who) {
  const { parts: names, together } = explorer.exhibits[id];
  const name = names[together ? 0 : who];
  if (!name) return null;
  if (!unpacked.has(name)) {
    const { rows, ...columns } = columnsOf(await part(name));
    unpacked.set(name, Array.from({ length: rows }, (_, i) => Object.fromEntries(Object.entries(columns).map(([column, values]) => [column, values[i]]))));
  }
  return unpacked.get(name);
}

// ---------------------------------------------------------------- panes

// A pane shows one exhibit for one model. It draws when it comes near the window.
class Pane {
  constructor(exhibit, slot) {
    Object.assign(this, { exhibit, slot, cloud: null });
    this.element = element("div", "pane");
    this.name = element("p", "pane-name");
    this.plot = element("div", `plot ${exhibit.drawing}`);
    this.reading = element("p", "reading");
    this.element.append(this.name, this.plot, this.reading);
    // a chart that is drawn learns of a new width from windows alone; panes change theirs with what stands beside them
    this.sizes = new ResizeObserver(([{ contentRect }]) => {
      const width = Math.round(contentRect.width);
      if (this.width && width && width !== this.width && exhibit.drawing === "chart") {
        unmountChart(this.plot);
        exhibit.refresh();
      }
      this.width = width || this.width;
    });
    this.sizes.observe(this.plot);
  }

  get who() { return asked.slots[this.slot]; }

  async show() {
    const { exhibit } = this;
    const who = explorer.who[this.who];
    const stop = exhibit.byLayer ? stopOf(this.slot) : null;
    this.name.replaceChildren(...(exhibit.together ? [] : [swatchOf(who), element("span", "", who.label + (stop ? ` · ${stop.label}` : ""))]));
    const found = await rowsOf(exhibit.id, this.who);
    let rows = found === null ? [] : found.filter(row => this.wanted(row, stop));
    if (rows.length === 0 && found && exhibit.options.instead) {  // a model of one kind of vectors has no picture of several
      const { column, values } = exhibit.options.instead;
      rows = found.filter(row => this.wanted(row, stop, { [column]: values[exhibit.picked[column]] }));
    }
    this.rows = rows;
    this.reading.replaceChildren(...(exhibit.readings[exhibit.together ? 0 : this.who] || "").split(" · ").map(part => element("span", "", part)));
    this.plot.classList.toggle("void", rows.length === 0);
    this.plot.dataset.void = found === null ? "this model has no such numbers" : "no numbers for this choice";
    if (rows.length === 0 && exhibit.drawing === "chart") return;
    if (exhibit.drawing === "points") this.points(rows);
    else if (exhibit.drawing === "table") this.plot.replaceChildren(...tables(rows, exhibit));
    else await this.chart(rows, who, stop);
  }

  wanted(row, stop, other = {}) {
    if (stop && (row.site !== stop.site || row.layer !== stop.layer)) return false;
    return Object.entries({ ...this.exhibit.picked, ...other }).every(([name, value]) => {
      const columns = name.split("|");
      return !columns.every(column => column in row) || columns.map(column => row[column] ?? "").join("|") === value;
    });
  }

  points(rows) {
    this.cloud ??= new Points(this.plot, this.exhibit);
    this.cloud.set(rows);
  }

  async chart(rows, who, stop) {
    const { exhibit } = this;
    const label = `${exhibit.title}, ${exhibit.together ? "all models" : who.label}`;
    const variant = exhibit.picked.variant && exhibit.specs[exhibit.picked.variant] ? exhibit.picked.variant : Object.keys(exhibit.specs)[0];
    const signals = { at: stopOf(this.slot)?.layer ?? 0 };
    for (const [name, value] of Object.entries(exhibit.picked)) if (name.startsWith("$")) signals[name.slice(1)] = value;
    await mountChart(this.plot, exhibit.specs[variant], rows, { label, file: exhibit.id, signals, dark: explorer.dark, renderer: rows.length > 1500 ? "canvas" : "svg" });
  }

  drop() {
    this.sizes.disconnect();
    unmountChart(this.plot);
    this.element.remove();
  }
}

function swatchOf(who) {
  const mark = element("i", "model-mark");
  mark.style.setProperty("--light", who.light);
  mark.style.setProperty("--dark", who.dark);
  return mark;
}

class Exhibit {
  constructor(article) {
    this.id = article.dataset.exhibit;
    Object.assign(this, explorer.exhibits[this.id], { id: this.id, article, picked: {}, near: false, stale: true, busy: false, panes: [] });
    this.place = article.querySelector(".panes");
    this.key = article.querySelector(".key");
    for (const select of all("select[data-pick]", article)) {
      const take = () => { this.picked[select.dataset.pick] = select.value; };
      take();
      select.addEventListener("change", () => { take(); this.refresh(); });
    }
    article.exhibit = this;
  }

  async refresh() {
    this.stale = true;
    if (!(this.near || isPrinting()) || this.busy) return;
    this.busy = true;
    try {
      while (this.stale) {
        this.stale = false;
        this.arrange();
        for (const pane of this.panes) await this.draw(pane);
        if (this.key) this.legend();
      }
    } finally {
      this.busy = false;
    }
  }

  async draw(pane) {
    try {
      await pane.show();
    } catch (error) {
      unmountChart(pane.plot);
      pane.cloud = null;
      pane.plot.replaceChildren(element("p", "broken", `This could not be drawn. ${error}`));
    }
  }

  // one pane for each model that is chosen; a single one for all
  arrange() {
    const wanted = this.together || asked.slots[1] === null ? 1 : 2;
    while (this.panes.length > wanted) this.panes.pop().drop();
    while (this.panes.length < wanted) {
      const pane = new Pane(this, this.panes.length);
      this.panes.push(pane);
      this.place.append(pane.element);
    }
    this.place.classList.toggle("two", wanted === 2);
  }

  // the colours of what is drawn
  legend() {
    const spec = Object.values(this.specs)[0];
    const scale = spec && findScale(spec, this.options.legend);
    if (!scale) return;
    const present = new Set(this.panes.flatMap(pane => (pane.rows ?? []).map(row => row[this.options.legend])));
    this.key.replaceChildren(...scale.domain.map((name, i) => [name, scale.range[i]]).filter(([name]) => present.has(name)).map(([name, colour]) => {
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

// ---------------------------------------------------------------- tables

function tables(rows, { options, id, title }) {
  const split = options.split ? [...new Set(rows.map(row => row[options.split]))] : [null];
  const made = element("div", split.length > 1 ? "ends" : "");
  for (const end of split) {
    const own = end === null ? rows : rows.filter(row => row[options.split] === end);
    const columns = options.columns.filter(([name]) => own.some(row => row[name] !== null && row[name] !== undefined));
    const table = element("table");
    const head = table.createTHead().insertRow();
    for (const [name, text, kind] of columns) {
      const cell = element("th", kind === "token" ? "" : "n", name === "value" && options.valueName ? String(own[0][options.valueName]).replaceAll("_", " ") : text);
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of own) {
      const line = body.insertRow();
      for (const [name, , kind] of columns) {
        const cell = line.insertCell();
        if (kind === "token") {
          cell.append(tokenNode(row[name], 40));
          const key = options.ids?.[name];
          if (key && row[key] !== null) cell.append(element("small", "id", String(row[key])));
        } else {
          cell.className = "n";
          cell.textContent = kind === "whole" ? (row[name] ?? "–") : number(row[name]);
          if (name === "value" && row.certain === false) cell.append(element("small", "warning", "up to rounding"));
        }
      }
    }
    const block = element("div", "end");
    if (end !== null) block.append(element("h4", "", options.names?.[end] ?? String(end)));
    const scroll = element("div", "scroll tall");
    Object.assign(scroll, { tabIndex: 0 });
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", end === null ? title : `${title}: ${options.names?.[end] ?? end}`);
    scroll.append(table);
    block.append(scroll);
    made.append(block);
  }
  return [made];
}

// ---------------------------------------------------------------- controls

let exhibits = [];
const refreshExhibits = () => Promise.all(exhibits.map(exhibit => exhibit.refresh()));

function watchExhibits() {
  const watcher = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const { exhibit } = entry.target;
      exhibit.near = entry.isIntersecting;
      if (exhibit.near && exhibit.stale) exhibit.refresh();
    }
  }, { rootMargin: "500px 0px" });
  for (const exhibit of exhibits) watcher.observe(exhibit.article);
  onTheme(refreshExhibits);
  addEventListener("beforeprint", refreshExhibits);
  addEventListener("afterprint", refreshExhibits);
}

function setSlider() {
  const slider = document.getElementById("stop");
  if (!slider) return;
  const own = stops(asked.slots[0]);
  asked.stop = Math.max(0, Math.min(asked.stop, own.length - 1));
  Object.assign(slider, { max: Math.max(0, own.length - 1), value: asked.stop });
  const said = [0, 1].filter(slot => asked.slots[slot] !== null).map(slot => stopOf(slot)?.label ?? "–");
  const text = said.length === 2 && said[0] !== said[1] ? `${said[0]} | ${said[1]}` : said[0];
  document.getElementById("stop-label").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

function chooseStop(stop) {
  asked.stop = stop;
  setSlider();
  return Promise.all(exhibits.filter(exhibit => exhibit.byLayer || exhibit.options.at).map(exhibit => exhibit.refresh()));
}

export function showExhibits() {
  exhibits = all("[data-exhibit]").map(article => new Exhibit(article));
  asked.stop = Math.floor((stops(0).length - 1) / 2);
  for (const slot of [0, 1]) {
    const select = document.getElementById(`slot-${slot}`);
    select?.addEventListener("change", () => {
      const depth = asked.stop / Math.max(1, stops(asked.slots[0]).length - 1);
      asked.slots[slot] = select.value === "" ? null : Number(select.value);
      if (slot === 0) asked.stop = Math.round(depth * Math.max(0, stops(asked.slots[0]).length - 1));
      setSlider();
      document.documentElement.classList.toggle("comparing", asked.slots[1] !== null);
      refreshExhibits();
    });
  }
  for (const radio of all("input[name=stop-site]")) {
    radio.addEventListener("change", () => { asked.site = radio.value; setSlider(); refreshExhibits(); });
  }
  const slider = document.getElementById("stop");
  slider?.addEventListener("input", () => chooseStop(Number(slider.value)));
  addEventListener("keydown", event => {
    const step = { ",": -1, ".": 1 }[event.key];
    if (!slider || !step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input:not([type=range]), select, textarea")) return;
    chooseStop(Math.max(0, Math.min(Number(slider.max), asked.stop + step)));
  });
  setSlider();
  watchExhibits();
}
