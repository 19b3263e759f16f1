// @ts-check
// What the pages to choose on share: their data, their address, the SQL they show, and the tip beside the pointer.

import { all, make } from "./dom.js";
import { page } from "./page.js";
import { narrowed } from "./tokens.js";

// What this page has to show, or null where it is no such page.
/** @type {any} */
export const explorer = page.name ? page : null;

// ---------------------------------------------------------------- addresses, SQL

// What is chosen stands in the address, so that a link shows the same.
export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""));
}
export function writeAddress(state) {
  const given = Object.entries(state).flatMap(([name, value]) => (value === undefined || value === null ? [] : [[name, String(value)]]));
  history.replaceState(null, "", `#${new URLSearchParams(given)}`);
}

const statements = new Map(all("code[data-sql]").map(element => [element, String(element.textContent)]));
// Narrows the SQL that is shown for a source.
/** @param {ParentNode} [within] */
export function narrowSql(source, choices, within = document) {
  for (const element of all(`code[data-sql="${source}"]`, within)) element.textContent = narrowed(String(statements.get(element)), choices);
}

// ---------------------------------------------------------------- what the pointer is on

/** @typedef {string | Node | [string, string | Node]} Line text or an element, or a label and its value */
const tipElement = explorer && document.body.appendChild(make("div", { class: "tip", "aria-hidden": "true", hidden: true }));
// Shows lines beside the pointer.
function tip(event, lines) {
  tipElement.hidden = !lines;
  if (!lines) return;
  tipElement.replaceChildren(...lines.map(line => (Array.isArray(line) ? make("p", {}, make("span", { text: line[0] }), " ", make("b", {}, line[1])) : make("p", {}, line))));
  const { width, height } = tipElement.getBoundingClientRect();
  tipElement.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
  tipElement.style.top = `${event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 18}px`;
}
/**
 * Gives an element lines to show, made when they are wanted.
 * @template {Element} E
 * @param {E} element
 * @param {(event: PointerEvent) => Line[] | null | undefined} lines
 */
export const tipped = (element, lines) => {
  element.addEventListener("pointermove", event => tip(/** @type {PointerEvent} */ (event), lines(/** @type {PointerEvent} */ (event))));
  element.addEventListener("pointerleave", () => { tipElement.hidden = true; });
  return element;
};
