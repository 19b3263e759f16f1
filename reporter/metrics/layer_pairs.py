"""Similarity of the arrangements of the same texts at two layers: layers of one model, or of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.threads import spread
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import jackknife_interval
from reporter.metrics._intervals import MORE_NEIGHBOURS, ON_TWEETS, described, per_doubling
from reporter.metrics.base import Between, Options, PairValue, Statistic, metric

if TYPE_CHECKING:
    import torch

    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import PooledTexts

FEWEST = 20  # texts, below which neither number means anything
GROUPS = 10  # of texts
JACKKNIFE = f"{described('fisher', 'jackknife')} One of {GROUPS} groups of texts is left out."
_SPARE = 10  # neighbours beyond twice k that are listed
_EQUAL = "the mean states of all texts, or of all but one, are equal"

_TEXTS = (
    "A text's state is the mean over its tokens in the token set. Both layers see the same texts: at most `texts`, "
    "drawn by a hash of the seed and the text's position in the corpus; equal texts count once."
)

_pair = partial(Statistic, per="pair", floor=True, noise="chance")

STATISTICS = (
    _pair(
        "cka",
        "similarity of layers (CKA)",
        "Debiased linear CKA of the states of texts: HSIC₁(K, L) / √(HSIC₁(K, K)·HSIC₁(L, L)), with K = XXᵀ and "
        "L = YYᵀ without their diagonals. HSIC₁(K, L) is "
        "[tr KL + (1ᵀK1)(1ᵀL1)/((n − 1)(n − 2)) − 2·1ᵀKL1/(n − 2)] / (n(n − 3)). " + _TEXTS + " Chance level: the "
        "texts of the second layer permuted once, with the seed.",
        ("kornblith2019similarity", "song2012feature", "murphy2024correcting"),
        interval=JACKKNIFE,
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
        interval=f"{described('logit', 'jackknife')} One of {GROUPS} groups of texts is left out, also as neighbours.",
        bounds=(0, 1),
        published="`mutual_knn` in the code of Huh et al. It takes inner products of features that its caller has "
        "scaled to length 1.",
        trap="Depends on the number of texts, as its chance level k/(n − 1) does. Texts with equal states are "
        "neighbours everywhere.",
        grows=per_doubling("Falls by 5 to 21 %", "1.4 to 3.2", MORE_NEIGHBOURS, ON_TWEETS),
    ),
)


class PairOptions(Options):
    """The number of texts, and of neighbours of each."""

    texts: int = Field(default=1024, ge=FEWEST, le=4096, description="texts whose pooled vectors are compared")
    k: int = Field(default=10, ge=1, description="neighbours of a text")


@dataclass(frozen=True)
class _Side:
    """The layers of one side over the same texts.

    Args:
        grams: shape (layers, n, n).
        own: HSIC of each layer with itself, shape (1 + G, layers).
        near: neighbours, nearest first, and as many as the loss of a group may call for, shape (layers, n, m).
        still: for each layer why it has no CKA; empty where it has.
        pointless: for each layer why it has no neighbours; empty where it has.
    """

    grams: torch.Tensor
    own: Floats
    near: torch.Tensor
    still: list[str]
    pointless: list[str]


def _between(first: Observed, second: Observed, options: PairOptions, within: bool = False) -> Iterator[PairValue]:
    """Yield every statistic for each layer of one model and each of another; within a model in one order alone."""
    a = _texts(first, options)
    a, b = (a, a) if within else a.shared(_texts(second, options))
    if len(a) < FEWEST:
        layers = ((x.layer, y.layer) for x, y in product(first.path, second.path))
        for (x, y), statistic in product(layers, STATISTICS):
            if not within or x <= y:
                yield PairValue(statistic.name, x, y, None, len(a), reason=f"fewer than {FEWEST} texts")
        return
    groups = _groups(len(a))
    side = _measured_side(a, first, groups, options)
    other = side if within else _measured_side(b, second, groups, options)
    yield from _pairs(side, other, groups, options, first.seed)


@metric(
    title="Pairs of layers",
    summary="How similarly two layers arrange the same texts, within a model and between models.",
    statistics=STATISTICS,
    question="similarity",
    needs=("pooled",),
    options=PairOptions,
    version=4,
    cost="texts² numbers per layer, and a product of them per pair of layers",
    between=Between(_between, of=("models",)),
    tables=(PairValue,),
)
def layer_pairs(seen: Observed, options: PairOptions) -> Iterator[PairValue]:
    """Yield every statistic for each two layers of the path, in both orders."""
    for pair in _between(seen, seen, options, within=True):
        yield pair
        if pair.layer_a < pair.layer_b:
            yield replace(pair, layer_a=pair.layer_b, layer_b=pair.layer_a)


def _texts(seen: Observed, options: PairOptions) -> PooledTexts:
    from reporter.forward.token_sample import Pooled

    return seen.get(Pooled).texts(seen.strata, options.texts, seen.device)


def _groups(n: int) -> list[slice]:
    ends = np.linspace(0, n, GROUPS + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _measured_side(texts: PooledTexts, seen: Observed, groups: list[slice], options: PairOptions) -> _Side:
    import torch

    from reporter.geometry.similarity import by_cosine, gram, own_hsic

    n = len(texts)

    def of_place(place: Place) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = texts.vectors(place)
        norms, centred = torch.linalg.vector_norm(x, dim=1), gram(x)
        facts = torch.stack([centred.any(), norms.min() > 1e-6 * norms.max()])
        return centred, by_cosine(x, min(2 * options.k + _SPARE, n - 1)), facts

    parts = spread(of_place, seen.path)
    grams, near, facts = (torch.stack(list(part)) for part in zip(*parts, strict=True))
    still, pointless = [], []
    for varies, no_zero in facts.tolist():
        still.append("" if varies else _EQUAL)
        if options.k >= n:
            pointless.append(f"at most {options.k} texts")
        else:
            pointless.append(still[-1] if no_zero else "the mean state of a text is zero")
    return _Side(grams, own_hsic(grams, groups), near, still, pointless)


def _pairs(a: _Side, b: _Side, groups: list[slice], options: PairOptions, seed: int) -> Iterator[PairValue]:
    from reporter.geometry.similarity import cka_of, hsic, overlaps, overlaps_without

    n = a.grams.shape[1]
    similar = cka_of(hsic(a.grams, b.grams, groups), a.own, b.own)
    chance = cka_of(_permuted(a.grams, b.grams, seed), a.own[:1], b.own[:1])[0]
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
            yield PairValue("cka", i, j, value, n, *jackknife_interval(value, without))
            yield PairValue("cka_floor", i, j, float(chance[i, j]), n)
        reason = a.pointless[i] or b.pointless[j]
        if reason:
            yield PairValue("knn", i, j, None, n, reason=reason)
        else:
            value = float(weights @ shared[:, i, j])
            # Fisher's z of 2·value − 1 is half the logit of the value
            low, high = jackknife_interval(2 * value - 1, 2 * without_one[:, i, j] - 1)
            ends = (None, None) if low is None or high is None else ((low + 1) / 2, (high + 1) / 2)
            yield PairValue("knn", i, j, value, n, *ends)
            yield PairValue("knn_floor", i, j, options.k / (n - 1), n)


def _permuted(a: torch.Tensor, b: torch.Tensor, seed: int) -> Floats:
    import torch

    n = a.shape[1]
    order = torch.from_numpy(np.random.default_rng([seed, n]).permutation(n)).to(b.device)
    products = []
    for start in range(0, len(b), 8):  # few layers at a time, since each is copied
        moved = b[start : start + 8][:, order[:, None], order]
        # rows of U-centred matrices add up to 0, so no other term is left
        products.append(a.flatten(1) @ moved.flatten(1).T)
    return np.asarray(torch.cat(products, dim=1)[None].double().cpu().numpy())
