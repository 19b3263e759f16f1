"""Errors by the delta method: against texts drawn again by brute force, of samples, with duplicates, at the edges."""

import numpy as np
import pytest
from oracles import influence
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from oracles.tokens import all_tokens

from reporter.forward.parts import PARTS, influences_of, part_of, parts_of, poisson_weights
from reporter.geometry import intervals
from reporter.geometry.intervals import Error, error_over_texts, interval, quantile

METRICS = ("anisotropy", "spectrum", "variance", "outliers")
READ = ("moments", "gram", "tokens", "type_moments", "activations", "sink_tokens", "norm_ratios")


@pytest.fixture(scope="module")
def texts():
    return FakeTexts(list(dict.fromkeys(made_up_texts(260, shortest=4, longest=16, words=25))))


def test_the_error_is_that_of_texts_drawn_again(observe, values, texts):
    model = FakeModel(role="decoder", layers=1, width=8, sinks=False)
    observables, _ = observe(model, texts, names=READ, sites=())
    tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=True, positions=True).view("text tokens")
    result = values(model, observables, len(texts), "text tokens", METRICS)
    drawn = [influence.drawn_again(tokens.states[layer], tokens.ids, tokens.texts, 150) for layer in range(2)]
    for layer in range(2):
        whole = influence.numbers(tokens.states[layer], tokens.ids, np.ones(len(tokens.ids), dtype=int))
        for name, of in drawn[layer].items():
            value = result[name, layer]
            assert value.value == pytest.approx(whole[name], rel=1e-3), (name, layer)
            # Half of 95 % is 1.97 deviations for this many texts, a little more where few of them decide. What the
            # eigenvalues decide allows for texts that the sample lacks.
            wider = 1.15 if name.startswith("spectrum.") or name.endswith(("isoscore", "top_variance_share")) else 1.0
            half = (value.ci_high - value.ci_low) / 2 / 1.99
            assert 0.85 * of.std() <= half <= 1.15 * wider * of.std(), (name, layer)
            assert value.ci_low < value.value < value.ci_high
    # Layers are told apart by the error of their difference, of the same draws of texts.
    paired = {name for name in whole if result[name, 0].spread is not None}
    assert {"anisotropy.mean_cosine", "spectrum.effective_rank", "variance.within_share"} < paired
    # Which three dimensions are the largest changes from draw to draw: an influence does not know it.
    assert "outliers.top3_cosine_share" not in paired
    for name in paired:
        first, second = (parts_of(result[name, layer].spread, len(texts), 0) for layer in range(2))
        apart = np.std(drawn[1][name] - drawn[0][name])
        assert np.linalg.norm(second - first) == pytest.approx(apart, rel=0.2), name
        for layer, parts in enumerate((first, second)):
            assert np.linalg.norm(parts) == pytest.approx(drawn[layer][name].std(), rel=0.15), name


def test_replicates_and_halves_have_the_parts_of_their_texts():
    """Of a mean over texts the part of each is known; models that read the same texts have the same groups."""
    from reporter.forward.batch import FEW_HALVES, groups_of

    x = np.random.default_rng(0).lognormal(size=60)
    weights = poisson_weights(np.arange(60), 3).astype(float)
    parts = parts_of(weights.T @ x / weights.sum(axis=0), 60, 3)
    exact = (x - x.mean()) / 60 * (60 / 59) ** 0.5
    assert parts[:60] == pytest.approx(exact, abs=0.1 * np.linalg.norm(exact)) and np.abs(parts[60:]).max() < 0.01
    whole, error = 2 * FEW_HALVES[:, groups_of(np.arange(60), 3)].astype(float), np.linalg.norm(exact)
    assert np.linalg.norm(parts_of(whole @ x / whole.sum(axis=1), 60, 3)) == pytest.approx(error, rel=0.5)
    assert parts_of(np.full(1000, np.nan), 60, 3) is None and parts_of(Error(0.1, 5), 60, 3) is None


def test_what_a_number_is_without_a_text_is_nearly_what_its_influence_says():
    """From influences of tokens in any corpus; from replicates only where each text is a group of its own."""
    rng = np.random.default_rng(0)
    texts = np.repeat(np.arange(40), 30)
    x = rng.standard_normal(len(texts)) + 3.0 * (texts == 17) + 2.0 * (texts == 5)
    without = np.array([x[texts != text].mean() for text in range(40)])
    places, moved = influences_of(error_over_texts(x - x.mean(), texts, len(x), 40), np.ones(500), 0)
    assert places.tolist() == list(range(40)) and x.mean() - moved == pytest.approx(without, abs=1e-12)
    assert np.argsort(-np.abs(moved))[:2].tolist() == [17, 5]
    weights = poisson_weights(np.arange(40), 3).astype(float)
    means = np.bincount(texts, x) / 30
    replicates = weights.T @ means / weights.sum(axis=0)
    places, moved = influences_of(replicates, np.ones(40), 3)
    assert x.mean() - moved == pytest.approx(without, abs=0.02) and np.argsort(-np.abs(moved))[0] == 17
    assert (
        influences_of(replicates, np.ones(PARTS + 1), 3) is None
        and influences_of(Error(0.1, 5), np.ones(40), 3) is None
    )


def test_parts_of_many_texts_are_alike_in_size_and_follow_no_order_of_the_corpus():
    assert (part_of(np.arange(PARTS)) == np.arange(PARTS)).all()
    groups = part_of(np.arange(50 * PARTS))
    assert (np.bincount(groups) == 50).all()
    of_a_kind = np.bincount(groups[::4], minlength=PARTS)  # each fourth text is of one language
    assert of_a_kind.min() > 4 and of_a_kind.max() < 25


def test_a_sample_of_tokens_finds_the_error_of_all_of_them():
    rng = np.random.default_rng(0)
    texts = np.repeat(np.arange(800), rng.integers(5, 60, 800))
    influences, n = (0.5 * rng.standard_normal(800))[texts] + rng.standard_normal(len(texts)), len(texts)
    influences -= influences.mean()
    exact = np.sqrt(np.square(np.bincount(texts, influences)).sum()) / n
    whole = error_over_texts(influences, texts, n, 800)
    assert whole.sd == pytest.approx(exact, rel=2e-3) and whole.df > 300
    for share in (0.5, 0.15):
        drawn = [rng.permutation(n)[: int(share * n)] for _ in range(200)]
        result = [error_over_texts(influences[of], texts[of], n, 800) for of in drawn]
        assert np.mean([one.sd**2 for one in result]) == pytest.approx(exact**2, rel=0.06)
        # Fewer pairs in one text: less is known of the error, and the degrees of freedom say so.
        noise = np.std([one.sd**2 for one in result]) / exact**2
        assert 2 / np.median([one.df for one in result]) > 0.5 * noise**2
    # A number of the sample alone has the error of its drawing, too.
    of = drawn[0]
    assert error_over_texts(influences[of], texts[of], len(of), 800).sd > exact * 1.2


def test_duplicates_add_nothing(observe, values, texts):
    model = FakeModel(layers=1, width=8, sinks=False)
    result = []
    for corpus in (texts, FakeTexts([*texts, *texts, *texts])):
        observables, counts = observe(model, corpus, names=READ, sites=())
        result.append(values(model, observables, counts.distinct_texts, "text tokens", METRICS))
    # The mean cosines of samples and the types that are kept hang on the number of tokens.
    for key in ((name, layer) for name in ("anisotropy.mean_cosine", "spectrum.effective_rank") for layer in (0, 1)):
        once, thrice = ((of[key].ci_low, of[key].ci_high) for of in result)
        # Not all tokens of the three copies are sampled.
        assert thrice == pytest.approx(once, abs=0.25 * (once[1] - once[0])), key


def test_the_interval_covers_what_other_texts_say(observe, values, monkeypatch):
    """Most of 400 types occur less than five times, and some now and then do."""
    monkeypatch.setattr("oracles.fake_model.WORDS", 400)
    model, result = FakeModel(layers=1, width=8, sinks=False, special=False), []
    for seed in range(40):
        texts = FakeTexts(dict.fromkeys(made_up_texts(80, seed=seed, shortest=4, longest=12, words=400)))
        observables, _ = observe(model, texts, names=READ[:4], sites=(), seed=seed)
        result.append(values(model, observables, len(texts), metrics=["anisotropy", "variance"], seed=seed))
    of_types = ("total", "between_share", "norm_of_mean", "mean_square_norm")
    for name in ("anisotropy.top_variance_share", *(f"variance.{of}" for of in of_types)):
        value, low, high = np.transpose([(of[name, 1].value, of[name, 1].ci_low, of[name, 1].ci_high) for of in result])
        covered = ((low <= value.mean()) & (value.mean() <= high)).mean()
        assert covered >= 0.87, name
        assert 0.85 < np.mean(high - low) / 2 / (1.99 * value.std()) < 1.35, name


@pytest.mark.parametrize(
    ("value", "scale", "bounds"),
    [(0.999, "logit", (0, 1)), (1e-4, "log", (0, np.inf)), (-0.99, "fisher", (-1, 1)), (0.1, "plain", (0, np.inf))],
)
def test_intervals_keep_their_bounds(value, scale, bounds):
    for end, bound in enumerate(bounds):
        assert np.isinf(bound) or interval(float(bound), Error(0.1, 10), scale, bounds)[end] == bound
    for sd in (1e-6, 0.01, 1.0, 1e6):
        low, high = interval(value, Error(sd, 10), scale, bounds)
        assert bounds[0] <= low <= value <= high <= bounds[1]
    narrow = interval(value, Error(1e-7, 1e9), scale, bounds)
    assert narrow == pytest.approx((value - 1.959964e-7, value + 1.959964e-7), abs=1e-9)
    assert interval(value, Error(0.0, 10), scale, bounds) == (value, value)
    assert interval(value, None, scale, bounds) == (None, None)


def test_a_share_that_no_text_varies_has_the_interval_of_as_many_texts():
    """Where each text differs from the others wholly or not at all, a share of 1 has to allow for those not seen."""
    for texts in (8, 60):
        assert intervals.share_ends(1.0, (1.0, 1.0), texts) == pytest.approx(intervals.wilson(texts, texts))
        assert intervals.share_ends(0.0, (0.0, 0.0), texts) == pytest.approx(intervals.wilson(0, texts))
    for share, ends in ((0.5, (0.5, 0.5)), (1.0, (None, None))):
        assert intervals.share_ends(share, ends, 8) == ends
    rng, truth, covered = np.random.default_rng(0), 0.97, 0
    for _ in range(400):
        right = rng.random(10) < truth
        replicates = rng.choice(right, (200, 10)).mean(axis=1)
        low, high = intervals.share_ends(right.mean(), intervals.percentile_interval(replicates, 10), 10)
        covered += low <= truth <= high
    assert covered / 400 > 0.95, "without it, in as few as have a text that differs"


def test_wilson_solves_its_equation():
    """The ends are the shares p at which (share − p)² = z²·p(1 − p)/n."""
    for right, n in ((0, 10), (7, 10), (10, 10), (333, 1000)):
        share, ends, z2 = right / n, intervals.wilson(right, n), 1.959963984540054**2
        roots = np.roots([1 + z2 / n, -(2 * share + z2 / n), share**2])
        assert ends == pytest.approx(sorted(roots.real), abs=1e-9) and ends[0] <= share <= ends[1]


def test_quantiles_and_tails_are_of_one_distribution():
    assert (quantile(0.975), quantile(0.975, 4)) == pytest.approx((1.959964, 2.776445), abs=1e-6)
    assert intervals.reciprocal((0.25, 0.5)) == (2.0, 4.0)
    for df in (1.0, 7.5, np.inf):
        assert intervals.below(quantile(0.9, df), df) == pytest.approx(0.9, abs=1e-12)
    assert max(intervals.text_errors(1.0, 1.0 - 1.959964, 1.1)) == pytest.approx(1, rel=1e-6)
    assert intervals.text_errors(1.0, None, None) is None
    # Of 16 texts Student's t is taken off again, since a test applies it; what is left is widened for skewness.
    half = quantile(0.975, 15)
    assert intervals.text_errors(0.5, 0.5 - half, 0.5, 16, (0, 1)) == pytest.approx((1 + 1.5 / 4, 0))


def test_percentile_intervals_need_texts_and_half_of_the_replicates():
    for replicates, texts, ends in (
        (np.arange(10.0), 4, (None, None)),
        ([np.nan] * 6 + [1.0] * 4, 5, (None, None)),
        ([np.nan] * 4 + [1.0] * 6, 5, (1.0, 1.0)),
        (np.arange(1001.0), 10**6, pytest.approx((25, 975), abs=0.01)),
        (np.arange(1001.0), 10, pytest.approx((8.56, 991.44), abs=0.01)),  # Φ(−2.262·√(10/9)) = 0.00856
    ):
        assert intervals.percentile_interval(np.array(replicates), texts) == ends


def test_intervals_that_hold_at_once_reach_as_far_as_the_largest_of_all_deviations():
    draws = np.random.default_rng(0).standard_normal((40_000, 3)) * [1, 2, 0.1] + [5, 6, 7]
    result = np.array(intervals.simultaneous_intervals(np.array([5.0, 6, 7]), draws, 10**6))
    half = quantile((1 + 0.95 ** (1 / 3)) / 2) * np.array([1, 2, 0.1])  # of three independent numbers
    assert result == pytest.approx(np.array([[5, 5], [6, 6], [7, 7]]) + half[:, None] * [-1, 1], rel=0.01)
    few = np.array(intervals.simultaneous_intervals(np.array([5.0, 6, 7]), draws, 10))
    wider = quantile(0.975, 9) * (10 / 9) ** 0.5 / quantile(0.975)
    assert np.diff(few) == pytest.approx(wider * np.diff(result), rel=1e-4)
    draws[: len(draws) // 2 + 1, 1] = np.nan
    assert intervals.simultaneous_intervals(np.ones(3), draws, 10) == [(None, None)] * 3


def test_a_jackknife_is_students_on_its_scale():
    without = np.array([1.9, 2.0, 2.2, 2.1, 2.05])
    half = quantile(0.975, 4) * (4 * np.log(without).var()) ** 0.5
    assert intervals.jackknife_interval(2.0, without, "log") == pytest.approx((2 / np.exp(half), 2 * np.exp(half)))
    z = np.arctanh(without / 4)
    ends = np.tanh(np.arctanh(0.5) + np.array([-1, 1]) * quantile(0.975, 4) * (4 * z.var()) ** 0.5)
    assert intervals.jackknife_interval(0.5, without / 4) == pytest.approx(ends)
    assert intervals.jackknife_interval(1.0, np.ones(10)) == pytest.approx((1, 1), abs=2e-6)
    assert intervals.jackknife_interval(0.5, without[:4] / 4) == (None, None)
    assert intervals.jackknife_interval(0.5, np.array([0.5] * 9 + [np.nan])) == (None, None)


def test_a_share_of_clusters_is_worth_as_many_texts_as_clusters_vary():
    rng = np.random.default_rng(0)
    right = rng.random(60) < 0.7
    assert {intervals.share_interval(right, of) for of in (None, range(60))} == {intervals.wilson(right.sum(), 60)}
    copies, units = np.repeat(right, 5), np.repeat(np.arange(60), 5)  # five texts that always share an outcome
    ratio = quantile(0.975, 59) / quantile(0.975)  # t instead of z, and classifiers that share training texts
    z2, share = 1.2 * quantile(0.975) ** 2 * ratio**2 / 59, right.mean()
    middle, half = (share + z2 / 2) / (1 + z2), (z2 * share * (1 - share) + z2**2 / 4) ** 0.5 / (1 + z2)
    assert intervals.share_interval(copies, units) == pytest.approx((middle - half, middle + half))
    low, high = intervals.share_interval(np.ones(50, bool), np.repeat(np.arange(10), 5))
    assert high == pytest.approx(1) and low == pytest.approx(intervals.wilson(10, 10)[0])
    values = rng.standard_normal((60, 2))
    assert intervals.of_units(values, np.arange(60)) is values
    pseudo = intervals.of_units(np.repeat(values[:, 0], 3), np.repeat(np.arange(60), 3))
    assert intervals.student_interval(pseudo) == pytest.approx(intervals.student_interval(values[:, 0]))
    mean, low, high = intervals.student_interval(values[:, 0])
    assert (mean, high - mean) == pytest.approx((mean, quantile(0.975, 59) * values[:, 0].std(ddof=1) / 60**0.5))


def test_the_interval_of_half_samples_is_their_spread_and_needs_texts_and_half_of_them():
    halves = np.array([*[0.2, 0.4] * 50, *[np.nan] * 100])
    half = 0.1 * quantile(0.975, 100)  # Student's, which is wider here than what so many texts ask for
    assert intervals.half_sample_interval(0.5, halves, 10**6) == pytest.approx((0.5 - half, 0.5 + half))
    assert intervals.half_sample_interval(0.95, halves, 10**6, (0.8, 1.0)) == (0.8, 1.0)
    assert intervals.half_sample_interval(0.5, halves[1:], 10**6) == (None, None)
    assert [None in intervals.half_sample_interval(0.5, halves, texts) for texts in (4, 5)] == [True, False]
