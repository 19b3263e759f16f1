// Tables: large ones that wait in a closed section, and rows that a page draws as a table.

import { all, make } from "./dom.js";
import { column, inOnePrecision } from "./numbers.js";
import { tokenNode } from "./tokens.js";

// A collapsed section may have a large table as text in a <noscript>: it becomes elements when the section is first opened.
export function fill(lid) {
  for (const inside of all("noscript.inside", lid)) {
    // A report in one file is parsed without scripts: there it holds elements, of which the text is no markup.
    const parts = inside.firstElementChild ? inside : new DOMParser().parseFromString(inside.textContent ?? "", "text/html").body;
    inside.replaceWith(...parts.childNodes);
  }
  lid.dispatchEvent(new Event("section-filled", { bubbles: true }));
}

for (const lid of /** @type {HTMLDetailsElement[]} */ (all("details:has(> noscript.inside)"))) {
  if (lid.open) fill(lid);
  else lid.addEventListener("toggle", () => fill(lid), { once: true });
}
// The texts of a column of rows: its numbers have one precision, a value its interval.
export const written = (rows, name) => (name === "value" ? column(rows.map(row => [row.value, row.ci_low, row.ci_high])) : inOnePrecision(rows.map(row => row[name])));
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
  const texts = Object.fromEntries(columns.filter(([, , kind]) => kind === "number").map(([name]) => [name, written(rows, name)]));
  const cell = (row, place) => ([name, , kind]) => {
    if (kind !== "token") return make("td", { class: "n" }, String(texts[name]?.[place] ?? row[name] ?? "–"), name === "value" && row.certain === false && make("small", { class: "warning", text: "up to rounding" }));
    const id = row[options.ids?.[name]];
    return make("td", {}, tokenNode(row[name], 40), id !== null && id !== undefined && make("small", { class: "id", text: String(id) }));
  };
  return make("table", {},
    make("thead", {}, make("tr", {}, columns.map(column => make("th", { scope: "col", class: column[2] === "token" ? "" : "n", text: heading(column) })))),
    make("tbody", {}, rows.map((row, place) => make("tr", {}, columns.map(cell(row, place))))));
}
