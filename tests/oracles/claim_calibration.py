"""How often a false claim is supported, by form, kind of statistic and number of models.

``python tests/oracles/claim_calibration.py [repetitions]`` prints the tables of ``tests/judge/claims/README.md``,
with a
fifth of the repetitions for bells and for rises and falls, which are slow; the suite does the same with fewer.
Profiles have 13 points and a range of about 1. Noise from texts is independent from layer to layer, or autocorrelated:
a shared part (correlation 0.8), or one that wanders (0.9 from layer to layer). One model, or two, have noise from
texts alone; from three on each has a profile of its own around the common one, too. A statistic without an interval
has noise from models alone. Relatives share their own profile but for a hundredth.

The second table is of numbers that are means over few texts, with their parts. Each text has an effect on all layers
alike, such as the norm of its states, and one on each layer. Both are log-normal. The number is that which the claim is
about, at its very edge, so that either verdict is wrong. *Corpora*: one model on two corpora. *Same texts*: two models,
whose texts have half of their variance in common.
"""

import sys
from dataclasses import replace
from functools import cache, partial
from itertools import product
from types import SimpleNamespace

import numpy as np
from scipy.signal import lfilter

from reporter.geometry.statistics import by_chance, correlation, effective_points, fisher
from reporter.judge.claims.relation import _finding, _fisher, _moved, _Related, _squared_error
from reporter.judge.claims.value import Bounded, between, with_unseen
from reporter.judge.contrasts import Group, difference, paired
from reporter.judge.estimates import Estimates
from reporter.judge.facts import declared
from reporter.judge.outcomes import inequalities
from reporter.judge.points import Points
from reporter.judge.profiles import Profile
from reporter.judge.shapes import rule

K = 13
X = np.linspace(0, 1, K)
BELL = np.exp(-((X - 0.5) ** 2) / (2 * 0.2**2))
ODD = np.where(np.arange(K) == 9, 0.5, 0.0)
SHAPES = {
    "flat": np.ones(K),
    "linear": X,
    "falling": 1 - X,
    "bell": BELL,
    "bell, odd layer low": BELL - ODD,
    "bell, odd layer high": BELL + ODD,
    "flat, odd layer": 1 + (np.arange(K) == 6),
    "early bell": np.exp(-((X - 0.25) ** 2) / (2 * 0.1**2)),
    "sawtooth": np.arange(K) % 2 * 1.0,
    "slow sawtooth": np.arange(K) % 4 / 3,
    "rising sawtooth": X - 0.3 * (np.arange(K) % 2),
    "U": 1 - BELL,
    "M": np.interp(X, [0, 0.25, 0.5, 0.75, 1], [0, 1, 0.2, 1, 0]),
    "plateau": np.minimum(1, 3 * X),
    "falls at first": np.where(X == 0, 0.25, X),
    "just two peaks": np.array([0, 0.5, 1, 1, 1, 0.7, 0.7, 0.7, 1, 1, 1, 0.5, 0]),
    "just a fall": np.interp(X, [0, 0.4, 0.6, 1], [0, 0.6, 0.48, 1]),
}
BELLS = {"bell", "bell, odd layer low", "bell, odd layer high"}
TRUE = {"bell": BELLS, "rise-then-fall": BELLS | {"early bell"}, "increasing": {"linear", "plateau"}}
TRUE |= {"decreasing": {"falling"}, "flat": {"flat"}, "peak-at": BELLS | {"flat, odd layer"}}
OPTIONS: dict[str, dict[str, float]] = {name: {"at_least": 0.1} for name in TRUE}
OPTIONS["peak-at"] |= {"at": 0.5, "within": 0.2}
OPTIONS["flat"] = {"tolerance": 0.3}
KINDS = ("independent", "shared", "wandering")
LEVELS = (0.05, 0.15)
MODELS = (1, 2, 3, 6, 12)
RELATED = ("3 relatives", "same model twice")
HILLS = ("bell", "rise-then-fall")


def correlation_of(kind):
    """Correlation of the noise of any two points; opposite: what one layer gains the next one loses."""
    lags = np.abs(np.subtract.outer(np.arange(K), np.arange(K)))
    shared = 0.8 ** (lags > 0)
    return {"independent": np.eye(K), "shared": shared, "wandering": 0.9**lags, "opposite": (-0.8) ** lags}[kind]


def noise(rng, kind, shape=()):
    """Noise of variance 1 over the last axis."""
    return rng.standard_normal((*shape, K)) @ np.linalg.cholesky(correlation_of(kind)).T


@cache
def simulated(shape, level, kind, models, interval, repetitions, paired=False):
    """Profiles of a shape with noise, as :func:`reporter.judge.profiles.together` gives them.

    Paired: the database says how the errors of two layers go together.
    """
    seed = [list(SHAPES).index(shape), int(100 * level), KINDS.index(kind), interval, len(str(models)), repetitions]
    rng = np.random.default_rng(seed)
    if models == "same model twice":  # known by its fingerprint, so it is one
        models = 1
    if models == "3 relatives":  # one unit: the mean of three that share nearly all
        own = level * noise(rng, kind, (repetitions, 1)) * (not interval)
        own = own + 0.01 * level * noise(rng, kind, (repetitions, 3)).mean(axis=1, keepdims=True)
    else:
        own = level * noise(rng, kind, (repetitions, int(models))) if int(models) > 2 or not interval else 0.0
    count = 1 if isinstance(models, str) else models
    texts = level * noise(rng, kind, (repetitions, 1)) if interval else 0.0
    values = np.broadcast_to(SHAPES[shape] + texts + own, (repetitions, count, K))
    # Parts of made-up texts whose products are the covariance of the errors.
    directions = np.linalg.qr(np.random.default_rng(0).standard_normal((200, K)))[0].T
    parts = np.tile(level * np.linalg.cholesky(correlation_of(kind)) @ directions, (count, 1, 1)) if paired else None
    error = np.full(values.shape, level if interval else np.inf)
    if parts is None:
        return Points(Estimates.of_texts(values, error), X)
    parts = np.broadcast_to(parts, (*values.shape, parts.shape[-1]))
    return Points(replace(Estimates.of_parts(values, parts, np.inf), df=np.inf), X)


@cache
def rates(name, shape, level, kind, models, interval, repetitions, paired=False):
    """Return how often the claim is supported and refuted, alone in its study."""
    result = rule(name, simulated(shape, level, kind, models, interval, repetitions, paired), **OPTIONS[name])
    return float((result.holds <= 0.025).mean()), float((result.fails <= 0.025).mean())


def worst(name, models, interval, repetitions, true=False, side=0, levels=LEVELS, paired=False):
    """Return the highest rate of supporting what is not so (or, of true shapes, of refuting what is so)."""
    shapes = [shape for shape in SHAPES if (shape in TRUE[name]) == true]
    cases = [(shape, level, kind) for shape in shapes for level in levels for kind in KINDS]
    return max(rates(name, *case, models, interval, repetitions, paired)[side] for case in cases)


def differ(is_, models, interval, repetitions):
    """Return how often two groups seem to differ by more than 0.5 (or less, for 'same') at the edge of it."""
    rng = np.random.default_rng([models[0], models[1], interval])
    edges = {"above": (0.5,), "below": (-0.5,), "different": (0.5, -0.5, 0.0), "same": (0.5, -0.5)}[is_]

    def wrong(edge):
        sides = []
        for count, at in zip(models, (edge, 0.0), strict=True):
            own = rng.standard_normal((count, 1)) * (count > 2 or not interval)
            texts = 0.4 * rng.standard_normal() if interval else 0.0
            error = np.full((count, 1), 0.4 if interval else np.inf)
            sides.append(Group(("m",) * count, Estimates.of_texts(at + own + texts, error)))
        needs, _ = inequalities(difference(*sides)[0], is_, 0.5, "")
        return max(float(part.p) for part in needs) <= 0.025

    return max(np.mean([wrong(edge) for _ in range(repetitions)]) for edge in edges)


def relation(is_, over, models, repetitions):
    """Return how often unrelated numbers seem related (for 'none': strongly related ones unrelated)."""
    rng = np.random.default_rng([models, len(over), len(is_)])
    least, r, wrong = (0.3, 0.3, 0) if is_ == "none" else (None, 0.0, 0)
    claim = SimpleNamespace(x="x", y="y", over=over, is_=is_, method="spearman", at_least=least)
    n = {"models": models, "layers": K, "types": 60}[over]
    for _ in range(repetitions):
        common = rng.standard_normal((2, n)) * (over == "types")  # types are the same ones in all models
        related = []
        for _ in range(1 if over == "models" else models):
            x, y = common + rng.standard_normal((2, n)) * (0.1 if over == "types" else 1.0)
            y = r * x + np.sqrt(1 - r * r) * y
            if over == "layers":  # each goes on from the one before
                x, y = lfilter([1.0], [1.0, -0.9], (x, y))
            points = effective_points(x, y, "spearman") if over == "layers" else n
            result = fisher(correlation(x, y, "spearman") or 0.0, points, "spearman")
            related.append(_Related("m", *result, n, by_chance(x, y, "spearman") if over == "models" else (0.0, 0.0)))
        result = _finding(claim, related)
        wrong += result.holds is not None and result.holds <= 0.025
    return wrong / repetitions


def bounded(edge, low, high):
    """Return the bounds of each form of a claim about a value: a number at the edge lies at one of them."""
    of = {"above": (edge, None), "below": (None, edge), "between": (edge, high), "within": (low, edge)}
    return {form: [None if end is None else Bounded.exactly(end) for end in ends] for form, ends in of.items()}


def value(form, repetitions):
    """Return how often a number at the edge of its bounds seems to lie inside."""
    numbers = np.random.default_rng(len(form)).standard_normal(repetitions).tolist()
    bounds = bounded(0.0, -0.5, 0.5)[form]
    holds = [between(Bounded(Estimates(np.array([at]), np.ones(1))), *bounds)[0] for at in numbers]
    return float((np.array(holds) <= 0.025).mean())


@cache
def of_texts(texts, repetitions, points, seed, spread=0.5, like=None):
    """Return means of log-normal contributions whose expectation is 1, and their parts of texts.

    Args:
        texts: how many.
        repetitions: how often.
        points: layers.
        seed: of the texts.
        spread: standard deviation of the logarithm of a text's effect.
        like: the seed of texts that move another number as well: half of the variance is theirs.

    Returns:
        shapes (repetitions, points) and (repetitions, points, texts).
    """
    rng = np.random.default_rng([texts, seed])
    shared, each = (rng.standard_normal((repetitions, texts, size)) for size in (1, points))
    if like is not None:
        theirs = np.random.default_rng([texts, like]).standard_normal((repetitions, texts, 1))
        shared = (shared + theirs) / 2**0.5
    contributions = np.exp(spread * shared - spread**2 / 2 + 0.1 * each - 0.1**2 / 2)
    mean = contributions.mean(axis=1)
    parts = (contributions - mean[:, None]) / (texts * (texts - 1)) ** 0.5
    return mean, parts.transpose(0, 2, 1)


def few_texts(form, texts, repetitions, spread=0.5):
    """Return how often a claim about numbers of few texts is supported and refuted, at its very edge."""
    kind, _, what = form.partition(", ")
    made = {"value": _values, "differ": _differences, "shape": _shapes, "relation": _relations}
    made["corpora"] = partial(_differences, gap=paired)  # one model on two corpora
    made["same texts"] = partial(_differences, gap=partial(difference, same_texts=True), like=1)
    holds, fails = np.array(made[kind](what, texts, repetitions, spread)).T
    return float((holds <= 0.025).mean()), float((fails <= 0.025).mean())


def rare_tokens(texts, repetitions, mean=0.1, length=30, rate=1 / 400, times=200):
    """Return how often a limit on a mean divergence, at the truth, is supported and refuted where few tokens decide.

    Args:
        texts: how many.
        repetitions: how often.
        mean: divergence of ordinary tokens, in nats.
        length: mean number of tokens of a text.
        rate: of the tokens that are giants.
        times: how many times the divergence of others theirs is.
    """
    rng, found, statistic = np.random.default_rng(texts), [], declared()["divergence.kl"][1]
    truth = Bounded.exactly(mean * (1 + (times - 1) * rate))
    for _ in range(repetitions):
        lengths = rng.integers(length // 2, length * 3 // 2, texts)
        which = np.repeat(np.arange(texts), lengths)
        each = mean * rng.exponential(1.0, len(which)) * np.where(rng.random(len(which)) < rate, times, 1.0)
        value = each.mean()
        parts = np.bincount(which, each - value) / len(which) * (texts / (texts - 1)) ** 0.5
        number = Bounded(Estimates.of_parts(np.array([value]), parts[None], texts))
        found.append(between(with_unseen(number, statistic.rarest, len(which), "kl"), None, truth))
    holds, fails = np.array(found).T
    return float((holds <= 0.025).mean()), float((fails <= 0.025).mean())


def covered(texts, repetitions, spread, of="value"):
    """Return how often the interval of a number, or of a difference on the same texts, covers the truth."""
    value, parts = of_texts(texts, repetitions, 1, 1, spread)
    if of == "difference":
        other, others = of_texts(texts, repetitions, 1, 2, spread / 2, like=1)
        value, parts = value - other, parts - others
    low, high = Estimates.of_parts(value, parts, texts).interval()
    truth = 1.0 if of == "value" else 0.0
    return float(((low <= truth) & (truth <= high)).mean())


def _values(form, texts, repetitions, spread):
    values, parts = of_texts(texts, repetitions, 1, 0, spread)
    bounds = bounded(1.0, 0.5, 2.0)[form]
    numbers = (Bounded(Estimates.of_parts(of, its, texts)) for of, its in zip(values, parts, strict=True))
    return [between(number, *bounds) for number in numbers]


def _differences(is_, texts, repetitions, spread, gap=None, like=None):
    gap, more = gap or partial(difference, same_texts=False), 1.3 if is_ == "same" else 1.0
    a, b = of_texts(texts, repetitions, 1, 1, spread), of_texts(texts, repetitions, 1, 2, spread, like)
    result = []
    for values, parts, others, their_parts in zip(*a, *b, strict=True):
        sides = ((more * values, more * parts), (others, their_parts))
        groups = (Group(("m",), Estimates.of_parts(of[None], its[None], texts)) for of, its in sides)
        tests = inequalities(gap(*groups)[0], is_, more - 1.0, "")
        result.append([pick(float(part.p) for part in of) for pick, of in zip((max, min), tests, strict=True)])
    return result


HILL = float(BELL[4:9].mean() - BELL[:4].mean())
"""How far the middle third of a bell lies above its outer thirds: where a claim of a bell is refuted, beyond chance."""


def _shapes(name, texts, repetitions, spread):
    shapes = {"increasing": np.minimum(X, 0.5), "decreasing": -np.minimum(X, 0.5), "bell": BELL}
    shape = 1.0 + shapes.get(name, 0.1 * (X > 0.5))
    trend = (0.5 - X[:4].mean(), 0.0)  # from the first third to the last
    edge = {"increasing": trend, "decreasing": trend, "flat": (0.0, 0.1 * 7 / 13), "bell": (HILL, 0.25)}[name]
    values, parts = of_texts(texts, repetitions, K, 3, spread)
    values, parts = shape * values, shape[:, None] * parts
    points = Points(Estimates.of_parts(values[:, None], parts[:, None], texts), X)
    ruling = rule(name, points, at_least=edge[0], tolerance=edge[1])
    return list(zip(ruling.holds, ruling.fails, strict=True))


def _relations(is_, texts, repetitions, spread):
    """Judge two rough profiles of known correlation, whose layers have errors of their own."""
    order = np.random.default_rng(7).permutation(K)
    shapes = [1.0 + 0.4 * X[order], 1.0 + 0.4 * X[np.array([3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 12])[order]]]
    edge = abs(correlation(*shapes, "spearman") or 0.0)
    claim = SimpleNamespace(x="x", y="y", over="layers", is_=is_, method="spearman", at_least=edge)
    sides = [of_texts(texts, repetitions, K, seed, spread) for seed in (3, 4)]
    result = []
    for numbers in zip(*(zip(*side, strict=True) for side in sides), strict=True):
        profiles = [
            Profile("m", "c", X, Estimates.of_parts(shape * values, shape[:, None] * parts, texts), tuple(range(K)))
            for shape, (values, parts) in zip(shapes, numbers, strict=True)
        ]
        x, y = (profile.values for profile in profiles)
        z, error = _fisher(x, y, claim, "", effective_points(x, y, "spearman"))
        squares = [_squared_error(profile, list(range(K))) for profile in profiles]
        finding = _finding(claim, [_Related("m", z, error, K, moved=_moved((x, y), squares, claim, z))])
        result.append(tuple(1.0 if p is None else p for p in (finding.holds, finding.fails)))
    return result


COUNTS = (12, 20, 50, 100)
SPREADS = (0.5, 1.0, 1.5)
VALUES, SIDES = ("above", "below", "between", "within"), ("above", "below", "different", "same")
FORMS = (
    *(f"value, {form}" for form in VALUES),
    *(f"differ, {is_}" for is_ in SIDES),
    *(f"corpora, {is_}" for is_ in ("above", "different", "same")),
    *(f"same texts, {is_}" for is_ in ("above", "below", "different", "same")),
    *(f"shape, {name}" for name in ("increasing", "decreasing", "flat", "bell")),
    *(f"relation, {is_}" for is_ in ("positive", "none")),
)


def table(repetitions):
    """Yield claim form, kind of statistic, models, and the highest rate of false 'supported'."""
    few, kinds = max(1, repetitions // 5), {"with interval": True, "without": False}.items()
    for name in TRUE:
        for models, (kind, interval) in product((*MODELS, *RELATED), kinds):
            yield f"shape, {name}", kind, models, worst(name, models, interval, few if name in HILLS else repetitions)
        if name in HILLS:
            yield f"shape, {name}", "with interval, layers paired", 1, worst(name, 1, True, few, paired=True)
    for is_, pair, (kind, interval) in product(SIDES, ((1, 1), (2, 2), (2, 6), (3, 3), (6, 6), (12, 12)), kinds):
        yield f"differ, {is_}", kind, f"{pair[0]} and {pair[1]}", differ(is_, pair, interval, repetitions)
    for is_, over in product(("positive", "negative", "none"), ("layers", "types", "models")):
        for models in (4, 6, 12) if over == "models" else MODELS:
            yield f"relation, {is_}", f"over {over}", models, relation(is_, over, models, repetitions)
    yield from ((f"value, {form}", "with interval", 1, value(form, repetitions)) for form in VALUES)


if __name__ == "__main__":
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("| claim | statistic | models | false 'supported' |\n|---|---|---|---|")
    for row in table(repetitions):
        print(f"| {row[0]} | {row[1]} | {row[2]} | {100 * row[3]:.1f} % |", flush=True)
    heads = [f"{texts} texts, {spread:g}" for spread in SPREADS for texts in COUNTS]
    print(f"\n| claim | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for form in FORMS:
        wrong = (few_texts(form, texts, repetitions, spread) for spread in SPREADS for texts in COUNTS)
        print(f"| {form} | {' | '.join(f'{100 * a:.1f}, {100 * b:.1f}' for a, b in wrong)} |", flush=True)
    giants = {texts: rare_tokens(texts, 2 * repetitions) for texts in (*COUNTS, 400)}
    print("\nrare giant tokens:", ", ".join(f"{n} texts {100 * a:.1f}, {100 * b:.1f}" for n, (a, b) in giants.items()))
    for of in ("value", "difference"):
        rates = (covered(texts, 10 * repetitions, spread, of) for spread in SPREADS for texts in COUNTS)
        print(f"| coverage, {of} | {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |", flush=True)
