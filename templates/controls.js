// @ts-check
// What a reader chooses on a study's page.

import { all, find } from "./dom.js";
import { page } from "./page.js";
import { chartOf, chosen, hidePanels, refreshAll } from "./panels.js";

for (const name of ["view", "site"]) {
  for (const radio of all(`input[name=${name}]`)) {
    radio.checked = radio.value === chosen[name];
    radio.addEventListener("change", () => {
      chosen[name] = radio.value;
      find(`#${name}-about`).textContent = page.about[radio.value] ?? "";
      refreshAll();
    });
  }
}

/** @type {any} */
const baselines = document.getElementById("baselines");
if (baselines) {
  baselines.checked = true;
  baselines.addEventListener("change", () => {
    chosen.baselines = baselines.checked ? "with" : "without";
    find(".legend").classList.toggle("without", !baselines.checked);
    for (const name of page.baselines) if (!baselines.checked) chosen.highlight.delete(name);
    hidePanels();
    showHighlight();
  });
}

/** @type {any} */
const slider = document.getElementById("moment");
function setMoment(number) {
  chosen.moment = number;
  slider.value = number;
  const { label } = page.moments[number];
  slider.setAttribute("aria-valuetext", label);
  find("#moment-label").textContent = label;
  return refreshAll();
}
if (slider) {
  const play = find("button.play");
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    find("span", play).textContent = "▶";
    play.setAttribute("aria-label", "Play through training");
  };
  slider.addEventListener("input", () => { stop(); setMoment(Number(slider.value)); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    find("span", play).textContent = "❚❚";
    play.setAttribute("aria-label", "Stop");
    const last = page.moments.length - 1;
    setMoment(chosen.moment === last ? 0 : chosen.moment + 1);
    timer = setInterval(() => {
      if (chosen.moment >= last) return stop();
      setMoment(chosen.moment + 1);
    }, 900);
  });
}

function toggle(model) {
  chosen.highlight.delete(model) || chosen.highlight.add(model);
  showHighlight();
}
function showHighlight() {
  for (const button of all("button.model")) button.setAttribute("aria-pressed", String(chosen.highlight.has(button.dataset.model)));
  for (const button of all("button.role-name")) {
    const own = Object.keys(page.roles).filter(model => page.roles[model] === button.dataset.role);
    button.setAttribute("aria-pressed", String(chosen.highlight.size === own.length && own.every(model => chosen.highlight.has(model))));
  }
  find(".legend").classList.toggle("some", chosen.highlight.size > 0);
  refreshAll();
}
for (const button of all("button.model")) button.addEventListener("click", () => toggle(button.dataset.model));
for (const button of all("button.role-name")) {
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") === "true";
    chosen.highlight = new Set(pressed ? [] : Object.keys(page.roles).filter(model => page.roles[model] === button.dataset.role));
    showHighlight();
  });
}
addEventListener("keydown", event => { if (event.key === "Escape" && chosen.highlight.size) { chosen.highlight.clear(); showHighlight(); } });

addEventListener("press-model", event => toggle(/** @type {CustomEvent} */ (event).detail));

// On a narrow screen the legend would cover the charts: it starts folded there.
/** @type {any} */
const legend = document.querySelector(".legend");
const narrow = matchMedia("(max-width: 1079px)");
const foldLegend = () => { if (legend) legend.open = !narrow.matches; };
narrow.addEventListener("change", foldLegend);
foldLegend();

// There the controls stay on top, and what a link leads to must not hide under them.
/** @type {HTMLElement | null} */
const controls = document.querySelector(".controls");
if (controls) {
  new ResizeObserver(() => {
    const covered = narrow.matches && !legend?.open ? `${controls.offsetHeight + 12}px` : "";
    document.documentElement.style.scrollPaddingTop = covered;
  }).observe(controls);
}

// The browser waits for no data before it prints, so they are fetched while it is idle.
const idle = () => new Promise(done => ("requestIdleCallback" in window ? requestIdleCallback(done, { timeout: 2000 }) : setTimeout(done, 50)));
addEventListener("load", async () => {
  for (const id of page.charts ?? []) {
    await idle();
    await chartOf(id).load().catch(() => {});
  }
  document.documentElement.classList.add("all-data");
});

const links = new Map(all(".contents a").map(link => [String(link.getAttribute("href")).slice(1), link]));
const reading = new IntersectionObserver(entries => {
  for (const entry of entries) links.get(entry.target.id)?.setAttribute("aria-current", String(entry.isIntersecting));
}, { rootMargin: "-15% 0px -70% 0px" });
for (const section of all("main > section[id]")) reading.observe(section);

function revealTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const lid = target.closest("details");
  if (lid && !lid.open) { lid.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", revealTarget);
revealTarget();
