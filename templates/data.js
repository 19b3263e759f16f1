// @ts-check
// The table behind a chart: the rows of its panels as the controls have them now, for keys, fingers and screen readers.

import { all, element, find, make } from "./dom.js";
import { part } from "./page.js";
import { chartOf } from "./panels.js";
import { columnsOf } from "./rows.js";
import { number, phrase } from "./tokens.js";

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

async function fill(lid) {
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
/** @type {Set<HTMLDetailsElement>} */
const waiting = new Set();
function refill(lid) {
  if (!lid.open || waiting.has(lid)) return;
  waiting.add(lid);
  requestAnimationFrame(() => {
    waiting.delete(lid);
    fill(lid).catch(error => find(".scroll", lid).replaceChildren(element("p", "broken", `This table could not be made. ${error}`)));
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
