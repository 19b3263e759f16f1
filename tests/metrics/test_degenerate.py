"""Input that means nothing gives None with a reason: never an exception, never NaN, never a made-up number.

The fixture ``values`` asserts for every value that it is finite, or None with a reason.
"""

import numpy as np
import pytest
import torch
from oracles.fake_model import WORDS, FakeModel, FakeTexts, made_up_texts

import reporter

VIEWS = ("words", "all", "no-sinks")
DIMENSIONS = ("intrinsic_dimension.twonn", "intrinsic_dimension.twonn_ml")
IN_THE_MODELS_UNITS = {
    "motion.norm",
    "motion.step_length",
    *(f"variance.{name}" for name in ("total", "within", "between", "norm_of_mean", "mean_square_norm")),
    "outliers.largest",
    "outliers.massive",
}


@pytest.fixture
def of(observe, values):
    """Return a function that computes everything in some views: {view: {(name, layer): Value}}."""

    def run(model, texts, views=("words",)):
        observables, counts = observe(model, texts)
        return {view: values(model, observables, counts.distinct_texts, view) for view in views}

    return run


@pytest.mark.parametrize(("role", "special"), [("encoder", True), ("decoder", False)])
@pytest.mark.parametrize(
    "texts",
    [["1"], ["1", "1", "1"], ["1 2"], ["1", "2 4"], ["4 4 4 4 4 4"] * 30],
    ids=["one token", "one token thrice", "two tokens", "two texts", "all duplicates"],
)
def test_tiny_corpora(of, role, special, texts):
    found = of(FakeModel(role=role, special=special), FakeTexts(texts), VIEWS)
    if len(set(texts)) == 1 and len(texts[0].split()) < 5:
        assert all(found[view]["intrinsic_dimension.twonn", 1].value is None for view in VIEWS)


@pytest.mark.parametrize("texts", [1, 4, 5])
def test_few_texts(of, texts):
    found = of(FakeModel(sinks=False), FakeTexts(list(dict.fromkeys(made_up_texts(20, shortest=10)))[:texts]))["words"]
    similarity = found["convergence.similarity", 1]
    assert similarity.value is not None
    assert (similarity.ci_low is None) == (texts < 5)
    assert all((value.ci_low is None) for key, value in found.items() if texts == 1 and "twonn_ml" not in key[0])


@pytest.mark.parametrize(("role", "layers", "width"), [("encoder", 1, 16), ("decoder", 1, 1), ("decoder", 3, 2)])
def test_shallow_and_narrow_models(of, layers, width, role):
    found = of(FakeModel(role=role, layers=layers, width=width), made_up_texts(30))["words"]
    assert found["convergence.similarity", layers].value == 1
    if layers == 1:
        assert found["convergence.rate_published", None].reason == "a model of one block divides by zero"
        assert found["convergence.decay", None].reason == "a single point"
        assert not any(name == "motion.curvature" for name, _ in found)
        assert found["convergence.rate", None].value == found["convergence.gradient", 0].value
    if width == 1:
        assert found["anisotropy.top_variance_share", 1].value == pytest.approx(1)


def test_fewer_tokens_than_dimensions(of):
    found = of(FakeModel(width=120, sinks=False), made_up_texts(3, longest=12, shortest=8))["words"]
    for layer in range(4):
        whole, batch = (
            found[f"anisotropy.{name}", layer] for name in ("top_variance_share", "top_variance_share_batch")
        )
        assert whole.n < 60 and whole.value == pytest.approx(batch.value, rel=1e-4)
        assert 0 < found["anisotropy.top_variance_share_floor", layer].value < 1


@pytest.mark.parametrize("level", [0.1, 1e4, -3.7, "noise"])
def test_states_that_are_all_equal(of, level):
    """Equal but for what float32 leaves of them, batched or not: no direction and no dimension can be read off."""

    def change(states):
        return [1 + 1e-7 * torch.rand_like(x) if level == "noise" else torch.full_like(x, level) for x in states]

    values = of(FakeModel(change=change), made_up_texts(60))["words"]
    for layer in range(4):
        for name in ("top_variance_share", "mean_cosine_centred", "mean_cosine_standardised"):
            assert values[f"anisotropy.{name}", layer].value is None, (name, layer)
        assert values["anisotropy.mean_cosine", layer].value == pytest.approx(1, abs=1e-5)
        assert values["convergence.similarity", layer].value == pytest.approx(1)
        if level != "noise":
            for name in ("anisotropy.top_variance_share_batch", *DIMENSIONS):
                assert values[name, layer].value is None, (name, layer)
    if level != "noise":
        assert values["motion.step_length", 0].value == values["convergence.violations", 0].value == 0
        assert values["motion.curvature", 0].value is None


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_a_layer_of_zeros(of, layer):
    model = FakeModel(layers=3, change=lambda s: [x * (i != layer) for i, x in enumerate(s)])
    values = of(model, made_up_texts(40))["words"]
    assert values["motion.norm", layer].value == 0
    names = ("convergence.similarity", "anisotropy.mean_cosine", "anisotropy.top_variance_share")
    for name in (*names, *(("motion.update_ratio", "motion.step_cosine") if layer < 3 else ())):
        assert values[name, layer].value is None, name
    assert (values["convergence.rate", None].value is None) == (layer in (0, 3))
    assert layer == 3 or values["motion.step_length", layer].value > 0


def test_a_few_zero_states_are_left_out(of):
    """Word 5 has a zero state at layer 1: it takes no part where it has no direction, and n says so."""

    class Forgetful(FakeModel):
        def states(self, input_ids, attention_mask):
            found = super().states(input_ids, attention_mask)
            found[1] = found[1] * (input_ids != 7)[..., None]
            return found

    values = of(Forgetful(sinks=False), made_up_texts(60))["words"]
    whole = values["motion.norm", 1].n
    for name in ("convergence.similarity", "motion.step_cosine", "motion.update_ratio", "anisotropy.mean_cosine"):
        assert 0 < values[name, 1].n < whole
    assert values["motion.step_length", 1].n == values["anisotropy.top_variance_share", 1].n == whole


def test_steps_of_zero_have_no_angle(of):
    """A block that passes its input on."""
    values = of(FakeModel(layers=3, change=lambda s: [s[0], s[1], s[1], s[3]]), made_up_texts(40))["words"]
    assert values["motion.step_length", 1].value == 0
    assert values["motion.update_ratio", 1].value == 0
    assert values["motion.step_cosine", 1].value == pytest.approx(1, abs=1e-6)
    assert values["motion.curvature", 0].value is None and values["motion.curvature", 1].value is None
    assert values["convergence.violations", 1].value == 0
    assert values["convergence.gradient", 1].value == pytest.approx(0, abs=1e-9)


def test_neighbours_that_are_all_as_far_have_no_dimension(of):
    """One-hot states: every distance is √2, every ratio 1, and no slope can be fitted."""
    hot = lambda states: [torch.eye(64)[: x.shape[1]][None] for x in states]  # noqa: E731
    model = FakeModel(width=64, special=False, sinks=False, change=hot)
    values = of(model, FakeTexts([" ".join(map(str, range(WORDS)))]))["words"]
    for layer in range(4):
        assert "equally far" in values["intrinsic_dimension.twonn", layer].reason
        assert values["intrinsic_dimension.twonn_ml", layer].value is None


def test_a_view_with_no_tokens(of):
    """Texts of one token in a decoder: all are sinks."""
    model = FakeModel(role="decoder", special=False, sinks=False)
    found = of(model, FakeTexts(["1", "2", "4"] * 20), ("words", "no-sinks"))
    assert all(value.value is None and value.n == 0 for value in found["no-sinks"].values())
    assert found["no-sinks"].keys() == {key for key in found["words"] if not key[0].endswith("_floor")}
    assert all(value.reason for value in found["no-sinks"].values())


def test_a_corpus_without_tokens(observe, values):
    model = FakeModel(special=False)
    observables, counts = observe(model, FakeTexts(["", ""]))
    assert counts.tokens == counts.texts == 0
    for view in VIEWS:
        assert all(value.value is None for value in values(model, observables, 0, view).values())


def test_giant_and_tiny_states(of):
    plain = of(FakeModel(), made_up_texts(60))["words"]
    for scale in (1e-12, 1e12):
        values = of(FakeModel(change=lambda s, k=scale: [x * k for x in s]), made_up_texts(60))["words"]
        for key, value in values.items():
            if key[0] in IN_THE_MODELS_UNITS or key[0].startswith(("lens.", "loss.")):  # a head has units, too
                continue
            expected = plain[key].value
            assert value.value == (None if expected is None else pytest.approx(expected, rel=1e-3, abs=1e-6)), key


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


@pytest.mark.parametrize(("texts", "known"), [(5, set()), (12, {"in sample"}), (40, {"in sample", "held out"})])
@pytest.mark.usefixtures("every_interval")
def test_a_map_of_few_tokens_has_no_interval_and_says_why(texts, known):
    """Ten tokens a text in eight dimensions: intervals take eight tokens to a dimension, held out in either half."""
    states = np.random.default_rng(0).normal(size=(2, 10 * texts, 8)).astype(np.float32)
    found = reporter.measure(states, ["linearity"], texts=np.arange(10 * texts) // 10)
    numbers = found.layer_metrics.query("statistic in ('linearity', 'linearity_heldout', 'procrustes', 'cka')")
    assert len(numbers) == 4 and numbers["value"].notna().all()
    for row in numbers.itertuples():
        expected = ("held out" if row.statistic.endswith("heldout") else "in sample") in known
        assert np.isfinite([row.ci_low, row.ci_high]).all() == expected
        assert ("8 dimensions; the minimum is 64 tokens" in str(row.reason)) != expected
