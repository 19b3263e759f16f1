// A picture of vectors as points, that can be turned and searched.

import { WAYS, nextMark } from "./charts.js";
import { all, make } from "./dom.js";
import { short } from "./numbers.js";
import { isPrinting, page, twin } from "./page.js";
import { isolated, phrase, plain, tokenNode } from "./tokens.js";

const AXES = { xyz: ["x", "y", "z"], xy: ["x", "y"], xz: ["x", "z"], yz: ["y", "z"] };
const MOST_NAMED = 24;

export class Points {
  width = 0;
  height = 0;
  dims = 2;
  size = 1;
  low = 0;
  high = 1;
  middle = [0, 0, 0];
  turn = [-0.55, 0.35];
  zoom = 1;
  shift = [0, 0];
  hidden = /** @type {Set<string>} */ (new Set());  // parts that are hidden
  at = /** @type {any} */ (null);  // the point that is read off
  names = ["x", "y"];  // of the axes
  means = /** @type {any[]} */ ([]);
  found = /** @type {any[]} */ ([]);  // what the search found
  all = /** @type {any[]} */ ([]);

  constructor(plot, chart) {
    const { options } = chart;
    this.chart = chart;
    this.options = options;
    this.by = options.colour?.[0] ?? "part";
    this.tools = make("div", { class: "tools" });
    this.key = make("div", { class: "key" });
    this.canvas = make("canvas", {
      tabindex: 0, role: "img", style: `height:${options.height ?? 380}px`,
      onpointermove: event => this.move(event), onkeydown: event => this.press(event),
      onpointerdown: event => { this.drag = [event.clientX, event.clientY]; this.canvas.setPointerCapture(event.pointerId); },
      onpointerup: () => { this.drag = null; }, onpointercancel: () => { this.drag = null; },
      onpointerleave: () => { if (!this.drag) this.tell(null); },
    });
    this.told = make("p", { class: "told", "aria-live": "polite" });
    if (options.colour?.length > 1) this.tools.append(this.choice("Colour", options.colour, value => { this.by = value; this.recolour(); }));
    if (options.search) this.tools.append(this.searching());
    plot.replaceChildren(this.tools, this.key, make("div", { class: "canvas-box" }, this.canvas, this.zooming()), this.told);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  choice(label, values, take) {
    return make("label", { class: "pick" }, `${label} `, make("select", { autocomplete: "off", onchange: event => take(event.target.value) },
      values.map(value => make("option", { value, text: value.replaceAll("_", " ") }))));
  }

  searching() {
    this.input = make("input", { type: "search", placeholder: "a token", autocomplete: "off", spellcheck: "false", oninput: () => { this.search(); this.draw(); } });
    return make("label", { class: "pick search" }, "Find ", this.input);
  }

  zooming() {
    const sizes = /** @type {[string, string, number][]} */ ([["−", "Smaller", 1 / 1.4], ["+", "Larger", 1.4], ["⟲", "Reset", 0]]);
    return make("span", { class: "zooming" }, sizes.map(([text, label, factor]) => make("button", { type: "button", title: label, "aria-label": label, text, onclick: () => this.scale(factor) })));
  }

  scale(factor) {
    if (factor) {
      this.zoom = Math.max(0.5, Math.min(40, this.zoom * factor));
      this.shift = this.shift.map(s => s * factor);
    } else Object.assign(this, { zoom: 1, shift: [0, 0], turn: [-0.55, 0.35] });
    this.draw();
  }
  // tokens show their spaces, texts do not
  node(text, most) { return this.options.search ? tokenNode(text, most) : make("bdi", { text: phrase(text, most) }); }
  label(point, most) { return this.options.search ? plain(point.row.label, most) : phrase(point.row.label, most); }


  set(rows) {
    const { options } = this;
    const names = AXES[this.chart.picks.axes ?? (options.z ? "xyz" : "xy")];
    const field = name => options[name] ?? name;
    const means = rows.filter(row => row.mean);
    const usable = rows.filter(row => !row.mean && names.every(name => row[field(name)] !== null && row[field(name)] !== undefined));
    const points = usable.map(row => ({ row, at: names.map(name => row[field(name)]) }));
    const ends = (/** @type {number[]} */ values) => (values.length ? [Math.min(...values), Math.max(...values)] : [0, 0]);
    const reach = names.map((_, k) => ends(points.map(point => point.at[k])));
    const size = Math.max(1e-12, ...reach.map(([low, high]) => high - low));
    const middle = [0, 1, 2].map(k => ends(points.map(point => point.at[k] ?? 0).concat(options.origin ? [0] : []))).map(([low, high]) => (low + high) / 2);
    for (const point of points) point.unit = [0, 1, 2].map(k => ((point.at[k] ?? middle[k]) - middle[k]) / size);
    Object.assign(this, { names, dims: names.length, means, size, middle, all: points, at: null });
    this.recolour();
    this.search();
    this.canvas.setAttribute("aria-label", `${this.chart.title}: ${points.length} points. Arrow keys ${this.dims === 3 ? "turn the picture" : "go from point to point"}, plus and minus change its size.`);
    this.tell(null);
  }

  get points() { return this.all.filter(point => !this.hidden.has(point.part)); }

  recolour() {
    const { options } = this;
    if (options.ramps?.includes(this.by)) {
      const values = this.all.map(point => point.row[this.by]).filter(value => value !== null && value !== undefined);
      Object.assign(this, { low: Math.min(...values), high: Math.max(...values) });
      for (const point of this.all) Object.assign(point, { part: "", colour: this.ramp(point.row[this.by]) });
      this.legendRamp(values.length);
    } else {
      const count = new Map();
      for (const point of this.all) {
        point.part = String(point.row[this.by] ?? (options.of && point.row[options.of] !== "token" ? point.row[options.of] : "none"));
        count.set(point.part, (count.get(point.part) ?? 0) + 1);
      }
      const every = [...new Set([...options.values[this.by] ?? [], ...count.keys()])];
      this.colours = new Map(every.map((name, i) => [name, name === "none" ? page.grey : page.categories[i % page.categories.length]]));
      for (const name of [...this.hidden]) if (!every.includes(name)) this.hidden.delete(name);
      for (const point of this.all) point.colour = this.colours.get(point.part);
      this.legendParts(every.filter(name => count.has(name)), count);
    }
    this.draw();
  }

  ramp(value) {
    if (value === null || value === undefined) return null;
    const colours = Object.keys(page.ramp);
    const place = ((value - this.low) / Math.max(1e-12, this.high - this.low)) * (colours.length - 1);
    return colours[Math.round(place)] ?? null;
  }

  legendRamp(some) {
    const bar = make("span", { class: "ramp", style: `background:linear-gradient(to right, ${Object.keys(page.ramp).map(colour => twin(colour)).join(", ")})` });
    this.key.replaceChildren(...(some ? [make("span", { text: short(this.low) }), bar, make("span", { text: `${short(this.high)} ${this.by.replaceAll("_", " ")}` })] : []));
  }

  legendParts(names, count) {
    const toggle = name => event => {
      this.hidden.delete(name) || this.hidden.add(name);
      event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      this.draw();
    };
    this.key.replaceChildren(...names.slice(0, MOST_NAMED).map(name => make("button", { type: "button", class: "entry", "aria-pressed": String(!this.hidden.has(name)), title: "Show or hide", onclick: toggle(name) },
      make("i", { "data-colour": String(this.colours?.get(name)) }), isolated(name), make("small", { text: count.get(name).toLocaleString("en") }))));
    if (names.length > MOST_NAMED) this.key.append(make("span", { text: `and ${names.length - MOST_NAMED} more` }));
  }


  project(unit) {
    let [x, y, z] = unit;
    if (this.dims === 3) {
      const [a, b] = this.turn;
      [x, z] = [x * Math.cos(a) - z * Math.sin(a), x * Math.sin(a) + z * Math.cos(a)];
      [y, z] = [y * Math.cos(b) - z * Math.sin(b), y * Math.sin(b) + z * Math.cos(b)];
    }
    const span = Math.min(this.width - 40, this.height - 40) * (this.dims === 3 ? 1.1 : 1) * this.zoom;
    const wide = this.dims === 2 ? Math.min((this.width - 60) / Math.max(1, this.height - 40), 1.9) : 1;
    const near = this.dims === 3 ? 1 / (1 + 0.35 * z) : 1;
    return [this.width / 2 + this.shift[0] + x * span * near * (this.options.even ? 1 : wide), this.height / 2 + this.shift[1] - y * span * near, z];
  }

  draw() {
    const { canvas } = this;
    const box = canvas.getBoundingClientRect();
    if (!this.all || box.width === 0) return;
    const ratio = devicePixelRatio || 1;
    Object.assign(this, { width: box.width, height: box.height });
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const style = getComputedStyle(document.documentElement);
    const inks = ["--ink", "--line", "--quiet"].map(name => style.getPropertyValue(name).trim());
    const [ink, line, quiet] = isPrinting() ? ["#000", "#ccc", "#444"] : inks;
    pen.scale(ratio, ratio);
    pen.font = `11px ${style.getPropertyValue("--sans")}`;
    for (const mark of all("i", this.key)) mark.style.background = twin(String(mark.dataset.colour));
    this.axes(pen, line, quiet);
    const points = this.points;
    for (const point of points) point.seen = this.project(point.unit);
    if (this.options.joined) this.join(pen, points);
    const drawn = this.dims === 3 ? [...points].sort((a, b) => b.seen[2] - a.seen[2]) : points;
    const found = new Set(this.found);
    const radius = points.length > 1200 ? 2 : points.length > 250 ? 2.6 : 3.6;
    for (const point of drawn) {
      pen.globalAlpha = found.size ? 0.16 : this.dims === 3 ? 0.5 + 0.4 * (0.5 - point.seen[2]) : 0.72;
      pen.fillStyle = twin(point.colour ?? page.grey);
      this.shape(pen, point, this.dims === 3 ? radius * (1 - 0.35 * point.seen[2]) : radius);
    }
    pen.globalAlpha = 1;
    if (this.options.arrows) this.arrows(pen, points, ink);
    const named = [...found].filter(point => point.seen && !this.hidden.has(point.part));
    for (const point of named) this.ring(pen, point, ink, 4.5);
    for (const point of named.slice(0, MOST_NAMED)) this.name(pen, point, ink);
    if (this.at?.seen) { this.ring(pen, this.at, ink, 6); this.name(pen, this.at, ink); }
  }
  // controls (random texts) are hollow: colour is never the only cue
  shape(pen, point, radius) {
    const [x, y] = point.seen;
    pen.beginPath();
    pen.arc(x, y, point.row.hollow ? radius : Math.max(0.8, radius), 0, 7);
    if (!point.row.hollow) return pen.fill();
    Object.assign(pen, { strokeStyle: pen.fillStyle, lineWidth: 1.2 }).stroke();
  }

  line(pen, from, to, style) {
    Object.assign(pen, style).beginPath();
    pen.moveTo(from[0], from[1]);
    pen.lineTo(to[0], to[1]);
    pen.stroke();
  }

  axes(pen, line, quiet) {
    pen.fillStyle = quiet;
    const zero = this.options.origin ? [0, 1, 2].map(k => -this.middle[k] / this.size) : [0, 0, 0];
    const names = this.options.axisNames ?? ["", "", ""];
    for (let k = 0; k < this.dims; k++) {
      const ends = [-0.5, 0.5].map(end => this.project(zero.map((value, i) => (i === k ? (this.options.origin && this.dims === 2 ? end * 3 : end) : value))));
      this.line(pen, ends[0], ends[1], { strokeStyle: line, lineWidth: 1 });
      const name = names[{ x: 0, y: 1, z: 2 }[this.names[k]]];
      if (name) pen.fillText(name, Math.min(ends[1][0], this.width - 30) + 4, Math.max(12, ends[1][1] - 4));
    }
  }

  join(pen, points) {
    for (let i = 1; i < points.length; i++) {
      this.line(pen, points[i - 1].seen, points[i].seen, { globalAlpha: 0.35, lineWidth: 1.1, strokeStyle: twin(points[i].colour ?? page.grey) });
    }
    pen.globalAlpha = 1;
  }
  // from the origin to the mean of each part
  arrows(pen, points, ink) {
    const named = [];
    const [ox, oy] = this.project([0, 1, 2].map(k => -this.middle[k] / this.size));
    for (const row of this.means.filter(row => !this.hidden.has(String(row[this.by])))) {
      const part = String(row[this.by]);
      const [x, y] = this.project([row.x, row.y, row.z ?? 0].map((value, k) => (value - this.middle[k]) / this.size));
      const angle = Math.atan2(y - oy, x - ox);
      pen.fillStyle = twin(this.colours?.get(part) ?? page.grey);
      this.line(pen, [ox, oy], [x, y], { strokeStyle: pen.fillStyle, lineWidth: 2.2 });
      pen.beginPath();
      pen.moveTo(x + 5 * Math.cos(angle), y + 5 * Math.sin(angle));
      for (const side of [2.5, -2.5]) pen.lineTo(x + 9 * Math.cos(angle + side), y + 9 * Math.sin(angle + side));
      pen.fill();
      named.push({ text: phrase(part, 30), x: x + (x < ox ? -9 : 9), y: y + 4, right: x < ox });
    }
    // names that would lie on each other move down
    pen.fillStyle = ink;
    const placed = [];
    for (const name of named.sort((a, b) => a.y - b.y)) {
      const width = pen.measureText(name.text).width;
      const left = Math.max(2, Math.min(name.right ? name.x - width : name.x, this.width - width - 2));
      while (placed.some(other => Math.abs(other.y - name.y) < 12 && left < other.left + other.width && other.left < left + width)) name.y += 3;
      placed.push({ left, width, y: name.y });
      pen.fillText(name.text, left, name.y);
    }
  }

  ring(pen, point, ink, radius) {
    Object.assign(pen, { strokeStyle: ink, fillStyle: twin(point.colour ?? page.grey), lineWidth: 1.5 }).beginPath();
    pen.arc(point.seen[0], point.seen[1], radius, 0, 7);
    pen.fill();
    pen.stroke();
  }

  name(pen, point, ink) {
    const text = `\u2068${this.label(point, 32)}\u2069`;
    const width = pen.measureText(text).width;
    const right = point.seen[0] + 10 + width > this.width;
    const x = right ? point.seen[0] - 10 - width : point.seen[0] + 9;
    Object.assign(pen, { fillStyle: getComputedStyle(this.canvas).getPropertyValue("--surface"), globalAlpha: 0.85 });
    pen.fillRect(x - 2, point.seen[1] - 9, width + 4, 16);
    Object.assign(pen, { fillStyle: ink, globalAlpha: 1 });
    pen.fillText(text, x, point.seen[1] + 4);
  }


  tell(point) {
    if (this.at !== point) { this.at = point; this.draw(); }
    if (!point) return this.told.replaceChildren(...this.sayFound());
    const { row } = point;
    const facts = (this.options.tell ?? []).filter(name => row[name] !== null && row[name] !== undefined)
      .map(name => `${name.replaceAll("_", " ")} ${typeof row[name] === "number" ? short(row[name]) : row[name]}`);
    const at = this.names.map((name, i) => short(point.at[i])).join(", ");
    this.told.replaceChildren(this.node(row.label, 160), make("span", { text: ` ${[...facts, `at ${at}`].map(fact => phrase(fact, 80)).join(" · ")}` }));
  }

  move(event) {
    const box = this.canvas.getBoundingClientRect();
    if (this.drag) {
      const by = [event.clientX - this.drag[0], event.clientY - this.drag[1]];
      this.drag = [event.clientX, event.clientY];
      if (this.dims === 3) this.turn = [this.turn[0] + by[0] / 150, Math.max(-1.57, Math.min(1.57, this.turn[1] + by[1] / 150))];
      else this.shift = [this.shift[0] + by[0], this.shift[1] + by[1]];
      return this.draw();
    }
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = 14 ** 2;
    for (const point of this.points) {
      const away = (point.seen[0] - x) ** 2 + (point.seen[1] - y) ** 2;
      if (away < least) [best, least] = [point, away];
    }
    this.tell(best);
  }

  press(event) {
    const way = WAYS[event.key];
    if (event.key === "+" || event.key === "=") this.scale(1.4);
    else if (event.key === "-") this.scale(1 / 1.4);
    else if (event.key === "0") this.scale(0);
    else if (event.key === "Escape") this.tell(null);
    else if (way && this.dims === 3 && !event.shiftKey) {
      this.turn = [this.turn[0] + way[0] * 0.12, Math.max(-1.57, Math.min(1.57, this.turn[1] + way[1] * 0.12))];
      this.draw();
    } else if (way) this.step(way);
    else return;
    event.preventDefault();
  }
  // the nearest point in that direction
  step(way) {
    const from = this.at?.seen ?? [this.width / 2, this.height / 2];
    const marks = this.points.filter(point => point !== this.at).map(point => ({ x: point.seen[0], y: point.seen[1], point }));
    const next = nextMark(marks, { x: from[0], y: from[1] }, way);
    if (next) this.tell(next.point);
  }

  search() {
    const wanted = this.input?.value ?? "";
    const low = wanted.toLowerCase();
    this.found = wanted === "" ? [] : this.all.filter(({ row }) => String(row.label ?? "").toLowerCase().includes(low));
    this.found.sort((a, b) => Number(String(b.row.label).toLowerCase() === low) - Number(String(a.row.label).toLowerCase() === low) || String(a.row.label).length - String(b.row.label).length);
    if (this.input) this.told.replaceChildren(...this.sayFound());
  }

  sayFound() {
    const wanted = this.input?.value ?? "";
    if (wanted === "") return [`Point at a mark, or press ${this.dims === 3 ? "Shift and " : ""}an arrow key on the picture, to read it.`];
    const elsewhere = [make("span", { text: " The whole vocabulary: " }), make("code", { text: `SELECT * FROM vocabulary WHERE study = '${page.study}' AND token LIKE '%${wanted.replaceAll("'", "''")}%'` })];
    if (this.found.length === 0) return ["Not among the points that are drawn.", ...elsewhere];
    const exact = String(this.found[0].row.label).toLowerCase() === wanted.toLowerCase();
    const said = this.found.slice(0, 12).flatMap(point => [this.node(point.row.label, 30), " "]);
    return [`${this.found.length} marked: `, ...said, ...(exact ? [] : [make("span", { text: "The token itself is not drawn." }), ...elsewhere])];
  }
}
