// @ts-check
// Journeys: profiles of the chosen token.

import { labelChart, mountChart } from "./charts.js";
import { all, find, make } from "./dom.js";
import { explorer } from "./explorer.js";
import { bareToken, placeName, placeShort } from "./journey.js";
import { swatch } from "./journey_choose.js";
import { short, whole } from "./numbers.js";
import { plain, tokenNode } from "./tokens.js";

/**
 * @typedef {{ data: import("./journey.js").Journey, token: import("./journey.js").Token, label: string, side?: import("./journey.js").SideName, style: import("./journey.js").Style | null }} Line
 */
/**
 * The lines of the profiles: the token of side A in every model, or that of both sides.
 * @param {import("./journey.js").App} app
 * @returns {Line[]}
 */
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

/**
 * @param {HTMLElement} holder
 * @param {import("./journey.js").App} app
 */
export function showLines(holder, app) {
  const { shared, sides } = app;
  const lines = followed(app);
  const missing = app.comparing ? [] : app.others.filter(data => !lines.some(line => line.data === data));
  find("#profile-title").textContent = app.comparing ? "The two chosen tokens" : "The chosen token in every model";
  find("#profile > .lead").textContent = app.comparing ? "A and B, each in its own model. Press a point to choose its layer." : "The same place of the same text in each model of the study. Press a point to choose its layer.";
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

// Where the state after the closing norm stands: to the right of the last block, which is at depth 1.
const CLOSING = 1.09;
const MOST_TIMES = 50;  // between lengths on a linear axis

/**
 * @param {HTMLElement} plot
 * @param {{ column: string, title: string, wide?: boolean, rank?: boolean, share?: boolean, length?: boolean }} chart
 * @param {Line[]} lines
 * @param {import("./journey.js").App} app
 * @param {boolean} oneDepth whether all models have as many layers
 */
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
    file: `${chart.column}-${plain(sides.a.token.token, 30)}`,
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

/**
 * @param {Line[]} lines
 * @param {import("./journey.js").App} app
 */
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
