import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { column, compared, estimate, estimates, inOnePrecision, short, whole } from "../../templates/numbers.js";
import { narrowed } from "../../templates/tokens.js";
import { brief, phrase, pieces, plain } from "../../templates/tokens.js";

test("what cannot be seen in a token is shown as a mark", () => {
  assert.deepEqual(pieces("␣a b"), [["␣", true], ["a", false], ["␣", true], ["b", false]]);
  assert.deepEqual(pieces("##ing"), [["##", true], ["ing", false]]);
  assert.deepEqual(pieces("##"), [["##", false]]);
  assert.deepEqual([pieces(null), pieces("")], [[["no token", true]], [["empty", true]]]);
  assert.equal(plain("zero\u200bwidth\u202e"), "zero⟨U+200B⟩width⟨U+202E⟩");
});

test("a long token is cut between signs, not within them", () => {
  assert.equal(brief("e\u0301".repeat(3), 2), "e\u0301…");
  assert.equal(plain("ab".repeat(6), 4), "abab… (12 characters)");
  assert.equal(phrase("two  words"), "two  words");
});

test("numbers are written by the rules of reporter.core.numbers", () => {
  const cases = JSON.parse(readFileSync(new URL("../core/typesetting.json", import.meta.url), "utf-8"));
  for (const [number, text] of cases.estimate) assert.equal(estimate(...number), text);
  for (const [numbers, texts] of cases.estimates) assert.deepEqual(estimates(numbers), texts);
  for (const [numbers, starts] of cases.compared) compared(...numbers).forEach((text, i) => assert.ok(text.startsWith(starts[i]), text));
  for (const [name, values, text] of cases.others) if (name === "short") assert.equal(short(...values), text);
  assert.deepEqual([-0.9999, 0.9999999, Infinity, NaN].map(value => short(value)), ["−0.9999", "1", "∞", "–"]);
  assert.deepEqual([0, 12345, null].map(whole), ["0", "12,345", "–"]);
  assert.deepEqual(inOnePrecision([0, 1 / 3, 0.5, 1, null]), ["0.000", "0.333", "0.500", "1.000", "–"]);
  for (const [values, texts] of cases.columns) assert.deepEqual(inOnePrecision(values), texts);
  assert.deepEqual(inOnePrecision([]), []);
  assert.deepEqual(column([[0.841, 0.8, 0.9], [12, null, null]]), ["0.84 [0.80, 0.90]", "12.00"]);
});

test("a query is narrowed to what is shown", () => {
  const query = "WHERE study = 's'";
  const one = { model: "o'b", layer: 3, site: ["block", "final"], checkpoint: null, left: undefined };
  assert.equal(narrowed(query, [one]), `${query}\n  AND model = 'o''b'\n  AND layer = 3\n  AND site IN ('block', 'final')\n  AND checkpoint IS NULL`);
  assert.equal(narrowed(query, [{ a: 1, b: 1 }, { a: 1, b: 2 }]), `${query}\n  AND a = 1\n  AND ((b = 1)\n    OR (b = 2))`);
  assert.equal(narrowed(query, []), query);
  assert.ok(narrowed(query, [{ a: "$&" }]).includes("a = '$&'"));
});
