// @ts-check
// A reader finds her model among many: two keys, "f" and a letter, leave the names that hold it; Enter brings them out.

import { all } from "./dom.js";

/** @type {HTMLInputElement | null} */
const field = document.querySelector("input#find-model");

if (field) {
  const buttons = all("button.model");
  const said = /** @type {HTMLElement} */ (field.parentElement?.querySelector("output"));
  const rowOf = button => button.closest(".model-row") ?? button;
  const matching = () => buttons.filter(button => String(button.textContent).toLowerCase().includes(field.value.trim().toLowerCase()));
  const show = () => {
    const found = matching();
    for (const button of buttons) rowOf(button).classList.toggle("unfound", !found.includes(button));
    said.textContent = field.value.trim() ? `${found.length} of ${buttons.length}` : "";
  };
  field.addEventListener("input", show);
  field.addEventListener("keydown", event => {
    if (event.key === "Escape") { field.value = ""; show(); field.blur(); }
    else if (event.key === "Enter" && field.value.trim()) {
      const wanted = matching();
      const on = wanted.some(button => button.getAttribute("aria-pressed") !== "true");
      for (const button of wanted) if ((button.getAttribute("aria-pressed") === "true") !== on) button.click();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  addEventListener("keydown", event => {
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || /** @type {Element} */ (event.target).closest?.("input, select, textarea")) return;
    const legend = field.closest("details");
    if (legend) legend.open = true;
    field.focus();
    field.select();
    event.preventDefault();
  });
}
