"""Which layer, where the answer is known: planted at one layer, nothing to choose, the last one, no labels at all."""

from __future__ import annotations

import numpy as np
import pytest

from reporter.analyses._crossval import cross_validated, linear, stratified
from reporter.answers import answered
from reporter.answers.layer import LAYER, _range

MODEL = {"model": "m", "checkpoint": "final"}
FACTS = MODEL | {"layers": 4, "last_hidden_state": "final", "norm_placement": "pre"}
PLACES = [("embedding", 0), *(("block", layer) for layer in range(1, 5)), ("final", 4)]


def number(metric, statistic, item, place, value, view="words"):
    """A row of the table of numbers."""
    of = {"metric": metric, "statistic": statistic, "item": item, "view": view, "site": place[0], "layer": place[1]}
    chance = 0.5 if metric == "probes" else None
    return (
        MODEL | of | {"value": float(value), "ci_low": value - 0.1, "ci_high": value + 0.1, "chance": chance, "n": 300}
    )


@pytest.fixture
def layers():
    """Return a function that answers which layer to take, from right and wrong by text, and from further numbers."""

    def get(told, more=(), facts=FACTS, pairs=()):
        texts = [
            MODEL | {"item": "mood", "pooling": "mean", "site": site, "layer": layer, "folds": 5}
            | {"units": list(range(len(column))), "told": column.astype(float).tolist()}
            for (site, layer), column in zip(PLACES, np.transpose(told), strict=True)
        ]  # fmt: skip
        numbers = [
            number("probes", "linear", "mood", place, np.mean(column))
            for place, column in zip(PLACES, np.transpose(told), strict=True)
            if len(column)
        ]
        tables = {"FROM models": [facts], "FROM probe_texts": texts, "FROM pair_texts": list(pairs)}
        tables |= {"FROM layer_metrics": [*numbers, *more]}
        return answered(LAYER, "s", lambda sql: next(rows for name, rows in tables.items() if name in sql))

    return get


def told(shares, n=300, seed=0):
    """Right and wrong of n texts at each place, all from the same difficulty of the text."""
    difficulty = np.random.default_rng(seed).random((n, 1))
    wobble = np.random.default_rng(seed + 1).normal(0, 0.1, (n, len(shares)))
    return difficulty + wobble < np.array(shares)


def rows_of(answer, kind="labels"):
    return [row for row in answer.tables["layer_answers"] if row["kind"] == kind]


def test_labels_planted_at_one_layer_are_found_there(layers):
    answer = layers(told([0.4, 0.5, 0.9, 0.5, 0.45, 0.4]))
    rows = rows_of(answer)
    assert [row["layer"] for row in rows if row["loss_low"] == 0] == [2]
    assert [row["entry"] for row in rows] == [
        *(f"hidden_states[{layer}]" for layer in range(4)), None, "last_hidden_state"
    ]  # fmt: skip
    last = rows[-1]
    assert last["usual"] and last["normed"] and 0.3 < last["loss_low"] < last["loss"] < last["loss_high"] < 0.7
    (box,) = answer.boxes
    assert box.says.startswith("Take block 2: the accuracy of the linear probe `mood` is 0.")
    assert "; chance 0.5) at block 2" in box.says and "every other layer" in box.says.lower()
    assert "the last hidden state loses 0." in box.says
    assert "hidden_states[2]" in box.code and "own tokens" in box.code
    assert any("not normed" in note for note in box.notes)


def test_layers_next_to_the_best_are_not_told_apart(layers):
    answer = layers(told([0.3, 0.5, 0.8, 0.81, 0.8, 0.5]))
    assert {row["layer"] for row in rows_of(answer) if row["loss_low"] == 0} == {2, 3, 4}
    assert "Not told apart from it: blocks" in answer.boxes[0].says


def test_where_there_is_nothing_to_choose_no_layer_is_told_apart(layers):
    said = [layers(told([0.6] * 6, seed=seed)).boxes[0] for seed in range(0, 40, 2)]
    assert sum("No layer is told apart" in box.says for box in said) >= 18
    unsure = [box for box in said if "No layer" in box.says]
    assert all("last_hidden_state" in box.code and box.rows[0][3] == "all others" for box in unsure)


def test_the_last_hidden_state_is_kept_unless_it_loses(layers):
    answer = layers(told([0.2, 0.3, 0.8, 0.8, 0.8, 0.79]))
    assert answer.boxes[0].says.startswith("Keep the last hidden state") and "last_hidden_state" in answer.boxes[0].code
    without = FACTS | {"last_hidden_state": "block", "norm_placement": "post"}
    best_last = layers(told([0.2, 0.3, 0.4, 0.4, 0.9, 0.5]), facts=without)
    assert next(row for row in rows_of(best_last) if row["layer"] == 4)["entry"] == "last_hidden_state"
    assert "each block ends in a norm" in best_last.boxes[0].notes[0]


def test_what_only_a_hook_reads_is_said(layers):
    answer = layers(told([0.2, 0.3, 0.4, 0.4, 0.9, 0.5]))
    assert answer.boxes[0].says.startswith("Take block 4") and "hook" in answer.boxes[0].code


def test_the_probe_says_what_a_choice_without_labels_loses(layers):
    entropy = [number("entropy", "prompt_unit", "wiki", place, value) for value, place in enumerate(PLACES)]
    other_view = [number("entropy", "prompt_unit", "wiki", place, -1, "no-sinks") for place in PLACES[3:]]
    answer = layers(told([0.4, 0.5, 0.9, 0.5, 0.45, 0.4]), [*entropy, *other_view])
    chosen = next(row for row in rows_of(answer, "no labels") if row["best"])
    assert chosen["site"] == "embedding" and chosen["probe"] == "mood" and chosen["loss_low"] is None
    assert chosen["probe_loss"] == pytest.approx(0.5, abs=0.06) and chosen["probe_loss_low"] > 0.3
    assert any("weak guides" in note for note in answer.boxes[0].notes)
    alone = layers(np.zeros((0, 6)), entropy)
    assert alone.boxes[0].says.startswith("Nothing here says which layer is good") and not alone.boxes[0].code
    assert [lack.split(":")[0] for lack in alone.lacks] == [
        "no labelled corpus is probed, which alone says what a layer is worth for a task",
        "no pairs and no groups of texts",
    ]


def test_pairs_are_compared_pair_by_pair(layers):
    rng = np.random.default_rng(5)
    quality = {place: 0.3 + 0.5 * (place == PLACES[3]) for place in PLACES}
    pairs, means = [], []
    for place in PLACES:
        cosines = quality[place] + rng.normal(0, 0.05, (2, 12))
        means.append(number("pairs", "consistency", "concepts", place, cosines.mean()))
        of = {"item": "concepts", "pooling": "mean", "site": place[0], "layer": place[1]}
        influence = cosines - cosines.mean(axis=1, keepdims=True)
        values = {"cosine": cosines.ravel().tolist(), "influence": influence.ravel().tolist()}
        pairs.append(MODEL | of | values | {"units": [[f"c{c}", str(unit)] for c in range(2) for unit in range(12)]})
    answer = layers(np.zeros((0, 6)), means, pairs=pairs)
    rows = rows_of(answer, "pairs")
    assert [row["layer"] for row in rows if row["loss_low"] == 0] == [3]
    assert answer.boxes[0].says.startswith("Take block 3: the consistency of the pairs `concepts`")


def test_real_classifiers_find_the_planted_layer_and_not_the_damaged_one(layers):
    rng = np.random.default_rng(8)
    y = np.repeat([0, 1, 2], 60)
    fold = stratified(y, 5, rng)
    told = []
    for signal in (0.2, 0.5, 2.0, 0.0, 0.5, 0.5):  # planted at block 2, block 3 damaged
        x = rng.standard_normal((180, 12)) + signal * np.eye(12)[y]
        told.append(cross_validated(x, y, fold, linear(3)).right)
    answer = layers(np.transpose(told))
    assert [row["layer"] for row in rows_of(answer) if row["loss_low"] == 0] == [2]
    worst = max(rows_of(answer), key=lambda row: row["loss"])
    assert worst["layer"] in (0, 3) and worst["loss_low"] > 0.2


def test_a_number_has_as_many_digits_as_tell_its_ends_apart():
    assert _range(1.972, 1.961, 1.984) == "1.97 (1.96 to 1.98)"
    assert _range(0.7612, 0.74, 0.78) == "0.76 (0.74 to 0.78)"
    assert _range(0.5, None, None) == "0.5" and _range(0.0, 0.0, 0.0) == "0"
