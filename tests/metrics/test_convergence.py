"""Convergence under its options, and compared between corpora and with a base."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.again import again
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens
from scipy.stats import ttest_1samp

from reporter.app.verify.by_token import of_similarity
from reporter.forward.means import Average
from reporter.forward.observed import Observed
from reporter.forward.paths import FrequencySplit
from reporter.geometry.intervals import half_sample_interval, percentile_interval
from reporter.metrics.base import Difference, catalogue
from reporter.metrics.convergence import paired_test
from reporter.models.places import Place

TEXTS = 80
CONVERGENCE = catalogue()["convergence"]
READ = ("moments", *CONVERGENCE.needs)


def test_the_gap_is_tested_over_distinct_texts_where_it_varies():
    def tested(values):
        gap = Average(np.mean(values), len(values) + 1, np.zeros(0), len(values), np.mean(np.square(values)))
        return paired_test(gap, Place("block", 1))

    for values in ([0.1, 0.3], [-0.2, -0.25, 0.01], np.sin(range(40)), [-1e-6, 1e-6]):
        found = tested(values)
        assert found.value == pytest.approx(ttest_1samp(values, 0).pvalue, rel=1e-9) and found.n == len(values) + 1
    for values in ([0.1, 0.1, 0.1], [-6e-7, 6e-7], [2 - 1e-6, 2 + 1e-6]):  # rounding of float32, and of squares
        found = tested(values)
        assert found.value is None and "the same in every text" in found.reason


def late(states):
    """Let the later steps be the larger ones, so that the least one from a layer on is not the last one."""
    return [(1 - share) * states[0] + share * states[-1] for share in (0, 0.002, 0.1, 0.25, 1)]


@pytest.mark.parametrize("mean", ["token", "text"])
def test_replicates_are_numbers_of_the_replicates_of_similarity(observe, values, mean):
    model, texts = FakeModel(layers=4, change=late), made_up_texts(TEXTS)
    observables, _ = observe(model, texts, names=READ)
    found = values(model, observables, TEXTS, "words", ["convergence"], convergence={"mean": mean})
    tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=False, positions=True).view("words")
    expected = again("convergence", tokens.states, tokens.texts, target="block", mean=mean)
    for (name, layer), value in expected.items():
        if "frequen" in name or name == "similarity_rare":
            continue  # of a split into types, which this path has not
        assert found[f"convergence.{name}", layer].value == pytest.approx(value, rel=1e-4, abs=1e-7), (name, layer)
    assert expected["bound", 0] < expected["bound", 3]
    spreads = {(name.partition(".")[2], layer): value.spread for (name, layer), value in found.items()}
    similarity = np.stack([spreads["similarity", layer] for layer in range(5)])
    assert np.ptp(similarity[:-1], axis=1).all()
    names = {"gradient", "bound", "rate", "rate_published", "area", "start", "decay"}
    for at in range(0, similarity.shape[1], 50):
        for (name, layer), expected in of_similarity(similarity[:, at]).items():
            if name in names:
                assert spreads[name, layer][at] == pytest.approx(expected, rel=1e-9, abs=1e-12), (name, layer)
    for (name, layer), spread in spreads.items():
        value = found[f"convergence.{name}", layer]
        if spread is not None:
            assert (value.ci_low, value.ci_high) == percentile_interval(spread, TEXTS), name


def test_frequent_and_rare_have_the_intervals_of_half_samples(observe, values):
    observables, _ = observe(FakeModel(), made_up_texts(TEXTS), names=READ)
    found = values(FakeModel(), observables, TEXTS, "words", ["convergence"])
    seen, place = side(observables, "one"), Place("block", 1)
    rare, often = (seen.get(FrequencySplit).average(f"cosine_{kind}", place, "words") for kind in ("rare", "frequent"))
    for name, value, halves in (
        ("similarity_rare", rare.value, rare.replicates),
        ("similarity_frequent", often.value, often.replicates),
        ("frequency_gap", rare.value - often.value, rare.replicates - often.replicates),
    ):
        interval = found[f"convergence.{name}", 1].ci_low, found[f"convergence.{name}", 1].ci_high
        assert interval == pytest.approx(half_sample_interval(value, halves, TEXTS), rel=1e-12), name
    assert compared(replace(seen, corpus="two"), seen)["frequency_gap", 1].ci_high == pytest.approx(
        half_sample_interval(0, np.roll(gap := rare.replicates - often.replicates, 1) - gap, TEXTS)[1], rel=1e-12
    ), "another corpus' half-samples are independent"


def test_without_a_final_state_of_the_same_width_there_is_no_target_or_it_is_the_last_block(observe, values):
    def of(model, target):
        observables, _ = observe(model, texts, names=READ)
        return values(model, observables, 30, "words", ["convergence"], convergence={"target": target})

    texts = made_up_texts(30)
    found = of(FakeModel(role="decoder", final_width=12), "final")
    assert all(value.value is None for value in found.values())
    assert "another width" in found["convergence.similarity", 1].reason
    assert of(FakeModel(), "block") == of(FakeModel(), "final")


def side(observables, corpus, texts=TEXTS):
    return Observed(observables, observables["moments"].layout, texts, "words", 0, corpus=corpus)


def compared(a, b):
    found = list(CONVERGENCE.between.compare(a, b, CONVERGENCE.options()))
    assert all(isinstance(difference, Difference) for difference in found)
    return {(d.statistic, d.place and d.place.layer): d for d in found}


def test_two_corpora_are_independent(observe):
    both = []
    for seed in (1, 2):
        observables, _ = observe(FakeModel(sinks=False), made_up_texts(TEXTS, seed=seed), names=READ)
        both.append(side(observables, str(seed)))
    difference = compared(*both)["similarity", 1]
    assert difference.ci_low < difference.value < difference.ci_high and difference.n == TEXTS
    # Two independent samples: the variance of the difference is the sum of both.
    widths = []
    for seen in both:
        alone = CONVERGENCE.compute(seen, CONVERGENCE.options())
        value = next(v for v in alone if (v.statistic, v.place) == ("similarity", difference.place))
        widths.append(value.ci_high - value.ci_low)
    assert difference.ci_high - difference.ci_low == pytest.approx(np.hypot(*widths), rel=0.15)


def test_a_base_of_another_depth_compares_as_a_whole_only(observe):
    sides = [observe(FakeModel(layers=layers), made_up_texts(40), names=READ)[0] for layers in (3, 4)]
    found = compared(*(side(observables, "one", 40) for observables in sides))
    assert found["rate", None].value is not None
    assert found["similarity", 2].value is None and "depth" in found["similarity", 2].reason


def test_what_moves_with_the_size_of_a_corpus_is_compared_at_equal_size_only(observe):
    model = FakeModel(sinks=False)
    seen = [observe(model, made_up_texts(n, seed=n), names=READ)[0] for n in (TEXTS, TEXTS + 1)]
    a, b = (side(observables, name) for observables, name in zip(seen, ("one", "two"), strict=True))
    alike = compared(replace(a, words=1250), replace(b, words=1000, texts=TEXTS + 1))
    assert alike["similarity_rare", 1].value is not None and alike["similarity_rare", 1].n == TEXTS
    unlike = compared(replace(a, words=1251), replace(b, words=1000))
    assert unlike["similarity", 1].value is not None and unlike["similarity_rare", 1].value is None
    reason = unlike["similarity_frequent", 1].reason
    assert all(words in reason for words in ("1,251 words", "1,000", "`size_of: two`"))
