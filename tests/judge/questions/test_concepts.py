"""Concepts where the truth is known: shared from the start, late, in the middle, at no layer; and chance alone."""

import numpy as np
import pytest

from reporter.judge.questions.concepts import CONCEPTS, layers_of
from reporter.judge.questions.question import answered
from reporter.metrics._directions import at_least, consistency, cosines_and_influences, weighted_consistency

LAYERS = range(7)
WIDTH = 24
STRENGTH = {"early": [4, 4, 4, 8, 4, 4, 4], "late": [0, 0, 0, 0, 4, 4, 8], "middle": [0, 0, 4, 8, 4, 0, 0]}
STRENGTH["absent"] = [0] * 7


def concepts(strengths, pairs=12, width=WIDTH, seed=0, pooling="mean", same_token=None, untrained=(), draws=9999):
    """Answer for made-up differences: how strong a concept's common direction is by layer."""
    rng, of = np.random.default_rng(seed), {"pooling": pooling, "same_token": same_token}
    random = {"model": "m (random-init)", "checkpoint": "x"}
    models = [{"model": "m", "checkpoint": "final", "base": None, "baseline": None}]
    models += [random | {"base": "m", "baseline": "random-init"}] if untrained else []
    rows = _made(strengths, pairs, width, rng, of, draws)
    rows += _made(dict(untrained), pairs, width, rng, of | random, draws)
    tables = {"FROM models": models, "FROM pair_directions": rows}
    return answered(CONCEPTS, "s", lambda sql: next(own for name, own in tables.items() if name in sql))


def _made(strengths, pairs, width, rng, more, draws):
    rows = []
    for concept, by_layer in strengths.items():
        direction = np.eye(width)[0]
        for layer, strength in zip(LAYERS, by_layer, strict=True):
            x = rng.standard_normal((pairs, width)) + strength * direction
            value, (_, influence) = consistency(x), cosines_and_influences(x)
            p = at_least(value, weighted_consistency(x, rng.choice([-1.0, 1.0], (draws, pairs))))
            row = {"model": "m", "checkpoint": "final", "pair_set": "set", "concept": concept, "layer": layer}
            row |= {"consistency": value, "ci_low": value - 0.1, "ci_high": value + 0.1, "chance": 0.0, "same": 0}
            row |= {"p": p, "n": pairs, "units": list(range(pairs)), "influence": influence.tolist()}
            rows.append(row | more)
    return rows


def of_concept(answer, name):
    return [row for row in answer.tables["concept_answers"] if row["concept"] == name]


def test_planted_directions_are_shared_where_they_were_planted():
    answer = concepts(STRENGTH)
    for name, strengths in STRENGTH.items():
        rows = of_concept(answer, name)
        assert [row["shared"] for row in rows] == [strength > 0 for strength in strengths], name
        if name != "absent":
            assert [row["layer"] for row in rows if row["strongest"] and row["alike"]] == [np.argmax(strengths)]
    assert layers_of(of_concept(answer, "early")) == "from layer 0 on"
    assert layers_of(of_concept(answer, "late")) == "from layer 4 on"
    assert layers_of(of_concept(answer, "middle")) == "in layers 2–4"
    (box,) = answer.boxes
    assert not box.code and "Take" not in box.says


@pytest.mark.parametrize(("pairs", "width"), [(6, 1), (12, 3), (30, 24)])
def test_chance_is_hardly_ever_shared(pairs, width):
    """Four concepts without a direction: in hardly any set is one of them called shared."""
    nothing = {f"c{i}": [0] * 7 for i in range(4)}
    sets = [concepts(nothing, pairs, width, seed, draws=1999).tables["concept_answers"] for seed in range(5)]
    assert sum(any(row["shared"] for row in rows) for rows in sets) <= 1


def test_random_weights_are_compared_with():
    answer = concepts({"early": STRENGTH["early"], "late": STRENGTH["late"]}, untrained={"early": [4] * 7})
    early, late = (of_concept(answer, name) for name in ("early", "late"))
    assert {row["p_untrained"] for row in late} == {None}
    assert [row["p_untrained"] <= 0.05 for row in early] == [row["layer"] == 3 for row in early]
    assert {row["model"] for row in answer.tables["concept_answers"]} == {"m"}
