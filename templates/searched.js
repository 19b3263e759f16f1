// Tables that a reader searches and filters: a field for words, and a choice for each column of few values.

import { all, find, make } from "./dom.js";

const MOST_VALUES = 12;

/** @param {Element} part */
function searchable(part) {
  const rows = /** @type {HTMLTableRowElement[]} */ (all("tbody tr", part));
  const heads = all("thead th", part);
  const text = (row, at) => row.cells[at]?.textContent?.trim() ?? "";
  const words = make("input", { type: "search", autocomplete: "off", placeholder: "words in the table", "aria-label": "Search this table" });
  const choices = heads.flatMap((element, at) => {
    const head = element.textContent ?? "";
    if (element.matches(".n") && head !== "layer") return []; // of numbers a reader chooses none
    const values = [...new Set(rows.map(row => text(row, at)))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    if (values.length < 2 || values.length > MOST_VALUES || values.length === rows.length) return [];
    const choice = make("select", { "aria-label": `Rows by ${head}` }, make("option", { value: "", text: `${head}: all` }), values.map(value => make("option", { value, text: `${head}: ${value}` })));
    return [{ at, choice }];
  });
  const count = make("output", { text: `${rows.length} rows` });

  function narrow() {
    const asked = words.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const whole = row.textContent?.toLocaleLowerCase() ?? "";
      row.hidden = !asked.every(word => whole.includes(word)) || choices.some(({ at, choice }) => choice.value && text(row, at) !== choice.value);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  }

  words.addEventListener("input", narrow);
  for (const { choice } of choices) choice.addEventListener("change", narrow);
  part.prepend(make("p", { class: "narrow" }, words, choices.map(({ choice }) => choice), count));
}

for (const part of all(".searched")) if (find("tbody tr", part)) searchable(part);
