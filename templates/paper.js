// @ts-check
// Paper shows every chart of what is printed, in ink on white, each with its key and with what was chosen in words: what a
// reader sees of the controls on the screen does not get onto paper.

import { all, find, make } from "./dom.js";
import { page } from "./page.js";
import { chartOf, chosen, findScale, nameOf, refreshAll } from "./panels.js";
import { fill } from "./tables.js";
import { isolated } from "./tokens.js";

const root = document.documentElement;

// What the controls say, as far as a chart follows them.
function said(chart) {
  const follows = name => chart.keys.includes(name);
  const moment = page.moments?.[chosen.moment]?.label;
  const picks = all("select[data-chart]").filter(select => select.dataset.chart === chart.id && select.options.length > 1);
  return [
    follows("view") && chosen.view ? `tokens: ${chosen.view}` : "",
    follows("moment") && page.moments.length > 1 ? `checkpoint: ${moment}` : "",
    follows("site") && chosen.site === "attention" ? "after attention" : "",
    chosen.baselines === "without" ? "without null baselines" : "",
    chosen.means && chart.kind === "profile" ? "mean of each role" : "",
    ...picks.map(select => `${String(select.closest("label")?.firstChild?.textContent).trim().toLowerCase()}: ${select.selectedOptions[0]?.textContent}`),
  ].filter(Boolean);
}

function key(chart) {
  if (chart.kind === "dots" || !findScale(chart.spec, "model")) return [];
  const there = new Set([...chart.frames.values()].flatMap(columns => columns.model ?? []));
  const shown = name => there.has(name) && !chosen.hidden.has(name) && !(chosen.baselines === "without" && page.baselines.includes(name));
  return all(".legend button.model").filter(button => shown(button.dataset.model))
    .map(button => make("span", { class: "entry" }, button.querySelector("svg")?.cloneNode(true), isolated(nameOf(String(button.dataset.model)))));
}

// Draws a figure, and says what it shows once its rows are there.
async function print(figure) {
  const place = /** @type {HTMLElement | null} */ (figure.querySelector(".panel[data-chart], [data-slots]"));
  if (!place) return;
  const chart = chartOf(place.dataset.chart ?? place.dataset.slots);
  const heading = figure.querySelector("h3");
  const words = said(chart);
  if (words.length) heading?.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
  const late = make("p", { class: "on-paper nothing" }, "Its numbers had not been read yet when this was printed. Print it again.");
  find(".panels", figure).before(late);
  await refreshAll(panel => figure.contains(panel.element) && !!panel.element.offsetParent);
  late.remove();
  const entries = key(chart);
  if (entries.length) find(".panels", figure).before(make("p", { class: "on-paper" }, make("span", { class: "key" }, entries)));
}

// The choices of journeys, whose controls are made by their page.
function tellBar(bar) {
  const words = all(".choice", bar).map(choice => [choice.querySelector("legend, label"), choice.querySelector("input:checked + span, output")])
    .filter(pair => pair.every(Boolean)).map(pair => pair.map(one => String(one?.textContent).trim().toLowerCase()).join(": "));
  if (words.length) bar.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
}

/** @type {HTMLInputElement | null} */
const appendix = document.querySelector("#appendix");
appendix?.addEventListener("change", () => root.classList.toggle("appendix", appendix.checked));
root.classList.toggle("appendix", !!appendix?.checked);
// Paper waits for nothing once a browser prints: the button waits before, until the numbers are there.
for (const button of /** @type {HTMLButtonElement[]} */ (all("button.print"))) button.addEventListener("click", async () => {
  button.disabled = true;
  while (!root.classList.contains("all-data")) await new Promise(done => setTimeout(done, 100));
  button.disabled = false;
  window.print();
});

/** @type {HTMLDetailsElement[]} */
const opened = [];
addEventListener("beforeprint", () => {
  root.classList.add("paper");
  if (appendix?.checked) for (const lid of /** @type {HTMLDetailsElement[]} */ (all("details.more:not([open])"))) { fill(lid); lid.open = true; opened.push(lid); }
  for (const bar of all(".bar, .own-bar")) tellBar(bar);
  for (const figure of all(".figure")) if (figure.offsetParent) print(figure);
});
addEventListener("afterprint", () => {
  root.classList.remove("paper");
  for (const lid of opened.splice(0)) lid.open = false;
  for (const note of all(".on-paper")) note.remove();
  refreshAll();
});
