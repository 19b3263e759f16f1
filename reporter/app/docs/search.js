// Search of the documentation: ranks sections by title, heading and text, and shows each with a snippet. It runs from a
// disk as well: `searchindex.js` gives `searchSections`, a list of [page, title, anchor, heading, text, words].

const STOP = new Set(
  "a an and are as at be by can do does for from has have how i if in is it its me my of on or that the there this to was what when where which who why will with without you your".split(" "),
);
const WEIGHTS = { title: 4, heading: 4, name: 2, text: 2 };
const LONG = 120; // words of a section beyond which its words count less

/** Return the stems of the words of a text; names such as `top_variance_share` count whole and by their parts. */
function stems(text) {
  const found = [];
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}_]+(?:[.-][\p{L}\p{N}_]+)*/gu) ?? []) {
    const parts = word.split(/[._-]/).filter(Boolean);
    for (const part of parts.length > 1 ? [word, ...parts] : parts) if (!STOP.has(part)) found.push(stem(part));
  }
  return found;
}

function stem(word) {
  const ends = [[/ies$/, "y"], [/(ss|sh|ch|x)es$/, "$1"], [/([^su])s$/, "$1"], [/(ization|isation|ising|izing|ised|ized|ise|ize)$/, "is"]];
  ends.push([/(.{3,})(ing|ed)$/, "$1"], [/(.)\1$/, "$1"], [/(.{3,})e$/, "$1"]);
  return /^\p{L}+$/u.test(word) ? ends.reduce((text, [end, to]) => (text.length > 3 ? text.replace(end, to) : text), word) : word;
}

function counted(words) {
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

/** Return an index of sections: how often each stem is in each field, and in how many sections it is at all. */
export function index(sections) {
  const frequency = new Map();
  const entries = sections.map(([page, title, anchor, heading, text, sought]) => {
    const words = stems(text);
    const fields = { title: counted(stems(title)), heading: counted(stems(`${heading} ${sought}`)), text: counted(words) };
    fields.name = counted(stems(`${page.replace(/\.html$/, "").replaceAll("/", " ")} ${anchor}`));
    for (const word of new Set(Object.values(fields).flatMap((of) => [...of.keys()]))) {
      frequency.set(word, (frequency.get(word) ?? 0) + 1);
    }
    return { page, title, anchor, heading, text, fields, long: Math.max(1, words.length / LONG) };
  });
  return { entries, frequency };
}

/** Return the sections that a query finds, the best of each page, the best page first. */
export function find({ entries, frequency }, query) {
  const wanted = [...new Set(stems(query))];
  const known = wanted.map((word, place) => {
    const last = place === wanted.length - 1 && word.length > 2; // it may not be typed to its end yet
    return frequency.has(word) || !last ? [word] : [...frequency.keys()].filter((other) => other.startsWith(word));
  });
  const pages = new Map();
  for (const entry of entries) {
    const scores = known.map((words) => Math.max(0, ...words.map((word) => scored(entry, word, entries.length / (frequency.get(word) ?? 1)))));
    if (!scores.some(Boolean)) continue;
    const page = pages.get(entry.page) ?? { found: [], most: scores.map(() => 0) };
    page.most = page.most.map((most, place) => Math.max(most, scores[place]));
    page.found.push({ entry, scores });
    pages.set(entry.page, page);
  }
  const ranked = [...pages.values()].map(({ found, most }) => {
    // a word that another section of the page has counts a third
    const totals = found.map(({ entry, scores }) => {
      const sum = scores.reduce((total, score, place) => total + Math.max(score, most[place] / 3), 0);
      const share = scores.reduce((total, score, place) => total + (score ? 1 : most[place] ? 0.5 : 0), 0) / wanted.length;
      return { ...entry, score: sum * share ** 2 * kind(entry.page) };
    });
    return totals.reduce((best, other) => (other.score > best.score ? other : best));
  });
  return ranked.sort((a, b) => b.score - a.score);
}

function scored(entry, word, rarity) {
  let sum = 0;
  for (const [field, weight] of Object.entries(WEIGHTS)) {
    const count = entry.fields[field].get(word) ?? 0;
    if (count) sum += weight * (field === "text" ? (2.2 * count) / (count + 1.2 * entry.long) : 1);
  }
  return sum * Math.log(1 + rarity);
}

/** Return what a page counts by its kind: guides come before lists of names, which have every word. */
function kind(page) {
  if (/^(tables|keys|python-names)/.test(page)) return page === "tables.html" ? 0.8 : 0.6;
  return page.includes("/") ? 0.9 : 1;
}

/** Return the part of a text around the words of a query, as pieces that are marked or not. */
export function snippet(text, query, most = 200) {
  const wanted = new Set(stems(query));
  const pieces = text.split(/(\s+)/);
  const isHit = pieces.map((piece) => stems(piece).some((word) => wanted.has(word)));
  let start = 0;
  let top = -1;
  for (let from = 0; from < pieces.length; from += 2) {
    let length = 0;
    const seen = new Set();
    for (let to = from; to < pieces.length && length < most; to++) {
      length += pieces[to].length;
      if (isHit[to]) stems(pieces[to]).forEach((word) => wanted.has(word) && seen.add(word));
    }
    if (seen.size > top) [top, start] = [seen.size, from];
  }
  const shown = [];
  let length = 0;
  for (let place = start; place < pieces.length && length < most; place++) {
    length += pieces[place].length;
    shown.push({ text: pieces[place], marked: isHit[place] });
  }
  return [...(start ? [{ text: "… ", marked: false }] : []), ...shown, ...(length >= most ? [{ text: " …", marked: false }] : [])];
}

function element(name, inside, attributes = {}) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...inside);
  return made;
}

function show() {
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const place = document.getElementById("search-results");
  if (!place || !query.trim()) return;
  for (const field of document.querySelectorAll("input[name=q]")) field.value = query;
  const found = find(index(globalThis.searchSections), query).slice(0, 20);
  const items = found.map(({ page, title, anchor, heading, text }) => {
    const name = heading === title ? title : `${title} › ${heading}`;
    const link = element("a", [name], { href: `${page}#${anchor}` });
    const marked = snippet(text, query).map((piece) => (piece.marked ? element("mark", [piece.text]) : piece.text));
    return element("li", [link, element("p", marked, { className: "context" })]);
  });
  const says = found.length ? `${found.length === 20 ? "The first 20" : found.length} pages for “${query}”` : `Nothing found for “${query}”`;
  place.replaceChildren(element("h1", [says]), element("ul", items, { className: "search" }));
}

if (globalThis.document) addEventListener("DOMContentLoaded", show);
