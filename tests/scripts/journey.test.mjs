import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf } from "../../templates/rows.js";
import { Journey, bareToken } from "../../templates/journey.js";

const plain = (/** @type {Record<string, any[]>} */ columns) => ({
  rows: Object.values(columns)[0].length,
  columns: Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, { plain: values }])),
});

// Tokens of one text at the layers of a model; the last one stands for the final norm, too.
function journey(tokens, layers, { attention = false, special = [] } = {}) {
  const sites = [...layers.map((layer, i) => [i ? "block" : "embedding", layer]), ["final", layers.at(-1)], ...(attention ? [["attention", 1]] : [])];
  const rows = tokens.flatMap((token, position) => sites.map(([site, layer]) => ({ token, position, site, layer })));
  const column = name => rows.map(row => row[name]);
  return new Journey({ journey: "j", model: "m", checkpoint: "final" }, {
    steps: plain({
      text: rows.map(() => 0), position: column("position"), token: column("token"), token_id: column("position"), positions: rows.map(() => "without"),
      special: rows.map(row => special.includes(row.position)), followed: rows.map(() => true), site: column("site"), layer: column("layer"),
      depth: rows.map(row => row.layer / layers.at(-1)), rank_cosine: rows.map(row => row.layer * 10 + row.position),
    }),
    neighbours: plain({
      text: [0, 0], position: [1, 1], positions: ["without", "without"], site: ["block", "block"], layer: [1, 1], measure: ["cosine", "cosine"],
      place: [1, 2], neighbour_id: [7, 8], neighbour: ["x", "y"], cosine: [0.9, 0.8], distance: [null, 2],
    }),
    paths: null,
  });
}
const called = (own, name) => own.tokens(0).find(one => one.token === name);

test("columns come back from each of the three packed forms", () => {
  const packed = { rows: 4, columns: {
    a: { plain: [1, null, "x", true] }, b: { levels: ["u", null], codes: [0, 1, 1, 0] }, c: { levels: ["u", "v"], runs: [1, 3, 0, 1] },
  } };
  assert.deepEqual(columnsOf(packed), { rows: 4, a: [1, null, "x", true], b: ["u", null, null, "u"], c: ["v", "v", "v", "u"] });
});

test("a place has its rows, and the final norm is another place than the last layer", () => {
  const own = journey(["a", "b"], [0, 1, 2], { attention: true });
  assert.deepEqual(own.stretch("path").map(place => place.key), ["0", "1", "2", "final"]);
  assert.deepEqual(own.stretch("attention").map(place => place.key), ["1"]);
  assert.equal(own.at(called(own, "b"), "without", "path", "2")("rank_cosine"), 21);
  assert.equal(own.at(called(own, "b"), "with", "path", "2"), null);
  assert.deepEqual(own.nearest(called(own, "b"), "without", "path", "1", "cosine").map(one => one.id), [7, 8]);
  assert.deepEqual(own.nearest(called(own, "b"), "without", "path", "1", "distance"), []);
});

test("another model stands at the same relative depth, at its path where it has nothing after attention", () => {
  const [short, long] = [journey(["a"], [0, 1, 2]), journey(["a"], [0, 1, 2, 3, 4, 5, 6])];
  const place = key => long.stretch("path").find(one => one.key === key);
  assert.deepEqual(["0", "2", "3", "6", "final"].map(key => short.asDeep(place(key), "path")), ["0", "1", "1", "2", "final"]);
  assert.equal(short.asDeep(place("3"), "attention"), "1");
});

test("a twin is the piece in which the other model's token ends", () => {
  const words = journey(["[CLS]", "The", "mousetrap", "was", "new"], [0, 1], { special: [0] });
  const pieces = journey(["The", "␣mouse", "trap", "␣was", "␣new"], [0, 1]);
  assert.equal(pieces.twin(called(words, "mousetrap"), words).token, "trap");
  assert.equal(words.twin(called(pieces, "␣mouse"), pieces).token, "mousetrap");
  assert.equal(words.twin(called(pieces, "␣was"), pieces).token, "was");
  assert.equal(pieces.twin(called(words, "[CLS]"), words), null);
});

test("where two models do not write a text alike, the twin has the same letters in the same turn", () => {
  const one = journey(["it", "said", "it"], [0, 1]);
  const other = journey(["?", "##it", "said", "␣it"], [0, 1]);
  assert.equal(other.twin(one.tokens(0)[2], one).position, 3);
  assert.equal(other.twin(one.tokens(0)[0], one).position, 1);
});

test("the letters of a token are what tokenizers agree on", () => {
  assert.deepEqual(["##ing", "␣Mouse", "␣mouse", "ﬁ", null].map(bareToken), ["ing", "mouse", "mouse", "fi", ""]);
});
