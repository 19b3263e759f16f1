// Tokens and texts as text that a page can show.

import { make } from "./dom.js";

// What cannot be seen is shown as its code: controls, zero-width and bidirectional marks, odd spaces, halves of pairs.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u17b4\u17b5\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0]/u;
const codeOf = sign => `U+${Number(sign.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}`;
const MARKS = /** @type {Record<string, string>} */ ({ " ": "␣", "␣": "␣", "⏎": "⏎", "⇥": "⇥", "\n": "⏎", "\t": "⇥" });
const segments = new Intl.Segmenter();

// Pieces of a token: [text, whether it is a mark and no text].
/** @returns {[string, boolean][]} */
export function pieces(token) {
  if (token === null || token === undefined) return [["no token", true]];
  if (token === "") return [["empty", true]];
  const found = /** @type {[string, boolean][]} */ ([]);
  const put = (text, mark) => {
    const last = found.at(-1);
    if (last && last[1] === mark && !mark) last[0] += text;
    else found.push([text, mark]);
  };
  for (const sign of token) {
    if (MARKS[sign]) put(MARKS[sign], true);
    else if (UNSEEN.test(sign)) put(codeOf(sign), true);
    else put(sign, false);
  }
  if (found.length === 1 && !found[0][1] && found[0][0].startsWith("##") && found[0][0].length > 2) found.splice(0, 1, ["##", true], [found[0][0].slice(2), false]);
  return found;
}
// A token as one line of plain text, for labels and titles.
export const plain = (token, most = 300) => {
  const text = pieces(token).map(([piece, mark]) => (mark && piece.startsWith("U+") ? `⟨${piece}⟩` : mark && piece.length > 2 ? `(${piece})` : piece)).join("");
  return text.length > most ? `${[...segments.segment(text)].slice(0, most).map(one => one.segment).join("")}… (${[...(token ?? "")].length} characters)` : text;
};
// A token in a few characters, for the name of a mark in a picture.
export const brief = (token, most = 12) => {
  const signs = [...segments.segment(pieces(token).map(([text]) => text).join(""))].map(one => one.segment);
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : signs.join("");
};
// A token as an element of its own direction; at most so many characters are shown.
export function tokenNode(token, most = 24) {
  const node = make("bdi", { class: "token" });
  let left = most;
  for (const [text, mark] of pieces(token)) {
    if (left <= 0) { node.append(make("i", { class: "mark", text: "…" })); break; }
    const signs = mark ? [text] : [...segments.segment(text)].map(one => one.segment);
    node.append(mark ? make("i", { class: /^(U\+|empty$|no token$)/.test(text) ? "mark code" : "mark", text }) : signs.slice(0, left).join(""));
    left -= mark ? Math.min(text.length, 3) : signs.length;
    if (left < 0) { node.append(make("i", { class: "mark", text: "…" })); break; }
  }
  return node;
}
// A text that is no token: its spaces stay spaces.
export function phrase(text, most = 90) {
  if (text === null || text === undefined || text === "") return plain(text);
  const shown = String(text).split(" ").map(word => (word === "" ? "" : plain(word, Infinity))).join(" ");
  const signs = [...segments.segment(shown)];
  return signs.length > most ? `${signs.slice(0, most).map(one => one.segment).join("")}…` : shown;
}
export const isolated = text => make("bdi", { text: phrase(text, 60) });

// The SQL under a chart, narrowed to the rows that the chart shows.
const literal = value => (value === null ? "NULL" : typeof value === "number" ? String(value) : `'${value.replaceAll("'", "''")}'`);

const condition = (column, value) => (Array.isArray(value) ? `${column} IN (${value.map(literal).join(", ")})` : `${column} ${value === null ? "IS" : "="} ${literal(value)}`);

// A query with the rows of some choices alone: what all choices ask stands once, what they differ in is joined by OR.
export function narrowed(query, choices) {
  const sets = choices.map(choice => Object.entries(choice).flatMap(([column, value]) => (value === undefined ? [] : [condition(column, value)])));
  const common = sets.length ? sets[0].filter(one => sets.every(set => set.includes(one))) : [];
  const rest = [...new Set(sets.map(set => set.filter(one => !common.includes(one)).join(" AND ")))].filter(Boolean);
  const either = rest.length > 1 ? [`(${rest.map(one => `(${one})`).join("\n    OR ")})`] : rest;
  const added = [...common, ...either].map(one => `\n  AND ${one}`).join("");
  return query.replace(/WHERE study = '[^']*'/, found => found + added);
}
