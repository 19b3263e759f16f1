// @ts-check
// Lids that may hide a large table: it waits as text in a <noscript>, which a reader without scripts sees as it stands, and
// becomes elements when its lid is first opened.

import { all } from "./dom.js";
import { letSort } from "./sort.js";

/** @param {HTMLDetailsElement} lid */
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
