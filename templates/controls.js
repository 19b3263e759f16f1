// What a reader chooses on a study's page.

import { unmountChart, viewOf } from "./charts.js";
import { all, find, make } from "./dom.js";
import { given, keep, onBack, page, placeOfAddress } from "./page.js";
import { choose, chosen, hidePanels, nameOf, panels, refreshAll } from "./panels.js";
import { rowsAt } from "./rows.js";
import { short } from "./tokens.js";

const field = id => /** @type {any} */ (document.getElementById(id));
// Numbers outside of charts are those of the first token set where both are shown.
const sets = all("[data-view]");
const showSet = () => { for (const element of sets) element.hidden = element.dataset.view !== chosen.view; };
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
  find(".pop", legend).append(make("button", { type: "button", class: "show-all", text: "Show all models", onclick: () => hide([]) }));
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
// One cursor over depth for all charts of a page: a line in each, and a table of the values there. The pointer moves it; a
// press, a finger, the keys , and . or the slider of the table fix it.
const MOST = 8;  // columns of the table
let pinned = -1;

const follows = panel => panel.chart.spec?.params?.some(param => param.name === "cursor");
const inSight = () => [...panels].filter(({ element, near }) => {
  if (!near || element.hidden || !element.checkVisibility()) return false;
  const { top, bottom } = element.getBoundingClientRect();
  return bottom - 60 > 0 && top + 60 < innerHeight;
}).sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
// The depths that the models in sight have, where the keys stop.
function stops() {
  const depths = inSight().filter(follows).flatMap(panel => panel.rows.flatMap(row => (typeof row.depth === "number" ? [row.depth] : [])));
  return [...new Set(depths.length ? depths : [0, 1])].sort((a, b) => a - b);
}
const depthSlider = field("depth");
const depthOutput = document.querySelector("output[for=depth]");
const readings = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values at this depth" });
const dock = make("aside", { class: "readout", "aria-label": "Values at one depth", hidden: true },
  make("div", { class: "readout-head" }, make("b"), make("span", { class: "hint", text: "The line marks the same depth in every chart. Click a chart to keep it, Esc removes it." }),
    make("button", { type: "button", class: "unread", "aria-label": "Remove the line", text: "✕", onclick: () => pin(-1) })),
  readings);
const swatch = model => document.querySelector(`button.model[data-model="${CSS.escape(model)}"] .swatch`)?.cloneNode(true);
const interval = row => (typeof row.ci_low === "number" && typeof row.ci_high === "number" ? make("small", { text: `${short(row.ci_low)} to ${short(row.ci_high)}` }) : null);
function readout() {
  dock.hidden = chosen.cursor < 0;
  dock.classList.toggle("passing", chosen.cursor !== pinned);  // it must not come between the pointer and its chart
  document.documentElement.classList.toggle("reading-depth", !dock.hidden);
  const depth = chosen.cursor < 0 ? "–" : chosen.cursor.toFixed(2);
  if (depthOutput) depthOutput.textContent = depth;
  depthSlider?.setAttribute("aria-valuetext", chosen.cursor < 0 ? "none" : `depth ${depth}`);
  if (depthSlider) depthSlider.value = String(Math.max(0, chosen.cursor));
  if (dock.hidden) return;
  find("b", dock).textContent = `Depth ${depth}${chosen.beside ? "" : ` · ${chosen.view ?? ""}`}`;
  const shown = inSight().filter(follows).slice(0, MOST);
  const columns = shown.map(panel => rowsAt(panel.rows, chosen.cursor));
  const order = [...all("button.model").map(button => String(button.dataset.model)), ...Object.values(page.means ?? {})];
  const models = [...new Set(columns.flatMap(column => [...column.keys()]))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  if (!models.length) return readings.replaceChildren(make("p", { class: "hint", text: "No chart over depth is in sight." }));
  // the layer that is read, or how many models a mean is of
  const about = model => columns.flatMap(column => column.get(model) ?? []).map(row => (typeof row.layer === "number" ? `layer ${row.layer}` : `mean of ${row.checkpoint}`))[0];
  readings.replaceChildren(make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col", text: "Model" }),
      shown.map(panel => make("th", { scope: "col", class: "n" }, panel.chart.title, make("small", { text: panel.label }))))),
    make("tbody", {}, models.map(model => make("tr", {},
      make("th", { scope: "row" }, swatch(model), ` ${nameOf(model)}`, make("small", { text: about(model) })),
      columns.map(column => {
        const row = column.get(model);
        return make("td", { class: "n" }, row ? short(row.value, 4) : "", row && interval(row));
      }))))));
}
let frameAsked = 0;
// Sets the line in what is near the window; what is not catches up when it comes.
function point(depth) {
  chosen.cursor = depth;
  if (frameAsked) return;
  frameAsked = requestAnimationFrame(() => {
    frameAsked = 0;
    for (const panel of panels) {
      if (!follows(panel)) continue;
      if (!panel.near) panel.stale = true;
      else viewOf(panel.plot)?.signal("cursor", chosen.cursor).runAsync();
    }
    readout();
  });
}
function pin(depth) {
  pinned = depth;
  keep("depth", depth < 0 ? null : String(Number(depth.toFixed(4))), true);
  dock.classList.add("known");
  point(depth);
}
// The depth under a pointer, or null where there is no chart over depth.
function depthAt(event) {
  const { clientX, target } = /** @type {PointerEvent} */ (event);
  const panel = /** @type {any} */ (target instanceof Element && target.closest(".plot")?.parentElement);
  const view = panel?.panel && follows(panel.panel) ? viewOf(panel.panel.plot) : null;
  const box = view && panel.querySelector("svg.marks")?.getBoundingClientRect();
  if (!box) return null;
  dock.classList.toggle("high", /** @type {PointerEvent} */ (event).clientY > innerHeight / 2);
  return Math.min(1, Math.max(0, view.scale("x").invert(clientX - box.left - view.padding().left - view.origin()[0])));
}

if (page.views) {
  document.body.append(dock);
  depthSlider?.addEventListener("input", () => pin(Number(depthSlider.value)));
  let over = false;
  addEventListener("pointermove", event => {
    const depth = depthAt(event);
    if (event.pointerType !== "mouse") {
      if (depth !== null) pin(depth);  // a finger that goes sideways; up and down it moves the page
    } else if (depth !== null) point(depth);
    else if (over) point(pinned);
    over = depth !== null;
  });
  addEventListener("click", event => {
    const depth = depthAt(event);
    if (depth !== null && !(event.target instanceof Element && event.target.closest("details, .mark-symbol, .mark-line"))) pin(depth);
  });
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input:not([type=range]), select, textarea, dialog"))) return;
    if (event.key === "Escape" && pinned >= 0) pin(-1);
    const step = { ",": -1, ".": 1 }[event.key];
    if (!step) return;
    const own = stops();
    const at = chosen.cursor;
    const next = at < 0 ? own[0] : step > 0 ? own.find(depth => depth > at + 1e-6) : own.filter(depth => depth < at - 1e-6).pop();
    if (next !== undefined) pin(next);
  });
  let waits = 0;
  addEventListener("scroll", () => { if (chosen.cursor >= 0) waits ||= window.setTimeout(() => { waits = 0; readout(); }, 200); }, { passive: true });
  addEventListener("panel-shown", () => { if (chosen.cursor >= 0) waits ||= window.setTimeout(() => { waits = 0; readout(); }, 60); });
  const depth = Number(given("depth") ?? -1);
  if (depth >= 0 && depth <= 1) pin(depth);
}
