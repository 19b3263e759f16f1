// Journeys: profiles of the chosen token.

import { make } from "./dom.js";
import { tipped } from "./explorer.js";
import { bareToken, placeName, placeShort } from "./journey.js";
import { swatch } from "./journey_choose.js";
import { short, whole } from "./numbers.js";
import { tokenNode } from "./tokens.js";

// The lines of the profiles: the token of side A in every model, or that of both sides.
export function followed(app) {
  const { sides } = app;
  if (app.comparing) {
    return Object.entries(sides).map(([name, side]) => ({ data: side.data, token: side.token, label: `${name.toUpperCase()} · ${side.model}`, side: name, style: null }));
  }
  return app.others.map(data => ({ data, token: data === sides.a.data ? sides.a.token : data.twin(sides.a.token, sides.a.data), label: data.model, style: app.styleOf(data.model) })).filter(line => line.token);
}

export function showLines(holder, app) {
  const { shared, sides } = app;
  const lines = followed(app);
  const missing = app.comparing ? [] : app.others.filter(data => !lines.some(line => line.data === data));
  document.getElementById("profile-title").textContent = app.comparing ? "The two chosen tokens" : "The chosen token in every model";
  document.querySelector("#profile > .lead").textContent = app.comparing ? "A and B, each in its own model. Press a point to choose its layer." : "The same place of the same text in each model of the study. Press a point to choose its layer.";
  const one = lines.every(line => line.data.stretch("path").length === lines[0].data.stretch("path").length);
  const charts = [
    { column: shared.measure, title: shared.measure === "cosine" ? "Cosine to its own vocabulary vector" : "Distance to its own vocabulary vector", wide: true },
    { column: app.rank, title: "Rank: vocabulary tokens that are nearer", wide: true, rank: true },
    { column: `turnover_${shared.measure}`, title: "Turnover: new among its nearest 100", share: true },
    { column: "step_length", title: "Step length" },
    { column: "step_cosine", title: "Cosine of state and state before" },
  ];
  const legend = make("p", { class: "line-names" }, lines.map(line => make("span", { class: line.side ? `line-${line.side}` : undefined },
    line.style ? swatch(line.style) : make("i", { class: "badge", text: line.side.toUpperCase() }), make("b", { text: line.data.model }), " ", tokenNode(line.token.token), make("small", { text: ` position ${line.token.position}${!app.comparing && bareToken(line.token.token) !== bareToken(sides.a.token.token) ? ", the piece in which it ends" : ""}` }))),
    missing.map(data => make("span", { class: "missing" }, swatch(app.styleOf(data.model)), make("b", { text: data.model }), make("small", { text: " has no such token in this text" }))));
  const grid = make("div", { class: "line-charts" });
  holder.replaceChildren(legend, grid);
  for (const chart of charts) {
    const figure = make("figure", { class: chart.wide ? "broad" : undefined }, make("figcaption", { text: chart.title }));
    grid.append(figure);
    drawLines(figure, chart, lines, app, one);
  }
  document.querySelector("#profile details .scroll").replaceChildren(profileTable(lines, app));
}

function drawLines(figure, chart, lines, app, oneDepth) {
  const { shared, sides } = app;
  const series = lines.map(line => ({
    ...line,
    points: line.data.stretch(shared.site).map(place => ({ ...place, value: line.data.at(line.token, shared.positions, shared.site, place.key)?.(chart.column) ?? null })).filter(point => point.value !== null),
  }));
  const values = series.flatMap(line => line.points.map(point => point.value));
  if (!values.length) { figure.append(make("p", { class: "nothing", text: "No numbers for this choice." })); return; }
  const width = Math.max(220, figure.clientWidth), height = chart.wide ? 230 : 180;
  const [left, right, top, bottom] = [42, 14, 10, 34];
  const closing = series.some(line => line.points.some(point => point.key === "final"));
  const depthX = depth => left + depth * (width - left - right - (closing ? 26 : 0));
  const x = point => (point.key === "final" ? width - right : depthX(point.depth));
  let low = Math.min(...values), high = Math.max(...values), ticks;
  const warp = chart.rank ? value => Math.log1p(value) : value => value;
  if (chart.rank) {
    [low, high] = [0, Math.max(10, high)];
    ticks = [0, 1, 10, 100, 1000, 10000, 100000, 1000000].filter(tick => tick <= high * 1.2);
    if (ticks.length > 6) ticks = ticks.filter((tick, i) => tick < 2 || i % 2 === 0 || tick === ticks.at(-1));
  } else {
    if (chart.share || (low >= 0 && low < 0.4 * high)) low = Math.min(0, low);
    if (chart.share || (chart.column.includes("cosine") && high > 0.8)) high = 1;
    const step = 10 ** Math.floor(Math.log10((high - low) / 3 || 1));
    const size = [1, 2, 5, 10].map(by => by * step).find(by => (high - low) / by <= 5);
    low = Math.floor(low / size + 1e-9) * size;
    high = Math.ceil(high / size - 1e-9) * size;
    ticks = Array.from({ length: Math.round((high - low) / size) + 1 }, (_, i) => low + i * size);
  }
  if (low === high) high = low + 1;
  const share = value => (warp(value) - warp(low)) / (warp(high) - warp(low));
  const y = value => (chart.rank ? top + share(value) * (height - top - bottom) : height - bottom - share(value) * (height - top - bottom));
  const layers = series[0].points.length && oneDepth ? series[0].data.stretch(shared.site).filter(place => place.key !== "final") : null;
  const every = layers ? Math.ceil(layers.length / Math.max(3, (width - left) / 34)) : 1;
  const across = layers ? layers.filter((_, i) => i % every === 0).map(place => [depthX(place.depth), placeShort(place.key)]) : [0, 0.25, 0.5, 0.75, 1].map(depth => [depthX(depth), depth]);
  const svg = make("svg:svg", { class: "lines-chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.title}: ${series.map(line => `${line.label} ${line.points.map(point => `${placeShort(point.key)} ${short(point.value)}`).join(", ")}`).join("; ")}` },
    ticks.map(tick => [make("svg:line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), make("svg:text", { class: "tick end", x: left - 6, y: y(tick) + 4, text: chart.rank ? (tick >= 1000 ? `${tick / 1000}k` : tick) : short(tick) })]),
    across.map(([at, text]) => make("svg:text", { class: "tick middle", x: at, y: height - bottom + 15, text })),
    closing ? make("svg:text", { class: "tick middle", x: width - right - 2, y: height - bottom + 15, text: "norm" }) : null,
    make("svg:text", { class: "tick middle", x: (left + width - right) / 2, y: height - 4, text: layers ? "layer" : "depth: layer / layers" }));
  const now = sides.a.data.stretch(shared.site).find(place => place.key === sides.a.layer);
  if (now) svg.append(make("svg:line", { class: "now", x1: x(now), x2: x(now), y1: top - 4, y2: height - bottom }));
  const here = line => (line.side ? sides[line.side].layer : line.data === sides.a.data ? sides.a.layer : null);
  for (const line of [...series].reverse()) {
    const css = line.style ? `--light:${line.style.light};--dark:${line.style.dark}` : undefined;
    const group = make("svg:g", { class: `styled${line.side ? ` line-${line.side}` : ""}${line.data === sides.a.data && !line.side ? " main" : ""}`, style: css });
    const course = line.points.filter(point => point.key !== "final");
    const last = line.points.find(point => point.key === "final");
    group.append(make("svg:path", { class: "course", d: course.map((point, i) => `${i ? "L" : "M"}${x(point).toFixed(1)} ${y(point.value).toFixed(1)}`).join(""), "stroke-dasharray": line.style?.dash.length ? line.style.dash.join(" ") : undefined }));
    if (last && course.length) group.append(make("svg:path", { class: "course to-final", d: `M${x(course.at(-1))} ${y(course.at(-1).value)}L${x(last)} ${y(last.value)}` }));
    for (const point of line.points) group.append(make("svg:circle", { cx: x(point).toFixed(1), cy: y(point.value).toFixed(1), r: point.key === here(line) ? 5 : 3.2, class: point.key === "final" ? "hollow" : undefined }));
    svg.append(group);
  }
  const main = series.find(line => line.data === sides.a.data) ?? series[0];
  const nearestTo = event => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    return main.points.reduce((best, point) => (!best || Math.abs(x(point) - at) < Math.abs(x(best) - at) ? point : best), null);
  };
  svg.addEventListener("click", event => { const point = nearestTo(event); if (point) app.choose({ layer: point.key }, "a"); });
  tipped(svg, event => {
    const point = nearestTo(event);
    if (!point) return null;
    return [make("b", { text: placeName(point.key) }), ...series.map(line => {
      const own = line.points.reduce((best, one) => (!best || Math.abs(x(one) - x(point)) < Math.abs(x(best) - x(point)) ? one : best), null);
      return own ? [`${line.label}${own.key === point.key ? "" : `, ${placeName(own.key)}`}`, chart.rank ? whole(own.value) : short(own.value)] : [line.label, "–"];
    })];
  });
  figure.append(svg);
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
