import assert from "node:assert/strict";
import { test } from "node:test";

import { clausesOf, reachOf, roleMeans, roomFor, rowsAt } from "../../templates/rows.js";

const line = (model, values, more = {}) => values.map((value, layer) => ({ model, layer, depth: layer / (values.length - 1), value, ci_low: value, ci_high: value, statistic: "norm", site: "block", n: 7, ...more }));
const ROLES = { bert: "encoder", minilm: "encoder", gpt2: "decoder" };
const means = rows => roleMeans(rows, ROLES, role => `mean of ${role}s`);

test("models of other depths meet at the same relative depth", () => {
  const found = means([...line("bert", [0, 4, 8]), ...line("minilm", [10, 20]), ...line("gpt2", [1, 2])]);
  const encoders = found.filter(row => row.model === "mean of encoders");
  assert.deepEqual(encoders.map(row => [row.depth, row.value, row.ci_low, row.ci_high]), [[0, 5, null, null], [0.5, 9.5, null, null], [1, 14, null, null]], "two models are too few for an interval");
  assert.deepEqual(encoders.map(row => [row.layer, row.n, row.checkpoint]), Array(3).fill([null, null, "2 models"]));
  assert.deepEqual(found.filter(row => row.model === "gpt2").map(row => row.value), [1, 2], "one model is no mean");
});

test("the band of a mean is its t-interval over three models or more", () => {
  const roles = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map(name => [name, "encoder"]));
  const of = count => roleMeans(Object.keys(roles).slice(0, count).flatMap((name, i) => line(name, [i, i])), roles, role => role)[0];
  const width = { 3: 2.4841, 6: 1.9633 };  // of 0, 1, …: t times s / √n
  for (const [count, half] of Object.entries(width)) assert.ok(Math.abs(of(Number(count)).ci_high - of(Number(count)).value - half) < 2e-3);
  const rows = [...line("a", [0, 4]), ...line("b", [2, 6]), ...line("a", [7, 7], { beside: true }), ...line("b", [9, 9], { beside: true })];
  assert.deepEqual(roleMeans(rows, roles, role => role).map(row => row.value), [1, 5, 8, 8], "what is laid over has means of its own");
});

test("there is a mean only where every model has a number", () => {
  const found = means([...line("bert", [null, 4, 8]), ...line("minilm", [10, 20])]);
  assert.deepEqual(found.map(row => row.depth), [0.5, 1]);
  const steps = line("minilm", [10, 20, 30]).slice(0, 2);  // a number of steps has none at the last layer
  assert.deepEqual(means([...line("bert", [0, 4, 8]), ...steps]).map(row => row.depth), [0, 0.5]);
  assert.deepEqual(means([...line("bert", [null, null]), ...line("minilm", [1, 2])]).map(row => row.model), ["minilm", "minilm"]);
});

test("floors, the state after the final norm and null baselines do not mix into the lines", () => {
  const found = means([...line("bert", [0, 4]), ...line("minilm", [2, 6]), ...line("bert", [50, 50], { statistic: "norm_floor" }), ...line("minilm", [70, 70], { statistic: "norm_floor" }), { ...line("bert", [9])[0], depth: 1, site: "final" }, ...line("bert (random-init)", [99, 99])]);
  assert.deepEqual(found.map(row => [row.statistic, row.site, row.value]), [["norm", "block", 1], ["norm", "block", 5], ["norm_floor", "block", 60], ["norm_floor", "block", 60], ["norm", "final", 9]]);
});

test("an axis follows what is left, and keeps its zero, its edge and a floor that is near", () => {
  const rows = [...line("bert", [2, 4]), ...line("bert", [5, 5], { statistic: "norm_floor" })];
  assert.deepEqual(reachOf(rows, { whole: [0, 900, ""] }), [0, 5, ""]);
  assert.deepEqual(reachOf(rows, { whole: [1.5, 900, ""] }), [2, 5, ""]);
  assert.deepEqual(reachOf([...line("bert", [2, 4]), ...line("bert", [50, 50], { statistic: "norm_floor" })], { whole: [1, 900, ""], noise: "noise" }), [2, 4, "noise 50, above this axis"], "a far floor would squeeze them");
  assert.deepEqual(reachOf(line("bert", [1e-17, 2, 4]), { whole: [1e-3, 900, "logarithmic"], log: true }), [2, 4, "logarithmic"], "what stands at the edge stays there");
  assert.deepEqual(reachOf([], { whole: [0, 1, ""] }), [0, 1, ""]);
  assert.deepEqual(reachOf(line("bert", [3, 3]), { whole: [1, 9, ""], log: true }), [1.5, 6, ""]);
  const near = { ...line("bert", [0.91, 0.95])[0], value: 0.91, ci_low: 0.91 };
  assert.deepEqual(reachOf([near, { ...near, value: 0.95, ci_low: 0.95, ci_high: 0.95 }], { whole: [0, 1, ""], close: true }), [0.91, 0.95, "of this token set"]);
  assert.deepEqual(reachOf(line("bert", [1, 2]), { whole: [1, 20, ""], flat: true }), [1, 20, ""]);
  assert.deepEqual(reachOf(line("bert", [1, 2]), { whole: [1, 200, ""], flat: true }), [1, 2, "of this token set"], "it would be a flat line");
});

test("each model is read at its own nearest layer", () => {
  const rows = [...line("bert", [0, 1, 2, 3, 4]), ...line("minilm", [5, 6]), ...line("bert", Array(11).fill(9), { statistic: "norm_floor" }), { ...line("bert", [9])[0], depth: 0.3, site: "final" }];
  assert.deepEqual([...rowsAt(rows, 0.3)].map(([model, row]) => [model, row.layer]), [["bert", 1], ["minilm", 0]]);
});

test("captions leave hidden models out and use a reader's names", () => {
  const reading = "bert: 1 to 2 · gpt2: 3 to 4 · 3 decoders: 5 to 6";
  assert.deepEqual(clausesOf(reading, new Set(["gpt2"]), { bert: "B" }), ["B: 1 to 2", "3 decoders: 5 to 6"]);
  assert.deepEqual(clausesOf("", new Set(), {}), [""]);
});

test("names have room at the ends of two to six lines", () => {
  const room = count => roomFor(Array.from({ length: count }, () => "bert"));
  assert.ok(room(2) > 40 && room(6) === room(2));
  assert.deepEqual([room(0), room(1), room(7)], [0, 0, 0]);
});
