"""What changed, said of numbers whose answer is known; and which numbers it looks at."""

import pytest

from reporter.judge.questions.changed import CHANGED
from reporter.judge.questions.question import answered


def reading(
    distances, seeds=None, deviation=None, loss=(0.0, 0.0, 0.0), numbers=(), layers=(4, 4), cosines=None, tokens=(),
    divergence=None, weights=(None, None),
):  # fmt: skip
    """Return what reads a study of a model whose distance from its base at each layer is given, ± a tenth."""
    of = {"model": "new", "corpus": "wiki", "view": "words", "n": 100}
    whole = of | {"site": None, "layer": None}
    ends = ("value", "ci_low", "ci_high")

    def rows(statistic, values):
        for layer, x in enumerate(values):
            place = {"checkpoint": "final", "base": "old", "site": "block", "layer": layer, "statistic": statistic}
            yield of | place | dict(zip(ends, (x, x * 0.9, x * 1.1), strict=True))

    found = [*rows("distance", distances), *rows("moved", [float(x > 0.001) for x in distances])]
    found += [*rows("cosine", cosines or [1 - x for x in distances]), *rows("distance_seed", seeds or ())]
    of_model = {"status": "done", "precision": "float32", "precision_deviation": deviation}
    models = [
        of_model | {"model": model, "base": base, "layers": layers[at], "weights": weights[at]}
        for at, (model, base) in enumerate((("new", "old"), ("old", None)))
    ]
    numbers_of = {
        "kl": divergence,
        "same_top": (0.9, 0.88, 0.92),
        "kl_median": (4e-4, 3e-4, 5e-4),
        "kl_max": divergence,
    }
    diverges = [
        of | {"n": 10, "statistic": name} | dict(zip(ends, x or (), strict=False)) for name, x in numbers_of.items()
    ]
    tables = {
        "FROM cells": [],
        "metric = 'change'": found,
        "metric = 'divergence'": diverges if divergence else [],
        "tuning_words": [{"model": "new", "token": "␣furious"}],
        "FROM models": models,
        "FROM differences": [whole | {"name": "loss.lm"} | dict(zip(ends, loss, strict=True))],
        "moved_tokens": [of | {"token": token} for token in tokens],
        "": list(numbers),
    }
    return lambda sql: next(of_table for words, of_table in tables.items() if words in sql)


def say(**given):
    answer = answered(CHANGED, "s", reading(**given))
    (row,) = answer.tables["change_answers"]
    return row, answer.boxes[0].says, answer


FROM_2 = [0, 0, 0.2, 0.2, 0.2]
"""Distances of a model that changed from layer 2 on."""


def test_the_first_layer_that_moved_is_named():
    row, said, _ = say(distances=[0, 0, 0.2, 0.1, 0.15], loss=(0.3, 0.2, 0.4), tokens=["`", "the"])
    assert "Words read from the mean change of early tokens: `␣furious`." in said and row["words"] == '["␣furious"]'
    assert "Tokens that moved most: `ˋ`, `the`." in said  # no token ends what it stands in
    assert (row["changed"], row["first_layer"], row["noise"]) == (True, 2, "rounding")
    assert said.startswith("Verdict: changed from layer 2 on. States differ from the base: first at layer 2, by")
    assert "0.2 of their norm; up to layer 1" in said
    assert "loss rises significantly: +0.3 [0.2, 0.4]" in said


def test_blocks_with_the_weights_of_the_base_are_named():
    hashes = '{"embeddings": "a", "1": "b", "2": "c", "3": "d", "4": "e"}'
    row, said, _ = say(distances=[0, 0, 0.2, 0.1, 0.15], weights=(hashes.replace('"c"', '"x"'), hashes))
    assert row["untouched"] == "1, 3–4, embedding"
    assert "Of the blocks, only block 2 has other weights than in the base. The embedding has the weights" in said
    three = hashes.replace('"b"', '"x"').replace('"c"', '"y"').replace('"d"', '"z"')
    assert "Block 4 and the embedding have exactly the weights" in say(distances=FROM_2, weights=(three, hashes))[1]
    assert say(distances=[0, 0.1, 0.1])[0]["untouched"] is None


NOTHING = ("Verdict: indistinguishable", "None of 100 tokens", "not significant")
SLIGHT, ROUGH, FAR = {"loss": (0.001, -0.002, 0.004)}, {"deviation": 0.01}, [0.1, 0.2, 0.5, 0.6, 0.9]


CHANGES = [
    ([0, 0.0001, 0.0002, 0.0002, 0.0002], SLIGHT, None, "rounding", NOTHING),
    (FAR, {"seeds": [0.1, 0.19, 0.2, 0.3, 0.3]}, 2, "seed", ("a different seed",)),  # at layer 1 they overlap
    (FAR, {"seeds": FAR}, None, "seed", ("Verdict: changed no more than another seed", "a different seed")),
    ([0, 0.004, 0.005, 0.006, 0.007], ROUGH, None, "precision", ("bf16",)),
    ([0, 0, 0.005, 0.006, 0.007], ROUGH, 2, "rounding", ()),  # the first block shows the same batches
    ([0, 0.004, 0.2, 0.006, 0.007], ROUGH, 2, "precision", ()),
]


@pytest.mark.parametrize(("distances", "more", "first", "noise", "words"), CHANGES)
def test_a_change_has_to_exceed_the_noise_that_there_is(distances, more, first, noise, words):
    row, said, _ = say(distances=distances, **more)
    assert (row["changed"], row["first_layer"], row["noise"]) == (first is not None, first, noise)
    assert all(word in said for word in words)


def test_a_metric_and_a_block_that_are_missing_are_named():
    models = [{"model": "new", "base": "old"}]
    assert "add `change`" in answered(CHANGED, "s", lambda sql: models if "SELECT model, base" in sql else []).lacks[0]
    _, says, answer = say(distances=[0, 0, 0.3, 0.3], layers=(3, 4))
    assert ". The model has 1 block fewer" in says and "Block 2 of the base" in says
    assert "block" in answer.boxes[0].notes[-1]


def number(model, layer, value, half, name="spectrum.effective_rank"):
    of = {"model": model, "checkpoint": "final", "corpus": "wiki", "view": "words", "site": "block", "n": 100}
    return of | {"name": name, "layer": layer, "value": value, "ci_low": value - half, "ci_high": value + half}


def moved(*moves):
    """Numbers of four layers, which are 10 ± 0.6, and how much more they are of the tuned model."""
    numbers = [number("old", layer, 10.0, 0.6) for layer in range(4)]
    return numbers + [number("new", layer, 10.0 + move, 0.6) for layer, move in enumerate(moves)]


def test_numbers_count_where_their_intervals_hold_for_all_layers():
    _, said, answer = say(distances=[0.1, 0.1, 0.2, 0.2, 0.2], numbers=moved(0.1, 1.0, 5.0, 0.0))
    (row,) = answer.tables["changed_numbers"]
    # One of four moves beyond 0.6·√2·2.5/1.96 = 1.08; that of 1.0 would have passed alone.
    assert (row["layer"], row["value"], row["beyond"], row["layers"]) == (2, 5.0, 1, 4)
    half = 0.6 * 2**0.5 * 2.4977 / 1.95996
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(5 - half, rel=1e-4), pytest.approx(5 + half, rel=1e-4))
    # It declares no minimum meaningful difference: a hundredth of the mean size of the eight, (4·10 + 46.1)/8.
    assert row["smallest"] == pytest.approx(0.01 * 86.1 / 8) and row["largest"] == pytest.approx(5 / row["smallest"])
    assert not row["paired"] and "`spectrum.effective_rank` (46 times the minimum)" in said


def test_numbers_of_layers_whose_states_did_not_move_are_not_listed_as_changed():
    """A number that refers to the last layer differs at layers before the change, and says nothing about them."""
    _, _, answer = say(distances=[0, 0, 0.2, 0.2, 0.2], numbers=moved(5.0, 5.0, 4.0, 0.0))
    (row,) = answer.tables["changed_numbers"]
    assert (row["layer"], row["value"], row["beyond"], row["layers"]) == (2, 4.0, 1, 2)
    _, _, answer = say(distances=[0, 0, 0, 0, 0.2], numbers=moved(5.0, 5.0, 4.0, 1.0))
    assert not answer.tables["changed_numbers"]


def test_the_layer_that_is_shown_is_the_one_that_the_sentence_speaks_of():
    """The one that moves most of those beyond, not the one that is surest."""
    numbers = []
    for layer, (move, half) in enumerate(((0.2, 0.1), (0.006, 1e-4), (0.055, 0.01), (0.02, 0.01))):
        name = "motion.step_cosine"  # the first within its interval, the second the surest
        numbers += [number("old", layer, 0.9, 0.3 if layer == 0 else half, name)]
        numbers += [number("new", layer, 0.9 - move, half, name)]
    _, said, answer = say(distances=[0.1, 0.1, 0.2, 0.2, 0.2], numbers=numbers)
    (row,) = answer.tables["changed_numbers"]
    assert (row["layer"], row["value"], row["beyond"]) == (2, pytest.approx(-0.055), 3)
    assert row["largest"] == pytest.approx(5.5) and "`motion.step_cosine` (5.5 times the minimum)" in said


def test_numbers_without_intervals_show_their_largest_change():
    few = [row | {"ci_low": None, "ci_high": None} for row in moved(0.0, 0.1, 2.0, 0.5)]
    _, _, answer = say(distances=[0, 0.1, 0.2, 0.2, 0.2], numbers=few)
    (row,) = answer.tables["changed_numbers"]
    assert (row["layer"], row["value"], row["ci_low"], row["beyond"]) == (2, 2.0, None, 0)
    assert answer.boxes[0].rows[0][3] == "–"


# The distances of copies of MiniLM and SmolLM2, as measured; without a head the verdict is by the largest.
COPIES = [
    (0.0079, "indistinguishable from the base on these texts (states differ by less than 0.01 of their norm"),  # bf16
    (0.039, "a small change from layer 2 on (states differ by less than 0.1 of their norm at every layer)."),  # int8
    (0.063, "a small change from layer 2 on"),  # noise of 5 % of the weights in a block
    (0.124, "changed from layer 2 on. "),  # of 20 %
]


@pytest.mark.parametrize(("distance", "says"), COPIES)
def test_without_a_head_the_verdict_is_by_the_states_and_the_loss(distance, says):
    def of(step=0.0004, loss=(0.001, 0.0005, 0.002)):
        numbers = [number("old", layer, 0.9, 1e-5, "motion.step_cosine") for layer in range(4)]
        numbers += [number("new", layer, 0.9 - step * (layer == 2), 1e-5, "motion.step_cosine") for layer in range(4)]
        return say(distances=[0, 0, *[distance / 1.1] * 3], numbers=numbers, loss=loss)

    row, said, answer = of()
    assert row["changed"] and row["small"] == (not says.startswith("changed"))
    assert said.startswith(f"Verdict: {says}") and ("Words read from" in said) == says.startswith("changed")
    assert "less than the minimum meaningful difference of 0.01" in said and "significantly: +" not in said
    assert "0.04 times this difference, in `motion.step_cosine`." in said  # 0.0004 of 0.01
    assert ("0.01", "1 of 3") in [one[-2:] for one in answer.boxes[0].rows], "the first step changed nothing"
    for loss in ((0.008, 0.005, 0.011), (0.001, None, None)):
        assert of(loss=loss)[1].startswith("Verdict: changed from layer 2 on")
    assert "`motion.step_cosine` (2 times the minimum)." in of(step=0.02)[1]


VERDICTS = [
    ((4e-4, 2e-4, 9e-4), FROM_2, "indistinguishable", "indistinguishable from the base"),
    ((4e-4, 2e-4, 2e-3), FROM_2, "small", "a small change from layer 2 on (mean divergence below 0.01 nats)."),
    ((0.008, 0.006, 0.012), FROM_2, "changed", "changed from layer 2 on (mean divergence not below"),
    ((0.008, 0.006, 0.012), [0] * 5, "changed", "changed in the head alone"),
    ((4e-4, None, None), FROM_2, "changed", "changed from layer 2 on. "),  # without an interval
]


@pytest.mark.parametrize(("divergence", "distances", "verdict", "says"), VERDICTS)
def test_the_verdict_is_by_the_upper_end_of_the_divergence(divergence, distances, verdict, says):
    row, said, _ = say(distances=distances, divergence=divergence)
    assert (row["median"], row["median_high"]) == (0.0004, 0.0005) and row["largest_share"] == pytest.approx(0.1)
    assert "nats, the median 0.0004" in said and "One token makes up 10 %" in said
    assert ("of the mean is too narrow if rarer" in said) is (divergence[2] is not None)
    assert row["verdict"] == verdict and said.startswith(f"Verdict: {says}") and said.count("Verdict") == 1
    assert "most likely token is the same for 0.90 [0.88, 0.92] of the tokens" in said
