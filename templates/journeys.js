// Journeys: the controls.

import { labelChart, mountChart, unmountChart } from "./charts.js";
import { all, find, make } from "./dom.js";
import { Journey, bareToken, frameOf, placeKey, placeName, placeShort, rowsOf } from "./journey.js";
import { estimate, short, whole } from "./numbers.js";
import { explorer, narrowSql, onTheme, part, readAddress, tipped, writeAddress } from "./page.js";
import { plain, tokenNode } from "./tokens.js";

// A row of buttons of which one is pressed, as radio buttons that the arrow keys reach.
function segmented(name, label, choices, chosenNow, act, about = {}) {
  return make("fieldset", { class: "choice" },
    make("legend", { text: label }),
    make("div", { class: "segments" }, Object.entries(choices).map(([value, text]) => {
      const radio = make("input", { type: "radio", name, value, "data-key": `${name}.${value}`, onchange: () => act(value) });
      radio.checked = value === chosenNow;
      return make("label", { title: about[value] }, radio, make("span", { text }));
    })));
}
// A model's line and mark, as in the legend of the study's page.
/** @type {Record<string, string>} */
const SHAPE = { circle: "M16 3a4 4 0 1 1 0 8 4 4 0 1 1 0-8z", square: "M12.4 3.4h7.2v7.2h-7.2z", cross: "M14.4 2.6h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8v-3.2h2.8z", diamond: "M16 1.8l4 5.2-4 5.2-4-5.2z", "triangle-up": "M16 2.4l4.8 8.4h-9.6z", "triangle-down": "M16 11.6l4.8-8.4h-9.6z" };
export const swatch = style => make("svg:svg", { class: "swatch", viewBox: "0 0 32 14", width: 32, height: 14, "aria-hidden": "true", style: `--light:${style.light};--dark:${style.dark}` },
  make("svg:line", { x1: 1, y1: 7, x2: 31, y2: 7, "stroke-width": 2, "stroke-dasharray": style.dash.length ? style.dash.join(" ") : undefined }),
  style.baseline ? null : make("svg:path", { d: SHAPE[style.shape] ?? SHAPE["triangle-up"] }));

export function showBar(bar, app, { swap, attention, positions }) {
  const { shared, sides } = app;
  const { layer } = sides.a;
  const places = sides.a.data.placesOf(shared.site);
  const now = places.findIndex(place => place.key === layer);
  const step = by => () => app.choose({ layer: places[Math.max(0, Math.min(places.length - 1, now + by))].key }, "a", by < 0 ? "layer.down" : "layer.up");
  const slider = make("input", { type: "range", id: "layer", min: 0, max: places.length - 1, step: 1, "data-key": "layer", "aria-valuetext": placeName(layer), autocomplete: "off", oninput: event => app.choose({ layer: places[event.target.value].key }, "a", "layer") });
  slider.value = String(now);
  bar.replaceChildren(
    attention ? segmented("site", "Site", { path: "residual stream", attention: "after attention" }, shared.site, site => app.choose({ site }), { path: "What enters the first block, and what each block returns", attention: "The residual stream after each block's attention, before its feed-forward" }) : "",
    segmented("measure", "Nearest by", { cosine: "cosine", distance: "distance" }, shared.measure, measure => app.choose({ measure })),
    positions.length > 1 ? segmented("positions", "Vocabulary vectors", { without: "as they are", with: "with position" }, shared.positions, value => app.choose({ positions: value }), { with: "The position vector of the token's own position is added to each" }) : "",
    make("div", { class: "choice layer" },
      make("label", { for: "layer", text: "Layer " }), make("output", { for: "layer", text: layer === "0" ? "0, the embedding" : layer === "final" ? "after the final norm" : `${layer} of ${places[places.length - 1].layer}` }),
      make("div", { class: "slide" },
        make("button", { type: "button", "data-key": "layer.down", "aria-label": "One layer back", text: "◀", onclick: step(-1) }),
        slider,
        make("button", { type: "button", "data-key": "layer.up", "aria-label": "One layer on", text: "▶", onclick: step(1) }))),
    make("button", { type: "button", class: "compare", "data-key": "compare", "aria-pressed": String(app.comparing), text: app.comparing ? "Stop comparing" : "Compare", onclick: swap }),
  );
}
// Selects of journey and checkpoint, the models, the tokens of the texts, and a sentence.
export function showChoose(slot, side, app, name) {
  const { data } = side;
  const key = what => `${name}.${what}`;
  const entries = explorer.entries.filter(entry => entry.journey === side.journey);
  const models = [...new Set(entries.map(entry => entry.model))];
  const checkpoints = entries.filter(entry => entry.model === side.model);
  const select = (what, label, choices, now) => {
    const own = make("select", { "data-key": key(what), autocomplete: "off", onchange: event => app.choose({ [what]: event.target.value }, name) }, choices.map(one => make("option", { value: one, text: one })));
    own.value = now;
    return make("label", { class: "pick" }, `${label} `, own);
  };
  const chips = make("div", { class: "chips", role: "radiogroup", "aria-label": "Model" }, models.map(model => {
    const radio = make("input", { type: "radio", name: key("model"), value: model, "data-key": key(`model.${model}`), onchange: () => app.choose({ model, checkpoint: undefined }, name) });
    radio.checked = model === side.model;
    return make("label", { class: "chip", title: model }, radio, make("span", {}, swatch(app.styleOf(model)), make("b", { text: model })));
  }));
  const tokens = data.everyToken();
  const go = by => {
    const next = tokens[Math.max(0, Math.min(tokens.length - 1, tokens.indexOf(side.token) + by))];
    app.choose({ token: next }, name, key(`token.${next.text}.${next.position}`));
  };
  const keys = event => {
    const places = data.placesOf(app.shared.site);
    const layer = by => app.choose({ layer: (places[places.findIndex(place => place.key === side.layer) + by] ?? { key: side.layer }).key }, name);
    const acts = { ArrowRight: () => go(1), ArrowLeft: () => go(-1), ArrowDown: () => layer(1), ArrowUp: () => layer(-1), Home: () => go(-tokens.length), End: () => go(tokens.length) };
    if (acts[event.key] && !event.altKey && !event.ctrlKey && !event.metaKey) { event.preventDefault(); acts[event.key](); }
  };
  // pieces of one word stand close together, where the tokenizer marks which begin a word or which go on
  const marks = tokens.some(token => /^␣/.test(token.token ?? ""));
  const glued = (token, i) => i > 0 && !token.special && !/^[␣ ]/.test(token.token ?? "") && (marks ? !tokens[i - 1].special : (token.token ?? "").startsWith("##"));
  const some = tokens.some(token => !token.followed);
  const words = make("div", { class: "texts", role: "radiogroup", "aria-label": "Token: left and right choose a token, up and down a layer", onkeydown: keys }, [...data.texts.keys()].map((text, number) =>
    make("p", { class: `text text-${number % 2}` },
      data.texts.size > 1 ? make("span", { class: "text-name", text: `Text ${text}` }) : "",
      data.tokens(text).map((token, i) => {
        const chosenNow = token === side.token;
        return make("button", {
          type: "button", role: "radio", class: `word${glued(token, i) ? " glued" : ""}${token.special ? " special" : ""}${some && token.followed ? " followed" : ""}`,
          "aria-checked": String(chosenNow), tabindex: chosenNow ? 0 : -1, "data-key": key(`token.${token.text}.${token.position}`),
          title: `${plain(token.token)} · position ${token.position}, id ${token.id}${token.followed ? "" : " · its nearest tokens are not listed"}`,
          onclick: () => app.choose({ token }, name, key(`token.${token.text}.${token.position}`)),
        }, tokenNode(token.token));
      }))));
  slot.replaceChildren(
    make("div", { class: "journey-who" },
      app.comparing ? make("span", { class: "badge", "aria-label": `Side ${name.toUpperCase()}`, text: name.toUpperCase() }) : "",
      explorer.journeys.length > 1 ? select("journey", "Journey", explorer.journeys, side.journey) : make("span", { class: "pick", text: side.journey }),
      chips,
      checkpoints.length > 1 ? select("checkpoint", "Checkpoint", checkpoints.map(entry => entry.checkpoint), side.checkpoint) : ""),
    words,
    make("p", { class: "journey-told" }, ...told(side, app)),
    name === "a" ? make("p", { class: "hint keys" }, make("kbd", { text: "←" }), make("kbd", { text: "→" }), " another token ", make("kbd", { text: "↑" }), make("kbd", { text: "↓" }), " another layer") : "",
  );
  if (name === "a") find(".sr").textContent = `${plain(side.token.token)}, ${placeName(side.layer)}: ${find(".journey-told", slot).textContent}`;
}
// What the numbers say about a token, in a sentence or two.
function told(side, app) {
  const { shared } = app;
  const { data, token } = side;
  const places = data.stretch(shared.site);
  const rows = places.flatMap(({ key }) => {
    const row = data.at(token, shared.positions, shared.site, key);
    return row ? [{ key, rank: row(app.rank) }] : [];
  });
  if (!rows.length) return [make("span", { text: shared.site === "attention" ? "This model has no numbers after attention." : "No numbers for this choice." })];
  const ranks = rows.filter(({ key }) => key !== "final");
  if (ranks.every(({ rank }) => rank === null)) return [make("span", { text: "Its states cannot be compared with the vocabulary: no ranks." })];
  const left = ranks.findIndex(({ rank }) => rank !== null && rank > 0);
  const name = make("b", {}, tokenNode(token.token));
  const first = left === 1 ? ` is nearest to itself only at ${placeName(ranks[0].key)}.` : left < 0 ? " is nearest to itself at every layer." : left === 0 ? ` is not nearest to itself even at ${placeName(ranks[0].key)}.` : ` stays nearest to itself up to ${placeName(ranks[left - 1].key)}.`;
  const here = data.at(token, shared.positions, shared.site, side.layer);
  if (!here) return [name, first];
  const nearest = data.nearest(token, shared.positions, shared.site, side.layer, shared.measure)[0];
  const rank = here(app.rank);
  const tail = rank !== null && rank > 0 && nearest ? ["; nearest is ", make("b", {}, tokenNode(nearest.token))] : [];
  const at = placeName(side.layer);
  return [name, first, ` ${at[0].toUpperCase()}${at.slice(1)}: ${shared.measure} ${short(here(shared.measure))}, ${rank === 0 ? "itself the nearest" : `${whole(rank)} ${rank === 1 ? "token is" : "tokens are"} nearer`}`, ...tail, "."];
}
// The controls of single figures.
export function showOwn(app) {
  const { shared } = app;
  const several = app.sides.a.data.texts.size > 1 && !app.comparing;
  find("[data-control=heat]").replaceChildren(segmented("heat", "Shows", { rank: "rank", value: shared.measure }, shared.heat, heat => app.choose({ heat })));
  find("[data-control=path]").replaceChildren(
    segmented("last", "Plane", { with: "all layers", without: "without the last" }, shared.last, last => app.choose({ last }), { without: "The last layer often lies far off and takes the plane for itself" }),
    segmented("zoom", "Frame", { all: "all tokens", chosen: "the chosen one" }, shared.zoom, zoom => app.choose({ zoom })),
    several ? segmented("texts", "Texts", { over: "in one", beside: "side by side" }, shared.texts, texts => app.choose({ texts })) : "");
}
// The lines of the profiles: the token of side A in every model, or that of both sides.
export function followed(app) {
  const { sides } = app;
  if (app.comparing) {
    return app.both.map((side, i) => ({ data: side.data, token: side.token, label: `${"AB"[i]} · ${side.model}`, side: i ? "b" : "a", style: null }));
  }
  return app.others.flatMap(data => {
    const token = data === sides.a.data ? sides.a.token : data.twin(sides.a.token, sides.a.data);
    return token ? [{ data, token, label: data.model, style: app.styleOf(data.model) }] : [];
  });
}

export function showLines(holder, app) {
  const { shared, sides } = app;
  const lines = followed(app);
  const missing = app.comparing ? [] : app.others.filter(data => !lines.some(line => line.data === data));
  find("#profile-title").textContent = app.comparing ? "The two chosen tokens" : "The chosen token in every model";
  find("#profile > .lead").textContent = app.comparing ? "A and B, each in its own model. Click a point to choose its layer." : "The same place of the same text in each model of the study. Click a point to choose its layer.";
  const one = lines.every(line => line.data.stretch("path").length === lines[0].data.stretch("path").length);
  const charts = [
    { column: shared.measure, title: shared.measure === "cosine" ? "Cosine to its own vocabulary vector" : "Distance to its own vocabulary vector", wide: true },
    { column: app.rank, title: "Rank: vocabulary tokens that are nearer", wide: true, rank: true },
    { column: `turnover_${shared.measure}`, title: "Turnover: new among its nearest 100", share: true },
    { column: "step_length", title: "Length of the step to the next state", length: true },
    { column: "step_cosine", title: "Cosine of state and next state" },
  ];
  const legend = make("p", { class: "line-names" }, lines.map(line => make("span", { class: line.side ? `line-${line.side}` : undefined },
    line.style ? swatch(line.style) : make("i", { class: "badge", text: line.side?.toUpperCase() }), make("b", { text: line.data.model }), " ", tokenNode(line.token.token), make("small", { text: ` position ${line.token.position}${!app.comparing && bareToken(line.token.token) !== bareToken(sides.a.token.token) ? ", the piece in which it ends" : ""}` }))),
    missing.map(data => make("span", { class: "missing" }, swatch(app.styleOf(data.model)), make("b", { text: data.model }), make("small", { text: " has no such token in this text" }))));
  // the charts stay and take on other rows
  const figures = charts.map((chart, i) => all("figure", holder)[i] ?? make("figure", { class: chart.wide ? "broad" : undefined }, make("figcaption"), make("div", { class: "plot" })));
  if (!holder.children.length) holder.append(legend, make("div", { class: "line-charts" }, figures));
  else find(".line-names", holder).replaceWith(legend);
  charts.forEach((chart, i) => {
    find("figcaption", figures[i]).textContent = chart.title;
    drawLines(find("div.plot", figures[i]), chart, lines, app, one);
  });
  find("#profile details .scroll").replaceChildren(profileTable(lines, app));
}
// Where the state after the final norm stands: to the right of the last block, which is at depth 1.
const CLOSING = 1.09;
const MOST_TIMES = 50;  // between lengths on a linear axis

function drawLines(plot, chart, lines, app, oneDepth) {
  const { shared, sides } = app;
  const series = lines.map(line => ({
    ...line,
    points: line.data.stretch(shared.site).flatMap(place => {
      const value = line.data.at(line.token, shared.positions, shared.site, place.key)?.(chart.column) ?? null;
      return value === null ? [] : [{ key: place.key, x: place.key === "final" ? CLOSING : place.depth, value }];
    }),
  }));
  const values = series.flatMap(line => line.points.map(point => point.value));
  const label = `${chart.title}: ${series.map(line => `${line.label} ${line.points.map(point => `${placeShort(point.key)} ${short(point.value)}`).join(", ")}`).join("; ")}`;
  plot.classList.toggle("void", !values.length);
  plot.dataset.void = "no numbers for this choice";
  if (!values.length) return labelChart(plot, label);
  const places = sides.a.data.stretch(shared.site);
  const now = places.find(place => place.key === sides.a.layer);
  const closing = series.some(line => line.points.some(point => point.key === "final"));
  let low = Math.min(...values), high = Math.max(...values);
  const log = !!chart.length && low > 0 && high > MOST_TIMES * low;
  if (!log && (chart.share || (low >= 0 && low < 0.4 * high))) low = 0;
  if (chart.rank) high = Math.max(10, high);
  else if (chart.share || (chart.column.includes("cosine") && high > 0.8)) high = 1;
  const main = series.find(line => line.data === sides.a.data && line.points.length) ?? series.find(line => line.points.length);
  const tip = (/** @type {{ key: string, x: number }} */ { key, x }) => Object.fromEntries([["title", placeName(key)], ...series.map(line => {
    const [own] = [...line.points].sort((one, other) => Math.abs(one.x - x) - Math.abs(other.x - x));
    return own ? [`${line.label}${own.key === key ? "" : `, ${placeName(own.key)}`}`, chart.rank ? whole(own.value) : short(own.value)] : [line.label, "–"];
  })]);
  const rows = [...series].reverse().flatMap((line, number) => line.points.map((point, i) => ({
    line: number, hue: line.side ? `side ${line.side}` : `model ${line.data.model}`, x: point.x, value: point.value, place: point.key,
    here: point.key === (line.side ? sides[line.side]?.layer : line.data === sides.a.data ? sides.a.layer : null),
    main: line === main, strong: !line.side && line.data === sides.a.data,
    closing: point.key === "final", tail: line.points[line.points.length - 1].key === "final" && i >= line.points.length - 2,
    tip: line === main ? tip(point) : null,
  })));
  mountChart(plot, explorer.specs[chart.rank ? "rank" : log ? "log" : "value"], rows, {
    label,
    signals: {
      low, high: high === low ? low + 1 : high, at: now ? (now.key === "final" ? CLOSING : now.depth) : -1, end: closing ? CLOSING : 1,
      layers: oneDepth ? Math.max(...places.map(place => place.layer)) : 0,
      ticks: [...(oneDepth ? places.filter(place => place.key !== "final").map(place => place.depth) : [0, 0.25, 0.5, 0.75, 1]), ...(closing ? [CLOSING] : [])],
    },
    dark: explorer.dark,
    height: chart.wide ? 190 : 140,
    press: row => { if (row.place) app.choose({ layer: row.place }, "a"); },
  });
}

function profileTable(lines, app) {
  const { shared } = app;
  const columns = ["cosine", "distance", "rank_cosine", "rank_distance", "norm", "step_length", "step_cosine", "turnover_cosine", "turnover_distance"];
  return make("table", {},
    make("thead", {}, make("tr", {}, ["Model", "Token", "Layer"].map(text => make("th", { scope: "col", text })), columns.map(text => make("th", { scope: "col", class: "n", text: text.replace("_", " ") })))),
    make("tbody", {}, lines.flatMap(line => line.data.stretch(shared.site).map(place => {
      const row = line.data.at(line.token, shared.positions, shared.site, place.key);
      return make("tr", {}, make("th", { scope: "row", text: line.label }), make("td", {}, tokenNode(line.token.token)), make("td", { text: placeName(place.key) }),
        columns.map(column => make("td", { class: "n", text: column.startsWith("rank") ? whole(row?.(column)) : short(row?.(column)) })));
    }))));
}
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
        tokenNode(one.token, 22), on ? make("b", { class: "n", text: shared.measure === "cosine" ? estimate(one.cosine, null, null, 3) : short(one.distance) }) : ""));
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
  const table = make("table", { class: columns.length > 12 ? "near many" : "near", style: `--columns:${columns.length}` },
    make("caption", { class: "sr", text: `Nearest vocabulary tokens of ${plain(token.token)} by ${shared.measure}: a column for each layer, the nearest first` }),
    make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "corner", text: "layer" }), heads)),
    make("tbody", {}, Array.from({ length: top }, (_, place) => make("tr", {}, make("th", { scope: "row", text: place + 1 }), columns.map((column, i) => cell(column, i, place))))),
    make("tfoot", {}, make("tr", { title: "Vocabulary vectors that are nearer than its own; 0 = still itself" }, make("th", { scope: "row", text: "nearer" }), ranks)));
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
    if (a < scroll.scrollLeft + 40 || b > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = Math.max(a - scroll.clientWidth / 2, b - scroll.clientWidth);
  }
}
// A line for each token that is listed at two layers in a row, from the one cell to the other.
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
// Tokens × layers: one cell for each, coloured by how much of itself a token still is.
export function showHeat(slot, side, app, name) {
  const { shared } = app;
  const { data } = side;
  const places = data.stretch(shared.site);
  const column = shared.heat === "rank" ? app.rank : shared.measure;
  const texts = app.comparing ? [side.token.text] : [...data.texts.keys()];
  /** @type {(token: Token, place: Place) => number | null} */
  const value = (token, place) => data.at(token, shared.positions, shared.site, place.key)?.(column) ?? null;
  // Ranks of 0 throughout say one thing: one line says it.
  const still = token => column.startsWith("rank") && token !== side.token && places.every(place => value(token, place) === 0);
  const all = texts.flatMap(text => data.tokens(text));
  const tokens = all.filter(token => !still(token)), others = all.filter(still);
  const found = data.everyToken().flatMap(token => places.map(place => value(token, place))).flatMap(one => one ?? []);
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
  const [first, last] = column.startsWith("rank") ? ["rank 0, itself", `${whole(most)} nearer`] : column === "distance" ? ["distance 0", short(most)] : ["cosine 1", short(least)];
  slot.replaceChildren(scroll, make("p", { class: "scale" }, make("span", { text: first }), make("span", { class: "ramp self" }), make("span", { text: last })),
    others.length ? make("p", { class: "hint" }, "Nearest to themselves at every layer: ", others.flatMap((token, i) => [i ? " · " : "", tokenNode(token.token, 14)])) : "");
  [scroll.scrollLeft, scroll.scrollTop] = at;
}

// Journeys: the path of the tokens in one plane.

export function showPath(slot, side, app, name) {
  const { shared } = app;
  const { data, token } = side;
  const list = [...waysOf(data, shared.last === "with" ? "pca-joint" : "pca-joint-without-last").values()];
  const texts = [...new Set(list.map(way => way.text))];
  const apart = !list.length ? [] : app.comparing ? [[token.text]] : shared.texts === "over" || texts.length === 1 ? [texts] : texts.map(text => [text]);
  // Colours are those of the texts, or of the two sides of a comparison.
  const hueOf = (/** @type {number} */ text) => (app.comparing ? name : "ab"[texts.indexOf(text) % 2]);
  const isChosen = way => way.own === token;
  // the same word in another text of the journey: what a homonym is about
  const isTwin = (way, one) => way.text !== one.text && bareToken(way.own?.token) === bareToken(one.token);
  for (const way of list) {
    way.hue = `side ${hueOf(way.text)}`;
    way.weight = isChosen(way) ? 3 : isTwin(way, token) ? 2 : way.own?.followed && !way.own.special ? 1 : 0;
  }
  // the frame holds all ways, or the chosen token's and those of the same word in the other texts
  const chosen = app.both.filter(one => one.data === data).map(one => one.token);
  const framed = shared.zoom === "chosen" ? list.filter(way => chosen.some(one => way.own === one || isTwin(way, one))) : list;
  const points = (framed.length ? framed : list).flatMap(way => way.points);

  const planes = keepPlanes(slot, apart.length);
  apart.forEach((group, i) => {
    const caption = find("figcaption", planes[i]), plot = find("div.plot", planes[i]);
    const words = [...(app.comparing ? [side.model] : []), ...(texts.length > 1 && group.length === 1 ? [`text ${texts.indexOf(group[0]) + 1}`] : [])].join(", ");
    caption.hidden = !words;
    caption.className = `side-${hueOf(group[0])}`;
    caption.replaceChildren(app.comparing ? make("span", { class: "badge", text: name.toUpperCase() }) : "", ` ${words}`);
    const width = plot.clientWidth, height = Math.round(Math.min(520, Math.max(320, width * 0.8)));
    const frame = frameOf(points, width, height);
    const ways = list.filter(way => group.includes(way.text));
    const rows = rowsOf(ways, frame, side.layer).map(({ source: { way, point }, ...row }) => ({
      ...row,
      token: way.own && [way.own.text, way.own.position],
      place: point.key,
      tip: { title: plain(way.name, 200), place: placeName(point.key), ...(texts.length > 1 ? { text: texts.indexOf(way.text) + 1 } : {}), position: way.position },
    }));
    mountChart(plot, explorer.specs.path, rows, {
      label: `Paths of ${ways.length} tokens through the layers; chosen: ${plain(token.token, 60)}`,
      signals: { x0: frame.x[0], x1: frame.x[1], y0: frame.y[0], y1: frame.y[1] },
      dark: explorer.dark,
      height,
      press: row => { if (row.token) app.choose({ token: data.texts.get(row.token[0])?.get(row.token[1]), layer: row.place }, name); },
    });
  });
}
// The path of each token of a journey in one projection.
function waysOf(data, projection) {
  const { paths } = data;
  const ways = new Map();
  for (let i = 0; i < paths.rows; i++) {
    if (paths.projection[i] !== projection) continue;
    const text = Number(/\d+/.exec(paths.part[i])?.[0] ?? 0);
    const key = `${text}|${paths.point[i]}`;
    if (!ways.has(key)) ways.set(key, { text, position: paths.point[i], own: data.texts.get(text)?.get(paths.point[i]), name: paths.label[i], points: [] });
    ways.get(key).points.push({ key: placeKey(paths.site[i], paths.layer[i]), x: paths.x[i], y: paths.y[i] });
  }
  return ways;
}
// The figures of a slot, as many as are wanted: those that are there stay, so that their charts take on other rows.
function keepPlanes(slot, wanted) {
  if (!wanted) {
    for (const plot of all(".plot", slot)) unmountChart(plot);
    slot.replaceChildren(make("p", { class: "nothing", text: "No path for this choice." }));
    return [];
  }
  const [holder] = [...all("div.planes", slot), make("div")];
  holder.className = `planes planes-${wanted}`;
  const figures = all("figure", holder);
  for (const figure of figures.splice(wanted)) {
    unmountChart(find(".plot", figure));
    figure.remove();
  }
  while (figures.length < wanted) figures.push(holder.appendChild(make("figure", {}, make("figcaption"), make("div", { class: "plot path" }))));
  if (!holder.parentElement) slot.replaceChildren(holder);
  return figures;
}
// The page of journeys: what is chosen on it, and what follows from that.

// The most vocabulary tokens that are nearer to a token than its own, at any layer.
const farthest = (/** @type {Journey} */ data, /** @type {Token} */ token) => Math.max(...data.stretch("path").map(({ key }) => data.at(token, data.positions[0], "path", key)?.("rank_cosine") ?? 0));
// What each figure shows of a side.
const VIEWS = /** @type {Record<string, (slot: HTMLElement, side: Side, app: App, name: SideName) => void>} */ ({ choose: showChoose, near: showNear, heat: showHeat, path: showPath });

export async function showJourneys() {
  const sides = /** @type {{ a: Side, b: Side | null }} */ ({ a: /** @type {any} */ ({}), b: null });
  const OPTIONS = /** @type {Record<string, string[]>} */ ({ site: ["path", "attention"], measure: ["cosine", "distance"], positions: ["without", "with"], heat: ["rank", "value"], last: ["with", "without"], texts: ["over", "beside"], zoom: ["all", "chosen"] });
  const shared = /** @type {Shared} */ (Object.fromEntries(Object.entries(OPTIONS).map(([name, [first]]) => [name, first])));
  const loaded = /** @type {Map<string, Promise<Journey>>} */ (new Map());
  const modelsOf = journey => [...new Set(/** @type {Entry[]} */ (explorer.entries).filter(entry => entry.journey === journey).map(entry => entry.model))];
  // A model at a checkpoint, or else at its last one.
  const entryOf = (journey, model, checkpoint) => {
    const entries = /** @type {Entry[]} */ (explorer.entries).filter(entry => entry.journey === journey && entry.model === model);
    return entries.find(entry => entry.checkpoint === checkpoint) ?? entries[entries.length - 1];
  };
  const load = entry => {
    const known = loaded.get(entry.part) ?? part(entry.part).then(raw => new Journey(entry, raw));
    loaded.set(entry.part, known);
    return known;
  };

  /** @type {App} */
  const app = {
    shared, sides,
    styleOf: model => explorer.models.find((/** @type {Style} */ style) => style.model === model) ?? { light: "#52525b", dark: "#c4c4cc", dash: [], shape: "circle" },
    get comparing() { return !!sides.b; },
    get both() { return sides.b ? [sides.a, sides.b] : [sides.a]; },
    get rank() { return `rank_${shared.measure}`; },
    others: [],
    choose(change, side = null, focus = null) {
      const turned = side && ["journey", "model", "checkpoint"].some(name => name in change);
      const before = side && sides[side];
      if (side && before) {
        if (turned && before.data) from[side] ??= before;
        else Object.assign(from[side] ?? {}, change);
        sides[side] = { ...before, ...change };
      } else Object.assign(shared, change);
      // the other side follows to the same depth
      const next = side === "a" ? "b" : "a";
      const layer = before?.data?.placesOf(shared.site).find(place => "layer" in change && place.key === change.layer);
      for (const other of [sides[next], from[next]]) if (layer && other?.data) other.layer = other.data.asDeep(layer, shared.site);
      return show(focus).catch(error => find(".bar").after(make("p", { class: "broken", role: "alert", text: String(error) })));
    },
  };
  // Makes a side whole: whatever is not there is replaced by what is nearest to it.
  async function settle(side, before) {
    if (!explorer.journeys.includes(side.journey)) side.journey = explorer.journeys[0];
    const models = modelsOf(side.journey);
    if (!models.includes(side.model)) side.model = models[0];
    const entry = entryOf(side.journey, side.model, side.checkpoint);
    side.checkpoint = entry.checkpoint;
    side.data = await load(entry);
    const was = before?.data?.placesOf(shared.site).find(place => place.key === before.layer);
    if (was) side.layer = side.data.asDeep(was, shared.site);
    if (before) side.token = before.token && before.journey === side.journey ? side.data.twin(before.token, before.data) ?? undefined : undefined;
    if (side.token) side.token = side.data.texts.get(side.token.text)?.get(side.token.position);
    if (!side.token) {
      const all = /** @type {Journey} */ (side.data).everyToken();
      const words = all.filter(one => !one.special);
      const named = words.filter(one => one.followed && /\p{L}{3}/u.test(one.token));
      // where the study follows all tokens, the word that the journey is named after, or the one that goes furthest from itself
      const other = one => Number(bareToken(one.token) !== bareToken(side.journey));
      if (!words.some(one => !one.followed)) named.sort((a, b) => other(a) - other(b) || farthest(side.data, b) - farthest(side.data, a));
      side.token = named[0] ?? words.find(one => one.followed) ?? words[0] ?? all[0];
    }
  }
  // Readers choose faster than data loads: only the last choice is made whole and drawn, from what was drawn last.
  let turn = 0, drawn = 0;
  // What a side was when it was drawn last, where its journey or model has changed since.
  let from = /** @type {{ a?: Side, b?: Side }} */ ({});
  async function show(focus = /** @type {string | null} */ (null)) {
    const own = ++turn;
    await settle(sides.a, from.a);
    if (own === turn && sides.b) await settle(sides.b, from.b);
    if (own !== turn) return;
    const { data } = sides.a;
    const asked = /** @type {Record<string, string>} */ (shared);
    for (const name of Object.keys(OPTIONS)) if (!OPTIONS[name].includes(asked[name])) asked[name] = OPTIONS[name][0];
    if (!hasAttention()) shared.site = "path";
    if (!data.positions.includes(shared.positions) && !sides.b?.data.positions.includes(shared.positions)) shared.positions = data.positions[0];
    for (const side of app.both) {
      const places = side.data.placesOf(shared.site);
      if (places.some(place => place.key === side.layer)) continue;
      const blocks = places.filter(place => place.key !== "final");
      side.layer = (side.layer === "0" ? blocks[0] : blocks[blocks.length - 1]).key;
    }
    const { journey, model: ofA, checkpoint } = sides.a;
    const others = await Promise.all(modelsOf(journey).map(model => (model === ofA ? data : load(entryOf(journey, model, checkpoint)))));
    if (own !== turn) return;
    app.others = others;
    from = {};
    drawn = own;
    draw(focus);
  }

  function draw(focus) {
    const key = focus ?? /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.key;
    find(".stage").classList.toggle("comparing", app.comparing);
    showBar(find(".bar"), app, { swap, attention: hasAttention(), positions: positionsOf() });
    for (const slot of all(".slot")) {
      const name = /** @type {SideName} */ (slot.dataset.side);
      const side = sides[name];
      slot.hidden = !side;
      if (side) VIEWS[String(slot.dataset.part)](slot, side, app, name);
      else slot.replaceChildren();
    }
    showOwn(app);
    showLines(find(".lines"), app);
    sql();
    address();
    if (key) /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus({ preventScroll: !focus });
  }
  const redraw = () => { if (drawn === turn) draw(); }; // else it will be drawn at once
  const hasAttention = () => app.both.some(side => side.data.places.attention.size > 0);
  const positionsOf = () => [...new Set(app.both.flatMap(side => side.data.positions))];

  // Begins to compare, or ends it.
  function swap() {
    if (sides.b) { sides.b = null; delete from.b; return show("compare"); }
    const own = from.a ?? sides.a, { data } = own;
    if (!data) return;
    const side = sides.b = { ...own };
    const texts = [...data.texts.keys()];
    const model = modelsOf(own.journey).find(name => name !== own.model);
    // what a reader most likely wants beside it: the other text of a homonym, or else the other model
    if (texts.length > 1) {
      const next = texts[(texts.indexOf(own.token.text) + 1) % texts.length];
      const same = data.tokens(next).find(one => bareToken(one.token) === bareToken(own.token.token));
      side.token = same ?? data.tokens(next).find(one => one.followed && !one.special) ?? data.tokens(next)[0];
    } else if (model) {
      from.b = { ...side };
      Object.assign(side, { model, checkpoint: undefined });
    }
    return show("compare");
  }

  function sql() {
    const sites = shared.site === "attention" ? ["attention"] : ["embedding", "block", "final"];
    const of = (/** @type {{ model: string, checkpoint: string }} */ side) => ({ model: side.model, checkpoint: side.checkpoint });
    const here = { positions: shared.positions, site: sites };
    narrowSql("neighbours", app.both.map(side => ({ ...of(side), journey: side.journey, text: side.token.text, position: side.token.position, ...here, measure: shared.measure })), find("#nearest"));
    narrowSql("journeys", app.both.map(side => ({ ...of(side), journey: side.journey, text: app.comparing ? side.token.text : undefined, ...here })), find("#strip"));
    const lines = followed(app).map(({ data, token }) => ({ ...of(data), journey: data.journey, text: token.text, position: token.position, ...here }));
    narrowSql("journeys", lines, find("#profile"));
    narrowSql("journey-paths", app.both.map(side => ({ ...of(side), item: side.journey, projection: shared.last === "with" ? "pca-joint" : "pca-joint-without-last" })), find("#path"));
  }

  function address() {
    const of = (/** @type {Side | null} */ side, /** @type {string} */ prefix) => side && { [`${prefix}journey`]: side.journey, [`${prefix}model`]: side.model, [`${prefix}checkpoint`]: side.checkpoint, [`${prefix}text`]: side.token.text, [`${prefix}token`]: side.token.position, [`${prefix}layer`]: side.layer };
    writeAddress({ ...of(sides.a, ""), ...shared, ...of(sides.b, "b.") });
  }
  function fromAddress() {
    const given = readAddress();
    /** @type {(prefix: string) => any} */
    const of = prefix => ({
      journey: given[`${prefix}journey`], model: given[`${prefix}model`], checkpoint: given[`${prefix}checkpoint`], layer: given[`${prefix}layer`],
      token: given[`${prefix}token`] === undefined ? undefined : { text: Number(given[`${prefix}text`] ?? 0), position: Number(given[`${prefix}token`]) },
    });
    from = {};
    sides.a = of("");
    sides.b = given["b.journey"] ? of("b.") : null;
    for (const name of Object.keys(shared)) if (given[name] !== undefined) Object.assign(shared, { [name]: given[name] });
    return show();
  }
  addEventListener("hashchange", () => { if (location.hash.includes("=")) fromAddress(); });
  for (const event of ["beforeprint", "afterprint"]) addEventListener(event, redraw);
  onTheme(redraw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(redraw); } });
  await fromAddress();
}
