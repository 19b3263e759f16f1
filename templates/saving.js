// @ts-check
// Saves a whole figure as it is seen: title, legend, panels with their headings and sentences, and what the controls say.

import { viewOf } from "./charts.js";
import { all, element, find, make } from "./dom.js";
import { page } from "./page.js";
import { chosen } from "./panels.js";

const GAP = 18;
const LABEL = 11;
const FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif";

/** @param {string} text */
const xml = text => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[<>&"]/g, sign => `&#${sign.charCodeAt(0)};`);

const pen = /** @type {CanvasRenderingContext2D | null} */ (document.createElement("canvas").getContext("2d"));
/** @param {string} text @param {number} size */
function widthOf(text, size) {
  if (!pen) return text.length * size * 0.6;
  pen.font = `600 ${size}px ${FONT}`;
  return pen.measureText(text).width;
}

/**
 * A text in lines that are no wider than they may be.
 * @param {string} text @param {number} size @param {number} width
 */
export function wrap(text, size, width, measure = widthOf) {
  /** @type {string[]} */
  const lines = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : "";
    if (longer && measure(longer, size) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

// What is set so far, from top to bottom.
class Sheet {
  /** @param {number} width @param {string} ink @param {string} quiet */
  constructor(width, ink, quiet) {
    this.width = width;
    this.ink = ink;
    this.quiet = quiet;
    this.y = 2;
    /** @type {string[]} */
    this.parts = [];
  }

  /** @param {string} text */
  text(text, { size = LABEL, bold = false, quiet = false, x = 0, width = this.width } = {}) {
    for (const line of wrap(text, size, width)) {
      this.y += size * 1.3;
      this.parts.push(`<text x="${x}" y="${this.y - size * 0.3}" font-size="${size}" fill="${quiet ? this.quiet : this.ink}"${bold ? ' font-weight="600"' : ""}>${xml(line)}</text>`);
    }
  }

  /** @param {{ body: string, width: number }[]} entries a legend's, beside each other as far as they fit */
  flow(entries) {
    let x = 0;
    for (const { body, width } of entries) {
      if (x && x + width > this.width) { x = 0; this.y += 17; }
      this.parts.push(`<g transform="translate(${x},${this.y + 3})">${body}</g>`);
      x += width + 12;
    }
    if (entries.length) this.y += 20;
  }
}

/** @param {string} name @param {string} mark @param {number} indent */
const entry = (name, mark, indent) => ({ body: `${mark}<text x="${indent}" y="10.8" font-size="${LABEL}" fill="currentColor">${xml(name)}</text>`, width: indent + widthOf(name, LABEL) });

// The models of the page's legend, in their colours; an own page of charts has none.
function models() {
  return all(".legend button.model").filter(button => button.offsetParent !== null || !button.closest("details[open]")).map(button => {
    const line = find("line", button);
    const marks = [...find("svg", button).children].filter(shape => shape.tagName !== "line");
    const { stroke, strokeWidth } = getComputedStyle(line);
    const dash = line.getAttribute("stroke-dasharray") ?? "none";
    const drawn = marks.map(shape => {
      const copy = /** @type {Element} */ (shape.cloneNode());
      copy.setAttribute("fill", getComputedStyle(shape).fill);
      return new XMLSerializer().serializeToString(copy);
    });
    return entry(String(button.dataset.model), `<line x1="1" y1="7" x2="31" y2="7" stroke="${stroke}" stroke-width="${parseFloat(strokeWidth) || 2}" stroke-dasharray="${xml(dash)}"/>${drawn.join("")}`, 36);
  });
}

// Colours that a figure lists over itself: squares, and a strip of a scale.
/** @param {Element} figure */
function keys(figure) {
  const squares = all(".key .entry, .scale > span:has(> i)", figure).map(one => entry(String(one.textContent).trim(), `<rect y="2" width="10" height="10" rx="2" fill="${getComputedStyle(find("i", one)).backgroundColor}"/>`, 15));
  const strips = all(".scale:has(.ramp)", figure).flatMap(scale => [...scale.children].map((part, i) => {
    if (!part.classList.contains("ramp")) return entry(String(part.textContent).trim(), "", 0);
    const stops = getComputedStyle(part).backgroundImage.match(/(?:rgba?|color|oklab|oklch|lab)\([^()]*\)|#[0-9a-f]+/g) ?? [];
    const id = `ramp-${i}`;
    const colours = stops.map((colour, k) => `<stop offset="${k / Math.max(1, stops.length - 1)}" stop-color="${xml(colour)}"/>`);
    return { body: `<defs><linearGradient id="${id}">${colours.join("")}</linearGradient></defs><rect y="3" width="100" height="8" rx="2" fill="url(#${id})"/>`, width: 100 };
  }));
  return [...strips, ...squares];
}

// A panel's drawing: of Vega as it stands, of a canvas as a picture.
/** @param {any} panel @param {number} number */
async function drawing(panel, number) {
  const view = viewOf(panel.plot);
  if (view) {
    const svg = await view.toSVG();
    const box = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(svg);
    const body = svg.replace(/^<svg[^>]*>|<\/svg>\s*$/g, "").replace(/(\bid="|url\(#|href="#)/g, `$1p${number}-`);
    return { body, width: Number(box?.[1] ?? 300), height: Number(box?.[2] ?? 150) };
  }
  const canvas = panel.plot.querySelector("canvas");
  if (!canvas || !canvas.clientWidth) return null;
  const { clientWidth: width, clientHeight: height } = canvas;
  return { body: `<image width="${width}" height="${height}" href="${canvas.toDataURL("image/png")}"/>`, width, height };
}

// What the controls say of a figure, in words.
/** @param {Element} figure @param {any[]} panels */
function choices(figure, panels) {
  const of = panels[0]?.chart;
  const said = [];
  if (chosen.view) said.push(`Tokens: ${chosen.view}.`);
  if (of?.keys.includes("moment") && page.moments?.length > 1) said.push(`Checkpoint: ${page.moments[chosen.moment].label}.`);
  if (of?.keys.includes("site") && chosen.site === "attention") said.push("States after attention.");
  for (const select of all("select[data-pick]", figure)) {
    if (select.options.length > 1) said.push(`${String(select.labels?.[0]?.firstChild?.textContent).trim()}: ${select.selectedOptions[0]?.text}.`);
  }
  const study = document.title;
  return [...said, `${study}, ${document.querySelector("meta[name=generator]")?.getAttribute("content") ?? "reporter"}.`].join(" ");
}

/**
 * The figure as SVG.
 * @param {HTMLElement} figure its element
 * @param {number} millimetres how wide it shall be
 */
async function svgOf(figure, millimetres) {
  const panels = all(".panel", figure).filter(place => !place.hidden).map(place => /** @type {any} */ (place).panel).filter(Boolean);
  const drawn = [];
  for (const [number, panel] of panels.entries()) {
    if (panel.plot.classList.contains("void")) continue;
    const own = await drawing(panel, number);
    if (own) drawn.push({ ...own, label: panel.label, says: [...panel.sentence.children].map(part => String(part.textContent)), top: panel.element.offsetTop });
  }
  if (!drawn.length) throw new Error("nothing is drawn here yet");
  // as many beside each other as stand beside each other on the page
  const rows = [...new Set(drawn.map(one => one.top))].map(top => drawn.filter(one => one.top === top));
  const width = Math.max(...rows.map(row => row.reduce((sum, one) => sum + one.width + GAP, -GAP)));
  const style = getComputedStyle(figure);
  const sheet = new Sheet(width, style.color, getComputedStyle(find(".figure-number", figure)).color);
  const number = String(find(".figure-number", figure).firstChild?.textContent).trim();
  const title = String(find("h3", figure).textContent).trim();
  sheet.text(`${number}. ${title.charAt(0).toUpperCase()}${title.slice(1)}`, { size: 13.5, bold: true });
  sheet.y += 5;
  if (panels.some(panel => JSON.stringify(panel.chart.spec ?? {}).includes('"field":"model"'))) sheet.flow(models());
  sheet.flow(keys(figure));
  for (const row of rows) {
    const top = sheet.y + 4;
    let [x, bottom] = [0, top];
    for (const one of row) {
      sheet.y = top;
      sheet.text(one.label, { bold: true, x, width: one.width });
      sheet.parts.push(`<g transform="translate(${x},${sheet.y + 3})">${one.body}</g>`);
      sheet.y += 3 + one.height;
      for (const sentence of one.says) sheet.text(sentence, { size: 10, quiet: true, x, width: one.width });
      bottom = Math.max(bottom, sheet.y);
      x += one.width + GAP;
    }
    sheet.y = bottom + 8;
  }
  sheet.text(choices(figure, panels), { size: 10, quiet: true });
  const height = sheet.y + 2;
  const paper = style.backgroundColor.endsWith(", 0)") ? getComputedStyle(document.body).backgroundColor : style.backgroundColor;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${millimetres}mm" height="${(height * millimetres / width).toFixed(2)}mm" viewBox="0 0 ${width.toFixed(2)} ${height.toFixed(2)}" font-family="${FONT}" color="${style.color}"><rect width="100%" height="100%" fill="${paper}"/>${sheet.parts.join("")}</svg>`;
  return { svg, labels: LABEL * millimetres / width / 25.4 * 72, ratio: height / width };
}

/** @param {Blob} blob @param {string} name */
function keep(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** @param {string} svg @param {number} width @param {number} height in pixels @returns {Promise<Blob>} */
async function picture(svg, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, width, height);
  return new Promise((resolve, reject) => canvas.toBlob(blob => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}

for (const figure of all("article.figure:has(.panels)")) {
  const place = figure.querySelector(".figure-number");
  if (!place) continue;
  const id = figure.id.replace("figure-", "");
  const width = make("input", { type: "number", min: 30, max: 600, value: 170, "aria-label": "Width in millimetres" });
  const told = element("p", "hint");
  /** @param {"svg" | "png"} format */
  const save = async format => {
    try {
      const millimetres = Math.min(600, Math.max(30, Number(width.value) || 170));
      const { svg, labels, ratio } = await svgOf(figure, millimetres);
      const dots = Math.round(millimetres / 25.4 * 300);
      const blob = format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await picture(svg, dots, Math.round(dots * ratio));
      keep(blob, `${id}.${format}`);
      told.textContent = `Saved; its labels are ${labels.toFixed(1)} points high${format === "png" ? ", at 300 dots to the inch" : ""}.`;
    } catch (error) {
      told.textContent = `This figure could not be saved: ${error instanceof Error ? error.message : error}.`;
    }
  };
  const box = make("div", { class: "saving" },
    make("label", {}, "Width ", width, " mm"),
    make("p", {}, make("button", { type: "button", onclick: () => save("svg") }, "SVG"), make("button", { type: "button", onclick: () => save("png") }, "PNG")),
    told,
    make("p", { class: "hint" }, "As it is seen here. As PDF, and with labels of a certain size: ", make("code", { text: `reporter export ${page.study ?? "STUDY"} --figures ${id}` })));
  place.append(make("details", {}, make("summary", { text: "Save figure" }), box));
}
