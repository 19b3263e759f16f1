"""Frequent against rare tokens in half-samples, against counting each half by hand."""

import numpy as np
import pytest
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.app.verify.by_token import cosines
from reporter.forward.batch import FEW_HALVES, GROUPS, HALF_SAMPLES, HALVES, groups_of, packed, unpacked
from reporter.forward.observed import Observed
from reporter.forward.paths import FrequencySplit
from reporter.texts.texts import originals


def test_the_spread_of_the_halves_is_the_spread_of_the_groups():
    x = np.random.default_rng(0).standard_normal(GROUPS)
    assert (HALVES.sum(axis=1) == GROUPS // 2).all()
    halves = HALVES @ x / (GROUPS // 2)
    assert np.mean((halves - x.mean()) ** 2) == pytest.approx(x.var(ddof=1) / GROUPS, rel=1e-12)
    few, pairs = FEW_HALVES @ x / (GROUPS // 2), x.reshape(-1, 2).mean(axis=1)
    assert np.mean((few - x.mean()) ** 2) == pytest.approx(pairs.var(ddof=1) / (GROUPS // 2), rel=1e-12)


def test_texts_fall_evenly_into_groups_and_bits_survive():
    groups = groups_of(np.arange(64_000), seed=3)
    assert np.bincount(groups, minlength=GROUPS).min() > 850
    assert (groups != groups_of(np.arange(64_000), seed=4)).mean() > 0.9
    bits = np.random.default_rng(0).random((50, 64)) < 0.5
    np.testing.assert_array_equal(unpacked(packed(bits)), bits)


@pytest.mark.parametrize("view", ["words", "all"])
def test_each_half_has_its_own_split(observe, view):
    model, texts = FakeModel(role="decoder", final_width=16), made_up_texts(80)
    observables, _ = observe(model, texts, batch_tokens=100, seed=5)
    corpus = all_tokens(model.reference, texts, model.tokenizer, decoder=True, positions=True)
    tokens = corpus.view(view)
    seen = Observed(observables, observables["moments"].layout, 80, view, 5)
    x = cosines(tokens.states[1], tokens.states[-1])
    first = originals(texts)  # texts that say the same fall into one group
    kept = HALVES[:, groups_of(first[tokens.texts], 5)]
    for half in (0, 7, HALF_SAMPLES - 1):
        here = HALVES[half][groups_of(first[corpus.texts], 5)]
        counts = np.bincount(corpus.ids[here & ~corpus.special], minlength=100)
        frequent = (np.bincount(corpus.ids[here], minlength=100) > np.median(counts[counts > 0]))[tokens.ids]
        for name, kind in (("frequent", frequent), ("rare", ~frequent)):
            found = seen.get(FrequencySplit).average(f"cosine_{name}", seen.path[1], seen.view).replicates[half]
            assert found == pytest.approx(x[kept[half] & kind].mean(), rel=1e-5), name
