// @ts-check
// The table behind a chart: the rows of its panels as the controls have them now, for keys, fingers and screen readers.

import { all, element, find } from "./dom.js";
import { number } from "./numbers.js";
import { chartOf } from "./panels.js";
import { phrase } from "./tokens.js";

const MOST = 400;  // rows; the CSV beside the table has them all

/**
 * Columns of rows that differ, or all where none does: what every row says, the controls say.
 * @param {Record<string, any>[]} rows
 */
export function telling(rows) {
  const names = Object.keys(rows[0] ?? {}).filter(name => rows.some(row => row[name] !== null && row[name] !== undefined));
  const differing = names.filter(name => ["value", "model"].includes(name) || rows.some(row => row[name] !== rows[0][name]));
  return differing.length ? differing : names;
}

/** @param {Record<string, any>[]} rows @param {string} title */
function tableOf(rows, title) {
  const columns = telling(rows);
  const made = element("table");
  const head = made.createTHead().insertRow();
  const numeric = new Set(columns.filter(name => rows.every(row => row[name] === null || typeof row[name] === "number")));
  for (const name of columns) {
    const cell = element("th", numeric.has(name) ? "n" : "", name.replaceAll("_", " "));
    cell.scope = "col";
    head.append(cell);
  }
  const body = made.createTBody();
  for (const row of rows.slice(0, MOST)) {
    const line = body.insertRow();
    for (const name of columns) {
      const value = row[name];
      const cell = line.insertCell();
      if (numeric.has(name)) cell.className = "n";
      cell.textContent = value === null || value === undefined ? "–" : typeof value === "number" ? (Number.isInteger(value) ? String(value) : number(value)) : phrase(String(value), 80);
    }
  }
  made.createCaption().textContent = rows.length > MOST ? `${title}: the first ${MOST} of ${rows.length.toLocaleString("en")} rows; the CSV has them all.` : `${title}: ${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}.`;
  return made;
}

/** @param {HTMLDetailsElement} lid */
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
/** @param {HTMLDetailsElement} lid */
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
