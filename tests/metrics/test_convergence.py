"""Convergence under its options, and compared between corpora and with a base."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from metrics.reading import computed, numbers
from oracles.again import again
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens
from scipy.stats import ttest_1samp

from reporter.app.verify.by_token import of_similarity
from reporter.forward.means import Average
from reporter.forward.parts import parts_of
from reporter.forward.paths import FrequencySplit
from reporter.geometry.intervals import half_sample_interval, interval_over_texts, percentile_interval, share_ends
from reporter.metrics.base import Difference, catalogue
from reporter.metrics.convergence import paired_test
from reporter.models.places import Place

TEXTS = 80
CONVERGENCE = catalogue()["convergence"]


def test_the_gap_is_tested_over_distinct_texts_where_it_varies():
    def tested(values):
        gap = Average(np.mean(values), len(values) + 1, np.zeros(0), len(values), np.mean(np.square(values)))
        return paired_test(gap, Place("block", 1))

    for values in ([0.1, 0.3], [-0.2, -0.25, 0.01], np.sin(range(40)), [-1e-6, 1e-6]):
        result = tested(values)
        assert result.value == pytest.approx(ttest_1samp(values, 0).pvalue, rel=1e-9) and result.n == len(values) + 1
    for values in ([0.1, 0.1, 0.1], [-6e-7, 6e-7], [2 - 1e-6, 2 + 1e-6]):  # rounding of float32, and of squares
        result = tested(values)
        assert result.value is None and "the same in every text" in result.reason


def late(states):
    """Let the later steps be the larger ones, so that the least one from a layer on is not the last one."""
    return [(1 - share) * states[0] + share * states[-1] for share in (0, 0.002, 0.1, 0.25, 1)]


@pytest.fixture
def see(see):
    return partial(see, names=("moments", *CONVERGENCE.needs))


def read(seen, **options):
    """Return {(statistic, layer): row}."""
    rows = numbers(computed(CONVERGENCE, seen, **options))
    return {(statistic, layer): row for (statistic, _, layer, _), row in rows.items()}


HALVED = ("similarity_frequent", "similarity_rare", "frequency_gap")


def compared(a, b):
    result = list(CONVERGENCE.between.compare(a, b, CONVERGENCE.options()))
    assert all(isinstance(difference, Difference) for difference in result)
    return {(d.statistic, d.place and d.place.layer): d for d in result}


@pytest.mark.parametrize("mean", ["token", "text"])
def test_replicates_are_numbers_of_the_replicates_of_similarity(see, mean):
    model, texts = FakeModel(layers=4, change=late), made_up_texts(TEXTS)
    seen = see(model, texts)
    result = read(seen, mean=mean)
    tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=False, positions=True).view("text tokens")
    expected = again("convergence", tokens.states, tokens.texts, target="block", mean=mean)
    for key, value in expected.items():
        if "frequen" not in key[0] and key[0] != "similarity_rare":  # of a split into types, which this path has not
            assert result[key].value == pytest.approx(value, rel=1e-4, abs=1e-7), key
    assert expected["bound", 0] < expected["bound", 3]
    similarity = np.stack([result["similarity", layer].spread for layer in range(5)])
    assert np.ptp(similarity[:-1], axis=1).all()
    names = {"gradient", "bound", "rate", "area", "start", "decay"}
    for at in range(0, similarity.shape[1], 50):
        for key, expected in of_similarity(similarity[:, at]).items():
            if key[0] in names:
                assert result[key].spread[at] == pytest.approx(expected, rel=1e-9, abs=1e-12), key
    for key, row in result.items():
        if row.spread is not None and key[0] not in HALVED:
            ends = percentile_interval(row.spread, seen.texts)
            ends = share_ends(row.value, ends, seen.texts) if key[0] == "violations" else ends
            assert (row.ci_low, row.ci_high) == ends, key


def test_frequent_and_rare_have_the_intervals_of_half_samples(see):
    seen, place = see(FakeModel(), made_up_texts(TEXTS)), Place("block", 1)
    rare, often = (
        seen.get(FrequencySplit).average(f"cosine_{kind}", place, "text tokens") for kind in ("rare", "frequent")
    )
    value, gap = rare.value - often.value, rare.replicates - often.replicates
    for name, *of in (
        ("similarity_rare", rare.value, rare.replicates),
        ("similarity_frequent", often.value, often.replicates),
        ("frequency_gap", value, gap),
    ):
        row = read(seen)[name, 1]
        assert (row.ci_low, row.ci_high) == pytest.approx(half_sample_interval(*of, seen.texts), rel=1e-12), name
    _, high = half_sample_interval(0, np.roll(gap, 1) - gap, seen.texts)
    result = compared(replace(seen, corpus="two"), replace(seen, corpus="one"))["frequency_gap", 1]
    assert result.ci_high == pytest.approx(high, rel=1e-12), "another corpus' half-samples are independent"


def test_without_a_final_state_of_the_same_width_there_is_no_target_or_it_is_the_last_block(see):
    wide, same = (see(model, made_up_texts(30)) for model in (FakeModel(role="decoder", final_width=12), FakeModel()))
    result = read(wide, target="final")
    assert all(value.value is None for value in result.values())
    assert "another width" in result["similarity", 1].reason
    assert read(same, target="block") == read(same, target="final")


def test_two_corpora_are_independent(see):
    a, b = (see(FakeModel(sinks=False), made_up_texts(TEXTS, seed=seed)) for seed in (1, 2))
    difference = compared(a, replace(b, corpus="two"))["similarity", 1]
    assert difference.ci_low < difference.value < difference.ci_high and difference.n == min(a.texts, b.texts)
    # Two independent samples: the variance of the difference is the sum of both.
    alone = (read(seen)["similarity", 1] for seen in (a, b))
    expected = np.hypot(*(row.ci_high - row.ci_low for row in alone))
    assert difference.ci_high - difference.ci_low == pytest.approx(expected, rel=0.15)


def test_a_difference_of_the_main_statistic_has_the_interval_of_its_parts_of_texts(see):
    """Claims, the comparison and `diff` subtract these parts, so the table `differences` must say the same."""
    a, b = (see(FakeModel(layers=4, sinks=False), made_up_texts(texts, seed=texts)) for texts in (20, 26))
    tuned = see(FakeModel(layers=4, sinks=False, change=late), made_up_texts(20, seed=20))
    for minus, corpus, join in ((b, "two", lambda x, y: np.concatenate((x, -y))), (tuned, a.corpus, np.subtract)):
        difference = compared(a, replace(minus, corpus=corpus))["similarity", 1]
        parts = (parts_of(read(seen)["similarity", 1].spread, seen.texts, seen.seed) for seen in (a, minus))
        ends = interval_over_texts(difference.value, join(*parts), min(a.texts, minus.texts))
        assert (difference.ci_low, difference.ci_high) == pytest.approx(ends)


def test_a_base_of_another_depth_compares_as_a_whole_only(see):
    result = compared(*(see(FakeModel(layers=layers), made_up_texts(40)) for layers in (3, 4)))
    assert result["rate", None].value is not None
    assert result["similarity", 2].value is None and "depth" in result["similarity", 2].reason


def test_what_moves_with_the_size_of_a_corpus_is_compared_at_equal_size_only(see):
    a, b = (see(FakeModel(sinks=False), made_up_texts(n, seed=n)) for n in (TEXTS, TEXTS + 1))
    a, b = replace(a, corpus="one", words=1250, texts=70), replace(b, corpus="two", words=1000, texts=71)
    alike = compared(a, b)
    assert alike["similarity_rare", 1].value is not None and alike["similarity_rare", 1].n == 70
    unlike = compared(replace(a, words=1251), b)
    assert unlike["similarity", 1].value is not None and unlike["similarity_rare", 1].value is None
    reason = unlike["similarity_frequent", 1].reason
    assert all(words in reason for words in ("1,251 words", "1,000", "`size_of: two`"))
