import assert from "node:assert/strict";
import { test } from "node:test";

import { clausesOf, hullOf, roleMeans, roomFor, rowsAt } from "../../templates/rows.js";

const line = (model, values, more = {}) => values.map((value, layer) => ({ model, layer, depth: layer / (values.length - 1), value, ci_low: value, ci_high: value, statistic: "norm", site: "block", n: 7, ...more }));
const ROLES = { bert: "encoder", minilm: "encoder", gpt2: "decoder" };

test("a role with a stored mean is drawn as it, another one as its models", () => {
  const rows = [...line("bert", [0, 4]), ...line("minilm", [2, 6]), ...line("gpt2", [1, 2]), ...line("bert (random-init)", [9, 9])];
  const stored = line("mean of encoders", [1, 5], { role: "encoder" });
  assert.deepEqual(roleMeans(rows, stored, ROLES).map(row => [row.model, row.value]), [["gpt2", 1], ["gpt2", 2], ["mean of encoders", 1], ["mean of encoders", 5]]);
  assert.deepEqual(roleMeans(rows, [], ROLES).map(row => row.model), ["bert", "bert", "minilm", "minilm", "gpt2", "gpt2"], "no mean, no baseline");
});

test("an axis holds those of what is shown, and keeps its zero unless it is fitted", () => {
  const parts = [[2, 4, "noise 50, above this axis", 2, 4], [3, 5, "", 1e-3, 5]].map(([low, high, note, log_low, log_high]) => ({ low, high, note, log_low, log_high }));
  assert.deepEqual(hullOf(parts, [0, 900, ""]), [0, 5, parts[0].note]);
  assert.deepEqual(hullOf(parts, [1, 900, ""]), [2, 5, parts[0].note]);
  assert.deepEqual(hullOf(parts, [0, 900, ""], { close: true }), [2, 5, `of this token set · ${parts[0].note}`]);
  assert.deepEqual(hullOf(parts, [1, 900, "logarithmic"], { log: true }), [1e-3, 5, "logarithmic"]);
  assert.deepEqual(hullOf([], [0, 1, ""]), [0, 1, ""]);
  assert.match(hullOf(parts.map((part, i) => ({ ...part, note: "ab"[i] })), [0, 9, ""])[2], /some chance levels are off this axis$/);
});

test("each model is read at its own nearest layer", () => {
  const rows = [...line("bert", [0, 1, 2, 3, 4]), ...line("minilm", [5, 6]), ...line("bert", Array(11).fill(9), { statistic: "norm_floor" }), { ...line("bert", [9])[0], depth: 0.3, site: "final" }];
  assert.deepEqual([...rowsAt(rows, 0.3)].map(([model, row]) => [model, row.layer]), [["bert", 1], ["minilm", 0]]);
  const steps = [1, 10, 1000].map(step => ({ model: "bert", step, value: step }));
  assert.equal(rowsAt(steps, 60, "step").get("bert").step, 10, "steps are as far as on their axis");
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
