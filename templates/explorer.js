// What the pages to choose on share: their data, their address, the SQL they show, and the tip beside the pointer.

import { all, make } from "./dom.js";
import { page } from "./page.js";

// What this page has to show, or null where it is no such page.
export const explorer = page.name ? page : null;

// ---------------------------------------------------------------- addresses, SQL

// What is chosen stands in the address, so that a link shows the same.
export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""));
}
export function writeAddress(state) {
  const given = Object.entries(state).filter(([, value]) => value !== undefined && value !== null);
  history.replaceState(null, "", `#${new URLSearchParams(given)}`);
}

// Narrows the SQL that is shown for a source to the rows of some choices, each {column: value or values}; what is
// undefined is left open.
const literal = value => (value === null ? "NULL" : typeof value === "number" ? String(value) : `'${String(value).replaceAll("'", "''")}'`);
const condition = ([column, value]) => (Array.isArray(value) ? `${column} IN (${value.map(literal).join(", ")})` : `${column} ${value === null ? "IS" : "="} ${literal(value)}`);
const statements = new Map(all("code[data-sql]").map(element => [element, element.textContent]));
export function narrowSql(source, choices, within = document) {
  const sets = choices.map(choice => Object.entries(choice).filter(([, value]) => value !== undefined).map(condition));
  const common = sets.length ? sets[0].filter(one => sets.every(set => set.includes(one))) : [];
  const rest = [...new Set(sets.map(set => set.filter(one => !common.includes(one)).join(" AND ")))].filter(Boolean);
  const either = rest.length > 1 ? [`(${rest.map(one => `(${one})`).join("\n    OR ")})`] : rest;
  const added = [...common, ...either].map(one => `\n  AND ${one}`).join("");
  for (const element of all(`code[data-sql="${source}"]`, within)) {
    element.textContent = statements.get(element).replace(/WHERE study = '[^']*'/, found => found + added);
  }
}

// ---------------------------------------------------------------- what the pointer is on

const tipElement = explorer && document.body.appendChild(make("div", { class: "tip", "aria-hidden": "true", hidden: true }));
// Shows lines beside the pointer: strings, or [label, value].
function tip(event, lines) {
  tipElement.hidden = !lines;
  if (!lines) return;
  tipElement.replaceChildren(...lines.map(line => (Array.isArray(line) ? make("p", {}, make("span", { text: line[0] }), " ", make("b", {}, line[1])) : make("p", {}, line))));
  const { width, height } = tipElement.getBoundingClientRect();
  tipElement.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
  tipElement.style.top = `${event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 18}px`;
}
// Gives an element lines to show, made when they are wanted.
export const tipped = (element, lines) => {
  element.addEventListener("pointermove", event => tip(event, lines(event)));
  element.addEventListener("pointerleave", () => tip(null, null));
  return element;
};
