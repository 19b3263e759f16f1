"""Every statistic of every metric against NumPy, text by text and in float64, under every view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.again import again, anisotropy, convergence
from oracles.contextuality import contextuality
from oracles.convergence import frequency
from oracles.entropy import entropy
from oracles.fake_model import SMALL, FakeHead, FakeModel, made_up_texts
from oracles.gride import gride
from oracles.journey import journey
from oracles.outliers import outliers
from oracles.readout import lens, loss
from oracles.tokens import all_tokens
from oracles.twonn import scikit_dimension, twonn, twonn_ml
from oracles.variance import variance

from reporter.metrics.base import Value
from reporter.models.places import Layout, Place
from reporter.texts.texts import originals

TEXTS = 90
SCALES = (1, 2, 4, 8, 16, 32, 64)
VARIANTS = {
    "encoder": {"role": "encoder", "special": True, "positions": True, "sinks": True},
    "bare encoder": {"role": "encoder", "special": False, "positions": False, "sinks": False},
    "decoder": {"role": "decoder", "special": False, "positions": True, "sinks": True},
    "decoder with BOS": {"role": "decoder", "special": True, "positions": False, "sinks": True},
}


@pytest.fixture(scope="module", params=VARIANTS)
def model(request):
    return FakeModel(layers=4, width=16, **VARIANTS[request.param])


@pytest.fixture(scope="module")
def measured(model):
    """Hold what ``everything`` has measured of a model."""
    return []


@pytest.fixture
def everything(model, measured, observe):
    """Return the model, its observables over 90 texts, and the same tokens one by one."""
    if measured:
        return measured[0]
    texts = made_up_texts(TEXTS)
    observables, counts = observe(model, texts, batch_tokens=300, shard_characters=2000)
    reference = all_tokens(
        model.reference, texts, model.tokenizer, decoder=model.role == "decoder", positions=model.positions
    )
    assert counts.tokens == len(reference.texts)
    assert counts.sinks == reference.sink.sum() and counts.special == reference.special.sum()
    if model.sinks or model.role == "decoder":
        assert counts.sinks > 0
    measured.append((model, observables, reference))
    return measured[0]


@pytest.mark.parametrize("view", ["words", "all", "no-sinks"])
def test_every_statistic(everything, values, view):
    model, observables, reference = everything
    tokens = reference.view(view)
    found = values(model, observables, TEXTS, view, entropy={"texts": TEXTS})

    def check(name, layer, expected, within=1e-4, atol=1e-7, n=None):
        value = found.pop((name, layer))
        if expected is None:
            assert value.value is None, (name, layer)
        else:
            assert value.value == pytest.approx(expected, rel=within, abs=atol), (name, layer)
        assert value.n == (len(tokens.texts) if n is None else n), (name, layer)

    for (statistic, layer), expected in convergence(tokens.states).items():
        check(f"convergence.{statistic}", layer, expected)
    for (statistic, layer), (expected, n) in frequency(
        tokens, reference, None, originals(made_up_texts(TEXTS))
    ).items():
        check(f"convergence.{statistic}", layer, expected, n=n, within=1e-3, atol=1e-6)
    head = FakeHead(model)
    for (statistic, layer), expected in lens(tokens.states, head.vectors).items():
        check(f"lens.{statistic}", layer, expected)
    for (statistic, layer), (expected, n) in journey(tokens, reference, model.embeddings).items():
        check(f"journey.{statistic}", layer, expected, n=n)
    expected, predicted = loss(model, head, reference, tokens)
    check("loss.lm", None, expected, n=predicted)
    for (statistic, layer), expected in again("motion", tokens.states).items():
        check(f"motion.{statistic}", layer, expected)
    for (statistic, layer), expected in anisotropy(tokens.states).items():
        check(f"anisotropy.{statistic}", layer, expected)
    for (statistic, layer), expected in again("spectrum", tokens.states).items():
        check(f"spectrum.{statistic}", layer, expected, within=1e-3)
    first = originals(made_up_texts(TEXTS))
    for (statistic, layer), expected in again("linearity", tokens.states, tokens.texts, first).items():
        check(f"linearity.{statistic}", layer, expected, within=1e-3)
    for (statistic, layer), expected in again("subspaces", tokens.states, axes=8).items():  # half the width
        check(f"subspaces.{statistic}", layer, expected, within=1e-3, atol=1e-6)
    for layer, x in enumerate(tokens.states):
        at, duplicates = tokens.distinct(layer)
        check("intrinsic_dimension.duplicates", layer, duplicates, atol=1e-12)
        if duplicates > 0.5:
            for statistic in ("twonn", "twonn_published", "twonn_ml", *(f"gride_{n}" for n in SCALES)):
                value = found.pop((f"intrinsic_dimension.{statistic}", layer))
                assert value.value is None and "duplicates" in value.reason and value.n == len(at)
        else:
            check("intrinsic_dimension.twonn", layer, twonn(x[at]), within=1e-3, n=len(at))
            check("intrinsic_dimension.twonn_published", layer, twonn(x[at], 2), within=1e-3, n=len(at))
            check("intrinsic_dimension.twonn_ml", layer, twonn_ml(x[at]), within=1e-3, n=len(at))
            for n in SCALES:
                if 2 * n < len(at):
                    check(f"intrinsic_dimension.gride_{n}", layer, gride(x[at], n), within=1e-3, n=len(at))
                else:
                    assert found.pop((f"intrinsic_dimension.gride_{n}", layer)).value is None
            assert twonn(x[at]) == pytest.approx(scikit_dimension(x[at]), rel=1e-6)
    for (statistic, layer), (expected, n) in variance(tokens, reference).items():
        check(f"variance.{statistic}", layer, expected, n=n)
    for (statistic, layer), (expected, n) in contextuality(tokens, reference, model.role == "decoder").items():
        check(f"contextuality.{statistic}", layer, expected, n=n)
        for end in ("_baseline", "_adjusted") if statistic == "explained_by_first" else ():
            found.pop((f"contextuality.explained_by_first{end}", layer))  # drawn: see test_contextuality.py
    for (statistic, layer), (expected, n) in outliers(tokens, reference).items():
        check(f"outliers.{statistic}", layer, expected, n=n)
    for (statistic, layer), (expected, n) in entropy(tokens).items():
        check(f"entropy.{statistic}", layer, expected, n=n)
    # each has a test of its own, with its oracle
    elsewhere = (
        "contributions.",
        "outliers.sink_sensitivity",
        "information_imbalance.",
        "local_dimension.",
        "token_path.",
    )
    unchecked = [key for key in found if not key[0].endswith("_floor") and not key[0].startswith(elsewhere)]
    assert not unchecked, "statistics that no oracle has checked"


def test_duplicates_at_layer_0_of_a_model_without_positions(everything, values):
    model, observables, reference = everything
    found = values(model, observables, TEXTS, "words", ["intrinsic_dimension"])
    tokens = reference.view("words")
    duplicates = found["intrinsic_dimension.duplicates", 0].value
    if not model.positions:
        assert duplicates == 1 - len(set(tokens.ids)) / len(tokens.ids) > 0.5
        assert found["intrinsic_dimension.twonn", 0].value is None
        assert ("intrinsic_dimension.twonn_floor", 0) not in found
    assert duplicates >= found["intrinsic_dimension.duplicates", 1].value
    shares = [found["intrinsic_dimension.duplicates", layer].value for layer in range(1, 5)]
    assert len(set(shares)) == 1 and 0 < shares[0] < 0.5


def test_samples_and_batches_are_what_the_options_say(everything, values):
    """With fewer tokens asked for than there are, the numbers are those of the sample, by batches."""
    model, observables, _ = everything
    options = {
        "intrinsic_dimension": {"sample": 64, "batches": 3},
        "anisotropy": {"sample": 100, "batches": 2},
    }
    found = values(model, observables, TEXTS, "words", **options)
    contexts = observables["tokens"].select((0, 2), 192).distinct()
    tokens = observables["tokens"].select((0, 2), 200)
    starts = range(0, len(contexts) - 63, 64)  # distinct contexts among 192 tokens make no third batch
    assert len(starts) > 1
    for layer in range(1, 5):
        x = contexts.states(Place("block", layer)).numpy()
        by_batch = [twonn(x[i : i + 64]) for i in starts]
        value = found["intrinsic_dimension.twonn", layer]
        assert value.value == pytest.approx(np.mean(by_batch), rel=1e-6)
        assert value.ci_low < value.value < value.ci_high and value.n == 64 * len(starts)
        likely = found["intrinsic_dimension.twonn_ml", layer]
        assert likely.value == pytest.approx(np.mean([twonn_ml(x[i : i + 64]) for i in starts]), rel=1e-6)
        assert likely.ci_low < likely.value < likely.ci_high

        y = tokens.states(Place("block", layer)).double().numpy()
        by_batch = [anisotropy([y[i : i + 100]])["top_variance_share", 0] for i in (0, 100)]
        value = found["anisotropy.top_variance_share_batch", layer]
        assert value.value == pytest.approx(np.mean(by_batch), rel=1e-6)
        assert value.ci_low < value.value < value.ci_high and value.n == 200
        assert found["anisotropy.mean_cosine_centred", layer].n == 200
    # Exact statistics do not care.
    exact = values(model, observables, TEXTS, "words", ["anisotropy"])
    for statistic in ("top_variance_share", "mean_cosine"):
        key = f"anisotropy.{statistic}", 2
        assert found[key].value == exact[key].value


def test_identities(everything, values):
    model, observables, _ = everything
    for view in ("words", "all", "no-sinks"):
        found = {key: value.value for key, value in values(model, observables, TEXTS, view).items()}
        last = model.layers
        gradient = [found["convergence.gradient", layer] for layer in range(last)]
        bound = [found["convergence.bound", layer] for layer in range(last)]
        assert found["convergence.similarity", last] == 1
        assert sum(gradient) == pytest.approx(last * found["convergence.rate", None], rel=1e-12)
        assert found["convergence.rate_published", None] * (last - 1) == pytest.approx(sum(gradient), rel=1e-12)
        assert all(f <= g for f, g in zip(bound, gradient, strict=True))
        assert bound == sorted(bound) and bound[-1] == gradient[-1]
        for layer in range(last):
            assert found["motion.step_length", layer] >= abs(
                found["motion.norm", layer + 1] - found["motion.norm", layer]
            )
        assert found["motion.step_cosine", last - 1] == pytest.approx(
            found["convergence.similarity", last - 1], abs=1e-7
        )
        for layer in range(last + 1):
            assert 1 / model.width <= found["anisotropy.top_variance_share", layer] <= 1
            assert found["anisotropy.top_variance_share", layer] == pytest.approx(
                found["anisotropy.top_variance_share_batch", layer], rel=1e-5
            )


def test_views_of_the_same_tokens_are_the_same(observe, values):
    """Without special tokens both views are equal; the memo they share must not mix up other ones."""
    model, texts = FakeModel(role="encoder", special=False, sinks=False), made_up_texts(40)
    observables, _ = observe(model, texts)
    words, everything = (values(model, observables, 40, view) for view in ("words", "all"))
    assert words.keys() == everything.keys()
    for key, value in words.items():  # where arrays lie in memory decides the last bits of a product
        other = everything[key]
        assert value.n == other.n and value.reason == other.reason, key
        for x, y in ((value.value, other.value), (value.ci_low, other.ci_low), (value.ci_high, other.ci_high)):
            assert x == (None if y is None else pytest.approx(y, rel=1e-9, abs=1e-12)), key


def check_same(metric, options, a, b):
    a, b = list(metric.compute(a, options)), list(metric.compute(b, options))
    assert [replace(x, value=None, ci_low=None, ci_high=None) for x in a if isinstance(x, Value)] == [
        replace(x, value=None, ci_low=None, ci_high=None) for x in b if isinstance(x, Value)
    ]
    for x, y in zip(a, b, strict=True):  # where arrays lie in memory decides the last bits of a product
        if isinstance(x, Value):
            assert x.value == (None if y.value is None else pytest.approx(y.value, rel=1e-9, abs=1e-12))


def test_a_shared_memo_changes_nothing(everything):
    from reporter.forward.observed import Observed
    from reporter.metrics.base import catalogue

    model, observables, _ = everything
    memo = {}
    for view in ("words", "no-sinks"):
        for metric in catalogue().values():
            alone = Observed(observables, Layout(model.layers, model.width), TEXTS, view, 0)
            shared = Observed(observables, Layout(model.layers, model.width), TEXTS, view, 0, memo)
            check_same(metric, metric.options(**SMALL.get(metric.name, {})), alone, shared)
    small = catalogue()["intrinsic_dimension"]
    options = small.options(sample=40, batches=2)
    alone = Observed(observables, Layout(model.layers, model.width), TEXTS, "words", 0)
    shared = Observed(observables, Layout(model.layers, model.width), TEXTS, "words", 0, memo)
    check_same(small, options, alone, shared)


def test_bootstrap_intervals_against_the_textbook(everything, values):
    from oracles import bootstrap

    from reporter.app.verify.by_token import cosines

    model, observables, reference = everything
    tokens = reference.view("words")
    _, text = np.unique(originals(made_up_texts(TEXTS))[tokens.texts], return_inverse=True)  # copies are drawn together
    found = values(model, observables, TEXTS, "words", ["convergence", "motion"])
    for name, layer, quantity in (
        ("convergence.similarity", 1, cosines(tokens.states[1], tokens.states[-1])),
        ("motion.norm", 3, np.linalg.norm(tokens.states[3], axis=1)),
        ("motion.step_cosine", 2, cosines(tokens.states[2], tokens.states[3])),
    ):
        sums = np.bincount(text, quantity)
        low, high = bootstrap.interval(sums, np.bincount(text))
        value = found[name, layer]
        assert value.ci_high - value.ci_low == pytest.approx(high - low, rel=0.15)
        assert value.ci_low < value.value < value.ci_high
    # Differences of layers are taken within a replicate: much narrower than the difference of two intervals.
    rate = found["convergence.rate", None]
    assert rate.ci_low < rate.value < rate.ci_high
    assert found["convergence.similarity", 4].ci_low == found["convergence.similarity", 4].ci_high == 1


def test_the_seed_changes_samples_and_intervals_but_no_exact_number(observe, values):
    model, texts = FakeModel(), made_up_texts(80)
    options = {"intrinsic_dimension": {"sample": 100, "batches": 1}}
    found = []
    for seed in (0, 0, 1):
        observables, _ = observe(model, texts, seed=seed, sample=100)
        found.append(values(model, observables, 80, "words", seed=seed, **options))
    assert found[0] == found[1]
    for key in (("convergence.similarity", 1), ("anisotropy.top_variance_share", 2), ("motion.norm", 0)):
        assert found[0][key].value == found[2][key].value
    assert found[0]["motion.norm", 1].ci_low != found[2]["motion.norm", 1].ci_low
    assert found[0]["intrinsic_dimension.twonn", 2].value != found[2]["intrinsic_dimension.twonn", 2].value
