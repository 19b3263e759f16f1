// @ts-check
// Rows as a table, in parts where a column says so; tokens are shown as such.

import { element } from "./dom.js";
import { number } from "./numbers.js";
import { tokenNode } from "./tokens.js";

export function table(rows, { options, title }) {
  const split = options.split ? [...new Set(rows.map(row => row[options.split]))] : [null];
  const made = element("div", split.length > 1 ? "ends" : "");
  for (const end of split) {
    const own = end === null ? rows : rows.filter(row => row[options.split] === end);
    const columns = options.columns.filter(([name]) => own.some(row => row[name] !== null && row[name] !== undefined));
    const body = element("table");
    const head = body.createTHead().insertRow();
    for (const [name, text, kind] of columns) {
      const cell = element("th", kind === "token" ? "" : "n", name === "value" && options.valueName ? String(own[0][options.valueName]).replaceAll("_", " ") : text);
      cell.scope = "col";
      head.append(cell);
    }
    const lines = body.createTBody();
    for (const row of own) {
      const line = lines.insertRow();
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
    scroll.append(body);
    block.append(scroll);
    made.append(block);
  }
  return made;
}
