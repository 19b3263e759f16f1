"""Weights of texts, half-samples, sums under them, and the intervals that come of them, against the textbook."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracles import bootstrap
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from oracles.tokens import all_tokens

from reporter.app.verify.by_token import cosines
from reporter.forward.batch import FEW_HALVES, GROUPS, HALF_SAMPLES, HALVES, groups_of, packed, unpacked
from reporter.forward.means import PerText, PerToken
from reporter.forward.observed import Observed
from reporter.forward.parts import PARTS, REPLICATES, poisson_weights
from reporter.forward.paths import QUANTITIES, FrequencySplit, TextSums
from reporter.forward.readout import Lens
from reporter.forward.token_categories import VIEWS
from reporter.models.places import Layout
from reporter.texts.texts import originals


def test_weights_are_poisson_with_mean_1_and_independent_over_texts_and_replicates():
    weights = np.concatenate([poisson_weights(np.arange(PARTS), seed).astype(float) for seed in range(10)])
    assert weights.shape == (10 * PARTS, REPLICATES)
    assert weights.mean() == pytest.approx(1, abs=5 / np.sqrt(weights.size))
    assert weights.var() == pytest.approx(1, abs=5 * np.sqrt(3 / weights.size) + 1e-3)
    for k, probability in enumerate(np.exp(-1) / np.array([1, 1, 2, 6, 24, 120])):
        assert (weights == k).mean() == pytest.approx(probability, abs=2e-3)
    for correlation in (np.corrcoef(weights), np.corrcoef(weights.T)):
        np.fill_diagonal(correlation, 0)
        # Of half a million correlations with deviation 1/√1000 hardly one exceeds 5.5 of them by chance.
        assert np.abs(correlation).max() < 7 / np.sqrt(1000)
        assert (correlation**2).mean() == pytest.approx(1 / 1000, rel=0.05)


def test_a_texts_weights_depend_on_its_number_and_the_seed_alone():
    whole, other = (poisson_weights(np.arange(100), seed) for seed in (4, 5))
    assert len(np.unique(poisson_weights(np.arange(5 * PARTS), 4), axis=0)) == PARTS, "texts of a group go together"
    assert (poisson_weights(np.array([70, 3]), seed=4) == whole[[70, 3]]).all() and (other != whole).mean() > 0.5
    assert poisson_weights(np.zeros(0, dtype=np.int64), seed=0).shape == (0, REPLICATES)


def test_replicates_are_weighted_sums_of_texts(make_batch, feed, rng):
    """Against sums text by text, in two batches that tear the strata of a text apart."""
    texts = np.repeat(np.arange(30), rng.integers(1, 6, 30))
    strata = rng.choice(3, len(texts))
    states = rng.standard_normal((3, len(texts), 8))
    kept = TextSums(Layout(2, 3), seed=9)
    for rows in (texts < 15, texts >= 15):
        feed(kept, make_batch(states[:, rows], texts[rows], strata=strata[rows]))
    norms = np.linalg.norm(states, axis=2)
    weights = poisson_weights(np.arange(30), seed=9).astype(float)
    for layer, stratum in np.ndindex(3, 3):
        at, inside = (layer, stratum, QUANTITIES.index("norm")), strata == stratum
        sums, counts = (np.bincount(texts[inside], x, 30) for x in (norms[layer, inside], np.ones(inside.sum())))
        assert (kept.counts[at], kept.sums[at]) == (inside.sum(), pytest.approx(sums.sum(), rel=1e-6))
        np.testing.assert_allclose(kept.replicate_sums[:, *at], weights.T @ sums, rtol=1e-5, atol=1e-5)
        assert np.array_equal(kept.replicate_counts[:, *at], weights.T @ counts)


class Given(PerToken):
    name, quantities, values = "given", ("x",), None

    def of_tokens(self, layer):
        return self.values


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_an_infinite_number_of_a_token_is_left_out(make_batch, feed, infinity, monkeypatch):
    monkeypatch.setattr(Given, "values", torch.tensor([[1.0], [infinity], [3.0]]))
    batch = make_batch(np.ones((1, 3, 2)), texts=[0, 0, 1])
    kept = feed(Given(Layout(0, 2), seed=0), batch)
    assert (kept.sums[0, 0, 0], kept.counts[0, 0, 0]) == (4, 2) and kept.replicate_sums.max() < 100
    monkeypatch.setattr(FrequencySplit, "of_tokens", lambda self, layer: torch.full((3, 2), infinity))
    kept = feed(FrequencySplit(Layout(0, 2), seed=0), batch)  # a cosine in neither half
    assert not kept.sums.any() and not kept.counts.any() and not kept.replicate_sums.any()


def test_a_divergence_that_is_infinite_is_left_out(make_batch, feed):
    """The last layer gives a token a half that layer 0 rules out; the other token is read alike by both."""

    half = torch.full((2,), 0.5).log()

    def log_probabilities(states, closed):
        yield torch.stack([torch.tensor([0.0, -torch.inf]) if states[0, 0] == 1 else half, half])

    readout = SimpleNamespace(lens_problem="", predicts_next=False, log_probabilities=log_probabilities)
    batch = replace(make_batch([np.ones((2, 2)), np.full((2, 2), 2.0)], texts=[0, 1]), readout=readout)
    kept = feed(Lens(Layout(1, 2), seed=0, share=1.0), batch)
    assert kept.sums[0, 0, :2].tolist() == pytest.approx([np.log(2), 0.0])
    assert kept.counts[0, 0, :2].tolist() == [2, 1]


class Largest(PerText):
    """The mean of the first coordinate and its square: two quantities, the second undefined at layer 0."""

    name, quantities = "largest", ("mean", "squared")

    def of_texts(self, layer):
        x = layer.states[:, :1].double()
        mean = self.by_view(x) / self.by_view(torch.ones_like(x))  # NaN where the view leaves no token
        return torch.cat([mean, mean.square() if layer.index else torch.full_like(mean, torch.nan)], dim=2)


def test_numbers_of_texts_are_over_those_with_a_token_in_the_view(make_batch, feed, rng):
    texts = np.repeat(rng.permutation(40), rng.integers(1, 6, 40))
    stratum, states = rng.choice(3, len(texts), p=[0.4, 0.3, 0.3]), rng.standard_normal((2, len(texts), 3)) + 1
    parts = [texts % 3 == part for part in range(3)]
    batches = [make_batch(states[:, rows], texts[rows], strata=stratum[rows]) for rows in parts]
    kept = feed(Largest(Layout(1, 3), seed=9), *batches)
    rounded = states.astype(np.float32).astype(np.float64)
    for view, strata in VIEWS.items():
        seen = Observed({Largest.name: kept}, kept.layout, 40, view, 9)
        here = np.isin(stratum, strata)
        inside = {text: here & (texts == text) for text in np.unique(texts[here])}
        weights = poisson_weights(np.array(list(inside)), seed=9).astype(float)
        for layer, place in enumerate(kept.layout.places):
            values = np.array([rounded[layer, rows, 0].mean() for rows in inside.values()])
            mean, squared = (seen.get(Largest).average(name, place, seen.view) for name in Largest.quantities)
            assert mean.n == len(inside) and (view == "with special tokens") == (mean.n == 40)
            assert mean.value == pytest.approx(values.mean(), rel=1e-12)
            assert mean.square == pytest.approx((values**2).mean(), rel=1e-12)
            np.testing.assert_allclose(mean.replicates, values @ weights / weights.sum(axis=0), rtol=1e-9)
            assert squared.n == (mean.n if layer else 0) and (not layer or squared.value == mean.square)
            assert layer or np.isnan([squared.value, squared.square, *squared.replicates]).all()


def test_the_spread_of_the_halves_is_the_spread_of_the_groups(rng):
    x = rng.standard_normal(GROUPS)
    assert (HALVES.sum(axis=1) == GROUPS // 2).all()
    for halves, groups in ((HALVES, x), (FEW_HALVES, x.reshape(-1, 2).mean(axis=1))):
        spread = np.mean((halves @ x / (GROUPS // 2) - x.mean()) ** 2)
        assert spread == pytest.approx(groups.var(ddof=1) / len(groups), rel=1e-12)


def test_texts_fall_evenly_into_groups_that_of_the_first_with_the_same_words_and_bits_survive():
    assert originals([b"a", b"b", b"a", b"", b"b", b"A", b"a"]).tolist() == [0, 1, 0, 3, 1, 5, 0]
    groups = groups_of(np.arange(64_000), seed=3)
    assert np.bincount(groups, minlength=GROUPS).min() > 850
    assert (groups != groups_of(np.arange(64_000), seed=4)).mean() > 0.9
    bits = np.random.default_rng(0).random((50, 64)) < 0.5
    np.testing.assert_array_equal(unpacked(packed(bits)), bits)


def test_each_half_has_its_own_split_of_frequent_and_rare_tokens(observe):
    model, texts = FakeModel(role="decoder", final_width=16), made_up_texts(80)
    observables, _ = observe(model, texts, seed=5, names=("moments", FrequencySplit.name))
    corpus = all_tokens(model.reference, texts, model.tokenizer, decoder=True, positions=True)
    group = groups_of(originals(map(str.encode, texts)), 5)  # texts that say the same fall into one
    for view in ("text tokens", "with special tokens"):
        tokens, seen = corpus.view(view), Observed(observables, observables["moments"].layout, 80, view, 5)
        x = cosines(tokens.states[1], tokens.states[-1])
        for half in (0, 7, HALF_SAMPLES - 1):
            kept, here = (HALVES[half][group[some.texts]] for some in (tokens, corpus))
            counts = np.bincount(corpus.ids[here & ~corpus.special], minlength=100)
            frequent = (np.bincount(corpus.ids[here], minlength=100) > np.median(counts[counts > 0]))[tokens.ids]
            for name, kind in (("frequent", frequent), ("rare", ~frequent)):
                result = seen.get(FrequencySplit).average(f"cosine_{name}", seen.path[1], seen.view).replicates[half]
                assert result == pytest.approx(x[kept & kind].mean(), rel=1e-5), name


# Texts that say the same are one observation: a corpus and its copy know no more than the corpus.

METRICS = ("convergence", "motion", "contextuality", "entropy", "lens", "layer_pairs")
DISTINCT = list(dict.fromkeys(made_up_texts(60, shortest=3)))


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_corpus_and_its_copy_have_the_same_intervals(observe, values, role):
    """Only lens samples tokens by their places; all of them are read here."""
    result = []
    for texts in (DISTINCT, [*DISTINCT, *reversed(DISTINCT)]):
        model = FakeModel(role=role, layers=2)
        observables, counts = observe(model, FakeTexts(texts), sample=1_000_000, shard_characters=400)
        assert (counts.texts, counts.distinct_texts) == (len(texts), len(DISTINCT))
        result.append(
            values(model, observables, counts.distinct_texts, "text tokens", METRICS, entropy={"texts": 1000})
        )
    checked = 0
    for key, once in result[0].items():
        # Numbers of types see each occurrence; so does which types are frequent.
        if once.ci_low is None or "explained" in key[0] or "self_similarity" in key[0] or "adjusted" in key[0]:
            continue
        several = [(value.value, value.ci_low, value.ci_high) for value in (once, result[1][key])]
        assert several[1] == pytest.approx(several[0], rel=1e-4, abs=1e-6), key
        checked += 1
    assert checked > 30
    p, again = ([of["convergence.frequency_gap_p", layer].value for layer in range(2)] for of in result)
    assert p == pytest.approx(again, rel=1e-3)


def test_an_unevenly_repeated_text_weighs_as_the_textbook_says(observe, values):
    """Bootstrap over distinct texts, each with all its copies, by hand."""
    texts, model = [*DISTINCT, *DISTINCT[:2] * 15], FakeModel(special=False)
    observables, counts = observe(model, FakeTexts(texts), names=("moments", "text_sums", "text_means"))
    value = values(model, observables, counts.distinct_texts, "text tokens", ["motion"])["motion.norm", 2]
    copies = np.array([texts.count(text) for text in DISTINCT])
    norms = [np.linalg.norm(model.reference(model.tokenizer(text)["input_ids"])[2], axis=1) for text in DISTINCT]
    sums, tokens = np.array([of.sum() for of in norms]) * copies, np.array([len(of) for of in norms]) * copies
    low, high = bootstrap.interval(sums, tokens, 4000)
    assert value.value == pytest.approx(sums.sum() / tokens.sum(), rel=1e-5)
    assert value.ci_high - value.ci_low == pytest.approx(high - low, rel=0.12)
