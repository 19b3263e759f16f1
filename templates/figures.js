// From figure to figure: / searches figures and models, j and k go to the next and the previous one, e fills the window.

import { drawnIn } from "./charts.js";
import { all, element, find, make } from "./dom.js";
import { drawTheme, given, keep, page, part } from "./page.js";
import { chartOf, chosen, controlsSaid, findScale, nameOf, refreshAll } from "./panels.js";
import { columnsOf } from "./rows.js";
import { fill as openTables } from "./tables.js";
import { isolated, number, phrase } from "./tokens.js";

const figures = all("article.figure[id^=figure-]").map(element => ({
  element,
  title: String(element.querySelector("h3")?.textContent).trim(),
  name: element.id.slice("figure-".length),
  section: String(element.closest("section")?.querySelector("h2")?.textContent).trim(),
}));

let here = /** @type {Figure | null} */ (null);
function goTo(figure) {
  here = figure;
  for (let lid = figure.element.closest("details"); lid; lid = lid.parentElement?.closest("details") ?? null) lid.open = true;
  figure.element.tabIndex = -1;
  figure.element.scrollIntoView(/** @type {any} */ ({ behavior: "instant", block: "start" }));
  figure.element.focus({ preventScroll: true });
  try { history.replaceState(null, "", `#${encodeURIComponent(figure.element.id)}`); } catch { /* a page within a page has no address */ }
}
// The figure that is read: the last one whose head is above the middle of the window.
function current() {
  const seen = figures.filter(({ element }) => element.checkVisibility());
  if (here?.element.checkVisibility() && here.element === document.activeElement) return { seen, at: seen.indexOf(here) };
  return { seen, at: seen.filter(({ element }) => element.getBoundingClientRect().top < 140).length - 1 };
}
// A figure that fills the window.
let full = /** @type {HTMLElement | null} */ (null);
const besides = element => { const found = []; for (let own = element; own && own !== document.body; own = own.parentElement) found.push(...[...(own.parentElement?.children ?? [])].filter(other => other !== own && !other.matches("script, style, .readout"))); return found; };
function setFull(element, on) {
  element.classList.toggle("full", on);
  for (const other of besides(element)) /** @type {HTMLElement} */ (other).inert = on;
  element.querySelector("button.fill")?.setAttribute("aria-pressed", String(on));
}
function fill(element) {
  const was = full;
  if (was) setFull(was, false);
  full = element;
  keep("full", element && element.id);
  document.documentElement.classList.toggle("filled", !!element);
  if (element) {
    setFull(element, true);
    element.scrollTop = 0;
  } else {
    if (document.fullscreenElement) document.exitFullscreen();
    was?.scrollIntoView(/** @type {any} */ ({ behavior: "instant" }));
  }
  dispatchEvent(new Event("resize"));
  refreshAll(panel => !!(was ?? element)?.contains(panel.element) || !!element?.contains(panel.element));
}
function press(element) {
  fill(element);
  // the whole screen where the browser lets a page have it, else the window
  if (element) document.documentElement.requestFullscreen?.().catch(() => {});
}
document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement && full) fill(null); });
for (const { element, title } of figures) {
  element.querySelector("h3")?.after(make("button", { type: "button", class: "fill", "aria-pressed": "false", "aria-label": `Show ${title} on the whole screen`, title: "Whole screen (e)", onclick: () => press(full === element ? null : element) },
    make("svg:svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" }, make("svg:path", { d: "M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }))));
}
// Search.
const figureHits = figures.map(figure => ({
  title: figure.title,
  about: `${figure.section} · ${figure.name}`,
  words: `${figure.title} ${figure.name} ${figure.section}`.toLowerCase(),
  choose: () => { fill(null); goTo(figure); },
}));
// Models by the names that a reader gave them: one of the legend is brought out, one of a list of models is chosen there.
function modelHits() {
  const named = all("button.model").map(button => ({ title: String(button.querySelector("span")?.textContent), about: "model: bring it out on every chart", choose: () => button.click() }));
  const slot = /** @type {HTMLSelectElement | null} */ (document.querySelector("select#slot-0"));
  const listed = [...slot?.options ?? []].map(option => ({ title: option.text, about: "model: show it", choose: () => { if (slot) { slot.value = option.value; slot.dispatchEvent(new Event("change")); } } }));
  return [...named, ...listed].map(hit => ({ ...hit, words: hit.title.toLowerCase() }));
}

const field = make("input", { type: "search", "aria-label": "Search figures and models", placeholder: "Model, metric, figure or section", autocomplete: "off", spellcheck: "false" });
const list = make("ul", { class: "found" });
const dialog = make("dialog", { class: "search", "aria-label": "Search figures and models" }, field, list,
  make("p", { class: "hint" }, ["/ search", "j next figure", "k the one before", "e whole screen", ", and . a layer back and on", "Esc back"].map(text => make("span", {}, make("kbd", { text: text.split(" ")[0] }), ` ${text.split(" ").slice(1).join(" ")} `))));
// What begins with what was typed stands first, then what has a word that does; models before figures.
function showFound() {
  const typed = field.value.trim().toLowerCase();
  const parts = typed.split(/\s+/).filter(Boolean);
  const rank = (/** @type {Hit} */ hit) => (!typed || hit.words.startsWith(typed) ? 0 : hit.words.split(/[^\p{L}\p{N}]+/u).some(word => word.startsWith(parts[0])) ? 1 : 2);
  const hits = [...typed ? modelHits() : [], ...figureHits].filter(({ words }) => parts.every(part => words.includes(part)));
  const found = hits.map(hit => ({ hit, rank: rank(hit) })).sort((a, b) => a.rank - b.rank).map(({ hit }) => hit);
  list.replaceChildren(...found.slice(0, 60).map(hit => make("li", {}, make("button", { type: "button", onclick: () => { dialog.close(); hit.choose(); } },
    make("b", { text: hit.title }), make("small", { text: ` ${hit.about}` })))));
  if (!found.length) list.replaceChildren(make("li", { class: "nothing", text: "No figure and no model has these words." }));
}
function search() {
  if (dialog.open) return;
  field.value = "";
  showFound();
  dialog.showModal();
  field.focus();
}
field.addEventListener("input", showFound);
dialog.addEventListener("keydown", event => {
  event.stopPropagation();
  const own = all("button", list);
  const at = own.indexOf(/** @type {any} */ (document.activeElement));
  if (event.key === "ArrowDown") own[Math.min(own.length - 1, at + 1)]?.focus();
  else if (event.key === "ArrowUp") (own[at - 1] ?? field).focus();
  else if (event.key === "Enter" && document.activeElement === field) own[0]?.click();
  else if (event.key === "Escape") dialog.close();  // of itself the first press would only empty the field
  else return;
  event.preventDefault();
});

if (figures.length) {
  document.body.append(dialog);
  document.querySelector(".controls .contents")?.before(make("button", { type: "button", class: "find", onclick: search }, "Search figures, models ", make("kbd", { text: "/" })));
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input:not([type=range], [type=radio], [type=checkbox]), select, textarea"))) return;
    const { seen, at } = current();
    if (event.key === "/") search();
    else if (event.key === "j" && at + 1 < seen.length) move(seen[at + 1]);
    else if (event.key === "k" && at > 0) move(seen[at - 1]);
    else if (event.key === "e" && (full || seen[at])) press(full ? null : seen[at].element);
    else if (event.key === "Escape" && full) fill(null);
    else return;
    event.preventDefault();
  });
  const asked = figures.find(({ element }) => element.id === given("full"));
  if (asked) { goTo(asked); fill(asked.element); }
}
// While one figure fills the window, the next one takes its place.
function move(figure) {
  const filled = full;
  if (filled) fill(null);
  goTo(figure);
  if (filled) fill(figure.element);
}
// Saves a whole figure as it is seen: one Vega-Lite chart of its panels, with title, legends and what the controls say.
const LABEL = 11;
const FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif";

// A text in lines of about a width; Vega cuts off what a font makes wider.
function wrap(text, size, width) {
  const lines = [], most = Math.max(8, width / (0.55 * size));
  for (const word of text.split(/\s+/).filter(Boolean)) {
    if (lines.length && lines[lines.length - 1].length + word.length < most) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}
// Legends of the columns that a chart has colours for.
function withLegends(spec, title, present) {
  if (!spec || typeof spec !== "object") return spec;
  if (Array.isArray(spec)) return spec.map(part => withLegends(part, title, present));
  const own = Object.fromEntries(Object.entries(spec).map(([name, part]) => [name, withLegends(part, title, present)]));
  for (const channel of ["color", "shape", "strokeDash"]) {
    const encoding = own.encoding?.[channel];
    if (!encoding?.field || encoding.legend !== null) continue;
    const ramp = encoding.type === "quantitative";
    if (ramp) delete own.encoding.stroke;
    const values = encoding.scale?.domain?.filter(name => present.has(name));
    if (values?.length === 0) continue;  // a legend of nothing has no finite bounds
    own.encoding[channel] = { ...encoding, legend: { orient: "top", title: ramp ? title : null, ...(ramp ? { type: "gradient", gradientLength: 140, gradientThickness: 8 } : { values, columns: 5, symbolOpacity: 1 }) } };
  }
  return own;
}
// A panel as a part of that chart: as Vega has it, or the picture of a canvas.
function partOf(panel, number, title) {
  const subtitle = [...panel.sentence.children].map(part => String(part.textContent)).filter(Boolean);
  const heading = panel.label ? { title: { text: panel.label, subtitle } } : {};
  const drawn = drawnIn(panel.plot), canvas = panel.plot.querySelector("canvas");
  if (!drawn) {
    const { clientWidth: width, clientHeight: height } = canvas;
    const mark = { type: "image", url: canvas.toDataURL("image/png"), width, height, align: "left", baseline: "top", x: 0, y: 0 };
    return { part: { ...heading, width, height, data: { values: [{}] }, mark, view: { stroke: null } }, width };
  }
  // a part of a chart has no signals of its own width and height
  const sized = JSON.parse(JSON.stringify(drawn.spec), (key, value) => (key === "expr" && typeof value === "string" ? value.replace(/\bwidth\b/g, drawn.width).replace(/\bheight\b/g, drawn.height) : value));
  const { params = [], datasets, autosize, description, config, ...spec } = sized;
  const present = new Set(drawn.rows.flatMap(row => Object.values(row)));
  return {
    part: { ...withLegends(spec, title, present), ...heading, data: { name: `rows${number}` }, width: drawn.width, height: drawn.height },
    datasets: { ...datasets, [`rows${number}`]: drawn.rows }, params: params.filter(param => !param.select), width: drawn.width,
  };
}
// What the controls say of a figure, and where it is from, in sentences.
function caption(panels) {
  const words = controlsSaid(panels[0].chart).map(text => `${text[0].toUpperCase()}${text.slice(1)}.`);
  return [...words, `${document.title}, ${document.querySelector("meta[name=generator]")?.getAttribute("content") ?? "reporter"}.`].join(" ");
}
// The figure as SVG, as wide as is asked for in millimetres.
async function svgOf(figure, millimetres) {
  const panels = all(".panel", figure).filter(place => !place.hidden).map(place => /** @type {any} */ (place).panel).filter(panel => panel && !panel.plot.classList.contains("void") && (drawnIn(panel.plot) || panel.plot.querySelector("canvas")));
  if (!panels.length) throw new Error("nothing is drawn here yet");
  const scale = String(figure.querySelector(".scale:has(.ramp)")?.textContent ?? "").replace(/\s+/g, " ").trim();
  const parts = panels.map((panel, i) => partOf(panel, i, scale));
  const columns = panels.filter(panel => panel.element.offsetTop === panels[0].element.offsetTop).length;
  const across = columns * (parts[0].width + 40);
  const number = String(find(".figure-number", figure).firstChild?.textContent).trim();
  const title = String(find("h3", figure).textContent).trim();
  const lines = wrap(caption(panels), 10, across);
  const quiet = getComputedStyle(find(".figure-number", figure)).color;
  const config = { ...THEMES[drawTheme()], font: FONT, autosize: "pad", title: { anchor: "start", frame: "group", fontSize: LABEL, color: getComputedStyle(figure).color, subtitleColor: quiet, subtitleFontSize: 10 } };
  const params = new Map(parts.flatMap(part => part.params ?? []).map(param => [param.name, param]));
  const { view, finalize } = await window.vegaEmbed(make("div"), {
    title: { text: wrap(`${number}. ${title.charAt(0).toUpperCase()}${title.slice(1)}`, 13.5, across), fontSize: 13.5, offset: 12 },
    params: [...params.values()],
    datasets: Object.assign({}, ...parts.map(part => part.datasets)),
    spacing: 10,
    vconcat: [
      { concat: parts.map(({ part }) => part), columns, spacing: 22, resolve: { scale: { color: "shared", shape: "shared", strokeDash: "shared" } } },
      { data: { values: [{}] }, mark: { type: "text", text: lines, align: "left", baseline: "top", fontSize: 10, color: quiet, x: 0, y: 0 }, width: parts[0].width, height: 13 * lines.length, view: { stroke: null } },
    ],
  }, { mode: "vega-lite", renderer: "svg", actions: false, config, logLevel: 1 });
  const drawing = await view.toSVG();
  finalize();
  const [, width, height] = (/viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(drawing) ?? []).map(Number);
  const svg = drawing.replace(/ width="[^"]*"/, ` width="${millimetres}mm"`).replace(/ height="[^"]*"/, ` height="${(height * millimetres / width).toFixed(2)}mm"`);
  return { svg, labels: LABEL * millimetres / width / 25.4 * 72, ratio: height / width };
}

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function picture(svg, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, width, height);
  return new Promise((resolve, reject) => canvas.toBlob(blob => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}

for (const figure of all("article.figure:has(.panels)")) {
  const place = figure.querySelector(".figure-number");
  if (!place) continue;
  const id = figure.id.replace("figure-", "");
  const width = make("input", { type: "number", min: 30, max: 600, value: 170, "aria-label": "Width in millimetres" });
  const told = element("p", "hint");
  const save = async format => {
    try {
      const millimetres = Math.min(600, Math.max(30, Number(width.value) || 170));
      const { svg, labels, ratio } = await svgOf(figure, millimetres);
      const dots = Math.round(millimetres / 25.4 * 300);
      const blob = format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await picture(svg, dots, Math.round(dots * ratio));
      download(blob, `${id}.${format}`);
      told.textContent = `Saved; its labels are ${labels.toFixed(1)} points high${format === "png" ? ", at 300 dots to the inch" : ""}.`;
    } catch (error) {
      told.textContent = `This figure could not be saved: ${error instanceof Error ? error.message : error}.`;
    }
  };
  const box = make("div", { class: "saving" },
    make("label", {}, "Width ", width, " mm"),
    make("p", {}, make("button", { type: "button", onclick: () => save("svg") }, "SVG"), make("button", { type: "button", onclick: () => save("png") }, "PNG")),
    told,
    make("p", { class: "hint" }, "As it is seen here. As PDF, and with labels of a certain size: ", make("code", { text: `reporter export ${page.study ?? "STUDY"} --figures ${id}` })));
  place.append(make("details", {}, make("summary", { text: "Save figure" }), box));
}
// Paper shows every chart in ink on white, each with its key and with the choices of the controls in words.
const root = document.documentElement;

function keyOf(chart) {
  if (chart.kind === "dots" || !findScale(chart.spec, "model")) return [];
  const there = new Set([...chart.frames.values()].flatMap(columns => columns.model ?? []));
  const shown = name => there.has(name) && !chosen.hidden.has(name) && !(chosen.baselines === "without" && page.baselines.includes(name));
  return all(".legend button.model").filter(button => shown(button.dataset.model))
    .map(button => make("span", { class: "entry" }, button.querySelector("svg")?.cloneNode(true), isolated(nameOf(String(button.dataset.model)))));
}
// Draws a figure, and says what it shows once its rows are there.
async function printFigure(figure) {
  const place = /** @type {HTMLElement | null} */ (figure.querySelector(".panel[data-chart], [data-slots]"));
  if (!place) return;
  const chart = chartOf(place.dataset.chart ?? place.dataset.slots);
  const heading = figure.querySelector("h3");
  const words = controlsSaid(chart);
  if (words.length) heading?.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
  const late = make("p", { class: "on-paper nothing" }, "Its numbers had not been read yet when this was printed. Print it again.");
  find(".panels", figure).before(late);
  await refreshAll(panel => figure.contains(panel.element) && !!panel.element.offsetParent);
  late.remove();
  const entries = keyOf(chart);
  if (entries.length) find(".panels", figure).before(make("p", { class: "on-paper" }, make("span", { class: "key" }, entries)));
}
// The choices of journeys, whose controls are made by their page.
function tellBar(bar) {
  const words = all(".choice", bar).map(choice => [choice.querySelector("legend, label"), choice.querySelector("input:checked + span, output")])
    .filter(pair => pair.every(Boolean)).map(pair => pair.map(one => String(one?.textContent).trim().toLowerCase()).join(": "));
  if (words.length) bar.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
}

const appendix = /** @type {HTMLInputElement | null} */ (document.querySelector("#appendix"));
appendix?.addEventListener("change", () => root.classList.toggle("appendix", appendix.checked));
root.classList.toggle("appendix", !!appendix?.checked);
// Paper waits for nothing once a browser prints: the button waits before, until the numbers are there.
for (const button of /** @type {HTMLButtonElement[]} */ (all("button.print"))) button.addEventListener("click", async () => {
  button.disabled = true;
  while (!root.classList.contains("all-data")) await new Promise(done => setTimeout(done, 100));
  button.disabled = false;
  window.print();
});

const opened = /** @type {HTMLDetailsElement[]} */ ([]);
addEventListener("beforeprint", () => {
  root.classList.add("paper");
  if (appendix?.checked) for (const lid of /** @type {HTMLDetailsElement[]} */ (all("details.more:not([open])"))) { openTables(lid); lid.open = true; opened.push(lid); }
  for (const bar of all(".bar, .own-bar")) tellBar(bar);
  for (const figure of all(".figure")) if (figure.offsetParent) printFigure(figure);
});
addEventListener("afterprint", () => {
  root.classList.remove("paper");
  for (const lid of opened.splice(0)) lid.open = false;
  for (const note of all(".on-paper")) note.remove();
  refreshAll();
});
// The table behind a chart: the rows of its panels as the controls have them now, for keys, fingers and screen readers.
const MOST = 400;  // rows; the CSV beside the table has them all

// Columns of rows that differ, or all where none does: what every row says, the controls say.
export function telling(rows) {
  const names = Object.keys(rows[0] ?? {}).filter(name => rows.some(row => row[name] !== null && row[name] !== undefined));
  const differing = names.filter(name => ["value", "model"].includes(name) || rows.some(row => row[name] !== rows[0][name]));
  return differing.length ? differing : names;
}

function tableOf(rows, title) {
  const columns = telling(rows);
  const numeric = new Set(columns.filter(name => rows.every(row => row[name] === null || typeof row[name] === "number")));
  const text = value => (value === null || value === undefined ? "–" : typeof value === "number" ? (Number.isInteger(value) ? String(value) : number(value)) : phrase(String(value), 80));
  const count = rows.length.toLocaleString("en");
  return make("table", {},
    make("caption", { text: rows.length > MOST ? `${title}: the first ${MOST} of ${count} rows; the CSV has them all.` : `${title}: ${count} ${rows.length === 1 ? "row" : "rows"}.` }),
    make("thead", {}, make("tr", {}, columns.map(name => make("th", { scope: "col", class: numeric.has(name) ? "n" : "", text: name.replaceAll("_", " ") })))),
    make("tbody", {}, rows.slice(0, MOST).map(row => make("tr", {}, columns.map(name => make("td", { class: numeric.has(name) && "n", text: text(row[name]) }))))));
}

async function fillTable(lid) {
  const chart = chartOf(lid.dataset.behind);
  const figure = /** @type {Element} */ (lid.closest(".figure"));
  await chart.load();
  const rows = [];
  for (const panel of [...chart.panels].filter(panel => figure.contains(panel.element) && !panel.element.hidden)) {
    const columns = await chart.columns(panel.value);
    for (const row of columns ? chart.rows(columns, panel) : []) rows.push(chart.facet || chart.parts === undefined ? row : { model: panel.label, ...row });
  }
  find(".scroll", lid).replaceChildren(rows.length ? tableOf(rows, chart.title) : element("p", "nothing", "No numbers for this choice."));
}
// Panels of one chart are shown one after the other: its table is made once for them all.
const waiting = /** @type {Set<HTMLDetailsElement>} */ (new Set());
function refill(lid) {
  if (!lid.open || waiting.has(lid)) return;
  waiting.add(lid);
  requestAnimationFrame(() => {
    waiting.delete(lid);
    fillTable(lid).catch(error => find(".scroll", lid).replaceChildren(element("p", "broken", `This table could not be made. ${error}`)));
  });
}

for (const lid of all("details.behind")) lid.addEventListener("toggle", () => { if (lid.open) refill(lid); else find(".scroll", lid).replaceChildren(); });
addEventListener("panel-shown", event => {
  const lid = /** @type {Element} */ (event.target).closest(".figure")?.querySelector("details.behind");
  if (lid) refill(/** @type {HTMLDetailsElement} */ (lid));
});
// A report in one file has no CSV beside it: what a reader saves is made of the rows that the page has.
const fileOf = link => (link.getAttribute("href") ?? "").replace(/^data\//, "");

const csvField = value => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
// Columns as CSV.
export function csvOf(frames) {
  const names = Object.keys(frames[0] ?? {}).filter(name => name !== "rows");
  const lines = frames.flatMap(frame => Array.from({ length: frame.rows }, (_, i) => names.map(name => csvField(frame[name][i])).join(",")));
  return `${[names.map(csvField).join(","), ...lines].join("\n")}\n`;
}

async function rowsOf(name) {
  const chart = await part(name);
  if (chart.data) return [columnsOf(chart.data)];
  return Promise.all(Object.entries(chart.parts ?? {}).map(async ([key, own]) => {
    const frame = columnsOf(await part(own));
    if (chart.facet) return frame;
    const [model, checkpoint] = key.split("|");
    return { model: Array(frame.rows).fill(model), checkpoint: Array(frame.rows).fill(checkpoint), ...frame };
  }));
}

if (window.reporterPacked) {
  const { reporterPacked, reporterHolds } = window;
  for (const link of /** @type {HTMLAnchorElement[]} */ (all("a[download]"))) {
    const file = fileOf(link), name = file.replace(/\.csv$/, "");
    const made = !reporterHolds(file);
    if (made && !reporterHolds(name)) {
      link.replaceWith(make("span", { class: "hint", text: `${link.textContent}: not in this file, but in the results folder` }));
      continue;
    }
    if (made) link.title = "Numbers in this file keep six significant digits; the results folder has all of them.";
    link.addEventListener("click", async event => {
      event.preventDefault();
      const text = made ? csvOf(await rowsOf(name)) : await reporterPacked(file);
      download(new Blob([text ?? ""], { type: made ? "text/csv" : "text/plain" }), file);
    });
  }
}
