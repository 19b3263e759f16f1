// @ts-check
// Single marks of a chart, read one by one: arrow keys go from mark to mark, a press or a finger takes the nearest. On
// charts over depth the keys , and . and a press move the cursor of the page instead, which reads all models at once.

import { viewOf } from "./charts.js";
import { find, make } from "./dom.js";

const FAR = 40;  // pixels between a finger and the mark that it means
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @typedef {{ x: number, y: number, says: Record<string, any> }} Mark where a mark lies in its drawing, and what is said at it */

/**
 * The marks of a drawing that say something, wherever in its groups they lie.
 * @param {any} view
 * @returns {Mark[]}
 */
export function marksOf(view) {
  /** @type {Mark[]} */
  const found = [];
  const [left, top] = view.origin();
  const visit = (/** @type {any} */ mark, /** @type {number} */ x, /** @type {number} */ y) => {
    for (const item of mark.items ?? []) {
      if (mark.marktype === "group") for (const inner of item.items ?? []) visit(inner, x + (item.x ?? 0), y + (item.y ?? 0));
      else if (item.tooltip && typeof item.tooltip === "object" && item.bounds && item.opacity !== 0) {
        const { x1, x2, y1, y2 } = item.bounds;
        found.push({ x: left + x + (x1 + x2) / 2, y: top + y + (y1 + y2) / 2, says: item.tooltip });
      }
    }
  };
  visit(view.scenegraph().root, 0, 0);
  return found;
}

/**
 * The mark that lies nearest in a direction: what is aside counts twice, and more aside than ahead is another direction.
 * @param {Mark[]} marks
 * @param {{ x: number, y: number }} from
 * @param {number[]} way
 * @returns {Mark | null}
 */
export function nextMark(marks, from, way) {
  let best = null, least = Infinity;
  for (const mark of marks) {
    const [dx, dy] = [mark.x - from.x, mark.y - from.y];
    const along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
    if (along <= 0.01 || aside > along || along + 2 * aside >= least) continue;
    [best, least] = [mark, along + 2 * aside];
  }
  return best;
}

/**
 * Lets the marks of a panel be read. What was read is forgotten when the panel is drawn afresh.
 * @param {HTMLElement} plot
 */
export function letRead(plot) {
  if (plot.dataset.reads) return;
  plot.dataset.reads = "marks";
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  const told = make("p", { class: "told", "aria-live": "polite" });
  const ring = make("i", { class: "ring", "aria-hidden": "true" });
  /** @type {Mark | null} */
  let at = null;
  const tell = (/** @type {Mark | null} */ mark) => {
    at = mark;
    if (!mark) { told.remove(); return ring.remove(); }
    told.textContent = Object.entries(mark.says).map(([name, value]) => `${name} ${value}`).join(" · ");
    const drawing = find("svg.marks, canvas.marks", plot).getBoundingClientRect(), box = plot.getBoundingClientRect();
    ring.style.left = `${drawing.left - box.left + mark.x}px`;
    ring.style.top = `${drawing.top - box.top + mark.y}px`;
    plot.append(ring);
    if (!told.isConnected) plot.after(told);
  };
  plot.addEventListener("keydown", event => {
    const view = viewOf(plot), way = WAYS[event.key];
    if (!view || event.ctrlKey || event.metaKey || event.altKey || event.target !== plot) return;
    if (event.key === "Escape" && at) return tell(null);
    if (!way) return;
    event.preventDefault();
    const marks = marksOf(view);
    const first = marks.reduce((/** @type {Mark | null} */ left, mark) => (left && left.x <= mark.x ? left : mark), null);
    tell(at ? nextMark(marks, at, way) ?? at : first);
  });
  plot.addEventListener("click", event => {
    const view = viewOf(plot), drawing = plot.querySelector("svg.marks, canvas.marks")?.getBoundingClientRect();
    if (!view || !drawing || (event.target instanceof Element && event.target.closest("details"))) return;
    const [x, y] = [event.clientX - drawing.left, event.clientY - drawing.top];
    const away = (/** @type {Mark} */ mark) => Math.hypot(mark.x - x, mark.y - y);
    const near = marksOf(view).filter(mark => away(mark) < FAR).sort((a, b) => away(a) - away(b))[0];
    tell(near ?? null);
  });
  plot.addEventListener("blur", () => tell(null));
}
