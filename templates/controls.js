// What a reader chooses on a study's page.

import { unmountChart, viewOf } from "./charts.js";
import { all, find, make } from "./dom.js";
import { short } from "./numbers.js";
import { given, keep, onBack, page, placeOfAddress } from "./page.js";
import { choose, chosen, hidePanels, nameOf, panels, refreshAll } from "./panels.js";
import { rowsAt } from "./rows.js";

const field = id => /** @type {any} */ (document.getElementById(id));
// Numbers outside of charts are those of the first token set where both are shown.
const sets = all("[data-view]");
const sentences = all("[data-of-corpus]"), tables = /** @type {HTMLDetailsElement[]} */ (all("[data-table-of]"));
const isChosen = corpus => !chosen.corpus || chosen.corpus === corpus;
const showSet = () => {
  for (const element of sets) element.hidden = element.dataset.view !== chosen.view;
  for (const element of sentences) element.hidden = !isChosen(element.dataset.ofCorpus);
};
const showTables = () => { for (const lid of tables) lid.open = isChosen(lid.dataset.tableOf); };
if (given("corpus") !== null) showTables();
if (chosen.view) showSet();
const redraw = () => { showSet(); hidePanels(); refreshAll(); };

// One token set, or both.
const viewRadios = /** @type {any[]} */ (all("input[name=view]"));
for (const radio of viewRadios) radio.addEventListener("change", () => {
  choose("view", radio.value === (page.both ? "both" : page.views[0]) ? null : radio.value);
  redraw();
});

// Selects and boxes, each with what it says of itself in the address, and what it says at first.
const boxes = /** @type {[any, string[], string][]} */ ([
  [field("corpus"), [], page.corpora?.[0]], [field("site"), [], "path"],
  [field("means"), ["yes", "no"], page.many ? "yes" : "no"], [field("baselines"), ["with", "without"], "with"],
].filter(([element]) => element));
for (const [element, words, first] of boxes) element.addEventListener("change", () => {
  const said = words.length ? words[element.checked ? 0 : 1] : element.value || "all";
  choose(element.id, said === first ? null : said);
  if (element.id === "corpus") showTables();
  redraw();
  showHighlight();
});
function showBoxes() {
  for (const radio of viewRadios) radio.checked = radio.value === (chosen.beside ? "both" : chosen.view);
  for (const [element, words] of boxes) {
    if (words.length) element.checked = [true, "with"].includes(chosen[element.id]);
    else element.value = chosen[element.id];
  }
}

const slider = field("moment");
function showMoment() {
  slider.value = chosen.moment;
  const { label } = page.moments[chosen.moment];
  slider.setAttribute("aria-valuetext", label);
  find("#moment-label").textContent = label;
}
function setMoment(number) {
  choose("moment", number === page.moments.length - 1 ? null : page.moments[number].label, true);
  showMoment();
  return refreshAll();
}
if (slider) {
  const play = find("button.play");
  let timer = null;
  const say = (sign, label) => { find("span", play).textContent = sign; play.setAttribute("aria-label", label); };
  const stop = () => { clearInterval(timer); timer = null; say("▶", "Play through training"); };
  slider.addEventListener("input", () => { stop(); setMoment(Number(slider.value)); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    say("❚❚", "Stop");
    const last = page.moments.length - 1;
    setMoment(chosen.moment === last ? 0 : chosen.moment + 1);
    timer = setInterval(() => {
      if (chosen.moment >= last) return stop();
      setMoment(chosen.moment + 1);
    }, 900);
  });
}
const legend = /** @type {any} */ (document.querySelector(".legend"));
const buttons = all("button.model");
const ofRole = role => Object.keys(page.roles).filter(model => page.roles[model] === role);

const toggle = model => highlight([...chosen.highlight].includes(model) ? [...chosen.highlight].filter(other => other !== model) : [...chosen.highlight, model]);
function showHighlight() {
  dispatchEvent(new Event("models-chosen"));
  for (const button of buttons) button.setAttribute("aria-pressed", String(chosen.highlight.has(String(button.dataset.model))));
  for (const button of all("button.role-name")) {
    const own = ofRole(button.dataset.role);
    button.setAttribute("aria-pressed", String(chosen.highlight.size === own.length && own.every(model => chosen.highlight.has(model))));
  }
  legend?.classList.toggle("some", chosen.highlight.size > 0);
  legend?.classList.toggle("without", chosen.baselines === "without");
  refreshAll();
}
function highlight(models) {
  choose("highlight", models);
  showHighlight();
}
for (const button of all("button.role-name")) button.addEventListener("click", () => {
  highlight(button.getAttribute("aria-pressed") === "true" ? [] : ofRole(button.dataset.role));
});

const othersOf = model => buttons.map(other => String(other.dataset.model)).filter(other => other !== model);
function showHidden() {
  for (const button of buttons) {
    const model = String(button.dataset.model);
    const row = button.parentElement;
    row?.classList.toggle("off", chosen.hidden.has(model));
    row?.querySelector(".hide")?.setAttribute("aria-pressed", String(chosen.hidden.has(model)));
    const others = othersOf(model);
    row?.querySelector(".solo")?.setAttribute("aria-pressed", String(!chosen.hidden.has(model) && others.length > 0 && others.every(other => chosen.hidden.has(other))));
  }
  find(".show-all").hidden = chosen.hidden.size === 0;
  redraw();
}
function hide(models) {
  choose("hide", models);
  showHidden();
}
function showName(button) {
  const model = button.dataset.model;
  find("span", button).textContent = nameOf(model);
  button.title = nameOf(model) === model ? model : `${nameOf(model)}, in the study ${model}`;
}
// A model is drawn under any name that the reader likes; no name is the study's own again, and no two are alike.
function rename(model, name) {
  const taken = buttons.some(button => button.dataset.model !== model && nameOf(String(button.dataset.model)) === name);
  choose(`name.${model}`, name && name !== model && !taken ? name : null);
  showNames();
  refreshAll();
}
// Sentences and tables use the reader's names, too: their words as written, of which "the base" is no model. The text of a
// <noscript> is markup and stays as it is: its words are read once they are elements.
const AS_WRITTEN = "svg, pre, code, option, button, output, noscript, script, style, .panel";
const written = /** @type {Map<any, string>} */ (new Map());
function readWords(part) {
  const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (!texts.currentNode.parentElement?.closest(AS_WRITTEN)) written.set(texts.currentNode, String(texts.currentNode.nodeValue));
}
addEventListener("section-filled", event => {
  if (!written.size) return;
  readWords(event.target);
  showNames();
});
function showNames() {
  const names = Object.keys(chosen.names).map(name => name.replace(/[^\w-]/g, "\\$&"));
  if (names.length && !written.size) for (const part of all("header.top, main")) readWords(part);
  const whole = new RegExp(`(?<![\\w-]|\\bthe )(?:${names.join("|")})(?![\\w-])`, "g");
  for (const [node, text] of written) node.nodeValue = text.replace(whole, nameOf);
}
function askName(button) {
  const model = button.dataset.model;
  const field = make("input", {
    type: "text", class: "rename", value: nameOf(model), maxlength: 60, "aria-label": `Name of ${model} on this page`, onblur: () => done(true),
    onkeydown: event => { event.stopPropagation(); if (["Enter", "Escape"].includes(event.key)) { event.preventDefault(); done(event.key === "Enter"); } },
  });
  const done = (/** @type {boolean} */ take) => {
    if (!button.hidden) return;  // a field that is removed loses its focus, too
    button.hidden = false;
    if (take) rename(model, field.value.trim());
    field.remove();
    showName(button);
    button.focus();
  };
  button.hidden = true;
  button.before(field);
  field.select();
}

for (const button of buttons) {
  const model = String(button.dataset.model);
  const row = make("span", { class: "model-row" });
  button.replaceWith(row);
  row.append(
    button,
    make("button", { type: "button", class: "hide", "aria-label": `Hide ${model}`, "aria-pressed": "false", title: "Hide, or show again", text: "hide", onclick: () => hide(chosen.hidden.has(model) ? [...chosen.hidden].filter(other => other !== model) : [...chosen.hidden, model]) }),
    make("button", { type: "button", class: "solo", "aria-label": `Show ${model} alone`, "aria-pressed": "false", title: "Show it alone, or all again", text: "only", onclick: event => {
      const alone = event.currentTarget.getAttribute("aria-pressed") === "true";
      hide(alone ? [] : othersOf(model));
    } }),
    make("button", { type: "button", class: "name", "aria-label": `Rename ${model}`, title: "Rename on this page", text: "✎", onclick: () => askName(button) }),
  );
  button.addEventListener("click", () => toggle(model));
  showName(button);
}
if (legend && buttons.length) {
  find(".pop", legend).append(make("button", { type: "button", class: "show-all", text: "Show all models", onclick: () => { choose("only", null); hide([]); } }));
  // a list over the charts closes when the reader goes on
  addEventListener("pointerdown", ({ target }) => { if (legend.open && target instanceof Node && !legend.contains(target)) legend.open = false; });
}
addEventListener("keydown", event => {
  if (event.key !== "Escape") return;
  if (legend?.open) legend.open = false;
  else if (chosen.highlight.size) highlight([]);
});
addEventListener("press-model", event => { if (buttons.some(button => button.dataset.model === /** @type {CustomEvent} */ (event).detail)) toggle(/** @type {CustomEvent} */ (event).detail); });

// All controls as the address has it: when the page opens, and when the reader goes back.
function showChoices() {
  showBoxes();
  if (slider) showMoment();
  for (const button of buttons) showName(button);
  showNames();
  if (buttons.length) { showHidden(); showHighlight(); }
}
if (page.views) {
  showChoices();
  onBack(showChoices);
}

// On a telephone the controls wait behind a button.
const opener = /** @type {HTMLElement | null} */ (document.querySelector(".show-controls"));
opener?.addEventListener("click", () => opener.setAttribute("aria-expanded", String(opener.parentElement?.classList.toggle("with-controls"))));

// What the bar hides of what a link leads to.
const bar = /** @type {HTMLElement | null} */ (document.querySelector(".bar-of-study"));
if (bar) new ResizeObserver(() => { document.documentElement.style.setProperty("--bar", `${bar.offsetHeight}px`); }).observe(bar);

const links = new Map(all(".chips a, .contents a").map(link => [String(link.getAttribute("href")).slice(1), link]));
const reading = new IntersectionObserver(entries => {
  for (const entry of entries) links.get(entry.target.id)?.setAttribute("aria-current", String(entry.isIntersecting));
}, { rootMargin: "-15% 0px -70% 0px" });
for (const section of all("main section[id]")) reading.observe(section);

function revealTarget() {
  const target = placeOfAddress();
  if (!target) return;
  const lid = target.closest("details");
  if (lid) lid.open = true;
  hold(target);
}
// Charts above grow while they are drawn: what an address leads to stays in place until they rest, or the reader moves.
function hold(target) {
  const to = () => target.scrollIntoView(/** @type {any} */ ({ behavior: "instant" }));
  let rest = 0;
  const sizes = new ResizeObserver(() => { to(); clearTimeout(rest); rest = window.setTimeout(letGo, 1500); });
  const moves = ["wheel", "touchstart", "pointerdown", "keydown"];
  const letGo = () => { sizes.disconnect(); clearTimeout(rest); for (const move of moves) removeEventListener(move, letGo); };
  for (const move of moves) addEventListener(move, letGo, { passive: true });
  sizes.observe(find("main"), { box: "border-box" });
}
addEventListener("hashchange", revealTarget);
revealTarget();

// A reader finds her model among many: two keys, "f" and a letter, leave the names that hold it; Enter brings them out.
const finder = /** @type {HTMLInputElement | null} */ (document.querySelector("input#find-model"));

if (finder) {
  const said = /** @type {HTMLElement} */ (finder.parentElement?.querySelector("output"));
  const rowOf = button => button.closest(".model-row") ?? button;
  const matching = () => buttons.filter(button => String(button.textContent).toLowerCase().includes(finder.value.trim().toLowerCase()));
  const showMatches = () => {
    const found = matching();
    for (const button of buttons) rowOf(button).classList.toggle("unfound", !found.includes(button));
    said.textContent = finder.value.trim() ? `${found.length} of ${buttons.length}` : "";
  };
  finder.addEventListener("input", showMatches);
  finder.addEventListener("keydown", event => {
    if (event.key === "Escape") { finder.value = ""; showMatches(); finder.blur(); }
    else if (event.key === "Enter" && finder.value.trim()) {
      const wanted = matching();
      const on = wanted.some(button => button.getAttribute("aria-pressed") !== "true");
      for (const button of wanted) if ((button.getAttribute("aria-pressed") === "true") !== on) button.click();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  addEventListener("keydown", event => {
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || /** @type {Element} */ (event.target).closest?.("input, select, textarea")) return;
    legend.open = true;
    finder.focus();
    finder.select();
    event.preventDefault();
  });
}
