// ---------------------------------------------------------------- explorers: what their pages share

// Each explorer is a function under its name; the one whose page this is runs at the end.
const explorers = {};
const explorerElement = document.getElementById("explorer");
const explorer = explorerElement ? JSON.parse(explorerElement.textContent) : null;

// An element with properties (also data-*, aria-* and classes) and children; strings become text, never markup.
function make(tag, properties = {}, ...children) {
  const element = document.createElementNS(tag.startsWith("svg:") ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag.replace("svg:", ""));
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

// Parts are scripts of their own, which call reporterPart: a page opened as a file may load nothing else.
const parts = new Map();
const awaited = new Map();
window.reporterPart = (name, value) => awaited.get(name)?.(value);
function part(name) {
  if (!parts.has(name)) {
    parts.set(name, new Promise((resolve, reject) => {
      awaited.set(name, resolve);
      const script = Object.assign(document.createElement("script"), { src: `data/${name}.js` });
      script.addEventListener("error", () => { parts.delete(name); reject(new Error(`data/${name}.js is not beside this page.`)); });
      script.addEventListener("load", () => script.remove());
      document.head.append(script);
    }));
  }
  return parts.get(name);
}
// A packed frame as columns: {rows, model: […], …}.
const columnsOf = packed => packed && { rows: packed.rows, ...Object.fromEntries(Object.entries(packed.columns).map(([name, column]) => [name, unpack(column)])) };

// ---------------------------------------------------------------- tokens as text

// What cannot be seen is shown as its code: controls, zero-width and bidirectional marks, odd spaces, halves of pairs.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u17b4\u17b5\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0]/u;
const codeOf = sign => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
const MARKS = { "Ġ": "␣", "▁": "␣", "Ċ": "⏎", "ĉ": "⇥", "\n": "⏎", "\t": "⇥" };
const segments = new Intl.Segmenter();

// Pieces of a token: [text, whether it is a mark and no text].
function pieces(token) {
  if (token === null || token === undefined) return [["no token", true]];
  if (token === "") return [["empty", true]];
  const found = [];
  const put = (text, mark) => {
    const last = found.at(-1);
    if (last && last[1] === mark && !mark) last[0] += text;
    else found.push([text, mark]);
  };
  for (const sign of token) {
    if (MARKS[sign]) put(MARKS[sign], true);
    else if (sign === " ") put("␣", true);
    else if (UNSEEN.test(sign)) put(codeOf(sign), true);
    else put(sign, false);
  }
  if (found.length > 1 && found[0][0].startsWith("##") && !found[0][1]) return found;
  if (!found[0][1] && found[0][0].startsWith("##") && found[0][0].length > 2) found.splice(0, 1, ["##", true], [found[0][0].slice(2), false]);
  return found;
}
// A token as one line of plain text, for labels and titles.
const plain = (token, most = 300) => {
  const text = pieces(token).map(([piece, mark]) => (mark && piece.startsWith("U+") ? `⟨${piece}⟩` : mark && piece.length > 2 ? `(${piece})` : piece)).join("");
  return text.length > most ? `${[...segments.segment(text)].slice(0, most).map(one => one.segment).join("")}… (${[...token].length} characters)` : text;
};
// A token in a few characters, for the name of a mark in a picture.
const brief = (token, most = 12) => {
  const signs = [...segments.segment(pieces(token).map(([text]) => text).join(""))].map(one => one.segment);
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : signs.join("");
};
// A token as an element of its own direction; at most so many characters are shown, the title has the rest.
function tokenNode(token, most = 24) {
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

// ---------------------------------------------------------------- numbers, addresses, SQL

// A number with three significant digits, as the pages' own filter writes it.
function short(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = size === 0 ? "0" : size >= 99.5 ? Math.round(size).toLocaleString("en") : size < 1e-4 ? size.toExponential(digits - 1) : String(Number(size.toPrecision(digits)));
  return value < 0 ? `−${text}` : text;
}
const whole = value => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

// What is chosen stands in the address, so that a link shows the same.
function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""));
}
function writeAddress(state) {
  const given = Object.entries(state).filter(([, value]) => value !== undefined && value !== null);
  history.replaceState(null, "", `#${new URLSearchParams(given)}`);
}

// Narrows the SQL that is shown for a source to the rows of some choices, each {column: value or values}; what is
// undefined is left open.
const literal = value => (value === null ? "NULL" : typeof value === "number" ? String(value) : `'${String(value).replaceAll("'", "''")}'`);
const condition = ([column, value]) => (Array.isArray(value) ? `${column} IN (${value.map(literal).join(", ")})` : `${column} ${value === null ? "IS" : "="} ${literal(value)}`);
const statements = new Map(all("code[data-sql]").map(element => [element, element.textContent]));
function narrowSql(source, choices, within = document) {
  const sets = choices.map(choice => Object.entries(choice).filter(([, value]) => value !== undefined).map(condition));
  const common = sets.length ? sets[0].filter(one => sets.every(set => set.includes(one))) : [];
  const rest = [...new Set(sets.map(set => set.filter(one => !common.includes(one)).join(" AND ")))].filter(Boolean);
  const either = rest.length > 1 ? [`(${rest.map(one => `(${one})`).join("\n    OR ")})`] : rest;
  const added = [...common, ...either].map(one => `\n  AND ${one}`).join("");
  for (const element of all(`code[data-sql="${source}"]`, within)) {
    element.textContent = statements.get(element).replace(/WHERE study = '[^']*'/, found => found + added);
  }
}

// ---------------------------------------------------------------- what the pointer is on

const tipElement = explorer && document.body.appendChild(make("div", { class: "tip", "aria-hidden": "true", hidden: true }));
// Shows lines beside the pointer: strings, or [label, value].
function tip(event, lines) {
  tipElement.hidden = !lines;
  if (!lines) return;
  tipElement.replaceChildren(...lines.map(line => (Array.isArray(line) ? make("p", {}, make("span", { text: line[0] }), " ", make("b", {}, line[1])) : make("p", {}, line))));
  const { width, height } = tipElement.getBoundingClientRect();
  tipElement.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
  tipElement.style.top = `${event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 18}px`;
}
// Gives an element lines to show, made when they are wanted.
const tipped = (element, lines) => {
  element.addEventListener("pointermove", event => tip(event, lines(event)));
  element.addEventListener("pointerleave", () => tip(null, null));
  return element;
};
