// @ts-check
// Journeys: the nearest tokens, and the strip of cells.

import { all, make } from "./dom.js";
import { tipped } from "./explorer.js";
import { placeName, placeShort } from "./journey.js";
import { short, whole } from "./numbers.js";
import { plain, tokenNode } from "./tokens.js";

/**
 * @param {HTMLElement} slot
 * @param {import("./journey.js").Side} side
 * @param {import("./journey.js").App} app
 * @param {import("./journey.js").SideName} name
 */
export function showNear(slot, side, app, name) {
  const { shared } = app;
  const { data, token } = side;
  const places = data.stretch(shared.site);
  const columns = places.map(place => ({ ...place, row: data.at(token, shared.positions, shared.site, place.key), list: data.nearest(token, shared.positions, shared.site, place.key, shared.measure) }));
  const head = app.comparing ? [make("p", { class: "side-name" }, make("span", { class: "badge", text: name.toUpperCase() }), tokenNode(token.token), make("small", { text: side.model }))] : [];
  if (!columns.some(column => column.list.length)) {
    const why = !places.length ? "This model has no numbers after attention." : token.followed ? "No nearest tokens for this choice." : "The study does not follow this token: its nearest tokens are not listed. Underlined tokens have them.";
    slot.replaceChildren(...head, make("p", { class: "nothing", text: why }));
    return;
  }
  const top = Math.max(...columns.map(column => column.list.length));
  const values = columns.flatMap(column => column.list.map(one => one[shared.measure])).flatMap(value => value ?? []);
  const low = Math.min(...values), high = Math.max(...values);
  const strength = (/** @type {number | null} */ value) => (value === null || high === low ? 0 : shared.measure === "cosine" ? (value - low) / (high - low) : (high - value) / (high - low));
  const pick = key => app.choose({ layer: key }, name, `${name}.column.${key}`);

  const heads = columns.map((column, i) => {
    const on = column.key === side.layer;
    return make("th", { scope: "col", class: on ? "on" : undefined },
      make("button", {
        type: "button", "data-key": `${name}.column.${column.key}`, "aria-pressed": String(on), "aria-label": `Read ${placeName(column.key)}`, text: placeShort(column.key),
        onclick: () => pick(column.key),
        onkeydown: event => {
          const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: columns.length - 1 }[event.key];
          if (to !== undefined && columns[to]) { event.preventDefault(); pick(columns[to].key); }
        },
      }));
  });
  const cell = (column, i, place) => {
    const one = column.list[place];
    const on = column.key === side.layer;
    if (!one) return make("td", { class: on ? "on" : undefined });
    const before = columns[i - 1]?.list;
    const fresh = before?.length && !before.some(other => other.id === one.id);
    const own = one.id === token.id;
    const node = make("td", { class: `${on ? "on " : ""}${own ? "own " : ""}${fresh ? "fresh" : ""}`.trim() || undefined, "data-id": one.id, style: `--t:${strength(one[shared.measure]).toFixed(3)}` },
      make("div", { class: "near-token" },
        fresh ? make("i", { class: "new", text: "+" }, make("span", { class: "sr", text: "new: " })) : "",
        own ? make("span", { class: "sr", text: "itself: " }) : "",
        tokenNode(one.token, 22), on ? make("b", { class: "n", text: short(one[shared.measure]) }) : ""));
    node.addEventListener("pointerenter", () => mark(one.id));
    node.addEventListener("pointerleave", () => mark(null));
    return tipped(node, () => [
      make("b", {}, tokenNode(one.token, 200)), ["id", whole(one.id)], ["place", `${one.place} at ${placeName(column.key)}`],
      ["cosine", short(one.cosine)], ["distance", short(one.distance)], ...(own ? ["its own vocabulary vector"] : fresh ? ["not listed at the layer before"] : []),
    ]);
  };
  const ranks = columns.map(column => {
    const rank = column.row?.(app.rank) ?? null;
    return make("td", { class: `rank${column.key === side.layer ? " on" : ""}${rank === 0 ? " zero" : ""}`, text: rank === null ? "–" : whole(rank) });
  });
  const table = make("table", { class: "near", style: `--columns:${columns.length}` },
    make("caption", { class: "sr", text: `Nearest vocabulary tokens of ${plain(token.token)} by ${shared.measure}: a column for each layer, the nearest first` }),
    make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "corner", text: "layer" }), heads)),
    make("tbody", {}, Array.from({ length: top }, (_, place) => make("tr", {}, make("th", { scope: "row", text: place + 1 }), columns.map((column, i) => cell(column, i, place))))),
    make("tfoot", {}, make("tr", { title: "Vocabulary vectors that are nearer than its own; 0 = still itself" }, make("th", { scope: "row", text: "rank" }), ranks)));
  const ribbons = make("svg:svg", { class: "ribbons", "aria-hidden": "true" });
  const sheet = make("div", { class: "sheet" }, ribbons, table);
  const mark = id => {
    for (const node of all("[data-id]", sheet)) node.classList.toggle("lit", id !== null && node.dataset.id === String(id));
    sheet.classList.toggle("some", id !== null);
  };
  const old = slot.querySelector(".near-scroll");
  const left = old?.scrollLeft ?? 0;
  const scroll = make("div", { class: "near-scroll", tabindex: 0, role: "region", "aria-label": "Nearest tokens by layer" }, sheet);
  slot.replaceChildren(...head, scroll);
  scroll.scrollLeft = left;
  drawRibbons(ribbons, sheet, columns, token);
  const shown = /** @type {HTMLElement | null} */ (table.querySelector("thead th.on"));
  if (shown && scroll.scrollWidth > scroll.clientWidth) {
    const a = shown.offsetLeft, b = a + shown.offsetWidth;
    if (a < scroll.scrollLeft + 40 || b > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = a - scroll.clientWidth / 2;
  }
}

/**
 * A line for each token that is listed at two layers in a row, from the one cell to the other.
 * @param {SVGElement} svg
 * @param {HTMLElement} sheet
 * @param {{ list: import("./journey.js").Neighbour[] }[]} columns
 * @param {import("./journey.js").Token} token
 */
function drawRibbons(svg, sheet, columns, token) {
  const base = sheet.getBoundingClientRect();
  if (!base.width) return;
  svg.setAttribute("width", String(base.width));
  svg.setAttribute("height", String(base.height));
  const rows = all("tbody tr", sheet).map(row => [...row.children].slice(1).map(cell => cell.firstElementChild?.getBoundingClientRect()));
  for (let i = 0; i + 1 < columns.length; i++) {
    for (const [place, one] of columns[i].list.entries()) {
      const next = columns[i + 1].list.findIndex(other => other.id === one.id);
      if (next < 0) continue;
      const from = rows[place][i], to = rows[next][i + 1];
      if (!from || !to) continue;
      const [x1, y1, x2, y2] = [from.right - base.left, from.top + from.height / 2 - base.top, to.left - base.left, to.top + to.height / 2 - base.top];
      const middle = (x1 + x2) / 2;
      svg.append(make("svg:path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, class: one.id === token.id ? "own" : undefined, "data-id": one.id }));
    }
  }
}

/**
 * Tokens × layers: one cell for each, coloured by how much of itself a token still is.
 * @param {HTMLElement} slot
 * @param {import("./journey.js").Side} side
 * @param {import("./journey.js").App} app
 * @param {import("./journey.js").SideName} name
 */
export function showHeat(slot, side, app, name) {
  const { shared } = app;
  const { data } = side;
  const places = data.stretch(shared.site);
  const column = shared.heat === "rank" ? app.rank : shared.measure;
  const texts = app.comparing ? [side.token.text] : [...data.texts.keys()];
  const tokens = texts.flatMap(text => data.tokens(text));
  /** @type {(token: import("./journey.js").Token, place: import("./journey.js").Place) => number | null} */
  const value = (token, place) => data.at(token, shared.positions, shared.site, place.key)?.(column) ?? null;
  const found = [...data.texts.keys()].flatMap(text => data.tokens(text)).flatMap(token => places.map(place => value(token, place))).flatMap(one => one ?? []);
  const most = Math.max(1e-9, ...found), least = Math.min(0, ...found);
  const strength = (/** @type {number} */ one) => (column.startsWith("rank") ? 1 - Math.log1p(one) / Math.log1p(Math.max(most, 10)) : column === "distance" ? 1 - one / most : (one - least) / (1 - least));
  const text = one => (one === null ? "–" : column.startsWith("rank") ? (one >= 10000 ? `${Math.round(one / 1000)}k` : one >= 1000 ? `${(one / 1000).toFixed(1)}k` : String(one)) : short(one, 2).replace(/^0\./, "."));
  if (!places.length) { slot.replaceChildren(make("p", { class: "nothing", text: "This model has no numbers after attention." })); return; }
  const key = (token, place) => `${name}.cell.${token.text}.${token.position}.${place.key}`;
  const keys = (event, row, i) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const token = tokens[row + by[0]], place = places[i + by[1]];
    if (token && place) pick(token, place);
  };
  const pick = (token, place) => app.choose({ token, layer: place.key }, name, key(token, place));
  const heads = make("tr", {}, make("td", { class: "corner" }), places.map(place => make("th", { scope: "col", class: place.key === side.layer ? "on" : undefined, text: placeShort(place.key) })));
  const body = tokens.map((token, row) => make("tr", { class: `${token === side.token ? "on" : ""}${row && tokens[row - 1].text !== token.text ? " next" : ""}`.trim() || undefined },
    make("th", { scope: "row", class: token.special ? "special" : undefined, title: plain(token.token) }, tokenNode(token.token, 14)),
    places.map((place, i) => {
      const one = value(token, place);
      const on = token === side.token && place.key === side.layer;
      const t = one === null ? 0 : Math.max(0, Math.min(1, strength(one)));
      return make("td", {}, tipped(make("button", {
        type: "button", class: `cell${on ? " on" : ""}${t > 0.85 ? " strong" : ""}`, tabindex: on ? 0 : -1, "data-key": key(token, place), style: `--t:${t.toFixed(3)}`, text: text(one),
        "aria-label": `${plain(token.token, 60)}, ${placeName(place.key)}: ${shared.heat === "rank" ? "rank" : shared.measure} ${one === null ? "none" : short(one)}`, "aria-pressed": String(on),
        onclick: () => pick(token, place), onkeydown: event => keys(event, row, i),
      }), () => {
        const at = data.at(token, shared.positions, shared.site, place.key);
        return [make("b", {}, tokenNode(token.token, 200)), placeName(place.key), ["rank", whole(at?.(app.rank))], ["cosine", short(at?.("cosine"))], ["distance", short(at?.("distance"))], ["norm", short(at?.("norm"))]];
      }));
    })));
  const scroll = make("div", { class: "heat-scroll" }, make("table", { class: "heat" },
    make("caption", { class: "sr", text: "Tokens by layer; arrow keys move from cell to cell" }), make("thead", {}, heads), make("tbody", {}, body)));
  const old = slot.querySelector(".heat-scroll");
  const at = [old?.scrollLeft ?? 0, old?.scrollTop ?? 0];
  slot.replaceChildren(scroll,
    make("p", { class: "scale" }, ...(column.startsWith("rank")
      ? [make("span", { text: "rank 0, itself" }), make("span", { class: "ramp self" }), make("span", { text: `${whole(most)} nearer` })]
      : column === "distance" ? [make("span", { text: "distance 0" }), make("span", { class: "ramp self" }), make("span", { text: short(most) })]
        : [make("span", { text: "cosine 1" }), make("span", { class: "ramp self" }), make("span", { text: short(least) })])));
  [scroll.scrollLeft, scroll.scrollTop] = at;
}
