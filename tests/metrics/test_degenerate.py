"""Input that means nothing gives None with a reason: never an exception, never NaN, never a made-up number.

``numbers`` asserts of every number that it is finite, or None with a reason. Values that a definition fixes have no
interval and take no part in means; nothing else is marked as one.
"""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from metrics.reading import ANY, VIEWS, computed, named
from oracles.fake_model import FIRST_WORD, SMALL, WORDS, FakeModel, FakeTexts, made_up_texts

import reporter
from reporter.metrics.base import Statistic, Value, catalogue, settled
from reporter.models.places import Place

IN_THE_MODELS_UNITS = {"motion.norm", "motion.step_length", "outliers.largest", "outliers.massive"}
IN_THE_MODELS_UNITS |= {f"variance.{of}" for of in ("total", "within", "between", "norm_of_mean", "mean_square_norm")}


@pytest.fixture
def measured(see):
    """Return a function that computes all metrics, or some, as {name: row}."""

    def run(model, texts, view="text tokens", metrics=None):
        seen, result = see(model, texts, view), {}
        for name, metric in catalogue().items():
            if not metric.compares_only and (metrics is None or name in metrics):
                result |= named(metric, computed(metric, seen, **SMALL.get(name, {})))
        return result

    return run


def bare(**arguments):
    return FakeModel(special=False, sinks=False, **arguments)


def made_of(*layers):
    """Return a change that makes each layer of an earlier one, times a factor: (layer, factor)."""
    return lambda states: [factor * states[layer] for layer, factor in layers]


def all_as_far(states):
    return [torch.eye(64)[: x.shape[1]][None] for x in states]


class Apart(FakeModel):
    """One text lies apart from all others, which are equal."""

    def states(self, input_ids, attention_mask):
        apart = (input_ids[:, :1] == FIRST_WORD + 4)[..., None]
        return [x.where(apart, torch.tensor(7.5)) for x in super().states(input_ids, attention_mask)]


def at(layers, numbers, other=""):
    """Return what is expected at each of several layers, or of each and another one."""
    return {f"{name} {layer}{other}": value for layer in layers for name, value in numbers.items()}


ABSENT, TEXTS = ..., made_up_texts(30)
TOO_FEW = {"intrinsic_dimension.twonn 1": None, "layer_pairs.cka 0 1": "fewer than 20 texts"}
TOO_FEW |= dict.fromkeys(("information_imbalance.imbalance 0 1", "information_imbalance.to_last 1"), "fewer than 20")
NO_TURN = at(range(4), {"token_path.curvature": "three neighbouring tokens"})
CENTRED = ("top_variance_share", "mean_cosine_centred", "mean_cosine_standardised")
EQUAL = at(range(4), {f"anisotropy.{name}": None for name in CENTRED})
EQUAL |= at(range(4), {"anisotropy.mean_cosine": 1, "convergence.similarity": 1})
ZERO = {"motion.norm": 0, "convergence.similarity": None}
ZERO |= dict.fromkeys(("anisotropy.mean_cosine", "anisotropy.top_variance_share"))
ALL_BUT_ONE = "the mean states of all texts, or of all but one, are equal"
PASSED_ON = ("motion.step_length", "motion.update_ratio", "subspaces.speed")
PASSED_ON += ("convergence.violations", "convergence.gradient")
ZERO_STEP = {"motion.update_ratio": None, "motion.step_cosine": None, "motion.step_length": ANY}
CASES = {
    "no texts": (FakeModel(special=False), ["", ""]),
    "one token": (bare(role="decoder"), ["1"]),
    "one token thrice": (FakeModel(), ["1"] * 3),
    "duplicates": (bare(role="decoder"), ["4 4 4 4 4 4"] * 30),
    "no type often": (bare(), ["1 2 4", "5 6 7"]),
    "one type often": (bare(), [*(f"1 {i} {i + 1}" for i in range(2, 14, 3)), "1 20 1"]),
    "no turns": (bare(change=made_of(*[(0, 0)] * 4)), ["4 4 4 4 4"] * 3),
    "fewer tokens than dimensions": (bare(), ["1 2 3 4 5", "7 8 9"]),
    "one block": (FakeModel(layers=1), TEXTS),
    "one dimension": (FakeModel(role="decoder", layers=2, width=1), TEXTS),
    "all states equal": (FakeModel(change=lambda states: [0 * x - 3.7 for x in states]), TEXTS),
    "all states equal but for rounding": (
        FakeModel(change=lambda s: [1 + 1e-7 * torch.rand_like(x) for x in s]),
        TEXTS,
    ),
    "the first and the last layer zero": (FakeModel(change=made_of((0, 0), (1, 1), (2, 1), (3, 0))), TEXTS),
    "a layer zero": (FakeModel(change=made_of((0, 1), (1, 0), (2, 1), (3, 1))), TEXTS),
    "a block that passes its input on": (FakeModel(change=made_of((0, 1), (1, 1), (1, 1), (3, 1))), TEXTS),
    "states on a line": (bare(change=lambda states: [x[..., :1] * torch.ones(16) for x in states]), TEXTS),
    "neighbours that are all as far": (bare(width=64, change=all_as_far), [" ".join(map(str, range(WORDS)))]),
    "one text apart from all others": (Apart(sinks=False, special=False), [*(f"1 {i}" for i in range(30)), "4 5"]),
    "a final state of another width": (FakeModel(final_width=12), TEXTS),
}
EXPECTED = {
    "no texts": {"motion.growth": "no token", "motion.norm 1": None},
    "one token": TOO_FEW | NO_TURN | {"local_dimension.mean 1": "distinct states"},
    "one token thrice": TOO_FEW | {"journey.cosine_content 1": "a content word", "outliers.sink_sensitivity 1": None},
    "duplicates": {"intrinsic_dimension.twonn 1": None, "local_dimension.mean 1": "duplicates"},
    "no type often": {"variance.total 1": "five times", "variance.coverage": 0},
    "one type often": dict.fromkeys(("variance.between 1", "variance.within_share 1"), "one token type")
    | {"variance.within 1": ANY},
    "no turns": NO_TURN | {"token_path.straightening 1": "three neighbouring tokens"},
    "fewer tokens than dimensions": {"spectrum.curve 1 7": ANY, "spectrum.curve 1 8": ABSENT},
    "one block": {"convergence.similarity 1": 1}
    | {"convergence.decay": "a single point", "motion.growth": "a line needs two blocks", "motion.curvature 0": ABSENT},
    "one dimension": {"anisotropy.top_variance_share 1": 1},
    "all states equal": EQUAL
    | at(range(4), {"intrinsic_dimension.twonn": None})
    | {"motion.step_length 0": 0, "convergence.violations 0": 0, "motion.curvature 0": None}
    | {"layer_pairs.cka 0 1": "equal", "layer_pairs.cka_floor 0 1": ABSENT, "information_imbalance.to_last 1": "equal"},
    "all states equal but for rounding": EQUAL,
    "the first and the last layer zero": at([0], ZERO | ZERO_STEP) | at([3], ZERO) | {"convergence.rate": None},
    "a layer zero": at([1], ZERO | ZERO_STEP)
    | {"convergence.rate": ANY, "motion.growth": "all states of a block are zero"}
    | {"angular_distance.tokens 0 1": "zero", "angular_distance.tokens 0 2": ANY, "layer_pairs.knn 1 2": "zero"}
    | at([0], {"layer_pairs.cka": ANY, "information_imbalance.imbalance": ANY}, " 2")
    | at([0], {"layer_pairs.cka": "equal", "information_imbalance.imbalance": "equal"}, " 1"),
    "a block that passes its input on": at([1], dict.fromkeys(PASSED_ON, 0) | {"motion.step_cosine": 1})
    | {"motion.curvature 0": None, "motion.curvature 1": None, "subspaces.curvature 0": "the subspace does not move"},
    "states on a line": at([0], dict.fromkeys(("subspaces.speed", "subspaces.displacement"), "fewer than 8 axes")),
    "neighbours that are all as far": at(range(4), {"intrinsic_dimension.twonn": "equally far"}),
    "one text apart from all others": at([0, 1], {"layer_pairs.cka": ALL_BUT_ONE}, " 2"),
    "a final state of another width": {"journey.rank_content final 3": "16 dimensions, its states 12"}
    | {"journey.rank_content 3": ANY},
}


@pytest.mark.parametrize("name", CASES)
def test_what_has_no_number_says_why(measured, name):
    """None means no number, text a reason that has it in it, a number itself."""
    (model, texts), expected = CASES[name], EXPECTED[name]
    for view in VIEWS if len(" ".join(texts).split()) < 4 else VIEWS[:1]:
        result = measured(model, FakeTexts(texts), view)
        for name, value in expected.items():
            row = result.get(name)
            if value is ABSENT:
                assert row is None, (view, name)
            elif value is None or isinstance(value, str):
                assert row.value is None and (value or "") in row.reason, (view, name)
            else:
                assert row.value is not None and value in (ANY, pytest.approx(row.value, abs=1e-4)), (view, name)


def test_few_texts_have_no_interval(measured):
    distinct = list(dict.fromkeys(made_up_texts(20, shortest=10)))
    for texts in (1, 4, 5):
        result = measured(FakeModel(sinks=False), FakeTexts(distinct[:texts]))
        similarity = result["convergence.similarity 1"]
        assert similarity.value is not None and (similarity.ci_low is None) == (texts < 5)
        shown = [name for name, row in result.items() if "curve" not in name and row.ci_low is not None]
        assert texts > 1 or not shown


def test_a_few_zero_states_are_left_out(measured):
    """Word 5 has a zero state at layer 1: it takes no part where it has no direction, and n says so."""

    class Forgetful(FakeModel):
        def states(self, input_ids, attention_mask):
            result = super().states(input_ids, attention_mask)
            result[1] = result[1] * (input_ids != 7)[..., None]
            return result

    result = measured(Forgetful(sinks=False), made_up_texts(60), metrics=("motion", "convergence", "anisotropy"))
    whole = result["motion.norm 1"].n
    for name in ("convergence.similarity", "motion.step_cosine", "motion.update_ratio", "anisotropy.mean_cosine"):
        assert 0 < result[f"{name} 1"].n < whole
    assert result["motion.step_length 1"].n == result["anisotropy.top_variance_share 1"].n == whole


def test_a_view_with_no_tokens(measured):
    """Texts of one token in a decoder: all are sinks."""
    texts = FakeTexts(["1", "2", "4"] * 20)
    words, none = (measured(bare(role="decoder"), texts, view) for view in ("text tokens", "without sinks"))
    assert all(row.value is None and row.n == 0 and row.reason for row in none.values())
    assert none.keys() == {name for name in words if "_floor" not in name and "curve" not in name}


def test_giant_and_tiny_states(measured):
    plain = measured(FakeModel(), TEXTS)
    for scale in (1e-12, 1e12):
        scaled = measured(FakeModel(change=lambda s, k=scale: [x * k for x in s]), TEXTS)
        for name, row in scaled.items():
            expected = plain[name].value
            if name.split()[0] not in IN_THE_MODELS_UNITS and not name.startswith(("lens.", "loss.")):  # of a head
                assert row.value == (None if expected is None else pytest.approx(expected, rel=1e-3, abs=1e-6)), name


def test_a_dead_dimension_is_no_direction():
    """What underflow leaves of a dimension is no deviation: a sample in 16 bits does not hold it beside the others."""
    states = np.random.default_rng(0).normal(0.3, 1, (2, 300, 8)).astype(np.float32)
    states[..., 1] += 2 * states[..., 0] ** 2
    dead = np.concatenate([states, np.float32(1e-30) * states[..., 1:3] ** 2], axis=2)
    alone, beside = (
        reporter.measure(x, ["anisotropy", "linearity"], texts=np.arange(300) // 10)
        .layer_metrics.query("statistic in ('mean_cosine_standardised', 'cca')")
        .set_index(["statistic", "layer"])["value"]
        for x in (states, dead)
    )
    assert len(alone) == 3
    assert beside.to_dict() == pytest.approx(alone.to_dict(), rel=1e-3)


@pytest.mark.parametrize(("texts", "known"), [(5, ()), (12, ("in sample",)), (40, ("in sample", "held out"))])
@pytest.mark.usefixtures("every_interval")
def test_a_map_of_few_tokens_has_no_interval_and_says_why(texts, known):
    """Ten tokens a text in eight dimensions: intervals take eight tokens to a dimension, held out in either half."""
    states = np.random.default_rng(0).normal(size=(2, 10 * texts, 8)).astype(np.float32)
    result = reporter.measure(states, ["linearity"], texts=np.arange(10 * texts) // 10)
    numbers = result.layer_metrics.query("statistic in ('linearity', 'linearity_heldout', 'procrustes', 'cka')")
    assert len(numbers) == 4 and numbers["value"].notna().all()
    for row in numbers.itertuples():
        expected = ("held out" if row.statistic.endswith("heldout") else "in sample") in known
        assert np.isfinite([row.ci_low, row.ci_high]).all() == expected
        assert ("8 dimensions; the minimum is 64 tokens" in str(row.reason)) != expected


COUNT, LENGTH, WIDTH, VOCABULARY = 40, 12, 16, 30
RNG = np.random.default_rng(0)
TOKENS = RNG.zipf(1.3, COUNT * LENGTH) % VOCABULARY
OF_TEXT = np.repeat(np.arange(COUNT), LENGTH)
LOOKED_UP = RNG.normal(size=(VOCABULARY, WIDTH))[TOKENS]
CONSTANT = np.ones((COUNT * LENGTH, 1)) * RNG.normal(size=WIDTH)
LATER = LOOKED_UP + np.cumsum(RNG.normal(size=(3, COUNT * LENGTH, WIDTH)), axis=0) / 2
POSITIONS = np.tile(RNG.normal(size=(LENGTH, WIDTH)), (COUNT, 1)) / 2


def nearly(states):
    return states * (1 + 1e-7 * np.random.default_rng(1).normal(size=states.shape))


def layer_metrics(*states, metrics="all"):
    result = reporter.measure(
        np.stack(states).astype(np.float32), metrics, texts=OF_TEXT, tokens=TOKENS, role="decoder"
    )
    return result.layer_metrics.set_index(["metric", "statistic", "layer"])


UNSTABLE = {"linearity_heldout", "update_linearity_heldout", "to_last_heldout"}  # an R² without a lower bound


ROUNDING = {
    "types, and blocks that do nothing": (nearly(LOOKED_UP), LATER[0], nearly(LATER[0]), LATER[1]),
    "zero and constant": (0 * CONSTANT, LATER[0], nearly(CONSTANT), LATER[1]),
    "only types": (LOOKED_UP,) * 3,
}


@pytest.mark.parametrize("states", ROUNDING.values(), ids=ROUNDING)
def test_no_interval_speaks_of_rounding(states):
    """At a bound up to rounding an interval is no wider than rounding; nowhere does it take the whole range."""
    bounds = {f"{m.name}.{s.name}": s.bounds for m in catalogue().values() for s in m.statistics}
    names = [name for name, metric in catalogue().items() if not metric.compares_only]
    numbers = layer_metrics(*states, metrics=[{name: SMALL.get(name, {})} for name in names])
    known = numbers.dropna(subset=["value", "ci_low"])
    assert len(known) > 30
    for (metric, statistic, _), row in known.iterrows():
        low, high = bounds.get(f"{metric}.{statistic}", (None, None))
        width = row.ci_high - row.ci_low
        assert np.isfinite(width) and width >= 0 and row.ci_low - 1e-9 <= row.value <= row.ci_high + 1e-9, row
        if None not in (low, high) and statistic not in UNSTABLE:
            at_bound = min(row.value - low, high - row.value) < 1e-6
            assert width < (1e-4 if at_bound else 0.9 * (high - low)), row


@pytest.mark.parametrize("first", [LOOKED_UP, nearly(LOOKED_UP), 1e-4 * LOOKED_UP], ids=["equal", "rounded", "small"])
@pytest.mark.usefixtures("every_interval")
def test_looked_up_states_have_no_variance_within_types(first):
    numbers = layer_metrics(first, *LATER, metrics=["variance", "contextuality"])
    for name, value in {"within": 0.0, "within_share": 0.0, "between_share": 1.0}.items():
        row = numbers.loc["variance", name, 0]
        assert row.value == value and np.isnan(row.ci_low) and row.by_definition and "definition" in row.reason, name
    assert numbers.loc["contextuality", "self_similarity", 0]["by_definition"]
    # What is left of the adjusted form is the mean cosine, whose error is its own.
    adjusted = numbers.loc["contextuality", "self_similarity_adjusted", 0]
    assert not adjusted["by_definition"] and 0.001 < adjusted["ci_high"] - adjusted["ci_low"] < 0.2
    assert not numbers.query("layer > 0")["by_definition"].any()


def test_added_positions_leave_layer_0_free():
    """Also where embeddings and so variances are tiny in the units of the states."""
    for scale in (1, 1e-5):
        numbers = layer_metrics(scale * (LOOKED_UP + POSITIONS), *LATER, metrics=["variance"])
        assert not numbers["by_definition"].any()
        share = numbers.loc["variance", "within_share", 0]
        assert 0 < share.ci_low < share.value < share.ci_high < 0.9


def test_only_a_declared_end_with_the_declared_value_is_fixed():
    similarity = Statistic("s", "s", "d", (), fixed=(("last", 1.0),), bounds=(-1, 1))
    kl = Statistic("k", "k", "d", (), fixed=(("last", 0.0),), bounds=(0, None))

    def fixed(statistic, value, layer, site="block"):
        result = settled(statistic, Value(statistic.name, Place(site, layer), value, 9, value, value), 4)
        assert bool(result.by_definition) == (result.ci_low is None) == bool(result.reason)
        return bool(result.by_definition)

    measured = Value("s", Place("block", 4), 1.0, 9, 1.0, 1.0, by_definition=False)
    assert settled(similarity, measured, 4) is measured
    assert fixed(similarity, 1 - 1e-7, 4) and not fixed(similarity, 1.0, 3) and not fixed(similarity, 0.999, 4)
    assert not fixed(similarity, 1.0, 4, "final")
    assert fixed(kl, 0.0, 4) and not fixed(kl, 1e-9, 4)  # in nats that may be all there is
    step = Statistic("v", "v", "d", (), per="step", fixed=(("last", 0.0),), bounds=(0, 1))
    assert fixed(step, 0.0, 3) and not fixed(step, 0.0, 2)


def test_a_rank_of_0_is_fixed_only_where_the_state_is_the_vector():
    metric, place = catalogue()["journey"], Place("embedding", 0)

    def average(cosine, observable, statistic, place):
        value = cosine if statistic.startswith("cosine") else 0.0
        return SimpleNamespace(value=value, n=9, replicates=np.full(50, value))

    for cosine, fixed in ((1.0, True), (0.8, False)):  # looked up, and positions added
        seen = SimpleNamespace(average=partial(average, cosine), places=[place], texts=9, width=lambda place: 3)
        result = [settled(metric.statistic(one.statistic), one, 4) for one in metric.compute(seen, metric.options())]
        assert [(bool(one.by_definition), one.ci_low is None) for one in result] == [(fixed, fixed)] * 4
