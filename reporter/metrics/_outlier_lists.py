"""Outlier dimensions and massive activations one by one: which, from which layer to which, and how far out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.charts import Chart, corpora
from reporter.core.places import TEXT_TOKENS, WITH_SPECIAL_TOKENS
from reporter.core.table import TOKEN, TOKEN_ID, Comparable, OfCorpus, UnderView, at_place, column
from reporter.core.threads import spread
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.components import first_axis
from reporter.geometry.spectra import EQUAL
from reporter.metrics.base import N

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.moments import LayerMoments
    from reporter.forward.observed import Observed, Place
    from reporter.forward.outliers import Activations
    from reporter.forward.token_sample import TokenSelection

STANDS_OUT = 3.0
"""Standard deviations over dimensions beyond which a mean activation is one of an outlier dimension."""
CHANCE = 4.0
"""Standard deviations of the mean cosine of isotropic states that a mean cosine must exceed to be shared out."""


class MassiveActivation(OfCorpus, table="massive_activations"):
    """Massive activations (|x| > 100 and > 1000 medians of the text) by dimension and token type.

    Position 0 has its own rows. The rule is from Sun et al. 2024; it is applied to the four largest coordinates of a
    token.
    """

    compared = (
        Comparable(
            ("value", "layer_first", "layer_last", "texts"),
            "corpus",
            of="'dimension ' || dimension || ', token ' || token || if(position_first = 0, ' at position 0', '')",
        ),
    )

    dimension: int = column("the dimension, counted from 0", key=True)
    token_id: int = column(TOKEN_ID, key=True)
    token: str = column(TOKEN)
    own: bool = column("whether it is one of the text's own tokens; otherwise the tokenizer added it", key=True)
    position_first: int = column("first position of such a token; 0 is the start of the input", key=True)
    position_last: int = column("last position of such a token")
    texts: int = column("texts with such a token", "BIGINT")
    count: int = column("number of such tokens", "BIGINT")
    layer_first: int = column("first layer with the massive activation, 0 = embedding")
    layer_last: int = column("last layer with the massive activation")
    value: float = column("activation with the largest absolute value")
    layer: int = column("layer of this value")
    median: float | None = column("median |x| of all entries of sampled tokens at this layer")
    ratio: float | None = column("|value| divided by this median")


class OutlierDimension(UnderView, table="outlier_dimensions"):
    """A dimension whose mean activation is beyond three standard deviations over dimensions at some layer."""

    compared = (Comparable(("deviations", "layers", "mean"), "corpus", of="'dimension ' || dimension"),)

    dimension: int = column("the dimension, counted from 0", key=True)
    layers: int = column("number of layers at which it is an outlier, embedding included")
    layer_first: int = column("first layer at which it is an outlier, 0 = embedding")
    layer_last: int = column("last layer at which it is an outlier")
    deviations: float = column(
        "largest |mean - m| / s over layers, with m and s the mean and standard deviation over dimensions of mean "
        "activations"
    )
    layer: int = column("layer of the largest deviation")
    mean: float = column("mean activation of the dimension at this layer")
    variance_share: float | None = column("share of the variance of all dimensions at this layer")
    cosine_share: float | None = column(
        "share of the mean cosine of two tokens at this layer; NULL where the mean cosine is not above chance"
    )


_listing = partial(Chart, kind="table", facet="model", picks=corpora)
MASSIVE = _listing(
    "outliers.massive_activations",
    "massive activations",
    """
SELECT model, checkpoint, step, corpus, dimension, token, own, texts, "count", value, layer, ratio,
  if(position_first = position_last, position_first::VARCHAR, concat(position_first, '–', position_last))
    AS positions,
  if(layer_first = layer_last, layer_first::VARCHAR, concat(layer_first, '–', layer_last)) AS layers
FROM massive_activations
WHERE study = $study AND metric = $metric
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, corpus ORDER BY abs(value) DESC, dimension, token_id) <= 24
ORDER BY corpus, model, step, checkpoint, abs(value) DESC
""",
    "table",
    value="value",
    statistics=("massive",),
    columns=("dimension", "token", "texts", "value", "ratio"),
    definition="Activations with |x| > 100 and > 1000 medians of their text (Sun et al. 2024), by dimension and token. "
    "Layer 0 is the embedding. Known values: GPT-2 without a BOS has massive activations in dimension 447 at position "
    "0, of 2480 to 3024 over the blocks 2 to 9 counted from 0. OLMo-2-7B has none.",
    mind="The rule uses the median of the text; 'over median' uses sampled tokens of the layer. At most 24 per model "
    "and corpus are listed.",
    options={
        "columns": [
            ["token", "token", "token"],
            ["dimension", "dimension", "whole"],
            ["value", "largest", "number"],
            ["ratio", "over median", "number"],
            ["layers", "layers", "whole"],
            ["positions", "position", "whole"],
            ["texts", "texts", "whole"],
            ["layer", "largest at", "whole"],
        ]
    },
)

DIMENSIONS = _listing(
    "outliers.outlier_dimensions",
    "which dimensions are outliers",
    """
SELECT model, checkpoint, step, corpus, view, dimension, deviations, layer, mean, variance_share, cosine_share, layers,
  if(layer_first = layer_last, layer_first::VARCHAR, concat(layer_first, '–', layer_last)) AS range
FROM outlier_dimensions
WHERE study = $study AND metric = $metric
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, corpus, view ORDER BY deviations DESC, dimension) <= 24
ORDER BY corpus, view, model, step, checkpoint, deviations DESC
""",
    "table",
    value="deviations",
    statistics=("dimensions",),
    columns=("dimension", "layers", "deviations", "variance_share", "cosine_share"),
    definition="Dimensions whose mean activation lies beyond three standard deviations over all dimensions, at some "
    "layer. Deviations, mean and shares are from the layer with the largest deviation; layer 0 is the embedding. At "
    "most 24 per model, corpus and token set are listed; the table outlier_dimensions has all. Known outliers, by "
    "other rules: 138, 378 and 447 in GPT-2, 308 and 381 in BERT.",
    mind="At each layer 0.27 % of the dimensions exceed three deviations by chance. An outlier at a single layer may "
    "be chance.",
    options={
        "columns": [
            ["dimension", "dimension", "whole"],
            ["deviations", "deviations", "number"],
            ["range", "layers", "whole"],
            ["mean", "mean", "number"],
            ["cosine_share", "of mean cosine", "number"],
            ["variance_share", "of variance", "number"],
            ["layer", "most at", "whole"],
            ["layers", "in all", "whole"],
        ]
    },
)


@dataclass(frozen=True, eq=False)
class DimensionFacts:
    """The deviation of each dimension at a place; arrays of shape (width,).

    Args:
        n: tokens.
        mean: its mean activation μ_j.
        deviations: |μ_j − m| / s; None where all dimensions have the same mean.
        variance: its share of the variance; None where all states are equal.
        cosine: its part c_j of the mean cosine of two tokens; None for fewer than two states that are not zero.
        chance: whether the mean cosine is not above that of isotropic states.
    """

    n: int
    mean: Floats
    deviations: Floats | None
    variance: Floats | None
    cosine: Floats | None
    chance: bool

    @classmethod
    def of(cls, moments: LayerMoments, unit_squares: Floats) -> DimensionFacts:
        """Look at a place's moments and, for each dimension, Σ u_j² over its unit vectors."""
        mean, squares, n = moments.mean, moments.squares, moments.units
        spread = float(mean.std())
        same = spread <= 1e-6 * float(np.abs(mean).max())
        equal = squares.sum() <= EQUAL * (moments.n * mean @ mean + squares.sum())
        cosine, chance = None, True
        if n >= 2:
            cosine = (np.square(moments.unit_sum) - unit_squares) / (n * (n - 1))
            # The mean cosine of n isotropic states has the standard deviation √(2/d)/√(n(n − 1)).
            chance = bool(cosine.sum() <= CHANCE * np.sqrt(2 / len(cosine) / (n * (n - 1))))
        deviations = None if same else np.abs(mean - mean.mean()) / spread
        return cls(moments.n, mean, deviations, None if equal else squares / squares.sum(), cosine, chance)


def listed_dimensions(standing: Mapping[Place, DimensionFacts]) -> Iterator[OutlierDimension]:
    """Yield the dimensions that stand out somewhere on the path, those that stand out most first."""
    path = [(place.layer, here, here.deviations) for place, here in standing.items() if here.deviations is not None]
    if not path:
        return
    deviations = np.stack([of_layer for *_, of_layer in path])
    largest = deviations.max(axis=0)
    for j in np.argsort(-largest, kind="stable").tolist():
        if largest[j] <= STANDS_OUT:
            return
        layers = [path[i][0] for i in np.flatnonzero(deviations[:, j] > STANDS_OUT)]
        layer, here, _ = path[int(deviations[:, j].argmax())]
        variance = None if here.variance is None else float(here.variance[j])
        cosine = None if here.cosine is None or here.chance else float(here.cosine[j] / here.cosine.sum())
        most = (float(largest[j]), layer, float(here.mean[j]), variance, cosine)
        yield OutlierDimension(j, len(layers), layers[0], layers[-1], *most)


def listed_activations(seen: Observed, kept: Activations, size: int) -> list[MassiveActivation]:
    """Return the massive activations by dimension and token type, with the median of sampled tokens at their layer."""
    sample = replace(seen, view=WITH_SPECIAL_TOKENS).token_sample(size)

    @cache
    def median_at(layer: int) -> float:  # on the host, where a median is a selection and not a sort
        return float(np.median(np.abs(sample.states(seen.path[layer]).float().cpu().numpy())))

    rows = []
    for activation in kept.listed():
        median = median_at(activation["layer"])
        ratio = abs(activation["value"]) / median if median > 0 else None
        rows.append(MassiveActivation(**activation, median=median, ratio=ratio))
    return rows


# What the numbers without sinks would be, were sinks cut elsewhere: over a sample of tokens, at several cuts.


DOMINANCES = (0.25, 0.5, 1.0, 2.0, 4.0)
FACTORS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
TOP_SHARE, COSINE, SIMILARITY = "anisotropy.top_variance_share", "anisotropy.mean_cosine", "convergence.similarity"


class SinkCut(OfCorpus, table="sink_cuts"):
    """A number without sinks and first tokens, for another threshold that makes a token a sink."""

    compared = (Comparable(("value", "left_out"), "corpus", of="statistic || ', cut at ' || rule || ' ' || cut"),)

    rule: str = column(
        "'dominance': a norm over 2 medians, and a coordinate whose weight exceeds the threshold; 'factor': a norm "
        "over the threshold, in medians of the text",
        key=True,
    )
    cut: float = column("threshold that a token must exceed at some block to be a sink", key=True)
    statistic: str = column("the number, as metric.statistic, over a sample of tokens", key=True)
    place: Place = at_place()
    value: float | None = column("the number; NULL where it could not be computed")
    n: int = column(N, "BIGINT")
    left_out: float = column("share of the sampled tokens that are sinks by this threshold")


def cuts(seen: Observed, size: int) -> list[SinkCut]:
    """Return three numbers over the sampled own tokens that are neither a text's first nor a sink, at every cut.

    A cut leaves out the tokens whose weight of one coordinate (``dominance``), or whose norm in medians of their text
    (``factor``), exceeds it at some block. Tokens come in from the largest cut to the smallest; where a smaller cut
    leaves out no more of them, its numbers are the same.
    """
    import torch

    from reporter.forward.token_sample import DOMINANCE, FIRST, RATIO

    sample = replace(seen, view=TEXT_TOKENS).token_sample(size)
    inside = np.flatnonzero(sample.facts[:, FIRST] == 0)
    if not len(inside):  # texts of one token: there is nothing of which a cut could leave out a share
        return []
    facts = sample.facts[inside]
    # Which cut is the smallest that lets a token in; beyond the last one none does.
    bins = {
        "dominance": (DOMINANCES, np.searchsorted(DOMINANCES, facts[:, DOMINANCE].view(np.float64))),
        "factor": (FACTORS, np.searchsorted(FACTORS, facts[:, RATIO].view(np.float64))),
    }
    which = {rule: (positions, torch.from_numpy(cut_of)) for rule, (positions, cut_of) in bins.items()}
    target = _units(_states(sample, inside, seen.path[-1]))

    def at(place: Place) -> list[SinkCut]:
        x = _states(sample, inside, place)
        return [
            SinkCut(rule, cut, statistic, place, value, n, left_out)
            for rule, (positions, cut_of) in which.items()
            for cut, numbers in zip(
                positions, _nested(x, place, target, cut_of.to(x.device), len(positions)), strict=True
            )
            for statistic, value, n, left_out in numbers
        ]

    return [cut for of_place in spread(at, seen.places) for cut in of_place]


_Number = tuple[str, float | None, int, float]


def _nested(x: Tensor, place: Place, target: Tensor, which: Tensor, steps: int) -> Iterator[list[_Number]]:
    """Yield the numbers of the tokens that each cut lets in: those of the first cut, then more and more."""
    import torch

    units, squares = _units(x), x.square().sum(dim=1)
    on_path = x.shape[1] == target.shape[1] and place.site in ("embedding", "block")
    cosines = (units * target).sum(dim=1) if on_path else None
    counts = torch.bincount(which, minlength=steps).tolist()
    first = (which <= next((step for step in range(steps) if counts[step]), 0)).double()
    about = x - first @ x / first.sum().clamp(min=1)
    axis, numbers = None, list[_Number]()
    for step in range(steps):
        if counts[step] or not step:
            inside = (which <= step).double()
            n, unit_sum = sum(counts[: step + 1]), inside @ units
            share, axis = _top_share(about, squares, inside, n, axis)
            left_out = 1 - n / max(len(x), 1)
            numbers = [
                (TOP_SHARE, share, n, left_out),
                (COSINE, float((unit_sum @ unit_sum - n) / (n * (n - 1))) if n > 1 else None, n, left_out),
            ]
            if cosines is not None and n:
                numbers.append((SIMILARITY, float(inside @ cosines / n), n, left_out))
        yield numbers


def _top_share(
    about: Tensor, squares: Tensor, inside: Tensor, n: int, near: Tensor | None
) -> tuple[float | None, Tensor | None]:
    """Return λ1/Σλ of some states about their mean, None where they do not vary; and their first axis.

    Args:
        about: states about the mean of those of the first cut, so that a sink far out is in no other's way, (n, d).
        squares: ‖x‖² of the states as they are, (n,).
        inside: 1 for those that count, 0 for others, (n,).
        n: how many count.
        near: the axis of fewer of them.
    """
    if n < 2:
        return None, near
    centre = inside @ about / n
    trace = inside @ about.square().sum(dim=1) - n * (centre @ centre)
    if bool(trace <= EQUAL * (inside @ squares)):
        return None, near
    largest, axis = first_axis(about, centre, inside, near)
    return float(largest / trace), axis


def _states(sample: TokenSelection, rows: Ints, place: Place) -> Tensor:
    import torch

    return wide(sample.states(place)[torch.from_numpy(rows)])


def _units(x: Tensor) -> Tensor:
    units: Tensor = x / x.norm(dim=1, keepdim=True).masked_fill_((x == 0).all(dim=1, keepdim=True), 1.0)
    return units
