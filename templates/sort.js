// @ts-check
// Tables that sort their models by the column whose heading is pressed: largest first, then smallest first.

import { all, find } from "./dom.js";

/**
 * The key that a row sorts by: a number where its cell has one, else its text; null where it has neither.
 * @param {HTMLTableCellElement | undefined} cell
 * @returns {number | string | null}
 */
export function keyOf(cell) {
  if (!cell) return null;
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.tagName === "TH" ? String(cell.textContent).trim() : null;
}

/**
 * Which of two keys stands first; what has no key stands last either way.
 * @param {number | string | null} a
 * @param {number | string | null} b
 * @param {boolean} rising
 */
export function compare(a, b, rising) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return rising ? order : -order;
}

/**
 * Let the headings of a table sort it.
 * @param {HTMLElement} table
 */
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

all("table.sortable:not(noscript *)").forEach(letSort);  // see lids.js

/**
 * The place of the cells under a heading: the first heading stands beside two rows, the others in the second.
 * @param {HTMLTableElement} table
 * @param {HTMLTableCellElement} heading
 */
function placeOf(table, heading) {
  const [first, second] = table.tHead?.rows ?? [];
  return first.cells[0] === heading ? 0 : 1 + [...second.cells].indexOf(heading);
}
