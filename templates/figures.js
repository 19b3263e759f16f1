// Figures: a card opens as a drawer that fills the window, / searches, j and k go on and back, + pins a figure to the board.

import { drawnIn } from "./charts.js";
import { all, find, make } from "./dom.js";
import { drawTheme, given, givenAll, keep, onBack, page, part, placeOfAddress } from "./page.js";
import { chartOf, chosen, controlsSaid, findScale, hidePanels, nameOf, refreshAll } from "./panels.js";
import { columnsOf, csvOf, isFloor } from "./rows.js";
import { fill, written } from "./tables.js";
import { isolated, phrase } from "./tokens.js";

const root = document.documentElement;
const figures = all("article.figure[id^=figure-]").map(element => ({
  element,
  title: String((element.querySelector("h3 a") ?? element.querySelector("h3"))?.textContent).trim(),
  name: element.id.slice("figure-".length),
}));

// The figure that is open, alone in the window.
let open = /** @type {Figure | null} */ (null);
// All that is on the page besides an element and what holds it.
function besides(element) {
  const others = [];
  for (let own = element; own && own !== document.body; own = own.parentElement) others.push(...[...(own.parentElement?.children ?? [])].filter(other => other !== own && !other.matches("script, style, .tip, dialog")));
  return others;
}
function setOpen(figure, on) {
  figure.element.classList.toggle("open", on);
  for (const other of besides(figure.element)) /** @type {HTMLElement} */ (other).inert = on;
}
// Shows a figure large, or none: the address has it, so that Back closes it.
function show(figure, quiet = false) {
  if (figure === open) return;
  const was = open;
  if (was) setOpen(was, false);
  open = figure;
  if (!quiet) keep("figure", figure?.name ?? null);
  root.classList.toggle("with-open", !!figure);
  if (figure) {
    setOpen(figure, true);
    figure.element.scrollTop = 0;
    figure.element.tabIndex = -1;
    figure.element.focus({ preventScroll: true });
  } else if (was) {
    if (document.fullscreenElement) document.exitFullscreen();
    was.element.scrollIntoView(/** @type {any} */ ({ behavior: "instant", block: "nearest" }));
    find("button.fill", was.element).focus({ preventScroll: true });
  }
  hidePanels();
  dispatchEvent(new Event("resize"));
  refreshAll(panel => panel.stale || !!was?.element.contains(panel.element) || !!figure?.element.contains(panel.element));
}
document.addEventListener("fullscreenchange", () => dispatchEvent(new Event("resize")));

const tool = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ onclick) => make("button", { type: "button", text, "aria-label": label, title: label, onclick });
const pinned = () => givenAll("board");
function pin(name) {
  const board = pinned();
  keep("board", board.includes(name) ? board.filter(other => other !== name) : [...board, name]);
  showBoard();
}
// The board: the figures that a reader chose, first on the page and in the address.
const board = make("section", { class: "group board", "aria-label": "Board", hidden: true }, make("h2", { text: "Board" }),
  make("p", { class: "lead", text: "The figures that you pinned. The address holds them: share it." }), make("div", { class: "cards-of-figures" }));
const places = /** @type {Map<Figure, Comment>} */ (new Map());
function showBoard() {
  const chosenFigures = pinned().flatMap(name => figures.filter(figure => figure.name === name && figure.element.matches(".card")));
  board.hidden = chosenFigures.length === 0;
  for (const [figure, place] of places) if (!chosenFigures.includes(figure)) { place.replaceWith(figure.element); places.delete(figure); }
  for (const figure of chosenFigures) {
    if (!places.has(figure)) {
      const place = document.createComment(figure.name);
      figure.element.before(place);
      places.set(figure, place);
    }
    find(".cards-of-figures", board).append(figure.element);
  }
  board.style.setProperty("--cards", String(chosenFigures.length));
  const names = pinned();
  for (const { element, name } of figures) {
    const button = element.querySelector("button.pin");
    if (!button) continue;
    button.setAttribute("aria-pressed", String(names.includes(name)));
    button.textContent = names.includes(name) ? "−" : "+";
  }
  refreshAll(panel => board.contains(panel.element));
}

for (const figure of figures) {
  const { element, title, name } = figure;
  const card = element.matches(".card");
  const pinButton = make("button", { type: "button", class: "pin", "aria-pressed": "false", "aria-label": `Pin ${title} to the board`, title: "Pin to the board", text: "+", onclick: () => pin(name) });
  find("h3", element).after(make("span", { class: "figure-tools" },
    card && pinButton,
    make("button", { type: "button", class: "fill", "aria-label": `Show ${title} large`, title: "Show large (e)", onclick: () => show(figure) },
      make("svg:svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" }, make("svg:path", { d: "M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }))),
    make("span", { class: "open-tools" },
      tool("‹", "Previous figure (k)", () => step(-1)), tool("›", "Next figure (j)", () => step(1)),
      tool("⤢", "Whole screen", () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen?.().catch(() => {}))),
      tool("✕", "Close (Esc)", () => show(null)))));
  if (card) element.addEventListener("click", event => {
    const target = /** @type {Element} */ (event.target);
    const link = target.closest("a.open-figure");
    if (open || (!link && target.closest("a, button, select, label, input, summary, .plot")) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(figure);
  });
}
const seen = () => figures.filter(({ element }) => element === open?.element || element.checkVisibility());
function step(way) {
  const own = open ? figures.filter(({ element }) => element.matches(".card") ? root.classList.contains("all-figures") || !element.matches(".extra") : true) : seen();
  const focused = own.findIndex(({ element }) => element === document.activeElement);
  const at = open ? own.indexOf(open) : focused >= 0 ? focused : own.filter(({ element }) => element.getBoundingClientRect().top < 0).length - 1;
  const next = own[Math.max(0, at + way)];
  if (!next) return;
  if (open) return show(next);
  next.element.scrollIntoView(/** @type {any} */ ({ behavior: "instant" }));
  next.element.tabIndex = -1;
  next.element.focus({ preventScroll: true });
}

// All figures of Layers, or the main ones.
const allBox = /** @type {any} */ (document.getElementById("all-figures"));
function showAllFigures() {
  if (!allBox) return;
  allBox.checked = given("all") === "yes";
  root.classList.toggle("all-figures", allBox.checked);
}
allBox?.addEventListener("change", () => { keep("all", allBox.checked ? "yes" : null); showAllFigures(); });

function fromAddress() {
  showAllFigures();
  showBoard();
  const asked = figures.find(({ name }) => name === given("figure")) ?? null;
  show(asked, true);
}
if (figures.length) {
  document.querySelector(".head-of-page")?.after(board);
  fromAddress();
  onBack(fromAddress);
}
// An address of a single figure may name it behind the #, as links from other pages do.
if (location.hash.startsWith("#figure-")) show(figures.find(({ element }) => element.matches(".card") && element === placeOfAddress()) ?? null, true);

// Search: figures of all pages, by title, definition, source or another word for them; models, claims, sinks, terms.
const field = make("input", { type: "search", "aria-label": "Search", placeholder: "Figure, metric, author, token or term", autocomplete: "off", spellcheck: "false" });
const list = make("ul", { class: "found" });
const dialog = make("dialog", { class: "search", "aria-label": "Search" }, field, list,
  make("p", { class: "hint" }, ["/ search", "j next figure", "k previous", "e large", ", and . one layer", "Esc back"].map(text => make("span", {}, make("kbd", { text: text.split(" ")[0] }), ` ${text.split(" ").slice(1).join(" ")} `))));
const index = () => part("search").catch(() => []);
// What begins with what was typed stands first, then what has it in its title, then what has it elsewhere.
async function showFound() {
  const typed = field.value.trim().toLowerCase();
  const parts = typed.split(/\s+/).filter(Boolean);
  const hits = (await index()).map((/** @type {Hit} */ hit) => ({ hit, title: hit.title.toLowerCase(), all: `${hit.title.toLowerCase()} ${hit.words} ${hit.about.toLowerCase()}` }));
  const rank = (/** @type {string} */ title) => (!typed || title.startsWith(typed) ? 0 : title.split(/[^\p{L}\p{N}]+/u).some(word => word.startsWith(parts[0])) ? 1 : title.includes(parts[0]) ? 2 : 3);
  const found = hits.filter(({ all }) => parts.every(part => all.includes(part))).sort((a, b) => rank(a.title) - rank(b.title));
  list.replaceChildren(...found.slice(0, 60).map(({ hit }) => make("li", {}, make("a", { href: hit.href, onclick: event => follow(event, hit.href) }, make("b", { text: hit.title }), make("small", { text: ` ${hit.about}` })))));
  if (!found.length) list.replaceChildren(make("li", { class: "nothing" }, "Nothing has these words. ", make("a", { href: "method.html#glossary", text: "See the glossary" }), "."));
}
// A figure of this page opens here; all else is a link.
function follow(event, href) {
  const name = new URLSearchParams(href.split("?")[1] ?? "").get("figure") ?? href.split("#figure-")[1];
  const figure = figures.find(own => own.name === name);
  dialog.close();
  if (!figure) return;
  event.preventDefault();
  figure.element.matches(".card") ? show(figure) : figure.element.scrollIntoView();
}
function search() {
  if (dialog.open) return;
  field.value = "";
  showFound();
  dialog.showModal();
  field.focus();
}
field.addEventListener("input", showFound);
dialog.addEventListener("keydown", event => {
  event.stopPropagation();
  const own = all("a", list);
  const at = own.indexOf(/** @type {any} */ (document.activeElement));
  if (event.key === "ArrowDown") own[Math.min(own.length - 1, at + 1)]?.focus();
  else if (event.key === "ArrowUp") (own[at - 1] ?? field).focus();
  else if (event.key === "Enter" && document.activeElement === field) own[0]?.click();
  else if (event.key === "Escape") dialog.close();  // of itself the first press would only empty the field
  else return;
  event.preventDefault();
});
const finder = /** @type {HTMLElement | null} */ (document.querySelector("button.find"));
if (finder) {
  document.body.append(dialog);
  finder.addEventListener("click", search);
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input:not([type=range], [type=radio], [type=checkbox]), select, textarea"))) return;
    if (event.key === "/") search();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "e" && figures.length) show(open ? null : seen().find(({ element }) => element.contains(document.activeElement)) ?? seen()[0] ?? null);
    else if (event.key === "Escape" && open) show(null);
    else return;
    event.preventDefault();
  });
}
// Saves a whole figure as it is seen: one Vega-Lite chart of its panels, with title, legends and what the controls say.
const LABEL = 11;
const FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif";

// A text in lines of about a width; Vega cuts off what a font makes wider.
function wrap(text, size, width) {
  const lines = [], most = Math.max(8, width / (0.55 * size));
  for (const word of text.split(/\s+/).filter(Boolean)) {
    if (lines.length && lines[lines.length - 1].length + word.length < most) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}
// Legends of the columns that a chart has colours for.
function withLegends(spec, title, present, width) {
  if (!spec || typeof spec !== "object") return spec;
  if (Array.isArray(spec)) return spec.map(part => withLegends(part, title, present, width));
  const own = Object.fromEntries(Object.entries(spec).map(([name, part]) => [name, withLegends(part, title, present, width)]));
  for (const channel of ["color", "shape", "strokeDash"]) {
    const encoding = own.encoding?.[channel];
    if (!encoding?.field || encoding.legend !== null) continue;
    const ramp = encoding.type === "quantitative";
    if (ramp) delete own.encoding.stroke;
    const values = encoding.scale?.domain?.filter(name => present.has(name));
    if (values?.length === 0) continue;  // a legend of nothing has no finite bounds
    const columns = Math.max(1, Math.floor(width / (34 + 0.55 * LABEL * Math.max(8, ...(values ?? []).map(value => String(value).length)))));
    own.encoding[channel] = { ...encoding, legend: { orient: "top", title: ramp ? title : null, ...(ramp ? { type: "gradient", gradientLength: 140, gradientThickness: 8 } : { values, columns, symbolOpacity: 1 }) } };
  }
  return own;
}
// A panel as a part of that chart: as Vega has it, or the picture of a canvas.
function partOf(panel, number, title, width) {
  const subtitle = [...panel.sentence.children].map(part => String(part.textContent)).filter(Boolean);
  const heading = panel.label ? { title: { text: panel.label, subtitle } } : {};
  const drawn = drawnIn(panel.plot), canvas = panel.plot.querySelector("canvas");
  if (!drawn) {
    const size = { width: canvas.clientWidth, height: canvas.clientHeight };
    const mark = { type: "image", url: canvas.toDataURL("image/png"), ...size, align: "left", baseline: "top", x: 0, y: 0 };
    return { part: { ...heading, ...size, data: { values: [{}] }, mark, view: { stroke: null } }, width: size.width };
  }
  // a part of a chart has no signals of its own width and height
  const sized = JSON.parse(JSON.stringify(drawn.spec), (key, value) => (["expr", "calculate"].includes(key) && typeof value === "string" ? value.replace(/(?<!\.)\bwidth\b/g, drawn.width).replace(/(?<!\.)\bheight\b/g, drawn.height) : value));
  const { params = [], datasets, autosize, description, config, ...spec } = sized;
  const present = new Set(drawn.rows.flatMap(row => Object.values(row)));
  return {
    part: { ...withLegends(spec, title, present, width), ...heading, data: { name: `rows${number}` }, width: drawn.width, height: drawn.height },
    datasets: { ...datasets, [`rows${number}`]: drawn.rows }, params: params.filter(param => !param.select), width: drawn.width,
  };
}
// What the controls say of a figure, and where it is from, in sentences.
function caption(panels) {
  const words = controlsSaid(panels[0].chart).map(text => `${text[0].toUpperCase()}${text.slice(1)}.`);
  return [...words, `${document.title}, ${document.querySelector("meta[name=generator]")?.getAttribute("content") ?? "reporter"}.`].join(" ");
}
// Panels of a figure, or of several, as SVG, as wide as is asked for in millimetres.
async function svgOf(figure, millimetres, title = "") {
  const panels = all(".panel", figure).filter(place => !place.hidden).map(place => /** @type {any} */ (place).panel).filter(panel => panel && !panel.plot.classList.contains("void") && (drawnIn(panel.plot) || panel.plot.querySelector("canvas")));
  if (!panels.length) throw new Error("nothing is drawn here yet");
  const scale = String(figure.querySelector(".scale:has(.ramp)")?.textContent ?? "").replace(/\s+/g, " ").trim();
  const columns = panels.filter(panel => panel.element.offsetTop === panels[0].element.offsetTop).length;
  const parts = panels.map((panel, i) => partOf(panel, i, scale, columns * panels[0].plot.clientWidth));
  const across = columns * (parts[0].width + 40);
  const lines = wrap(caption(panels), 10, across);
  const quiet = getComputedStyle(find(".reading", figure)).color;
  const config = { ...THEMES[drawTheme()], font: FONT, autosize: "pad", title: { anchor: "start", frame: "group", fontSize: LABEL, color: getComputedStyle(figure).color, subtitleColor: quiet, subtitleFontSize: 10 } };
  const params = new Map(parts.flatMap(part => part.params ?? []).map(param => [param.name, param]));
  const { view, finalize } = await window.vegaEmbed(make("div"), {
    title: { text: wrap(`${title.charAt(0).toUpperCase()}${title.slice(1)}`, 13.5, across), fontSize: 13.5, offset: 12 },
    params: [...params.values()],
    datasets: Object.assign({}, ...parts.map(part => part.datasets)),
    spacing: 10,
    vconcat: [
      { concat: parts.map(({ part }) => part), columns, spacing: 22, resolve: { scale: { color: "shared", shape: "shared", strokeDash: "shared" } } },
      { data: { values: [{}] }, mark: { type: "text", text: lines, align: "left", baseline: "top", fontSize: 10, color: quiet, x: 0, y: 0 }, width: parts[0].width, height: 13 * lines.length, view: { stroke: null } },
    ],
  }, { mode: "vega-lite", renderer: "svg", actions: false, config, logLevel: 1, ast: true });
  const drawing = await view.toSVG();
  finalize();
  const [, width, height] = (/viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(drawing) ?? []).map(Number);
  const svg = drawing.replace(/ width="[^"]*"/, ` width="${millimetres}mm"`).replace(/ height="[^"]*"/, ` height="${(height * millimetres / width).toFixed(2)}mm"`);
  return { svg, labels: LABEL * millimetres / width / 25.4 * 72, ratio: height / width };
}

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function picture(svg, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, width, height);
  return new Promise((resolve, reject) => canvas.toBlob(blob => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}

for (const { element: figure, name, title } of figures) {
  const place = figure.querySelector(".exports");
  if (!place || !figure.querySelector(".panels")) continue;
  const width = make("input", { type: "number", min: 30, max: 600, value: 170, "aria-label": "Width in millimetres" });
  const told = make("span", { class: "hint" });
  const made = async format => {
    const millimetres = Math.min(600, Math.max(30, Number(width.value) || 170));
    const { svg, labels, ratio } = await svgOf(figure, millimetres, title);
    const dots = Math.round(millimetres / 25.4 * 300);
    told.textContent = ` Labels are ${labels.toFixed(1)} points high${format === "png" ? ", at 300 dots to the inch" : ""}.`;
    return format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : picture(svg, dots, Math.round(dots * ratio));
  };
  place.append("Picture ", width, " mm wide: ", ...pictureButtons(made, name, told), told,
    make("span", { class: "hint" }, " For print, as PDF or for LaTeX: ", make("code", {}, `reporter export ${page.study ?? "STUDY"} `, make("span", { class: "nowrap", text: `--figures ${name}` }))));
}
// Buttons that save or copy a picture.
function pictureButtons(made, name, told) {
  const attempt = (/** @type {() => Promise<void>} */ act) => async () => {
    try { await act(); } catch (error) { told.textContent = ` No picture: ${error instanceof Error ? error.message : error}.`; }
  };
  return [
    ...["SVG", "PNG"].map(text => make("button", { type: "button", text, onclick: attempt(async () => download(await made(text.toLowerCase()), `${name}.${text.toLowerCase()}`)) })),
    make("button", { type: "button", text: "Copy", title: "Copy as PNG", onclick: attempt(async () => { await navigator.clipboard.write([new ClipboardItem({ "image/png": await made("png") })]); told.textContent = " Copied."; }) }),
  ];
}
// The main picture of Overview, in one press.
const four = /** @type {HTMLElement | null} */ (document.querySelector("#glance"));
if (four) {
  const told = make("span", { class: "hint" });
  const made = async format => {
    const { svg, ratio } = await svgOf(four, 254, document.title);
    return format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : picture(svg, 2400, Math.round(2400 * ratio));
  };
  four.append(make("p", { class: "exports" }, "This picture: ", ...pictureButtons(made, page.study ?? "study", told), told));
}
// Paper shows every chart in ink on white, each with its key and with the choices of the controls in words.

function keyOf(chart) {
  // the chart, or the page, has a key of its own
  if (chart.kind === "dots" || chart.key || document.querySelector(".legend-of-models") || !findScale(chart.spec, "model")) return [];
  const there = new Set([...chart.frames.values()].flatMap(columns => columns.model ?? []));
  const shown = name => there.has(name) && !chosen.hidden.has(name) && !(chosen.baselines === "without" && page.baselines.includes(name));
  const buttons = all(".legend button.model").filter(button => shown(button.dataset.model));
  const named = ["profile", "training"].includes(chart.kind) && buttons.length > 1 && buttons.length <= 6;  // at the ends of lines
  return (named ? [] : buttons)
    .map(button => make("span", { class: "entry" }, button.querySelector("svg")?.cloneNode(true), isolated(nameOf(String(button.dataset.model)))));
}
// Draws a figure, and says what it shows once its rows are there.
async function printFigure(figure) {
  const place = /** @type {HTMLElement | null} */ (figure.querySelector(".panel[data-chart], [data-slots]"));
  if (!place) return;
  const chart = chartOf(place.dataset.chart ?? place.dataset.slots);
  const heading = figure.querySelector("h2, h3");
  const words = controlsSaid(chart);
  if (words.length) heading?.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
  const late = make("p", { class: "on-paper nothing" }, "Its numbers had not been read yet when this was printed. Print it again.");
  find(".panels", figure).before(late);
  await refreshAll(panel => figure.contains(panel.element) && !!panel.element.offsetParent);
  late.remove();
  const entries = keyOf(chart);
  if (entries.length) find(".panels", figure).before(make("p", { class: "on-paper" }, make("span", { class: "key" }, entries)));
}
// The choices of journeys, whose controls are made by their page.
function tellBar(bar) {
  const words = all(".choice", bar).map(choice => [choice.querySelector("legend, label"), choice.querySelector("input:checked + span, output")])
    .filter(pair => pair.every(Boolean)).map(pair => pair.map(one => String(one?.textContent).trim().toLowerCase()).join(": "));
  if (words.length) bar.after(make("p", { class: "on-paper panel-name" }, words.join(" · ")));
}

// No answer waits under a lid on paper. Of Overview the first answer and the main figures come first, long tables last.
const lids = () => /** @type {HTMLDetailsElement[]} */ (all("details.folded-answer, details.more, .answer details"));
let opened = /** @type {HTMLDetailsElement[]} */ ([]);
const appendix = make("section", { class: "on-paper appendix" });
const moved = /** @type {Map<Element, Comment>} */ (new Map());
function move(element, put) {
  const place = document.createComment("");
  element.before(place);
  moved.set(element, place);
  put(element);
}
function orderForPaper(main) {
  for (const table of all(".answer > details", main)) {
    const answer = table.closest(".folded-answer, .lead-answer")?.querySelector("h2")?.textContent;
    appendix.append(make("h3", { text: [answer, table.parentElement?.dataset.about].filter(Boolean).join(" · ") }));
    move(table, own => appendix.append(own));
  }
  if (appendix.childElementCount) { appendix.prepend(make("h2", { text: "What the answers rest on" })); main.append(appendix); }
  const first = main.firstElementChild, charts = main.querySelector("#glance"), figure = first.querySelector(".lead-figure"), rest = first.querySelector(":scope > .more");
  if (figure) move(figure, own => first.querySelector(".answer").after(own));
  if (charts && charts !== first) move(charts, own => first.after(own));
  if (!rest) return;
  const further = make("section", { class: "on-paper" }, make("h2", { text: `${first.querySelector("h2").textContent} (continued)` }));
  (charts ?? first).after(further);
  move(rest, own => further.append(own));
}
addEventListener("beforeprint", () => {
  root.classList.add("paper");
  opened = lids().filter(lid => !lid.open);
  for (const lid of opened) { fill(lid); lid.open = true; }
  for (const main of all("main.overview")) orderForPaper(main);
  for (const bar of all(".bar, .own-bar")) tellBar(bar);
  for (const figure of all(".figure")) if (figure.offsetParent) printFigure(figure);
});
addEventListener("afterprint", () => {
  root.classList.remove("paper");
  for (const lid of opened) lid.open = false;
  for (const [element, place] of moved) place.replaceWith(element);
  moved.clear();
  appendix.replaceChildren();
  for (const note of all(".on-paper")) note.remove();
  refreshAll();
});
// The table behind a chart: the rows of its panels as the controls have them now, for keys, fingers and screen readers.
const MOST = 400;  // rows; the CSV beside the table has them all

// Columns of rows that differ, or all where none does: what every row says, the controls say. Whose number, where, and the
// number, with its interval, come first.
const LEADING = ["model", "model_a", "layer_a", "model_b", "layer_b", "layer", "value"];
function telling(rows) {
  const names = Object.keys(rows[0] ?? {}).filter(name => !["ci_low", "ci_high"].includes(name) && rows.some(row => row[name] !== null && row[name] !== undefined));
  const differing = names.filter(name => ["value", "model"].includes(name) || rows.some(row => row[name] !== rows[0][name]));
  const place = name => (LEADING.indexOf(name) + LEADING.length + 1) % (LEADING.length + 1);  // the others last, in their order
  return (differing.length ? differing : names).sort((a, b) => place(a) - place(b));
}

function tableOf(rows, title) {
  const columns = telling(rows);
  const numeric = new Set(columns.filter(name => rows.every(row => row[name] === null || typeof row[name] === "number")));
  const shown = rows.slice(0, MOST), texts = Object.fromEntries([...numeric].map(name => [name, written(shown, name)]));
  const count = rows.length.toLocaleString("en");
  return make("table", {},
    make("caption", { text: rows.length > MOST ? `${title}: the first ${MOST} of ${count} rows; the CSV has them all.` : `${title}: ${count} ${rows.length === 1 ? "row" : "rows"}.` }),
    make("thead", {}, make("tr", {}, columns.map(name => make("th", { scope: "col", class: numeric.has(name) ? "n" : "", text: name.replaceAll("_", " ") })))),
    make("tbody", {}, shown.map((row, place) => make("tr", {}, columns.map(name => make("td", { class: numeric.has(name) && "n", text: texts[name]?.[place] ?? phrase(row[name] ?? "–", 80) }))))));
}

async function fillTable(lid) {
  const chart = chartOf(lid.dataset.behind);
  const figure = /** @type {Element} */ (lid.closest(".figure"));
  await chart.load();
  const rows = [];
  for (const panel of [...chart.panels].filter(panel => figure.contains(panel.element) && !panel.element.hidden)) {
    const columns = await chart.columns(panel.value);
    for (const row of columns ? chart.rows(columns, panel) : []) rows.push(chart.facet || chart.parts === undefined ? row : { model: panel.label, ...row });
  }
  rows.sort((a, b) => Number(isFloor(a)) - Number(isFloor(b)));
  find(".scroll", lid).replaceChildren(rows.length ? tableOf(rows, chart.title) : make("p", { class: "nothing", text: "No numbers for this choice." }));
}
// Panels of one chart are shown one after the other: its table is made once for them all.
const waiting = /** @type {Set<HTMLDetailsElement>} */ (new Set());
function refill(lid) {
  if (!lid.open || waiting.has(lid)) return;
  waiting.add(lid);
  requestAnimationFrame(() => {
    waiting.delete(lid);
    fillTable(lid).catch(error => find(".scroll", lid).replaceChildren(make("p", { class: "broken", text: `This table could not be made. ${error}` })));
  });
}

for (const lid of all("details.behind")) lid.addEventListener("toggle", () => { if (lid.open) refill(lid); else find(".scroll", lid).replaceChildren(); });
addEventListener("panel-shown", event => {
  const lid = /** @type {Element} */ (event.target).closest(".figure")?.querySelector("details.behind");
  if (lid) refill(/** @type {HTMLDetailsElement} */ (lid));
});
// A report in one file has no CSV beside it: what a reader saves is made of the rows that the page has.
const fileOf = link => (link.getAttribute("href") ?? "").replace(/^data\//, "");

async function rowsOf(name) {
  const chart = await part(name);
  if (chart.data) return [columnsOf(chart.data)];
  return Promise.all(Object.entries(chart.parts ?? {}).map(async ([key, own]) => {
    const frame = columnsOf(await part(own));
    if (chart.facet) return frame;
    const [model, checkpoint] = key.split("|");
    return { model: Array(frame.rows).fill(model), checkpoint: Array(frame.rows).fill(checkpoint), ...frame };
  }));
}

if (window.reporterPacked) {
  const { reporterPacked, reporterHolds } = window;
  for (const link of /** @type {HTMLAnchorElement[]} */ (all("a[download]"))) {
    const file = fileOf(link), name = file.replace(/\.csv$/, "");
    const made = !reporterHolds(file);
    if (made && !reporterHolds(name)) {
      link.replaceWith(make("span", { class: "hint", text: `${link.textContent}: not in this file, but in the results folder` }));
      continue;
    }
    if (made) link.title = "Numbers in this file keep six significant digits; the results folder has all of them.";
    link.addEventListener("click", async event => {
      event.preventDefault();
      const text = made ? csvOf(await rowsOf(name)) : await reporterPacked(file);
      download(new Blob([text ?? ""], { type: made ? "text/csv" : "text/plain" }), file);
    });
  }
}
