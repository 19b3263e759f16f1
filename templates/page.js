// What every page has: its theme, paper, and buttons that copy.

import { all } from "./dom.js";

const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => root.dataset.theme ?? (systemDark.matches ? "dark" : "light");

// Paper shows every chart, and in ink on white. Who listens to the same events later finds this already said.
let printing = false;
export const isPrinting = () => printing;
export const drawTheme = () => (printing ? "light" : theme());
addEventListener("beforeprint", () => { printing = true; });
addEventListener("afterprint", () => { printing = false; });

// What this page has to show: what its controls say and what there is to choose from.
const pageElement = document.getElementById("page");
export const page = pageElement ? JSON.parse(pageElement.textContent) : {};
// A colour of the light theme, or the one that stands for it in the dark theme.
export const twin = colour => (drawTheme() === "dark" ? page.dark[colour] ?? colour : colour);

// ---------------------------------------------------------------- theme, copying: every page has them

const listeners = [];
// Calls a function whenever the theme has changed.
export const onTheme = listener => listeners.push(listener);
function setTheme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("reporter-theme", name); } catch { /* storage may be forbidden */ }
  showTheme();
}
function showTheme() {
  for (const button of all("button.theme")) {
    button.setAttribute("aria-label", `Switch to the ${theme() === "dark" ? "light" : "dark"} theme`);
    button.querySelector(".theme-name").textContent = theme() === "dark" ? "Light" : "Dark";
  }
  for (const listener of listeners) listener();
}
for (const button of all("button.theme")) button.addEventListener("click", () => setTheme(theme() === "dark" ? "light" : "dark"));
systemDark.addEventListener("change", () => { if (!root.dataset.theme) showTheme(); });

for (const button of all("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    let done = false;
    try { await navigator.clipboard.writeText(code.textContent); done = true; } catch {
      getSelection().selectAllChildren(code);  // at least one key press away
    }
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
}
showTheme();
