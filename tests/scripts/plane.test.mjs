import assert from "node:assert/strict";
import { test } from "node:test";

import { frameOf, rowsOf } from "../../templates/journey.js";

const way = (name, weight, ...points) => ({ name, weight, hue: "side a", points: points.map(([x, y], layer) => ({ key: String(layer), x, y })) });
const FRAME = { x: [0, 100], y: [0, 100], scale: 4 };  // 400 pixels each way

test("a frame has one unit on both axes, and room around every point", () => {
  const { x, y, scale } = frameOf([{ key: "0", x: 0, y: 5 }, { key: "1", x: 10, y: 7 }], 300, 200, 20);
  assert.equal(scale, 26);  // 260 pixels for 10 units
  assert.deepEqual([(x[1] - x[0]) * scale, (y[1] - y[0]) * scale].map(Math.round), [300, 200]);
  assert.deepEqual([(x[0] + x[1]) / 2, (y[0] + y[1]) / 2], [5, 6]);
  assert.ok(Number.isFinite(frameOf([{ key: "0", x: 1, y: 1 }], 300, 200).scale), "a single point, too");
});

test("chosen ways are numbered where there is room, the chosen layer before the others; others end in an arrow", () => {
  const rows = rowsOf([way("strong", 3, [10, 10], [11, 10], [50, 50], [51, 50]), way("weak", 0, [10, 80], [20, 80])], FRAME, "2");
  const of = weight => rows.filter(row => row.weight === weight);
  assert.deepEqual(of(3).map(row => row.mark), ["number", "dot", "number", "dot"], "the end, 4 pixels from the chosen layer, has no room");
  assert.deepEqual(of(3).filter(row => row.here).map(row => row.number), ["2"]);
  assert.deepEqual(of(0).map(row => row.mark), ["dot", "head"]);
  assert.equal(of(0)[1].turn, 90, "to the right");
  assert.deepEqual(rows.map(row => row.weight), [0, 0, 3, 3, 3, 3], "the strong ones are drawn last");
});

test("a name that would cover another is left out, the weaker one; at the right edge it stands on the left", () => {
  const rows = rowsOf([way("weak", 1, [50, 49]), way("strong", 3, [50, 50]), way("edge", 2, [99, 20]), way("outside", 2, [120, 20])], FRAME, "0");
  const names = Object.fromEntries(rows.filter(row => row.name).map(row => [row.name.slice(1, -1), row.align]));
  assert.deepEqual(names, { strong: "left", edge: "right" });
});
