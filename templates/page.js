// @ts-check
// What every page has: its theme, paper, and buttons that copy.

import { all, find } from "./dom.js";

const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
/** @returns {"light" | "dark"} */
const theme = () => /** @type {any} */ (root.dataset.theme ?? (systemDark.matches ? "dark" : "light"));

// Paper shows every chart, and in ink on white. Who listens to the same events later finds this already said.
let printing = false;
export const isPrinting = () => printing;
export const drawTheme = () => (printing ? "light" : theme());
addEventListener("beforeprint", () => { printing = true; });
addEventListener("afterprint", () => { printing = false; });

// ---------------------------------------------------------------- theme, copying: every page has them

/** @type {(() => void)[]} */
const listeners = [];
/**
 * Calls a function whenever the theme has changed.
 * @param {() => void} listener
 */
export const onTheme = listener => listeners.push(listener);
/** @param {"light" | "dark"} name */
function setTheme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("reporter-theme", name); } catch { /* storage may be forbidden */ }
  showTheme();
}
function showTheme() {
  for (const button of all("button.theme")) {
    button.setAttribute("aria-label", `Switch to the ${theme() === "dark" ? "light" : "dark"} theme`);
    find(".theme-name", button).textContent = theme() === "dark" ? "Light" : "Dark";
  }
  for (const listener of listeners) listener();
}
for (const button of all("button.theme")) button.addEventListener("click", () => setTheme(theme() === "dark" ? "light" : "dark"));
systemDark.addEventListener("change", () => { if (!root.dataset.theme) showTheme(); });

for (const button of all("button.copy")) {
  button.addEventListener("click", async () => {
    const code = find("code", /** @type {HTMLElement} */ (button.parentElement));
    let done = false;
    try { await navigator.clipboard.writeText(String(code.textContent)); done = true; } catch {
      getSelection()?.selectAllChildren(code);  // at least one key press away
    }
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
}
showTheme();
