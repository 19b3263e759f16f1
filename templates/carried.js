// @ts-check
// A report in one file has no CSV beside it: what a reader saves is made of the rows that the page has.

import { columnsOf } from "./columns.js";
import { all, make } from "./dom.js";
import { part } from "./page.js";

/** @param {HTMLAnchorElement} link */
const fileOf = link => (link.getAttribute("href") ?? "").replace(/^data\//, "");

/** @param {unknown} value */
const field = value => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/**
 * Columns as CSV.
 * @param {({ rows: number } & Record<string, any>)[]} frames of the same columns
 */
export function csvOf(frames) {
  const names = Object.keys(frames[0] ?? {}).filter(name => name !== "rows");
  const lines = frames.flatMap(frame => Array.from({ length: frame.rows }, (_, i) => names.map(name => field(frame[name][i])).join(",")));
  return `${[names.map(field).join(","), ...lines].join("\n")}\n`;
}

/** @param {string} name a chart */
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
      const address = URL.createObjectURL(new Blob([text ?? ""], { type: made ? "text/csv" : "text/plain" }));
      make("a", { href: address, download: file }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    });
  }
}
