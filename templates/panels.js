// The panels of a study's page. They hold no rules about numbers: they pick the rows that the controls ask for, and look
// up axis and sentence.

import { labelChart, mountChart, unmountChart } from "./charts.js";
import { unpack } from "./columns.js";
import { isPrinting } from "./page.js";

// ---------------------------------------------------------------- what the controls say

const pageElement = document.getElementById("page");
export const page = pageElement
  ? JSON.parse(pageElement.textContent)
  : { views: [], moments: [], about: {}, dark: {}, roles: {}, baselines: [], scripts: {} };
export const chosen = {
  view: page.views[0], site: "path", moment: page.moments.length - 1, baselines: "with", highlight: new Set(),
};
// What each figure's own selectors say.
export const picks = new Map();

// ---------------------------------------------------------------- figures

// Which model stands in a row, and at which checkpoint; a row about two models has the last two pairs or one of them.
const WHO = [["model", "checkpoint"], ["model_a", "checkpoint_a"], ["model_b", "checkpoint_b"]];

class Figure {
  constructor(parsed) {
    Object.assign(this, parsed);
    this.columns = Object.fromEntries(Object.entries(parsed.data.columns).map(([name, column]) => [name, unpack(column)]));
    this.picks = picks.get(this.name) ?? {};
  }

  get state() {
    return this.states[this.keys.map(key => this.picks[key] ?? chosen[key]).join("|")];
  }

  rows(value) {
    const columns = this.columns;
    const names = Object.keys(columns);
    const shown = page.moments[chosen.moment]?.shown ?? {};
    const asks = [i => columns[this.facet][i] === value];
    if (columns.view) asks.push(i => columns.view[i] === chosen.view);
    if (this.keys.includes("site")) asks.push(i => (columns.site[i] === "attention") === (chosen.site === "attention"));
    for (const [model, checkpoint] of WHO.filter(([model]) => columns[model])) {
      if (this.keys.includes("moment")) asks.push(i => Object.hasOwn(shown, columns[model][i]) && shown[columns[model][i]] === columns[checkpoint][i]);
      if (chosen.baselines === "without") asks.push(i => !page.baselines.includes(columns[model][i]));
    }
    for (const [name, wanted] of Object.entries(this.picks)) {
      if (columns[name]) asks.push(i => String(columns[name][i] ?? "mean") === wanted);
    }
    const rows = [];
    for (let i = 0; i < this.data.rows; i++) {
      if (asks.every(ask => ask(i))) rows.push(Object.fromEntries(names.map(name => [name, columns[name][i]])));
    }
    return rows;
  }
}

// The data of a figure are a script of their own, which calls reporterFigure: the page itself stays small, and a page
// that was opened as a file may load scripts where it may load nothing else.
const figures = new Map();
const arriving = new Map();
window.reporterFigure = parsed => arriving.get(parsed.name)?.(new Figure(parsed));

export function figure(id) {
  if (!figures.has(id)) {
    figures.set(id, new Promise((resolve, reject) => {
      arriving.set(id, resolve);
      const script = Object.assign(document.createElement("script"), { src: page.scripts[id] });
      script.addEventListener("error", () => { figures.delete(id); reject(new Error(`${page.scripts[id]} is not beside this page.`)); });
      script.addEventListener("load", () => script.remove());
      document.head.append(script);
    }));
  }
  return figures.get(id);
}

// ---------------------------------------------------------------- panels

// One panel is one small chart of one figure. It draws when it comes near the window, and follows the controls while it
// is there; a panel that is out of sight catches up when it returns. `press` is called with a model whose mark was pressed.
export class Panel {
  constructor(element, press) {
    this.element = element;
    this.press = press;
    this.plot = element.querySelector(".plot");
    this.sentence = element.querySelector(".reading");
    this.id = element.dataset.figure;
    this.value = element.dataset.value;
    this.label = element.querySelector(".panel-name").textContent;
    this.models = JSON.parse(element.dataset.models);
    this.wide = !!element.closest(".wide");
    this.stale = true;
    this.near = false;
    this.busy = false;
  }

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
      this.plot.replaceChildren(Object.assign(document.createElement("p"), { className: "broken", textContent: `This chart could not be drawn. ${error}` }));
    } finally {
      this.busy = false;
    }
  }

  async show() {
    const own = await figure(this.id);
    const rows = own.rows(this.value);
    const [readings, low, high, note] = own.state ?? [{}, 0, 1, ""];
    const reading = readings[this.value] ?? "";
    const empty = !rows.some(row => row[own.value] !== null && !(own.positive && row[own.value] <= 0));
    this.plot.classList.toggle("void", empty);
    this.plot.dataset.void = chosen.site === "attention" && own.keys.includes("site") ? "not measured after attention" : "no numbers for this choice";
    this.sentence.replaceChildren(...reading.split(" · ").map(part => Object.assign(document.createElement("span"), { textContent: part })));
    const label = `${own.title}, ${this.label}, ${chosen.view}. ${reading}`;
    if (empty) return labelChart(this.plot, `${label} No numbers.`);  // a chart of nothing has no axes: what was drawn before waits under the note
    await mountChart(this.plot, own.spec, rows, {
      label,
      file: `${own.name}-${this.value}`,
      signals: { low, high, note, highlight: [...chosen.highlight] },
      dark: page.dark,
      height: this.wide && own.tall ? 230 : undefined,
      press: (datum, mark) => { if (datum.model && mark !== "area") this.press(datum.model); },
    });
  }
}
