// The legend of more models than lines can be named: it colours, divides, sorts and filters them by a property.

import { all, make } from "./dom.js";
import { given, onBack, onTheme, page, twin } from "./page.js";
import { choose, chosen, colourOf, hidePanels, nameOf, PROPERTIES, refreshAll, sorted, valuesOf } from "./panels.js";
import { isolated } from "./tokens.js";

const place = document.querySelector(".legend-of-models");
const selects = /** @type {HTMLSelectElement[]} */ (all("select[data-legend]"));
const swatches = /** @type {Map<string, { element: SVGElement, light: string, dark: string }>} */ (new Map());
for (const button of all("button.model")) {
  const element = /** @type {SVGElement | null} */ (button.querySelector(".swatch"));
  if (element) swatches.set(String(button.dataset.model), { element, light: element.style.getPropertyValue("--light"), dark: element.style.getPropertyValue("--dark") });
}
const state = { colour: "colour", facet: "divide", sort: "sort" };

function show() {
  for (const select of selects) select.value = select.dataset.legend === "only" ? given("only") ?? "" : chosen[state[String(select.dataset.legend)]];
  for (const [model, { element, light, dark }] of swatches) {
    const own = chosen.colour && PROPERTIES[chosen.colour][model] !== undefined ? colourOf(chosen.colour, PROPERTIES[chosen.colour][model]) : null;
    element.style.setProperty("--light", own ?? light);
    element.style.setProperty("--dark", own ? page.dark[own] ?? own : dark);
  }
  const values = chosen.colour ? valuesOf(chosen.colour).map(value => make("span", { class: "entry" }, make("i", { style: `background:${twin(colourOf(chosen.colour, value))}` }), `${value}`)) : [];
  const models = sorted().map(model => make("button", { type: "button", class: chosen.hidden.has(model) ? "off" : "", "data-of": model, "aria-pressed": String(chosen.highlight.has(model)), onclick: () => dispatchEvent(new CustomEvent("press-model", { detail: model })) },
    swatches.get(model)?.element.cloneNode(true), isolated(nameOf(model))));
  const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.of;
  place?.querySelector(".entries")?.replaceChildren(...(values.length ? [make("p", { class: "key" }, make("b", { text: chosen.colour }), values)] : []), make("div", { class: "models" }, models));
  if (focused) all(`.legend-of-models [data-of="${CSS.escape(focused)}"]`)[0]?.focus();
}
function follow() {
  show();
  hidePanels();
  refreshAll();
}
for (const select of selects) select.addEventListener("change", () => {
  choose(select.dataset.legend, select.value || null);
  const means = /** @type {any} */ (document.getElementById("means"));
  if (means) means.checked = chosen.means;
  dispatchEvent(new Event("models-chosen"));
  follow();
});
if (place) {
  show();
  onBack(follow);
  onTheme(show);
  addEventListener("models-chosen", show);
}
