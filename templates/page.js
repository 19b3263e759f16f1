// What every page has: its theme, paper, and buttons that copy.

import { all, find, make } from "./dom.js";
import { narrowed } from "./tokens.js";

// The query of the address has all that a reader chose, so that a link or a reload shows the same; defaults are left out.
let wanted = new URLSearchParams(location.search);
let waiting = 0, undoable = false;

// What the address says under a name. Anybody may have written the address: each use knows all values that it takes.
export const given = name => wanted.get(name);
export const givenAll = name => wanted.getAll(name);
// All names that begin so, with what follows and their values.
export const givenUnder = prefix => [...wanted].flatMap(([name, value]) => (name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : []));

// Writes a choice into the address; null and an empty list take it out. Back undoes it, unless it is passing, as under a slider.
export function keep(name, value, passing = false) {
  wanted.delete(name);
  if (typeof value === "object" && value !== null) for (const one of value) wanted.append(name, one);
  else if (value !== null) wanted.set(name, String(value));
  undoable ||= !passing;
  waiting ||= window.setTimeout(write, 150);  // browsers count how often an address is changed
}

function write() {
  clearTimeout(waiting);
  waiting = 0;
  const query = wanted.toString();
  carry();
  const undo = undoable;
  undoable = false;
  if (query === new URLSearchParams(location.search).toString()) return;
  const address = `${location.pathname}${query && `?${query}`}${location.hash}`;
  try { undo ? history.pushState(null, "", address) : history.replaceState(null, "", address); } catch { /* a page within a page has no address */ }
}
addEventListener("pagehide", () => { if (waiting) write(); });

// Choices that the other pages of a study share travel with the links to them.
const TRAVELS = /^(view|site|moment|corpus|hide|name\..*|means|baselines|depth|highlight|colour|facet|sort|only)$/;
function carry() {
  const own = new URLSearchParams([...wanted].filter(([name]) => TRAVELS.test(name))).toString();
  for (const link of all("nav.pages a")) {
    link.dataset.file ??= String(link.getAttribute("href"));
    link.setAttribute("href", `${link.dataset.file}${own && (link.dataset.file.includes("?") ? "&" : "?")}${own}`);
  }
}
carry();

// The element that the address leads to after its #, or null.
export function placeOfAddress() {
  let id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch { /* a % that begins no code is itself */ }
  return document.getElementById(id);
}

const backwards = /** @type {(() => void)[]} */ ([]);
// Calls a function when the reader goes back to an earlier choice, or forward again.
export const onBack = listener => backwards.push(listener);
addEventListener("popstate", () => {
  const now = new URLSearchParams(location.search);
  if (now.toString() === wanted.toString()) return;
  wanted = now;
  carry();
  for (const listener of backwards) listener();
});

const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => /** @type {any} */ (root.dataset.theme ?? (systemDark.matches ? "dark" : "light"));

// Paper shows every chart, and in ink on white. Who listens to the same events later finds this already said.
let printing = false;
export const isPrinting = () => printing;
export const drawTheme = () => (printing ? "light" : theme());
addEventListener("beforeprint", () => { printing = true; });
addEventListener("afterprint", () => { printing = false; });

// What this page has to show: what its controls say, or what there is to choose from.
const pageElement = document.getElementById("page");
export const page = /** @type {any} */ (pageElement ? JSON.parse(String(pageElement.textContent)) : {});
// A colour of the light theme, or the one that stands for it in the dark theme.
export const twin = colour => (drawTheme() === "dark" ? page.dark[colour] ?? colour : colour);

// Parts are scripts, which call reporterPart: a page opened as a file may load nothing else. single_file.js packs them.
const parts = /** @type {Map<string, Promise<any>>} */ (new Map());
const awaited = /** @type {Map<string, (value: any) => void>} */ (new Map());
window.reporterPart = (name, value) => awaited.get(name)?.(value);
// What is in data/NAME.js; it is loaded once.
export function part(name) {
  const known = parts.get(name);
  if (known) return known;
  const loading = window.reporterPacked?.(name)?.then(text => JSON.parse(text)) ?? new Promise((resolve, reject) => {
    awaited.set(name, resolve);
    const script = Object.assign(document.createElement("script"), { src: `data/${name}.js` });
    script.addEventListener("error", () => { parts.delete(name); reject(new Error(`data/${name}.js is not beside this page.`)); });
    script.addEventListener("load", () => script.remove());
    document.head.append(script);
  });
  parts.set(name, loading);
  return loading;
}
const listeners = /** @type {(() => void)[]} */ ([]);
// Calls a function whenever the theme has changed.
export const onTheme = listener => listeners.push(listener);
// A press goes on from the system's theme to the other one, to the same one said aloud, and back to the system's.
function nextTheme() {
  const system = systemDark.matches ? "dark" : "light";
  return { undefined: system === "dark" ? "light" : "dark", [system]: "system" }[String(root.dataset.theme)] ?? system;
}
function setTheme(name) {
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  try { localStorage.setItem("reporter-theme", name); } catch { /* storage may be forbidden */ }
  showTheme();
}
function showTheme() {
  const now = root.dataset.theme ?? "system";
  for (const button of all("button.theme")) {
    button.setAttribute("aria-label", `Theme: ${now}. Switch to ${nextTheme()}`);
    button.title = `Theme: ${now}. Press for ${nextTheme()}.`;
    find(".theme-name", button).textContent = `${now[0].toUpperCase()}${now.slice(1)}`;
  }
  for (const listener of listeners) listener();
}
for (const button of all("button.theme")) button.addEventListener("click", () => setTheme(nextTheme()));
systemDark.addEventListener("change", () => { if (!root.dataset.theme) showTheme(); });

// some of these buttons wait under a lid until it is opened
addEventListener("click", async ({ target }) => {
  const button = target instanceof Element && target.closest("button.copy");
  if (!button) return;
  const code = find("code", /** @type {HTMLElement} */ (button.parentElement));
  let done = false;
  try { await navigator.clipboard.writeText(String(code.textContent)); done = true; } catch {
    getSelection()?.selectAllChildren(code);  // at least one key press away
  }
  button.textContent = done ? "Copied" : "Selected";
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
});
showTheme();

for (const button of all("button.share")) button.addEventListener("click", async () => {
  if (waiting) write();
  let done = true;
  try { await navigator.clipboard.writeText(location.href); } catch { done = false; }
  button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => { button.textContent = "Share"; }, 1600);
});

// What this page has to show, or null where it is no such page.
export const explorer = /** @type {any} */ (page.name ? page : null);

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
// What the pointer is on.
const tipElement = document.body.appendChild(make("div", { class: "tip", "aria-hidden": "true", hidden: true }));
// Shows lines beside the pointer; none hide what was shown.
/** @param {PointerEvent | null} event @param {Line[] | null | undefined} lines */
export function tip(event, lines) {
  tipElement.hidden = !lines;
  if (!lines || !event) return;
  tipElement.replaceChildren(...lines.map(line => (Array.isArray(line) ? make("p", {}, make("span", { text: line[0] }), " ", make("b", {}, line[1])) : make("p", {}, line))));
  const { width, height } = tipElement.getBoundingClientRect();
  tipElement.style.left = `${event.clientX + 14 + width < innerWidth ? event.clientX + 14 : Math.max(4, event.clientX - width - 14)}px`;
  tipElement.style.top = `${event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 18}px`;
}
// Gives an element lines to show, made when they are wanted.
/** @type {<E extends Element>(element: E, lines: (event: PointerEvent) => Line[] | null | undefined) => E} */
export const tipped = (element, lines) => {
  element.addEventListener("pointermove", event => tip(/** @type {PointerEvent} */ (event), lines(/** @type {PointerEvent} */ (event))));
  element.addEventListener("pointerleave", () => { tipElement.hidden = true; });
  return element;
};
