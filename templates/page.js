// The page's own script. It runs in one function together with the Vega bundle; THEMES comes from the Python side.
// It holds no rules about numbers: it picks the rows that the controls ask for, and looks up axis and sentence.

const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const theme = () => root.dataset.theme ?? (systemDark.matches ? "dark" : "light");

// ---------------------------------------------------------------- theme, copying: every page has them

const themeListeners = [];
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
  for (const listener of themeListeners) listener();
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

// ---------------------------------------------------------------- what the controls say

const pageElement = document.getElementById("page");
const page = pageElement
  ? JSON.parse(pageElement.textContent)
  : { views: [], moments: [], about: {}, dark: {}, roles: {}, baselines: [], scripts: {} };
const chosen = {
  view: page.views[0], site: "path", moment: page.moments.length - 1, baselines: "with", highlight: new Set(),
};
let printing = false;
const drawTheme = () => (printing ? "light" : theme());
