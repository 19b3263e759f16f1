// @ts-check
// Journeys: the path of the tokens in one plane.

import { mountChart, unmountChart } from "./charts.js";
import { all, find, make } from "./dom.js";
import { explorer } from "./explorer.js";
import { bareToken, placeKey, placeName } from "./journey.js";
import { frameOf, rowsOf } from "./plane.js";
import { plain } from "./tokens.js";

/** @typedef {import("./plane.js").Way & { text: number, position: number, own?: import("./journey.js").Token }} TokenWay */

/**
 * @param {HTMLElement} slot
 * @param {import("./journey.js").Side} side
 * @param {import("./journey.js").App} app
 * @param {import("./journey.js").SideName} name
 */
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
      file: `path-${side.model}`,
      signals: { x0: frame.x[0], x1: frame.x[1], y0: frame.y[0], y1: frame.y[1] },
      dark: explorer.dark,
      height,
      press: row => { if (row.token) app.choose({ token: data.texts.get(row.token[0])?.get(row.token[1]), layer: row.place }, name); },
    });
  });
}

/**
 * The path of each token of a journey in one projection.
 * @param {import("./journey.js").Journey} data
 * @param {string} projection
 * @returns {Map<string, TokenWay>}
 */
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

/**
 * The figures of a slot, as many as are wanted: those that are there stay, so that their charts take on other rows.
 * @param {HTMLElement} slot
 * @param {number} wanted
 * @returns {HTMLElement[]}
 */
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
