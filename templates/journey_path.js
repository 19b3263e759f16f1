// Journeys: the path of the tokens in one plane.

import { make } from "./dom.js";
import { tipped } from "./explorer.js";
import { bareToken, placeKey, placeName } from "./journey.js";
import { brief, plain, tokenNode } from "./tokens.js";

export function showPath(slot, side, app, name) {
  const { shared } = app;
  const { data, token } = side;
  const { paths } = data;
  const wanted = shared.last === "with" ? "pca-joint" : "pca-joint-without-last";
  const ways = new Map();
  for (let i = 0; i < (paths?.rows ?? 0); i++) {
    if (paths.projection[i] !== wanted) continue;
    const text = Number(/\d+/.exec(paths.part[i])?.[0] ?? 0);
    const key = `${text}|${paths.point[i]}`;
    if (!ways.has(key)) ways.set(key, { text, position: paths.point[i], own: data.texts.get(text)?.get(paths.point[i]), label: paths.label[i], points: [] });
    ways.get(key).points.push({ key: placeKey(paths.site[i], paths.layer[i]), x: paths.x[i], y: paths.y[i] });
  }
  if (!ways.size) { slot.replaceChildren(make("p", { class: "nothing", text: "No path for this choice." })); return; }
  const list = [...ways.values()];
  const texts = [...new Set(list.map(way => way.text))];
  const apart = app.comparing ? [[token.text]] : shared.texts === "over" || texts.length === 1 ? [texts] : texts.map(text => [text]);
  // the frame holds all ways, or the chosen token's and those of the same word in the other texts
  const chosen = Object.values(app.sides).filter(one => one?.data === data).map(one => one.token);
  const isFramed = way => chosen.some(one => way.own === one || (way.text !== one.text && bareToken(way.own?.token) === bareToken(one.token)));
  const framed = shared.zoom === "chosen" ? list.filter(isFramed) : list;
  const points = (framed.length ? framed : list).flatMap(way => way.points);
  const box = [Math.min(...points.map(p => p.x)), Math.max(...points.map(p => p.x)), Math.min(...points.map(p => p.y)), Math.max(...points.map(p => p.y))];
  const holder = make("div", { class: `planes planes-${apart.length}` });
  slot.replaceChildren(holder);
  for (const group of apart) {
    const words = [...(app.comparing ? [side.model] : []), ...(texts.length > 1 && group.length === 1 ? [`text ${texts.indexOf(group[0]) + 1}`] : [])].join(", ");
    const figure = make("figure", {}, words && make("figcaption", { class: colour(app, name, texts, group[0]) }, app.comparing ? make("span", { class: "badge", text: name.toUpperCase() }) : "", ` ${words}`));
    holder.append(figure);
    drawPlane(figure, list.filter(way => group.includes(way.text)), box, side, app, name, texts);
  }
}

// Colours are those of the texts, or of the two sides of a comparison.
const colour = (app, name, texts, text) => (app.comparing ? `line-${name}` : `text-${texts.indexOf(text) % 2}`);

function drawPlane(figure, ways, [x0, x1, y0, y1], side, app, name, texts) {
  const { shared } = app;
  const width = Math.max(240, figure.clientWidth), height = Math.round(Math.min(520, Math.max(320, width * 0.8)));
  const margin = 26;
  const scale = Math.min((width - 2 * margin) / (x1 - x0 || 1), (height - 2 * margin) / (y1 - y0 || 1));
  const x = point => width / 2 + (point.x - (x0 + x1) / 2) * scale;
  const y = point => height / 2 - (point.y - (y0 + y1) / 2) * scale;
  const svg = make("svg:svg", { class: "plane", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Paths of ${ways.length} tokens through the layers; chosen: ${plain(side.token.token, 60)}` });
  const zero = { x: 0, y: 0 };
  svg.style.overflow = "hidden";
  svg.append(make("svg:line", { class: "rule", x1: 0, x2: width, y1: y(zero), y2: y(zero) }), make("svg:line", { class: "rule", x1: x(zero), x2: x(zero), y1: 0, y2: height }),
    make("svg:text", { class: "tick end", x: width - 4, y: y(zero) - 5, text: "PC 1" }), make("svg:text", { class: "tick", x: x(zero) + 5, y: 12, text: "PC 2" }));
  const isChosen = way => way.own === side.token;
  // the same word in another text of the journey: what a homonym is about
  const isTwin = way => !isChosen(way) && way.text !== side.token.text && bareToken(way.own?.token) === bareToken(side.token.token);
  const weight = way => (isChosen(way) ? 3 : isTwin(way) ? 2 : way.own?.followed && !way.own.special ? 1 : 0);
  const labels = [];
  const taken = [[width - 36, y(zero) - 16, 36], [x(zero), 0, 34]];  // the names of the axes
  for (const way of [...ways].sort((a, b) => weight(a) - weight(b))) {
    const strong = weight(way) >= 2;
    const group = make("svg:g", { class: `way ${colour(app, name, texts, way.text)} weight-${weight(way)}` });
    group.append(make("svg:path", { class: "course", d: way.points.map((point, i) => `${i ? "L" : "M"}${x(point).toFixed(1)} ${y(point).toFixed(1)}`).join("") }));
    // numbers where they have room: at the chosen layer, at the ends, and then at those between
    const numbered = [];
    const rank = (point, i) => (point.key === side.layer ? 0 : i === way.points.length - 1 ? 1 : i === 0 ? 2 : 3);
    for (const [, point] of way.points.map((point, i) => [rank(point, i), point]).sort((a, b) => a[0] - b[0])) {
      if (strong && numbered.every(other => Math.hypot(x(point) - x(other), y(point) - y(other)) > 12)) numbered.push(point);
    }
    way.points.forEach((point, i) => {
      const here = point.key === side.layer;
      const last = i === way.points.length - 1;
      if (numbered.includes(point)) {
        group.append(make("svg:circle", { cx: x(point).toFixed(1), cy: y(point).toFixed(1), r: here ? 9 : 7, class: here ? "here" : undefined }), make("svg:text", { class: "number", x: x(point).toFixed(1), y: (y(point) + 3.2).toFixed(1), text: point.key === "final" ? "n" : point.key }));
      } else if (last && !strong && way.points.length > 1) {
        const from = way.points[i - 1];
        const turn = Math.atan2(y(point) - y(from), x(point) - x(from)) * 180 / Math.PI;
        group.append(make("svg:path", { class: "head", d: "M0 0L-7 -3.2L-7 3.2z", transform: `translate(${x(point).toFixed(1)} ${y(point).toFixed(1)}) rotate(${turn.toFixed(1)})` }));
      } else {
        group.append(make("svg:circle", { cx: x(point).toFixed(1), cy: y(point).toFixed(1), r: strong ? 2.5 : here ? 3.2 : i ? 1.3 : 2 }));
      }
    });
    svg.append(group);
    const end = way.points.at(-1);
    if (x(end) >= 0 && x(end) <= width && y(end) >= 0 && y(end) <= height) labels.push({ way, x: x(end), y: y(end), strong });
  }
  // names of the ways at their ends, the strong ones first; one that would cover another is left to the pointer
  for (const label of labels.reverse()) {
    const words = brief(label.way.label, 14);
    const wide = words.length * (label.strong ? 7.4 : 6.2) + 6;
    const right = label.x + 12 + wide < width;
    const at = [right ? label.x + (label.strong ? 13 : 6) : label.x - (label.strong ? 13 : 6) - wide, label.y - 7];
    if (taken.some(box => at[0] < box[0] + box[2] && at[0] + wide > box[0] && at[1] < box[1] + 14 && at[1] + 14 > box[1])) continue;
    taken.push([...at, wide]);
    svg.append(make("svg:text", { class: `name ${colour(app, name, texts, label.way.text)} weight-${weight(label.way)}`, x: right ? at[0] : at[0] + wide, y: label.y + 4, "text-anchor": right ? "start" : "end", "unicode-bidi": "isolate", text: words }));
  }
  const nearestTo = event => {
    const frame = svg.getBoundingClientRect();
    const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
    let best = null, reach = 26 ** 2;
    for (const way of ways) {
      for (const point of way.points) {
        const away = (x(point) - px) ** 2 + (y(point) - py) ** 2 - weight(way);
        if (away < reach) [best, reach] = [[way, point], away];
      }
    }
    return best;
  };
  tipped(svg, event => {
    const found = nearestTo(event);
    svg.classList.toggle("hit", !!found);
    return found && [make("b", {}, tokenNode(found[0].label, 200)), placeName(found[1].key), ...(texts.length > 1 ? [`text ${texts.indexOf(found[0].text) + 1}, position ${found[0].position}`] : [`position ${found[0].position}`])];
  });
  svg.addEventListener("click", event => {
    const found = nearestTo(event);
    if (!found?.[0].own) return;
    app.choose({ token: found[0].own, layer: found[1].key }, name);
  });
  figure.append(svg);
}
