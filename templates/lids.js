// @ts-check
// Lids that may hide a large table: it waits as text in a <noscript>, which a reader without scripts sees as it stands, and
// becomes elements when its lid is first opened.

import { all } from "./dom.js";
import { letSort } from "./sort.js";

/** @param {HTMLDetailsElement} lid */
export function fill(lid) {
  for (const inside of all("noscript.inside", lid)) {
    const made = document.createRange().createContextualFragment(inside.textContent ?? "");
    const tables = /** @type {HTMLElement[]} */ ([...made.querySelectorAll("table.sortable")]);
    inside.replaceWith(made);
    tables.forEach(letSort);
  }
}

for (const lid of /** @type {HTMLDetailsElement[]} */ (all("details:has(> noscript.inside)"))) {
  if (lid.open) fill(lid);
  else lid.addEventListener("toggle", () => fill(lid), { once: true });
}
