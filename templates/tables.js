// Tables that sort their models by the column whose heading is pressed: largest first, then smallest first.

import { all, find, make } from "./dom.js";
import { number, tokenNode } from "./tokens.js";

// The key that a row sorts by: a number where its cell has one, else its text; null where it has neither.
export function keyOf(cell) {
  if (!cell) return null;
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.tagName === "TH" ? String(cell.textContent).trim() : null;
}
// Which of two keys stands first; what has no key stands last either way.
export function compare(a, b, rising) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return rising ? order : -order;
}
// Let the headings of a table sort it.
export function letSort(table) {
  const buttons = all("button.sort", table);
  const body = find("tbody.models", table);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const heading = /** @type {HTMLTableCellElement} */ (button.closest("th"));
      // Names rise at first, numbers fall.
      const first = heading.scope === "col" && heading.classList.contains("n") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const sort = heading.ariaSort === first ? other : first;
      for (const each of buttons) /** @type {HTMLElement} */ (each.closest("th")).ariaSort = "none";
      heading.ariaSort = sort;
      const place = placeOf(/** @type {HTMLTableElement} */ (table), heading);
      const rows = /** @type {HTMLTableRowElement[]} */ ([...body.children]);
      rows.sort((a, b) => compare(keyOf(a.cells[place]), keyOf(b.cells[place]), sort === "ascending"));
      body.append(...rows);
    });
  }
}

all("table.sortable:not(noscript *)").forEach(letSort);  // a table in a <noscript> waits

// The place of the cells under a heading: the first heading stands beside two rows, the others in the second.
function placeOf(table, heading) {
  const [first, second] = table.tHead?.rows ?? [];
  return first.cells[0] === heading ? 0 : 1 + [...second.cells].indexOf(heading);
}
// A collapsed section may have a large table as text in a <noscript>: it becomes elements when the section is first opened.
export function fill(lid) {
  for (const inside of all("noscript.inside", lid)) {
    // A report in one file is parsed without scripts: there it holds elements, of which the text is no markup.
    if (inside.firstElementChild) inside.replaceWith(...inside.childNodes);
    else inside.replaceWith(document.createRange().createContextualFragment(inside.textContent ?? ""));
  }
  all("table.sortable", lid).forEach(letSort);
}

for (const lid of /** @type {HTMLDetailsElement[]} */ (all("details:has(> noscript.inside)"))) {
  if (lid.open) fill(lid);
  else lid.addEventListener("toggle", () => fill(lid), { once: true });
}
// Rows as a table, in parts where a column says so; tokens are shown as such.
export function table(rows, { options, title }) {
  const ends = options.split ? [...new Set(rows.map(row => row[options.split]))] : [null];
  return make("div", { class: ends.length > 1 ? "ends" : "" }, ends.map(end => {
    const own = end === null ? rows : rows.filter(row => row[options.split] === end);
    const name = options.names?.[end] ?? end;
    return make("div", { class: "end" }, end !== null && make("h4", { text: name }),
      make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": end === null ? title : `${title}: ${name}` }, tableOfEnd(own, options)));
  }));
}

function tableOfEnd(rows, options) {
  const columns = options.columns.filter(([name]) => rows.some(row => row[name] !== null && row[name] !== undefined));
  const heading = ([name, text]) => (name === "value" && options.valueName ? String(rows[0][options.valueName]).replaceAll("_", " ") : text);
  const cell = row => ([name, , kind]) => {
    if (kind !== "token") return make("td", { class: "n" }, String(kind === "whole" ? row[name] ?? "–" : number(row[name])), name === "value" && row.certain === false && make("small", { class: "warning", text: "up to rounding" }));
    const id = row[options.ids?.[name]];
    return make("td", {}, tokenNode(row[name], 40), id !== null && id !== undefined && make("small", { class: "id", text: String(id) }));
  };
  return make("table", {},
    make("thead", {}, make("tr", {}, columns.map(column => make("th", { scope: "col", class: column[2] === "token" ? "" : "n", text: heading(column) })))),
    make("tbody", {}, rows.map(row => make("tr", {}, columns.map(cell(row))))));
}
