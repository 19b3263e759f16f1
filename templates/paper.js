// @ts-check
// Paper shows every chart of what is printed, in ink on white, each with its key and with what was chosen in words: what a
// reader sees of the controls on the screen does not get onto paper.

import { all, element, find, make } from "./dom.js";
import { page, part } from "./page.js";
import { chartOf, chosen, findScale, nameOf, refreshAll } from "./panels.js";
import { columnsOf } from "./rows.js";
import { fill } from "./tables.js";
import { isolated, number, phrase } from "./tokens.js";

const root = document.documentElement;

// What the controls say, as far as a chart follows them.
function said(chart) {
  const follows = name => chart.keys.includes(name);
  const moment = page.moments?.[chosen.moment]?.label;
  const picks = all("select[data-chart]").filter(select => select.dataset.chart === chart.id && select.options.length > 1);
  return [
    follows("view") && chosen.view ? `tokens: ${chosen.view}` : "",
    follows("moment") && page.moments.length > 1 ? `checkpoint: ${moment}` : "",
    follows("site") && chosen.site === "attention" ? "after attention" : "",
    chosen.baselines === "without" ? "without null baselines" : "",
    chosen.means && chart.kind === "profile" ? "mean of each role" : "",
    ...picks.map(select => `${String(select.closest("label")?.firstChild?.textContent).trim().toLowerCase()}: ${select.selectedOptions[0]?.textContent}`),
  ].filter(Boolean);
}

function key(chart) {
  if (chart.kind === "dots" || !findScale(chart.spec, "model")) return [];
  const there = new Set([...chart.frames.values()].flatMap(columns => columns.model ?? []));
  const shown = name => there.has(name) && !chosen.hidden.has(name) && !(chosen.baselines === "without" && page.baselines.includes(name));
  return all(".legend button.model").filter(button => shown(button.dataset.model))
    .map(button => make("span", { class: "entry" }, button.querySelector("svg")?.cloneNode(true), isolated(nameOf(String(button.dataset.model)))));
}

// Draws a figure, and says what it shows once its rows are there.
async function print(figure) {
  const place = /** @type {HTMLElement | null} */ (figure.querySelector(".panel[data-chart], [data-slots]"));
  if (!place) return;
  const chart = chartOf(place.dataset.chart ?? place.dataset.slots);
  const heading = figure.querySelector("h3");
  const words = said(chart);
  if (words.length) heading?.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
  const late = make("p", { class: "on-paper nothing" }, "Its numbers had not been read yet when this was printed. Print it again.");
  find(".panels", figure).before(late);
  await refreshAll(panel => figure.contains(panel.element) && !!panel.element.offsetParent);
  late.remove();
  const entries = key(chart);
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
  if (appendix?.checked) for (const lid of /** @type {HTMLDetailsElement[]} */ (all("details.more:not([open])"))) { fill(lid); lid.open = true; opened.push(lid); }
  for (const bar of all(".bar, .own-bar")) tellBar(bar);
  for (const figure of all(".figure")) if (figure.offsetParent) print(figure);
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
      const address = URL.createObjectURL(new Blob([text ?? ""], { type: made ? "text/csv" : "text/plain" }));
      make("a", { href: address, download: file }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    });
  }
}
