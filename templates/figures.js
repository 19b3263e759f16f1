// @ts-check
// From figure to figure: / searches them and the models, j and k go to the next and the one before, e fills the window
// with one.

import { given, keep } from "./address.js";
import { all, find, make } from "./dom.js";
import { refreshAll } from "./panels.js";

/** @typedef {{ element: HTMLElement, title: string, name: string, section: string }} Figure */
/** @type {Figure[]} */
const figures = all("article.figure[id^=figure-]").map(element => ({
  element,
  title: String(element.querySelector("h3")?.textContent).trim(),
  name: element.id.slice("figure-".length),
  section: String(element.closest("section")?.querySelector("h2")?.textContent).trim(),
}));

/** @type {Figure | null} */
let here = null;
/** @param {Figure} figure */
function goTo(figure) {
  here = figure;
  for (let lid = figure.element.closest("details"); lid; lid = lid.parentElement?.closest("details") ?? null) lid.open = true;
  figure.element.tabIndex = -1;
  figure.element.scrollIntoView(/** @type {any} */ ({ behavior: "instant", block: "start" }));
  figure.element.focus({ preventScroll: true });
  try { history.replaceState(null, "", `#${encodeURIComponent(figure.element.id)}`); } catch { /* see address.js */ }
}
// The figure that is read: the last one whose head is above the middle of the window.
function current() {
  const seen = figures.filter(({ element }) => element.checkVisibility());
  if (here?.element.checkVisibility() && here.element === document.activeElement) return { seen, at: seen.indexOf(here) };
  return { seen, at: seen.filter(({ element }) => element.getBoundingClientRect().top < 140).length - 1 };
}

// ---------------------------------------------------------------- a figure that fills the window

/** @type {HTMLElement | null} */
let full = null;
const besides = element => { const found = []; for (let own = element; own && own !== document.body; own = own.parentElement) found.push(...[...(own.parentElement?.children ?? [])].filter(other => other !== own && !other.matches("script, style, .readout"))); return found; };
/** @param {HTMLElement | null} element */
function fill(element) {
  if (full) {
    full.classList.remove("full");
    for (const other of besides(full)) /** @type {HTMLElement} */ (other).inert = false;
    full.querySelector("button.fill")?.setAttribute("aria-pressed", "false");
  }
  const was = full;
  full = element;
  keep("full", element && element.id);
  document.documentElement.classList.toggle("filled", !!element);
  if (element) {
    element.classList.add("full");
    for (const other of besides(element)) /** @type {HTMLElement} */ (other).inert = true;
    element.querySelector("button.fill")?.setAttribute("aria-pressed", "true");
    element.scrollTop = 0;
  } else {
    if (document.fullscreenElement) document.exitFullscreen();
    was?.scrollIntoView(/** @type {any} */ ({ behavior: "instant" }));
  }
  dispatchEvent(new Event("resize"));
  refreshAll(panel => !!(was ?? element)?.contains(panel.element) || !!element?.contains(panel.element));
}
/** @param {HTMLElement | null} element */
function press(element) {
  fill(element);
  // the whole screen where the browser lets a page have it, else the window
  if (element) document.documentElement.requestFullscreen?.().catch(() => {});
}
document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement && full) fill(null); });
for (const { element, title } of figures) {
  element.querySelector("h3")?.after(make("button", { type: "button", class: "fill", "aria-pressed": "false", "aria-label": `Show ${title} on the whole screen`, title: "Whole screen (e)", onclick: () => press(full === element ? null : element) },
    make("svg:svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" }, make("svg:path", { d: "M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }))));
}

// ---------------------------------------------------------------- search

/** @typedef {{ title: string, about: string, words: string, choose: () => void }} Hit */
const figureHits = figures.map(figure => ({
  title: figure.title,
  about: `${figure.section} · ${figure.name}`,
  words: `${figure.title} ${figure.name} ${figure.section}`.toLowerCase(),
  choose: () => { fill(null); goTo(figure); },
}));
// Models by the names that a reader gave them: one of the legend is brought out, one of a list of models is chosen there.
/** @returns {Hit[]} */
function modelHits() {
  const named = all("button.model").map(button => ({ title: String(button.querySelector("span")?.textContent), about: "model: bring it out on every chart", choose: () => button.click() }));
  /** @type {HTMLSelectElement | null} */
  const slot = document.querySelector("select#slot-0");
  const listed = [...slot?.options ?? []].map(option => ({ title: option.text, about: "model: show it", choose: () => { if (slot) { slot.value = option.value; slot.dispatchEvent(new Event("change")); } } }));
  return [...named, ...listed].map(hit => ({ ...hit, words: hit.title.toLowerCase() }));
}

const field = make("input", { type: "search", "aria-label": "Search figures and models", placeholder: "Model, metric, figure or section", autocomplete: "off", spellcheck: "false" });
const list = make("ul", { class: "found" });
const dialog = make("dialog", { class: "search", "aria-label": "Search figures and models" }, field, list,
  make("p", { class: "hint" }, ["/ search", "j next figure", "k the one before", "e whole screen", ", and . a layer back and on", "Esc back"].map(text => make("span", {}, make("kbd", { text: text.split(" ")[0] }), ` ${text.split(" ").slice(1).join(" ")} `))));
// What begins with what was typed stands first, then what has a word that does; models before figures.
function showFound() {
  const typed = field.value.trim().toLowerCase();
  const parts = typed.split(/\s+/).filter(Boolean);
  const rank = (/** @type {Hit} */ hit) => (!typed || hit.words.startsWith(typed) ? 0 : hit.words.split(/[^\p{L}\p{N}]+/u).some(word => word.startsWith(parts[0])) ? 1 : 2);
  const hits = [...typed ? modelHits() : [], ...figureHits].filter(({ words }) => parts.every(part => words.includes(part)));
  const found = hits.map(hit => ({ hit, rank: rank(hit) })).sort((a, b) => a.rank - b.rank).map(({ hit }) => hit);
  list.replaceChildren(...found.slice(0, 60).map(hit => make("li", {}, make("button", { type: "button", onclick: () => { dialog.close(); hit.choose(); } },
    make("b", { text: hit.title }), make("small", { text: ` ${hit.about}` })))));
  if (!found.length) list.replaceChildren(make("li", { class: "nothing", text: "No figure and no model has these words." }));
}
function search() {
  if (dialog.open) return;
  field.value = "";
  showFound();
  dialog.showModal();
  field.focus();
}
field.addEventListener("input", showFound);
dialog.addEventListener("keydown", event => {
  event.stopPropagation();
  const own = all("button", list);
  const at = own.indexOf(/** @type {any} */ (document.activeElement));
  if (event.key === "ArrowDown") own[Math.min(own.length - 1, at + 1)]?.focus();
  else if (event.key === "ArrowUp") (own[at - 1] ?? field).focus();
  else if (event.key === "Enter" && document.activeElement === field) own[0]?.click();
  else if (event.key === "Escape") dialog.close();  // of itself the first press would only empty the field
  else return;
  event.preventDefault();
});

if (figures.length) {
  document.body.append(dialog);
  document.querySelector(".controls .contents")?.before(make("button", { type: "button", class: "find", onclick: search }, "Search figures, models ", make("kbd", { text: "/" })));
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input:not([type=range], [type=radio], [type=checkbox]), select, textarea"))) return;
    const { seen, at } = current();
    if (event.key === "/") search();
    else if (event.key === "j" && at + 1 < seen.length) move(seen[at + 1]);
    else if (event.key === "k" && at > 0) move(seen[at - 1]);
    else if (event.key === "e" && (full || seen[at])) press(full ? null : seen[at].element);
    else if (event.key === "Escape" && full) fill(null);
    else return;
    event.preventDefault();
  });
  const asked = figures.find(({ element }) => element.id === given("full"));
  if (asked) { goTo(asked); fill(asked.element); }
}
// While one figure fills the window, the next one takes its place.
/** @param {Figure} figure */
function move(figure) {
  const filled = full;
  if (filled) fill(null);
  goTo(figure);
  if (filled) fill(figure.element);
}
