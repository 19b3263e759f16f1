"""Which layer, where the answer is known: planted at one layer, nothing to choose, the last one, no labels at all."""

import numpy as np
import pytest

from reporter.judge.questions.layer import LAYER, advices
from reporter.judge.questions.question import answered

MODEL = {"model": "m", "checkpoint": "final"}
FACTS = MODEL | {"layers": 4, "last_hidden_state": "final", "norm_placement": "pre"}
PLACES = [("embedding", 0), *(("block", layer) for layer in range(1, 5)), ("final", 4)]


def number(metric, statistic, item, place, value, view="text tokens"):
    """A row of the table of numbers."""
    of = {"metric": metric, "statistic": statistic, "item": item, "view": view, "site": place[0], "layer": place[1]}
    chance = 0.5 if metric == "probes" else None
    values = {"value": float(value), "ci_low": value - 0.1, "ci_high": value + 0.1, "chance": chance, "n": 300}
    return MODEL | of | values | {"pooling": None, "variant": None, "same_token": None}


def probed(right, pooling="mean", main=True):
    """Rows of a probe at each place with one pooling, from which texts it classified correctly, (texts, places)."""
    return [
        number("probes", "linear", "mood", place, np.mean(column))
        | {"pooling": pooling, "main": main, "folds": 5, "same_token": None}
        | {"units": list(range(len(column))), "told": column.astype(float).tolist(), "n": len(column)}
        for place, column in zip(PLACES, np.transpose(right), strict=True)
        if len(column)
    ]


def layers(told, more=(), facts=FACTS, **keys):
    """Answer which layer to take, from right and wrong by text, and from further numbers.

    Right and wrong are those of the mean, or by pooling, the main one first.
    """
    by_pooling = told if isinstance(told, dict) else {"mean": told}
    texts = [
        row | keys for i, (pooling, right) in enumerate(by_pooling.items()) for row in probed(right, pooling, not i)
    ]
    tables = {"FROM cells": [], "FROM models": [facts], "FROM probe_poolings LEFT": texts, "WITH chances": list(more)}
    return answered(LAYER, "s", lambda sql: next(rows for name, rows in tables.items() if name in sql))


def told(shares, n=300, seed=0):
    """Right and wrong of n texts at each place, all from the same difficulty of the text."""
    difficulty = np.random.default_rng(seed).random((n, 1))
    wobble = np.random.default_rng(seed + 1).normal(0, 0.1, (n, len(shares)))
    return difficulty + wobble < np.array(shares)


def rows_of(answer, kind="labels"):
    return [row for row in answer.tables["layer_answers"] if row["kind"] == kind]


def test_labels_planted_at_one_layer_are_found_there():
    right = told([0.4, 0.5, 0.9, 0.5, 0.45, 0.4])
    answer = layers(right)
    rows = rows_of(answer)
    assert [row["layer"] for row in rows if row["loss_low"] == 0] == [2]
    entries = [f"hidden_states[{layer}]" for layer in range(4)]
    assert [row["entry"] for row in rows] == [*entries, None, "last_hidden_state"]
    last = rows[-1]
    assert rows_of(layers(right, clusters=[0, 1, 2] * 100))[-1]["loss_low"] != last["loss_low"]
    assert last["usual"] and last["normed"] and 0.3 < last["loss_low"] < last["loss"] < last["loss_high"] < 0.7
    assert dict(advices(rows)) == {"mood": answer.boxes[0].says}


def test_the_last_hidden_state_is_not_kept_for_want_of_texts():
    """The difference is real and large; with few texts it is not significant, and the answer says how many would do."""
    few, many = (layers(told([0.3, 0.3, 0.75, 0.3, 0.3, 0.6], n=n, seed=2)) for n in (40, 4000))
    last = rows_of(few)[-1]
    assert last["loss_low"] == 0 and last["loss"] > 0.05 and last["needed"] > 40
    assert all(row["loss_high"] <= 1 for row in rows_of(layers(told([0.9, 0.1] * 3, n=6))))
    assert many.boxes[0].says.startswith("Take layer 2") and rows_of(many)[-1]["needed"] is None


def test_the_last_hidden_state_is_kept_where_it_loses_next_to_nothing():
    right = told([0.2, 0.3, 0.8, 0.3, 0.3, 0.8], n=3000)
    right[:, 5] = right[:, 2]
    right[:6, 2], right[:6, 5] = True, False  # 6 of 3,000 texts
    box = layers(right).boxes[0]
    assert box.says.startswith("Keep the last hidden state") and "last_hidden_state" in box.code
    without = FACTS | {"last_hidden_state": "block", "norm_placement": "post"}
    last_block = told([0.2, 0.3, 0.4, 0.4, 0.9, 0.5])
    best_last = layers(last_block, facts=without)
    assert next(row for row in rows_of(best_last) if row["layer"] == 4)["entry"] == "last_hidden_state"


@pytest.mark.parametrize("pooling", ["mean", "last", "first"])
@pytest.mark.parametrize("main", ["mean", "last"])
def test_the_planted_layer_and_pooling_are_found(pooling, main):
    shares = {of: [0.4, 0.4, 0.4, 0.9 if of == pooling else 0.4, 0.4, 0.4] for of in ("mean", "last", "first")}
    shares = {main: shares.pop(main), **shares}
    answer = layers({of: told(some, seed=place) for place, (of, some) in enumerate(shares.items())})
    rows = rows_of(answer)
    assert len(rows) == 3 * len(PLACES)
    assert [(row["layer"], row["pooling"]) for row in rows if row["loss_low"] == 0] == [(3, pooling)]
    assert [row["pooling"] for row in rows if row["usual"]] == [main]


def test_where_there_is_nothing_to_choose_intervals_hold_over_layers_and_poolings():
    """Where all cells are equally good, as many as are tried, the set of the best holds all of them nearly always."""
    false = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        right = {of: rng.random((200, len(PLACES))) < 0.6 for of in ("mean", "last", "first")}
        false += any(row["loss_low"] > 0 for row in rows_of(layers(right)))
    assert false <= 6


def test_each_probe_has_its_own_recommendation_and_numbers_that_do_not_measure_use_have_none():
    other = [row | {"item": "topic"} for row in probed(told([0.3, 0.9, 0.3, 0.3, 0.3, 0.3]))]
    boxes = layers(told([0.4, 0.5, 0.9, 0.5, 0.45, 0.4]), other).boxes
    names = ["m, probe mood", "m, probe topic"]
    assert [box.about for box in boxes] == [name for name in names for _ in ("advice", "every layer")]
    assert "layer 2" in boxes[0].says and "layer 1" in boxes[2].says
    for metric, statistic in (("entropy", "prompt_unit"), ("groups", "silhouette")):
        more = [number(metric, statistic, "(groups)", place, value) for value, place in enumerate(PLACES)]
        more = [row | {"pooling": "last", "same_token": "."} for row in more]
        (box,) = layers(np.zeros((0, 6)), more).boxes
        assert not box.code and not any(word in box.says for word in ("Take ", "Keep "))
    assert any("end in the token `.`" in note for note in box.notes)


def test_the_probe_says_what_a_choice_without_labels_loses():
    entropy = [number("entropy", "prompt_unit", "wiki", place, value) for value, place in enumerate(PLACES)]
    other_view = [number("entropy", "prompt_unit", "wiki", place, -1, "without sinks") for place in PLACES[3:]]
    answer = layers(told([0.4, 0.5, 0.9, 0.5, 0.45, 0.4]), [*entropy, *other_view])
    chosen = next(row for row in rows_of(answer, "no labels") if row["best"])
    assert chosen["site"] == "embedding" and chosen["probe"] == "mood" and chosen["loss_low"] is None
    assert chosen["probe_loss"] == pytest.approx(0.5, abs=0.06) and chosen["probe_loss_low"] > 0.3


@pytest.mark.parametrize(("statistic", "kind"), [("recall", "partners"), ("spearman", "scores")])
def test_pairs_recommend_a_layer_and_say_what_the_last_one_costs(statistic, kind):
    right = told([0.4, 0.5, 0.9, 0.5, 0.88, 0.4])
    of_pairs = {"metric": "partners", "statistic": statistic, "item": "talk", "folds": None}
    answer = layers(np.zeros((0, 6)), [row | of_pairs for row in probed(right)])
    rows = rows_of(answer, kind)
    assert not answer.lacks and [row["layer"] for row in rows if row["loss_low"] == 0] == [2, 4]
    x = right[:, 2].astype(float) - right[:, 5]
    last, error = rows[-1], x.std(ddof=1) / np.sqrt(len(x))
    assert last["loss"] == pytest.approx(x.mean())
    assert 1.9 * error < x.mean() - last["loss_low"] < 3 * error, "folds widen no interval of pairs"


def test_every_layer_is_shown_and_small_classes_count_as_much_as_large_ones():
    """Of 90 calm and 10 angry texts, layer 3 calls all calm; layer 2 is right about 8 of 10 in each class."""
    labels = ["calm"] * 90 + ["angry"] * 10
    eight = [number % 10 < 8 for number in range(100)]
    right = np.array([[True] * 90 + [False] * 10 if place == ("block", 3) else eight for place in PLACES]).T
    other = {"calm": "angry", "angry": "calm"}
    rows = [
        row
        | {"labels": labels, "predicted": [x if ok else other[x] for x, ok in zip(labels, row["told"], strict=True)]}
        for row in probed(right)
    ]
    answer = layers(np.zeros((0, 6)), rows)
    by_layer = {(row["site"], row["layer"]): row for row in rows_of(answer)}
    assert by_layer["block", 3]["value"] == 0.9 and by_layer["block", 3]["best"]
    assert by_layer["block", 3]["balanced"] == 0.5 and by_layer["block", 3]["macro_f1"] == pytest.approx(180 / 190 / 2)
    assert by_layer["block", 2]["balanced"] == pytest.approx(0.8)
    every = answer.boxes[1]
    assert [row[0] for row in every.rows][-2:] == ["Layer 4", "The last hidden state"] and len(every.rows) == 6
    assert every.rows[3][1:] == ("0.9 [0.8, 1.0]", "0.50", "0.47") and every.rows[2][2] == "0.80"


def of_halves(shares, seed=0, **keys):
    rows = probed(told(shares, seed=seed))
    return [row | {"metric": "partners", "statistic": "recall", "item": "h", "folds": None, "halves": True} | keys
            for row in rows]  # fmt: skip


def test_a_sentence_encoder_is_compared_with_what_it_returns_and_both_lines_are_printed():
    raw = of_halves([0.2, 0.2, 0.6, 0.2, 0.2, 0.5], variant="raw")
    centred = of_halves([0.2, 0.2, 0.55, 0.2, 0.2, 0.5], variant="centred", main=False)
    itself = of_halves([0.9] * 6, variant="raw", pooling="own", main=False)[-1:]
    answer = layers(np.zeros((0, 6)), [*raw, *centred, *itself])
    box, every = answer.boxes
    assert "SentenceTransformer(" in box.code and "model(**inputs" in box.code and not answer.lacks
    assert [row["kind"] for row in answer.tables["layer_answers"]] == ["halves"] * 13
    assert {name for name, _ in every.columns} == {"layer", "mean, raw", "mean, centred", "own, raw"}
