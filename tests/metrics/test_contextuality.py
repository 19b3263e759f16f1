"""Explained by the first axis: closed cases, chance, the baseline of other types; and intervals over corpora."""

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, made_up_texts

import reporter
from reporter.app.verify.by_token import _explained
from reporter.geometry.similarity import floors as gaussian
from reporter.geometry.similarity import likeness
from reporter.metrics.base import catalogue


def test_shares_about_the_mean_of_equal_states_and_of_states_on_a_line():
    line = np.outer(np.arange(6.0), [1.0, 2.0, 2.0])
    beside = line + np.array([0.0, 40.0, -40.0])  # at a right angle: v1 points to the mean, along which nothing varies
    found = likeness(torch.from_numpy(np.stack([line, beside, 0 * line + 1, 0 * line])), torch.full((4,), 6))
    published, truncated = found.published.numpy(), found.truncated.numpy()
    assert published[:2] == pytest.approx([1, 1]) and truncated[0] == pytest.approx(1) and truncated[1] < 0.02
    assert np.isnan(published[2:]).all() and np.isnan(truncated[2:]).all()


@pytest.mark.parametrize("d", [1, 3, 100])
def test_floors(d):
    sizes = (5, 24, 9, 24)
    rng = np.random.default_rng(9)
    draws = [[rng.standard_normal((m, d)) for m in sizes] for _ in range(200)]
    shares = np.array([np.mean([_explained(x) for x in draw], axis=0) for draw in draws]).T
    drawn = [gaussian(sizes, d, seed) for seed in range(200)]
    for direct, form in zip(shares, ("explained", "published", "truncated"), strict=True):
        floors = [of[form] for of in drawn]
        error = np.hypot(np.std(direct) / np.sqrt(len(direct)), np.std(floors) / np.sqrt(200))
        assert abs(np.mean(direct) - np.mean(floors)) <= 4 * error + 1e-12
        assert np.std(floors) == pytest.approx(np.std(direct), rel=0.5, abs=1e-12)


def test_the_baseline_is_that_of_random_tokens_of_other_types(observe, values):
    """Against the mean of many draws, from the same occurrences."""
    names = "moments", *catalogue()["contextuality"].needs
    observables, _ = observe(FakeModel(sinks=False), made_up_texts(150), names=names)
    found = values(FakeModel(), observables, 150, "words", ["contextuality"])
    sample = observables["type_sample"].select((0, 2), 256, 12, 5)
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(len(sample.sizes)), sample.sizes)
    for layer, place in enumerate(observables["type_sample"].layout.path):
        x = sample.states(place).double().numpy()
        draws = []
        for _ in range(15):
            others = ((np.flatnonzero(owner != t), m) for t, m in enumerate(sample.sizes))
            draws.append(np.mean([_explained(x[rng.choice(of, m, replace=False)])[0] for of, m in others]))
        ends = ("", "_baseline", "_adjusted")
        raw, baseline, adjusted = (found[f"contextuality.explained_by_first{end}", layer].value for end in ends)
        assert baseline == pytest.approx(np.mean(draws), abs=4 * np.std(draws))
        assert adjusted == pytest.approx(raw - baseline, rel=1e-9) and adjusted > 0


@pytest.mark.usefixtures("every_interval")
def test_intervals_are_as_wide_as_numbers_move_from_corpus_to_corpus():
    """Each text has every type once; types differ much in how alike their occurrences are, in every corpus alike."""
    texts, types, width = 60, 12, 16
    centres = 3 * np.random.default_rng(99).standard_normal((types, width))
    spread = np.linspace(0.3, 3, types)[None, :, None]
    names = ("self_similarity", "self_similarity_adjusted", "intra_text", "intra_text_adjusted", "explained_by_first")
    ends = {name: [] for name in names}
    for seed in range(25):
        rng = np.random.default_rng(seed)
        common = 1.5 * rng.standard_normal((texts, 1, 1)) * np.eye(width)[0] + 2 * np.eye(width)[1]
        states = centres + spread * rng.standard_normal((texts, types, width)) + common
        order = rng.permuted(np.tile(np.arange(types), (texts, 1)), axis=1)  # no two texts are equal
        states = np.take_along_axis(states, order[:, :, None], axis=1).reshape(1, -1, width).astype(np.float32)
        of = np.repeat(np.arange(texts), types)
        output = reporter.measure(states.repeat(2, 0), ["contextuality"], texts=of, tokens=order.ravel())
        rows = output.layer_metrics.query("layer == 0").set_index("statistic")
        for name, numbers in ends.items():
            numbers.append(rows.loc[name, ["value", "ci_low", "ci_high"]].to_numpy(float))
    for name, numbers in ends.items():
        value, low, high = np.array(numbers).T
        assert ((high - low) / 2 / 1.96).mean() == pytest.approx(value.std(), rel=0.2), name
