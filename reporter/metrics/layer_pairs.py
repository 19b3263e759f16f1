"""Similarity of the arrangements of the same texts at two layers: layers of one model, or of two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.charts import Chart, models
from reporter.core.sources import BIBLIOGRAPHY
from reporter.core.table import Comparable, OfPair, column, of_cell
from reporter.core.threads import spread
from reporter.geometry.arrays import Floats, Ints
from reporter.metrics._intervals import MORE_NEIGHBOURS, ON_TWEETS, per_doubling
from reporter.metrics.base import Between, Options, PairValue, Statistic, completing, metric

if TYPE_CHECKING:
    import torch

    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import PooledTexts

FEWEST = 20  # texts, below which neither number means anything
GROUPS = 10  # of texts
JACKKNIFE = f"One of {GROUPS} groups of texts is left out"
_SPARE = 10  # neighbours beyond twice k that are listed
_EQUAL = "the mean states of all texts, or of all but one, are equal"

_TEXTS = (
    "A text's state is the mean over its tokens in the token set. Both layers see the same texts: at most `texts`, "
    "drawn by a hash of the seed and the text's position in the corpus; equal texts count once."
)

_pair = partial(Statistic, per="pair", method="jackknife", floor=True, noise="chance")


def _calibrated(of: str, title: str, trap: str) -> Statistic:
    return Statistic(
        f"{of}_calibrated",
        f"calibrated similarity of layers ({title})",
        f"max(0, (S − τ)/(1 − τ)), with S = layer_pairs.{of} of a layer of one model and one of another. τ is the "
        "⌈0.95(K + 1)⌉-th smallest of S and S₁…S_K. S_k is S with the texts of one model permuted, the same for all "
        "layers. The chance level is 0. The table `model_pairs` has the interval and p of the most similar pair.",
        ("groger2026revisiting",),
        per="pair",
        bounds=(0, 1),
        trap=trap,
    )


STATISTICS = (
    _pair(
        "cka",
        "similarity of layers (CKA)",
        "Debiased linear CKA of the states of texts: HSIC₁(K, L) / √(HSIC₁(K, K)·HSIC₁(L, L)), with K = XXᵀ and "
        "L = YYᵀ without their diagonals. HSIC₁(K, L) is "
        "[tr KL + (1ᵀK1)(1ᵀL1)/((n − 1)(n − 2)) − 2·1ᵀKL1/(n − 2)] / (n(n − 3)). " + _TEXTS + " Chance level: the "
        "texts of the second layer permuted once, with the seed.",
        ("kornblith2019similarity", "song2012feature", "murphy2024correcting"),
        scale="fisher",
        interval=f"{JACKKNIFE}.",
        bounds=(-1, 1),
        plainly="How similarly two layers arrange the texts, rotations ignored (1: same, 0: unrelated).",
        trap="A few directions of giant variance dominate it. Do not compare it with biased CKA, which is far above 0 "
        "for independent data.",
        published="Kornblith et al. define the biased estimate, tr(KHLH). For independent data with 128 texts and 768 "
        "dimensions it is 0.86, and this number 0. The code of Huh et al. has both: `cka` is biased; `unbiased_cka` is "
        "this number, with 1e-6 added to the denominator.",
    ),
    _pair(
        "knn",
        "similarity of layers (shared neighbours)",
        "Mean over texts of |A ∩ B| / k, with A and B the k nearest other texts, by cosine distance, in the first and "
        f"in the second layer. Chance level: k/(n − 1). {_TEXTS}",
        ("huh2024platonic",),
        scale="logit",
        interval=f"{JACKKNIFE}, also as neighbours.",
        bounds=(0, 1),
        published="`mutual_knn` in the code of Huh et al. It takes inner products of features that its caller has "
        "scaled to length 1.",
        trap="Depends on the number of texts, as its chance level k/(n − 1) does. Texts with equal states are "
        "neighbours everywhere.",
        grows=per_doubling("Falls by 5 to 21 %", "1.4 to 3.2", MORE_NEIGHBOURS, ON_TWEETS),
    ),
    _calibrated("cka", "CKA", "Not corrected for the number of pairs of layers; `model_pairs` is."),
    _calibrated(
        "knn",
        "shared neighbours",
        "Chance is unrelated texts. Two models with random weights are alike beyond it, since both see the same words.",
    ),
)


class PairOptions(Options):
    """The number of texts, and of neighbours of each."""

    texts: int = Field(default=1024, ge=FEWEST, le=4096, description="texts whose pooled vectors are compared")
    k: int = Field(default=10, ge=1, description="neighbours of a text")
    permutations: int = Field(
        default=200, ge=19, le=5000, description="permutations of the texts that tell chance, between two models"
    )


class ModelPair(OfPair, table="model_pairs"):
    """How alike two models are: the most similar of all pairs of their layers, against the most similar by chance."""

    compared = (Comparable(("calibrated",), "corpus", "statistic"),)

    statistic: str = column("'cka' or 'knn'", key=True)
    model_a = of_cell("name of the first model")
    checkpoint_a = of_cell("its checkpoint")
    model_b = of_cell("name of the second model")
    checkpoint_b = of_cell("its checkpoint")
    layer_a: int = column("layer of the first model in the most similar pair, 0 = embedding")
    layer_b: int = column("layer of the second model in this pair")
    value: float = column("T, the similarity of this pair, the largest of all pairs")
    threshold: float = column("τ, the ⌈0.95(K + 1)⌉-th smallest of T and its K values with permuted texts")
    calibrated: float = column("max(0, (T − τ)/(1 − τ)): 0 = no more alike than chance allows, 1 = same")
    ci_low: float | None = column("lower end of the 95 % interval of `calibrated`, with the pair and τ taken as known")
    ci_high: float | None = column("upper end of this interval")
    p: float = column("(1 + #{T_k ≥ T})/(K + 1), corrected for the search over all pairs of layers")
    pairs: int = column("pairs of layers that were searched")
    permutations: int = column("K, permutations of the texts")
    n: int = column("texts that both models read", "BIGINT")


MATCHES = Chart(
    "layer_pairs.matches",
    "best-matching layers of two models",
    """
WITH own AS (
  SELECT pairs.*, calibrated, best.ci_low AS calibrated_low, best.ci_high AS calibrated_high, p, pairs AS searched,
    best.layer_a || ' of ' || model_a || ' and ' || best.layer_b || ' of ' || model_b AS most
  FROM layer_pairs AS pairs JOIN model_pairs AS best
    USING (study, corpus, view, metric, statistic, model_a, checkpoint_a, model_b, checkpoint_b)
  WHERE study = $study AND metric = $metric AND pairs.value IS NOT NULL AND model_a <> model_b
), either AS (
  FROM own
  UNION ALL BY NAME
  SELECT * REPLACE (model_b AS model_a, checkpoint_b AS checkpoint_a, layer_b AS layer_a, model_a AS model_b,
    checkpoint_a AS checkpoint_b, layer_a AS layer_b) FROM own
)
SELECT if(model_a < model_b, model_a || ' × ' || model_b, model_b || ' × ' || model_a) AS comparison, corpus, view,
  statistic, model_a AS model, checkpoint_a AS checkpoint, layer_a AS layer,
  layer_a / max(layer_a) OVER (PARTITION BY study, model_a, checkpoint_a) AS depth, model_b, checkpoint_b, layer_b,
  layer_b / max(layer_b) OVER (PARTITION BY study, model_b, checkpoint_b) AS match, value, n, calibrated,
  calibrated_low, calibrated_high, p, searched, most
FROM either
QUALIFY row_number() OVER (
  PARTITION BY corpus, view, statistic, model_a, checkpoint_a, layer_a, model_b, checkpoint_b
  ORDER BY value DESC, layer_b
) = 1
ORDER BY statistic, corpus, view, comparison, model, checkpoint, layer
""",
    models.matches,
    kind="matches",
    say=models.of_matches,
    facet="comparison",
    value="match",
    picks=models.which_matches,
    definition="For each layer of a model, the layer of the other model with the largest similarity to it, as relative "
    "depth. The sentence below is on the most similar of all pairs of layers, T. Its calibrated similarity is "
    "max(0, (T − τ)/(1 − τ)), and p is (1 + #{T_k ≥ T})/(K + 1). T_k is T with the texts of one model permuted, the "
    "same for all pairs, and τ the ⌈0.95(K + 1)⌉-th smallest of T and T₁…T_K.",
    sources=(BIBLIOGRAPHY["groger2026revisiting"],),
    key="model",
    lead="For each layer of a model, the most similar layer of the other.",
    mind="Several layers are often nearly as similar; see the heat maps of layers against layers.",
)


@dataclass(frozen=True)
class _SideLayers:
    """The layers of one side over the same texts.

    Args:
        grams: shape (layers, n, n).
        own: HSIC of each layer with itself, shape (1 + G, layers).
        starts: of the units among the texts, (units,).
        near: neighbours, nearest first, and as many as the loss of a group may call for, shape (layers, n, m).
        still: for each layer why it has no CKA; empty where it has.
        pointless: for each layer why it has no neighbours; empty where it has.
    """

    grams: torch.Tensor
    own: Floats
    starts: Ints
    near: torch.Tensor
    still: list[str]
    pointless: list[str]


def _between(
    first: Observed, second: Observed, options: PairOptions, within: bool = False
) -> Iterator[PairValue | ModelPair]:
    """Yield every statistic for each layer of one model and each of another; within a model in one order alone."""
    a = _texts(first, options)
    a, b = (a, a) if within else a.shared(_texts(second, options))
    if len(a) < FEWEST:
        layers = ((x.layer, y.layer) for x, y in product(first.path, second.path))
        for (x, y), statistic in product(layers, STATISTICS):
            if not within or (x <= y and not statistic.name.endswith("_calibrated")):
                yield PairValue(statistic.name, x, y, None, len(a), reason=f"fewer than {FEWEST} texts")
        return
    groups = _groups(len(a), _starts(a))
    side = _measured_side(a, first, groups, options)
    other = side if within else _measured_side(b, second, groups, options)
    measured = [row for row in _pairs(side, other, groups, options, first.seed) if isinstance(row, PairValue)]
    yield from measured
    if not within:
        for name in ("cka", "knn"):
            yield from _against_chance(name, measured, side, other, options, first.seed)


@metric(
    title="Pairs of layers",
    summary="How similarly two layers arrange the same texts, within a model and between models.",
    statistics=STATISTICS,
    question="similarity",
    needs=("pooled",),
    options=PairOptions,
    version=6,
    cost="texts² numbers per layer, and a product of them per pair of layers",
    between=Between(_between, of=("models",)),
    tables=(PairValue, ModelPair),
    charts=(MATCHES,),
)
def layer_pairs(seen: Observed, options: PairOptions) -> Iterator[PairValue]:
    """Yield every statistic for each two layers of the path, in both orders."""
    for pair in _between(seen, seen, options, within=True):
        assert isinstance(pair, PairValue)
        yield pair
        if pair.layer_a < pair.layer_b:
            yield replace(pair, layer_a=pair.layer_b, layer_b=pair.layer_a)


def _texts(seen: Observed, options: PairOptions) -> PooledTexts:
    from reporter.forward.token_sample import Pooled

    texts = seen.get(Pooled).texts(seen.strata, options.texts, seen.device)
    _, first, unit = np.unique(texts.units, return_index=True, return_inverse=True)
    return texts.take(np.argsort(first[unit], kind="stable"))  # texts of a cluster stand together


def _starts(texts: PooledTexts) -> Ints:
    return np.flatnonzero(np.diff(texts.units, prepend=-1))


def _groups(n: int, starts: Ints | None = None) -> list[slice]:
    """Return groups of n texts that split no unit, given where units start; a single unit is split in two."""
    ends = np.linspace(0, n, GROUPS + 1).astype(int)
    if starts is not None:
        between = np.append(starts, n) if len(starts) > 1 else np.array([0, n // 2, n])
        ends = np.unique(between[np.abs(between[:, None] - ends).argmin(axis=0)])
    return [slice(start, stop) for start, stop in pairwise(ends.tolist())]


def _permuted(draws: np.random.Generator, n: int, starts: Ints) -> Ints:
    """Return n texts with their units, which start there, in a random order."""
    parts = np.split(np.arange(n), starts[1:])
    return np.concatenate([parts[index] for index in draws.permutation(len(parts)).tolist()])


def _measured_side(texts: PooledTexts, seen: Observed, groups: list[slice], options: PairOptions) -> _SideLayers:
    import torch

    from reporter.geometry.similarity import by_cosine, gram, own_hsic

    n = len(texts)

    def of_place(place: Place) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = texts.vectors(place)
        norms, centred = torch.linalg.vector_norm(x, dim=1), gram(x)
        facts = torch.stack([centred.any(), norms.min() > 1e-6 * norms.max()])
        return centred, by_cosine(x, min(2 * options.k + _SPARE, n - 1)), facts

    grams, near, facts = (torch.stack(list(part)) for part in zip(*spread(of_place, seen.path), strict=True))
    still, pointless = [], []
    for varies, no_zero in facts.tolist():
        still.append("" if varies else _EQUAL)
        if options.k >= n:
            pointless.append(f"at most {options.k} texts")
        else:
            pointless.append(still[-1] if no_zero else "the mean state of a text is zero")
    return _SideLayers(grams, own_hsic(grams, groups), _starts(texts), near, still, pointless)


@completing(STATISTICS)
def _pairs(a: _SideLayers, b: _SideLayers, groups: list[slice], options: PairOptions, seed: int) -> Iterator[PairValue]:
    from reporter.geometry.similarity import cka_of, hsic, overlaps, overlaps_without, permuted_products

    n = a.grams.shape[1]
    similar = cka_of(hsic(a.grams, b.grams, groups), a.own, b.own)
    order = _permuted(np.random.default_rng([seed, n]), n, a.starts)
    # rows of U-centred matrices add up to 0, so no other term of HSIC₁ is left
    chance = cka_of(permuted_products(a.grams, b.grams, [order]), a.own[:1], b.own[:1])[0]
    shared = overlaps(a.near[:, :, : options.k], b.near[:, :, : options.k], groups)
    without_one = overlaps_without(a.near, b.near, options.k, groups)
    weights = np.array([group.stop - group.start for group in groups]) / n
    for i, j in np.ndindex(similar.shape[1:]):
        if a is b and i > j:  # the same as (j, i)
            continue
        reason = a.still[i] or b.still[j]
        if reason:
            yield PairValue("cka", i, j, None, n, reason=reason)
        else:
            value, without = float(similar[0, i, j]), similar[1:, i, j]
            if a is b and i == j:
                value, without = 1.0, np.ones(len(groups))
            yield PairValue("cka", i, j, value, n, spread=without, floor=float(chance[i, j]))
        reason = a.pointless[i] or b.pointless[j]
        if reason:
            yield PairValue("knn", i, j, None, n, reason=reason)
        else:
            value = float(weights @ shared[:, i, j])
            yield PairValue("knn", i, j, value, n, spread=without_one[:, i, j], floor=options.k / (n - 1))


def _against_chance(
    name: str, measured: Sequence[PairValue], a: _SideLayers, b: _SideLayers, options: PairOptions, seed: int
) -> Iterator[PairValue | ModelPair]:
    """Yield the calibrated similarity of each two layers, and of the two models.

    Args:
        name: ``cka`` or ``knn``.
        measured: the pairs of layers.
        a: layers of the first model.
        b: layers of the second model.
        options: of the metric.
        seed: of the permutations.
    """
    from reporter.geometry.similarity import calibrated, cka_of, marks_of, permuted_products

    of_layers = {(pair.layer_a, pair.layer_b): pair for pair in measured if pair.statistic == name}
    with_value = {layers: pair for layers, pair in of_layers.items() if pair.value is not None}
    for (i, j), pair in of_layers.items():
        if pair.value is None:
            yield PairValue(f"{name}_calibrated", i, j, None, pair.n, reason=pair.reason)
    if not with_value:
        return
    n, k = a.grams.shape[1], options.k
    draws = np.random.default_rng([seed, n, 1])
    orders = [_permuted(draws, n, a.starts) for _ in range(options.permutations)]
    few, many = (a, b) if len(a.grams) < len(b.grams) else (b, a)  # fewer layers are copied
    if name == "cka":
        chance = cka_of(permuted_products(many.grams, few.grams, orders), many.own[:1], few.own[:1])
    else:
        near, near_few = (marks_of(side.near[:, :, :k], n) for side in (many, few))
        chance = permuted_products(near, near_few, orders) / (k * n)
    if few is a:
        chance = chance.transpose(0, 2, 1)
    rows, columns = np.array(list(with_value)).T
    by_chance = chance[:, rows, columns]
    values = np.array([pair.value for pair in with_value.values()])
    for (i, j), value in zip(with_value, calibrated(values, by_chance)[0], strict=True):
        yield PairValue(f"{name}_calibrated", i, j, float(value), n)
    best = max(with_value.values(), key=lambda pair: (pair.value, -pair.layer_a, -pair.layer_b))
    value, threshold, p = map(float, calibrated(values.max(), by_chance.max(axis=1)))

    def rescaled(end: float | None) -> float | None:
        return None if end is None else float(np.clip((end - threshold) / max(1 - threshold, 1e-12), 0, 1))

    assert best.value is not None
    low, high = rescaled(best.ci_low), rescaled(best.ci_high)
    which, found_in = (name, best.layer_a, best.layer_b, best.value), (p, len(with_value), options.permutations, n)
    yield ModelPair(*which, threshold, value, low, high, *found_in)
