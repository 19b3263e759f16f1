"""A model against its base: differences and their paired intervals, what changed, and how predictions diverge."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from metrics.reading import ANY, Sides, computed, named, nudged
from oracles import influence
from oracles.fake_model import FakeHead, FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.forward.token_sample import Outputs
from reporter.geometry.intervals import wilson
from reporter.metrics.base import Value, catalogue
from reporter.metrics.change import MovedText, MovedToken

CHECKED = ("anisotropy", "spectrum", "variance")
PAIRED = {name: m for name, m in catalogue().items() if m.between and "base" in m.between.of and not m.between.own}
CHANGE, DIVERGENCE = catalogue()["change"], catalogue()["divergence"]
Decoder, Plain = partial(FakeModel, role="decoder"), partial(FakeModel, sinks=False, positions=False)
KEPT = {}


@pytest.fixture
def sides(see):
    """Return a made-up model, one of another seed and one of fewer layers, measured on the same texts."""
    if not KEPT:
        models = {"mine": Decoder(), "theirs": Decoder(seed=1), "shallow": Decoder(layers=2)}
        KEPT.update({name: see(model, made_up_texts(40, shortest=4)) for name, model in models.items()})
    return KEPT


def by_place(metric, seen):
    rows = metric.compute(seen, metric.options())
    return {(row.statistic, row.place): row for row in rows if isinstance(row, Value)}


def by_replicates(metric):
    return {s.name for s in metric.statistics if s.main and s.method == "bootstrap"}


def test_every_main_statistic_with_replicates_over_texts_is_compared():
    assert {name for name, metric in catalogue().items() if by_replicates(metric)} <= set(PAIRED)


@pytest.mark.parametrize("name", PAIRED)
def test_a_difference_is_that_of_the_two_numbers_and_of_a_model_and_itself_nothing(name, sides):
    metric, a, b = PAIRED[name], sides["mine"], sides["theirs"]
    mine, theirs = by_place(metric, a), by_place(metric, b)
    result = list(metric.between.compare(a, b, metric.options()))
    on_path = {key for key in mine if key[0] in by_replicates(metric) and (key[1] is None or key[1] in a.path)}
    assert on_path <= {(one.statistic, one.place) for one in result}
    for one in result:
        here, there = mine[one.statistic, one.place].value, theirs[one.statistic, one.place].value
        expected = None if here is None or there is None else pytest.approx(here - there, rel=1e-9, abs=1e-12)
        assert one.value == expected or one.value is None is expected
        assert one.ci_low is None or one.ci_low <= one.ci_high
    itself = [one for one in metric.between.compare(a, a, metric.options()) if one.value is not None]
    assert {one.value for one in itself} == {0.0}
    assert {(one.ci_low, one.ci_high) for one in itself if one.ci_low is not None} == {(0.0, 0.0)}


@pytest.mark.parametrize("name", PAIRED)
def test_a_shallower_model_is_compared_where_both_have_layers(name, sides):
    compare, options, shallow = PAIRED[name].between.compare, PAIRED[name].options(), sides["shallow"]
    rows, alike = (list(compare(shallow, other, options)) for other in (sides["mine"], shallow))
    assert all(row.value is not None or row.reason for row in rows)
    if name != "convergence":  # whose layers are compared with the last one, which differs
        assert {(row.statistic, row.place) for row in rows} >= {(row.statistic, row.place) for row in alike}
    assert {row.place.layer for row in rows if row.place is not None} <= {0, 1, 2}


def test_intervals_are_as_wide_as_differences_move_over_the_same_texts(see):
    """A bootstrap of whole texts, the same for both models: the one's weights are those of the other, a bit off."""
    texts, noise = made_up_texts(60, shortest=6), np.random.default_rng(1)
    a, b = Decoder(sinks=False), Decoder(sinks=False)
    b.weights = [(w + 0.05 * noise.standard_normal(w.shape) / 4).astype(np.float32) for w in b.weights]
    names = ["moments", *(need for name in CHECKED for need in catalogue()[name].needs)]
    sides = [see(model, texts, names=names) for model in (a, b)]
    clouds = [
        all_tokens(m.reference, texts, m.tokenizer, decoder=True, positions=True).view("text tokens") for m in (a, b)
    ]
    drawn = [influence.drawn_again(cloud.states[2], cloud.ids, cloud.texts, 100) for cloud in clouds]
    checked = set()
    for metric in CHECKED:
        of = catalogue()[metric]
        single = by_place(of, sides[0])
        for row in of.between.compare(*sides, of.options()):
            name = f"{metric}.{row.statistic}"
            if name in set(drawn[0]) - {"spectrum.decay"} and row.place.layer == 2:
                half, alone = (row.ci_high - row.ci_low) / 2, single[row.statistic, row.place]
                deviation = np.std(drawn[0][name] - drawn[1][name])
                assert 0.85 < half / (1.96 * deviation) < 2.2, name  # with Student's t, and what 60 texts may hide
                assert half < 0.1 * (alone.ci_high - alone.ci_low) / 2, name
                checked.add(name)
    assert len(checked) == 5


@pytest.fixture
def changed(see):
    """Return a function that compares two models: rows by name, and the tokens that moved."""

    def run(model, base, texts=60):
        sides = [see(side, made_up_texts(texts), names=("moments", *CHANGE.needs)) for side in (model, base)]
        rows = computed(CHANGE, sides[0], sides[1:])
        return named(CHANGE, rows), [row for row in rows if isinstance(row, MovedToken | MovedText)]

    return run


def test_what_did_not_change_is_the_same_to_the_last_bit(changed, see):
    rows, tokens = changed(Decoder(), Decoder())
    for layer in range(4):
        assert [rows[f"change.{name} {layer}"].value for name in ("cosine", "distance", "moved")] == [1, 0, 0]
        assert rows[f"change.linear {layer}"].value == pytest.approx(1)
        assert rows[f"change.distance {layer}"].ci_high == 0
    assert not tokens
    assert CHANGE.compares_only and not list(CHANGE.compute(see(FakeModel(), made_up_texts(20)), CHANGE.options()))


def test_tokens_that_moved_come_in_order(changed):
    model = Plain()
    model.embeddings[7] *= 3  # word 5
    _, moved = changed(model, Plain())
    tokens = [row for row in moved if isinstance(row, MovedToken)]
    (first,) = (row for row in tokens if row.place.layer == 0)
    assert (first.rank, first.token_id, first.token) == (1, 7, "t7")
    assert (first.distance, first.cosine) == (pytest.approx(2), pytest.approx(1))
    for place in {row.place for row in tokens}:
        rows = [row for row in tokens if row.place == place]
        assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
        assert all(a.distance >= b.distance for a, b in pairwise(rows)) and all(row.n >= 3 for row in rows)


def test_a_token_that_moved_is_found_in_its_texts(changed):
    """Word 5 is token 7: at the embedding only its occurrences move, each at its place in a text that has it."""
    model, texts = Plain(), made_up_texts(60)
    model.embeddings[7] *= 3
    rows = [row for row in changed(model, Plain())[1] if isinstance(row, MovedText) and row.place.layer == 0]
    assert {row.token for row in rows} == {"t7"} and [row.distance for row in rows] == pytest.approx([2] * len(rows))
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    assert all(texts[row.text - 1].split()[row.position - 1] == "5" for row in rows), "position 0 is a special token"


UNLIKE = {
    "shallower": ({"layers": 2}, {"moved 2": ANY}),
    "deeper": ({"layers": 4}, {"cosine 3": "no layer 3", "cosine 4": ANY}),
    "narrower": ({"width": 12}, {"distance 1": "12 dimensions, the states of the base 16", "linear 1": ANY}),
    # Without a token before each text, all positions move, and texts are compared.
    "of another tokenizer": ({"special": False}, {"distance 2": ANY}),
}


@pytest.mark.parametrize(("other", "expected"), UNLIKE.values(), ids=UNLIKE)
def test_a_model_unlike_its_base_is_compared_where_it_can_be(observe, other, expected):
    model, base = FakeModel(**other), FakeModel()
    sides = Sides.of(observe, [model, base], made_up_texts(60), 2 * [("moments", *CHANGE.needs)])
    rows = sides.compute(CHANGE, "text tokens")
    if model.layers <= base.layers:  # else the path compares the base's last layer with an inner one as well
        sides.agree(CHANGE, {"text tokens": rows}, {})
    result = named(CHANGE, rows)
    for name, value in expected.items():
        row = result[f"change.{name}"]
        assert row.value is not None if value is ANY else row.value is None and value in row.reason
    if not model.special:
        assert not [row for row in rows if isinstance(row, MovedToken)]
        assert result["change.cosine 1"].n == len(set(made_up_texts(60)))


@pytest.mark.parametrize(("texts", "minimum"), [(3, "32 tokens"), (7, "48 tokens"), (29, "")])
def test_a_map_of_few_tokens_has_no_number_or_no_interval(changed, texts, minimum):
    row = changed(nudged(1.1), FakeModel(), texts)[0]["change.linear 2"]
    assert (row.value is None) == (texts == 3) and (row.ci_low is None or texts == 29)
    assert f"the minimum is {minimum}" in row.reason if minimum else not row.reason


@pytest.fixture
def diverged(see, tmp_path):
    """Return a function that compares two models, whose samples are read back from their files, by statistic."""

    def run(model, base, head=True, **options):
        sides = []
        for side in (model, base):
            seen = see(side, made_up_texts(40), names=("moments", "outputs"))
            seen.observables["outputs"].save(tmp_path / "outputs.safetensors", finished=True)
            seen.observables["outputs"] = Outputs.load(tmp_path / "outputs.safetensors")
            sides.append(replace(seen, load_head=partial(FakeHead, side) if head else None))
        return {row.statistic: row for row in computed(DIVERGENCE, sides[0], sides[1:], **options)}

    return run


def test_states_are_kept_in_float32(diverged):
    wide = {"role": "decoder", "final_width": 16}
    same = diverged(FakeModel(**wide), FakeModel(**wide))
    assert same["kl"].value == 0 and same["same_top"].value == 1
    assert (same["same_top"].ci_low, same["same_top"].ci_high) == pytest.approx((wilson(39, 39)[0], 1)), (
        "one of the 40 texts repeats another"
    )
    assert 0 < diverged(nudged(1 + 1e-5, block=-1, **wide), FakeModel(**wide))["kl"].value < 1e-9


def test_what_cannot_be_compared_has_a_reason(diverged):
    for result, says in (
        (diverged(Decoder(special=False), Decoder()), "the tokenizers differ"),
        (diverged(Decoder(), Decoder(), head=False), "the model is not here"),
    ):
        assert all(row.value is None and says in row.reason for row in result.values())
    result = diverged(nudged(1.1), FakeModel(), sample=64)  # an encoder has no next token
    assert result["kl"].value > 0 and result["kl"].n == 64
    assert result["next"].value is None and "hidden tokens" in result["next"].reason
