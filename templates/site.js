// The page's own script. It runs in one function together with the Vega bundle; THEMES comes from the Python side.
// It holds no rules about numbers: it picks the rows of the chosen view and checkpoint, and looks up axis and sentence.

const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const theme = () => root.dataset.theme ?? (systemDark.matches ? "dark" : "light");

// ---------------------------------------------------------------- theme, copying: every page has them

const themeListeners = [];
function setTheme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("reporter-theme", name); } catch { /* storage may be forbidden */ }
  showTheme();
}
function showTheme() {
  for (const button of all("button.theme")) {
    button.setAttribute("aria-label", `Switch to the ${theme() === "dark" ? "light" : "dark"} theme`);
    button.querySelector(".theme-name").textContent = theme() === "dark" ? "Light" : "Dark";
  }
  for (const listener of themeListeners) listener();
}
for (const button of all("button.theme")) button.addEventListener("click", () => setTheme(theme() === "dark" ? "light" : "dark"));
systemDark.addEventListener("change", () => { if (!root.dataset.theme) showTheme(); });

for (const button of all("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    let done = false;
    try { await navigator.clipboard.writeText(code.textContent); done = true; } catch {
      getSelection().selectAllChildren(code);  // at least one key press away
    }
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
}

// ---------------------------------------------------------------- data

function unpack(column) {
  if (column.plain) return column.plain;
  if (column.codes) return column.codes.map(code => column.levels[code]);
  const values = [];
  for (let i = 0; i < column.runs.length; i += 2) {
    for (let k = 0; k < column.runs[i + 1]; k++) values.push(column.levels[column.runs[i]]);
  }
  return values;
}

class Figure {
  constructor(script) {
    const parsed = JSON.parse(script.textContent);
    Object.assign(this, parsed);
    this.columns = Object.fromEntries(Object.entries(parsed.data.columns).map(([name, column]) => [name, unpack(column)]));
    this.layer = "mean";
  }

  get state() {
    return this.states[this.kind === "training" ? `${chosen.view}|${this.layer}` : `${chosen.view}|${chosen.moment}`];
  }

  rows(corpus) {
    const { model, checkpoint, view, corpus: corpora, layer } = this.columns;
    const shown = page.moments[chosen.moment]?.shown ?? {};
    const names = Object.keys(this.columns);
    const wanted = this.kind === "training"
      ? i => (this.layer === "mean" ? layer[i] === null : String(layer[i]) === this.layer)
      : i => Object.hasOwn(shown, model[i]) && shown[model[i]] === checkpoint[i];
    const rows = [];
    for (let i = 0; i < this.data.rows; i++) {
      if (corpora[i] !== corpus || view[i] !== chosen.view || !wanted(i)) continue;
      rows.push(Object.fromEntries(names.map(name => [name, this.columns[name][i]])));
    }
    return rows;
  }
}

// ---------------------------------------------------------------- panels

// One panel is one corpus of one figure. It draws when it comes near the window, and follows the controls while it is
// there; a panel that is out of sight catches up when it returns.
class Panel {
  constructor(element) {
    this.element = element;
    this.plot = element.querySelector(".plot");
    this.sentence = element.querySelector(".reading");
    this.corpus = element.dataset.corpus;
    this.tall = !!element.closest(".wide") && !this.plot.classList.contains("dots");
    this.view = null;
    this.drawnTheme = null;
    this.stale = true;
    this.near = false;
    this.busy = false;
  }

  get figure() { return figure(this.element.dataset.figure); }

  async refresh() {
    this.stale = true;
    if (!this.near || this.busy) return;
    this.busy = true;
    try {
      while (this.stale) {
        this.stale = false;
        await this.show();
      }
    } catch (error) {
      this.plot.replaceChildren(Object.assign(document.createElement("p"), { className: "broken", textContent: `This chart could not be drawn. ${error}` }));
    } finally {
      this.busy = false;
    }
  }

  async show() {
    const figure = this.figure;
    const rows = figure.rows(this.corpus);
    const [low, high, note, readings] = figure.state ?? [0, 1, "", {}];
    const reading = readings[this.corpus] ?? "";
    const empty = !rows.some(row => row.value !== null);
    this.plot.classList.toggle("void", empty);
    this.plot.dataset.void = "no numbers for this choice";
    this.sentence.replaceChildren(...reading.split(" · ").map(part => Object.assign(document.createElement("span"), { textContent: part })));
    const signals = { low, high, note, highlight: [...chosen.highlight] };
    const label = `${figure.title} on ${this.corpus}, ${chosen.view}. ${reading}`;
    if (this.view && this.drawnTheme === drawTheme()) {
      for (const [name, value] of Object.entries(signals)) this.view.signal(name, value);
      await this.view.data("rows", rows).runAsync();
      this.plot.querySelector("[role=graphics-document]")?.setAttribute("aria-label", label);
      return;
    }
    this.drawnTheme = drawTheme();
    const dark = this.drawnTheme === "dark" ? page.dark : {};
    const spec = JSON.parse(JSON.stringify(figure.spec), (_, value) => (typeof value === "string" && Object.hasOwn(dark, value) ? dark[value] : value));
    spec.description = label;
    spec.datasets = { ...spec.datasets, rows };
    if (this.tall) spec.height = 230;
    for (const param of spec.params) if (Object.hasOwn(signals, param.name)) param.value = signals[param.name];
    this.view?.finalize();
    const embedded = await window.vegaEmbed(this.plot, spec, {
      mode: "vega-lite",
      renderer: "svg",
      config: THEMES[this.drawnTheme],
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: `${figure.name}-${this.corpus}`,
      tooltip: { theme: this.drawnTheme },
      logLevel: 1,
    });
    this.view = embedded.view;
    this.plot.querySelector("summary")?.setAttribute("aria-label", "Save this chart as a picture");
    this.view.addEventListener("click", (_, item) => { if (item?.datum?.model && item.mark?.marktype !== "area") toggle(item.datum.model); });
  }
}

// ---------------------------------------------------------------- the study page

const pageElement = document.getElementById("page");
const page = pageElement ? JSON.parse(pageElement.textContent) : { views: [], moments: [], about: {}, dark: {}, roles: {} };
const scripts = new Map(all("script.figure-data").map(script => [script.dataset.figure, script]));
const figures = new Map();
const panels = all(".panel").map(element => new Panel(element));
const chosen = { view: page.views[0], moment: page.moments.length - 1, highlight: new Set() };
let printing = false;
const drawTheme = () => (printing ? "light" : theme());

function figure(id) {
  if (!figures.has(id)) figures.set(id, new Figure(scripts.get(id)));
  return figures.get(id);
}
const refreshAll = () => Promise.all(panels.map(panel => panel.refresh()));
themeListeners.push(refreshAll);

for (const radio of all("input[name=view]")) {
  radio.checked = radio.value === chosen.view;
  radio.addEventListener("change", () => {
    chosen.view = radio.value;
    document.getElementById("view-about").textContent = page.about[radio.value] ?? "";
    refreshAll();
  });
}

const slider = document.getElementById("moment");
function setMoment(number) {
  chosen.moment = number;
  slider.value = number;
  const { label } = page.moments[number];
  slider.setAttribute("aria-valuetext", label);
  document.getElementById("moment-label").textContent = label;
  return refreshAll();
}
if (slider) {
  const play = document.querySelector("button.play");
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.firstElementChild.textContent = "▶";
    play.setAttribute("aria-label", "Play through training");
  };
  slider.addEventListener("input", () => { stop(); setMoment(Number(slider.value)); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.firstElementChild.textContent = "❚❚";
    play.setAttribute("aria-label", "Stop");
    const last = page.moments.length - 1;
    setMoment(chosen.moment === last ? 0 : chosen.moment + 1);
    timer = setInterval(() => {
      if (chosen.moment >= last) return stop();
      setMoment(chosen.moment + 1);
    }, 900);
  });
}

function toggle(model) {
  chosen.highlight.delete(model) || chosen.highlight.add(model);
  showHighlight();
}
function showHighlight() {
  for (const button of all("button.model")) button.setAttribute("aria-pressed", chosen.highlight.has(button.dataset.model));
  for (const button of all("button.role-name")) {
    const own = Object.keys(page.roles).filter(model => page.roles[model] === button.dataset.role);
    button.setAttribute("aria-pressed", chosen.highlight.size === own.length && own.every(model => chosen.highlight.has(model)));
  }
  document.querySelector(".legend").classList.toggle("some", chosen.highlight.size > 0);
  refreshAll();
}
for (const button of all("button.model")) button.addEventListener("click", () => toggle(button.dataset.model));
for (const button of all("button.role-name")) {
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") === "true";
    chosen.highlight = new Set(pressed ? [] : Object.keys(page.roles).filter(model => page.roles[model] === button.dataset.role));
    showHighlight();
  });
}
addEventListener("keydown", event => { if (event.key === "Escape" && chosen.highlight.size) { chosen.highlight.clear(); showHighlight(); } });

for (const select of all(".layer select")) {
  select.addEventListener("change", () => {
    figure(select.dataset.figure).layer = select.value;
    for (const panel of panels) if (panel.element.dataset.figure === select.dataset.figure) panel.refresh();
  });
}

// On a narrow screen the legend would cover the charts: it starts folded there.
const legend = document.querySelector(".legend");
const narrow = matchMedia("(max-width: 1079px)");
const foldLegend = () => { if (legend) legend.open = !narrow.matches; };
narrow.addEventListener("change", foldLegend);
foldLegend();

const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) {
    const panel = entry.target.panel;
    panel.near = entry.isIntersecting;
    if (panel.near && panel.stale) panel.refresh();
  }
}, { rootMargin: "500px 0px" });
for (const panel of panels) {
  panel.element.panel = panel;
  watcher.observe(panel.element);
}

// Paper shows every chart, and in ink on white.
addEventListener("beforeprint", () => {
  printing = true;
  for (const panel of panels) { panel.near = true; panel.refresh(); }
});
addEventListener("afterprint", () => { printing = false; refreshAll(); });

const links = new Map(all(".contents a").map(link => [link.hash.slice(1), link]));
const reading = new IntersectionObserver(entries => {
  for (const entry of entries) links.get(entry.target.id)?.setAttribute("aria-current", entry.isIntersecting);
}, { rootMargin: "-15% 0px -70% 0px" });
for (const section of all("main > section[id]")) reading.observe(section);

function revealTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", revealTarget);
revealTarget();
showTheme();
