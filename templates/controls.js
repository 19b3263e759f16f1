// @ts-check
// What a reader chooses on a study's page.

import { all, find, make } from "./dom.js";
import { given, keep, page } from "./page.js";
import { chosen, hidePanels, momentOf, nameOf, refreshAll } from "./panels.js";

for (const name of ["view", "site"]) {
  for (const radio of all(`input[name=${name}]`)) {
    const tell = () => { find(`#${name}-about`).textContent = page.about[radio.value] ?? ""; };
    radio.checked = radio.value === chosen[name];
    if (radio.checked) tell();
    radio.addEventListener("change", () => {
      chosen[name] = radio.value;
      keep(name, radio === all(`input[name=${name}]`)[0] ? null : radio.value);
      tell();
      refreshAll();
    });
  }
}

/** @type {any} */
const baselines = document.getElementById("baselines");
if (baselines) {
  baselines.checked = chosen.baselines === "with";
  find(".legend").classList.toggle("without", !baselines.checked);
  baselines.addEventListener("change", () => {
    chosen.baselines = baselines.checked ? "with" : "without";
    keep("baselines", baselines.checked ? null : "without");
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
  keep("moment", number === page.moments.length - 1 ? null : page.moments[number].label);
  slider.value = number;
  const { label } = page.moments[number];
  slider.setAttribute("aria-valuetext", label);
  find("#moment-label").textContent = label;
  return refreshAll();
}
if (slider) {
  setMoment(chosen.moment);
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

// ---------------------------------------------------------------- the legend

/** @type {HTMLElement | null} */
const legendElement = document.querySelector(".legend");
const buttons = all("button.model");
const ofRole = role => Object.keys(page.roles).filter(model => page.roles[model] === role);

function toggle(model) {
  chosen.highlight.delete(model) || chosen.highlight.add(model);
  showHighlight();
}
function showHighlight() {
  for (const button of buttons) button.setAttribute("aria-pressed", String(chosen.highlight.has(String(button.dataset.model))));
  for (const button of all("button.role-name")) {
    const own = ofRole(button.dataset.role);
    button.setAttribute("aria-pressed", String(chosen.highlight.size === own.length && own.every(model => chosen.highlight.has(model))));
  }
  legendElement?.classList.toggle("some", chosen.highlight.size > 0);
  keep("highlight", chosen.highlight);
  refreshAll();
}
for (const button of all("button.role-name")) {
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") === "true";
    chosen.highlight = new Set(pressed ? [] : ofRole(button.dataset.role));
    showHighlight();
  });
}

function showHidden() {
  for (const button of buttons) {
    const model = String(button.dataset.model);
    const row = button.parentElement;
    row?.classList.toggle("off", chosen.hidden.has(model));
    row?.querySelector(".hide")?.setAttribute("aria-pressed", String(chosen.hidden.has(model)));
    const others = buttons.map(other => String(other.dataset.model)).filter(other => other !== model);
    row?.querySelector(".solo")?.setAttribute("aria-pressed", String(!chosen.hidden.has(model) && others.length > 0 && others.every(other => chosen.hidden.has(other))));
  }
  find(".show-all").hidden = chosen.hidden.size === 0;
  keep("hide", chosen.hidden);
  hidePanels();
  refreshAll();
}
function showName(button) {
  const model = button.dataset.model;
  find("span", button).textContent = nameOf(model);
  button.title = nameOf(model) === model ? model : `${nameOf(model)}, in the study ${model}`;
  keep(`name.${model}`, chosen.names[model] ?? null);
}
// A model is drawn under any name that the reader likes; no name is the study's own again, and no two are alike.
function rename(model, name) {
  const { [model]: _, ...others } = chosen.names;
  const taken = buttons.some(button => button.dataset.model !== model && nameOf(String(button.dataset.model)) === name);
  chosen.names = name && name !== model && !taken ? { ...others, [model]: name } : others;
  refreshAll();
}
function askName(button) {
  const model = button.dataset.model;
  const field = make("input", { type: "text", class: "rename", value: nameOf(model), maxlength: 60, "aria-label": `Name of ${model} on this page` });
  const done = (/** @type {boolean} */ take) => {
    if (!field.isConnected) return;
    if (take) rename(model, field.value.trim());
    field.remove();
    button.hidden = false;
    showName(button);
    button.focus();
  };
  field.addEventListener("keydown", event => {
    event.stopPropagation();
    if (event.key === "Enter") done(true);
    else if (event.key === "Escape") done(false);
  });
  field.addEventListener("blur", () => done(true));
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
    make("button", { type: "button", class: "hide", "aria-label": `Hide ${model}`, "aria-pressed": "false", title: "Hide, or show again", text: "hide", onclick: () => { chosen.hidden.delete(model) || chosen.hidden.add(model); showHidden(); } }),
    make("button", { type: "button", class: "solo", "aria-label": `Show ${model} alone`, "aria-pressed": "false", title: "Show it alone, or all again", text: "only", onclick: event => {
      const alone = event.currentTarget.getAttribute("aria-pressed") === "true";
      chosen.hidden = new Set(alone ? [] : buttons.map(other => String(other.dataset.model)).filter(other => other !== model));
      showHidden();
    } }),
    make("button", { type: "button", class: "name", "aria-label": `Rename ${model}`, title: "Rename on this page", text: "✎", onclick: () => askName(button) }),
  );
  button.addEventListener("click", () => toggle(model));
  showName(button);
}
if (legendElement && buttons.length) {
  legendElement.append(make("button", { type: "button", class: "show-all", text: "Show all models", onclick: () => { chosen.hidden = new Set(); showHidden(); } }));
  showHidden();
  if (chosen.highlight.size) showHighlight();
}
addEventListener("keydown", event => { if (event.key === "Escape" && chosen.highlight.size) { chosen.highlight.clear(); showHighlight(); } });
addEventListener("press-model", event => { if (buttons.some(button => button.dataset.model === /** @type {CustomEvent} */ (event).detail)) toggle(/** @type {CustomEvent} */ (event).detail); });

// ---------------------------------------------------------------- role means, two views beside each other

/** @type {HTMLElement | null} */
const switches = document.querySelector(".switches");
if (switches && page.views) {
  const own = make("div", { class: "reading-tools" });
  if (Object.keys(page.means ?? {}).length) {
    const box = make("input", { type: "checkbox", id: "means" });
    box.checked = chosen.means;
    box.addEventListener("change", () => { chosen.means = box.checked; keep("means", box.checked ? "yes" : null); refreshAll(); });
    own.append(make("label", { class: "toggle", title: "The mean of each role, its band from the lowest to the highest model" }, box, " role means"));
  }
  const others = [...page.views.map(view => ["view", view, view]), ...page.moments.map(({ label }) => ["moment", label, label])];
  if (page.views.length > 1 || page.moments.length > 1) {
    const select = make("select", { id: "beside", autocomplete: "off" }, make("option", { value: "", text: "nothing" }),
      page.views.length > 1 && make("optgroup", { label: "View" }, others.filter(([kind]) => kind === "view").map(([kind, value, text]) => make("option", { value: `${kind}.${value}`, text }))),
      page.moments.length > 1 && make("optgroup", { label: "Checkpoint" }, others.filter(([kind]) => kind === "moment").map(([kind, value, text]) => make("option", { value: `${kind}.${value}`, text }))));
    const [kind, value] = ["view", "moment"].map(name => [name, given(`beside.${name}`)]).find(([, value]) => value) ?? [];
    if (chosen.beside) select.value = `${kind}.${value}`;
    select.addEventListener("change", () => {
      const [, kind, value] = select.value.match(/^(view|moment)\.(.*)$/s) ?? [];
      chosen.beside = kind === "view" ? ["view", value] : kind === "moment" ? ["moment", momentOf(value)] : null;
      for (const name of ["view", "moment"]) keep(`beside.${name}`, name === kind ? value : null);
      refreshAll();
    });
    own.append(make("label", { class: "beside-pick" }, "Compare with ", select));
  }
  switches.append(own);
}

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

const links = new Map(all(".contents a").map(link => [String(link.getAttribute("href")).slice(1), link]));
const reading = new IntersectionObserver(entries => {
  for (const entry of entries) links.get(entry.target.id)?.setAttribute("aria-current", String(entry.isIntersecting));
}, { rootMargin: "-15% 0px -70% 0px" });
for (const section of all("main > section[id]")) reading.observe(section);

function revealTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const lid = target.closest("details");
  if (lid) lid.open = true;
  hold(target);
}
// Charts above it come and grow, twice as high where views stand beside each other: what an address leads to stays where
// it is until they rest, or the reader moves.
function hold(target) {
  const to = () => target.scrollIntoView(/** @type {any} */ ({ behavior: "instant" }));
  let rest = 0;
  const sizes = new ResizeObserver(() => { to(); clearTimeout(rest); rest = window.setTimeout(letGo, 1500); });
  const moves = ["wheel", "touchstart", "pointerdown", "keydown"];
  const letGo = () => { sizes.disconnect(); clearTimeout(rest); for (const move of moves) removeEventListener(move, letGo); };
  for (const move of moves) addEventListener(move, letGo, { passive: true });
  sizes.observe(find("main"));
}
addEventListener("hashchange", revealTarget);
revealTarget();

// A reader finds her model among many: two keys, "f" and a letter, leave the names that hold it; Enter brings them out.
/** @type {HTMLInputElement | null} */
const finder = document.querySelector("input#find-model");

if (finder) {
  const modelButtons = all("button.model");
  const said = /** @type {HTMLElement} */ (finder.parentElement?.querySelector("output"));
  const rowOf = button => button.closest(".model-row") ?? button;
  const matching = () => modelButtons.filter(button => String(button.textContent).toLowerCase().includes(finder.value.trim().toLowerCase()));
  const showMatches = () => {
    const found = matching();
    for (const button of modelButtons) rowOf(button).classList.toggle("unfound", !found.includes(button));
    said.textContent = finder.value.trim() ? `${found.length} of ${modelButtons.length}` : "";
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
    const legend = finder.closest("details");
    if (legend) legend.open = true;
    finder.focus();
    finder.select();
    event.preventDefault();
  });
}

// The table of contents: always open beside the charts, folded above them on a narrow screen.
const narrowToc = matchMedia("(max-width: 1079px)");
const tocs = all("details.toc");
const foldTocs = () => { for (const toc of tocs) toc.open = !narrowToc.matches; };
narrowToc.addEventListener("change", foldTocs);
foldTocs();
for (const toc of tocs) toc.addEventListener("click", event => { if (narrowToc.matches && /** @type {Element} */ (event.target).closest("a")) toc.open = false; });
