"""Outlier dimensions and massive activations one by one: which, from which layer to which, and how far out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reporter.charts import Chart, Query, corpora
from reporter.geometry.arrays import Floats
from reporter.geometry.spectra import EQUAL
from reporter.metrics.base import Value
from reporter.table import TOKEN, TOKEN_ID, Comparable, OfCorpus, UnderView, column

if TYPE_CHECKING:
    from reporter.observables.activations import Activations
    from reporter.observables.moments import LayerMoments
    from reporter.observables.observed import Observed, Place

STANDS_OUT = 3.0
"""Standard deviations over dimensions beyond which a mean activation is one of an outlier dimension."""
CHANCE = 4.0
"""Standard deviations of the mean cosine of isotropic states that a mean cosine must exceed to be shared out."""


class MassiveActivation(OfCorpus, table="massive_activations"):
    """Massive activations (|x| > 100 and > 1000 medians of the text) by dimension and token type, position 0 apart.

    The rule is that of Sun et al. 2024; of each token its four largest coordinates are looked at.
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
    own: bool = column("whether it is one of the text's own tokens; else the tokenizer added it", key=True)
    position_first: int = column("the first position at which one stands; 0 is the start of the input", key=True)
    position_last: int = column("the last such position")
    texts: int = column("texts that have one", "BIGINT")
    count: int = column("tokens that have one", "BIGINT")
    layer_first: int = column("the first layer at which one has it, 0 = embedding")
    layer_last: int = column("the last such layer")
    value: float = column("the activation of the largest size")
    layer: int = column("the layer where that is")
    median: float | None = column("median |x| of all entries of sampled tokens at that layer")
    ratio: float | None = column("|value| over that median")


class OutlierDimension(UnderView, table="outlier_dimensions"):
    """A dimension whose mean activation lies beyond three standard deviations of all dimensions' at some layer."""

    compared = (Comparable(("deviations", "layers", "mean"), "corpus", of="'dimension ' || dimension"),)

    dimension: int = column("the dimension, counted from 0", key=True)
    layers: int = column("at how many layers it stands out, embedding included")
    layer_first: int = column("the first such layer, 0 = embedding")
    layer_last: int = column("the last such layer")
    deviations: float = column(
        "the largest |mean - m| / s, m and s the mean and standard deviation over dimensions of mean activations"
    )
    layer: int = column("the layer where that is")
    mean: float = column("its mean activation there")
    variance_share: float | None = column("its share of the variance of all dimensions there")
    cosine_share: float | None = column(
        "its share of the mean cosine of two tokens there; NULL where that is not above chance"
    )


MASSIVE = Chart(
    "outliers.massive_activations",
    "massive activations",
    Query(
        "massive_activations",
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
    ),
    "table",
    kind="table",
    keys=("moment", "corpus"),
    facet="model",
    picks=corpora,
    value="value",
    statistics=("massive",),
    table="massive_activations",
    columns=("dimension", "token", "texts", "value", "ratio"),
    mind="Layer 0 is the embedding. The rule asks for 1000 medians of the text; 'over median' is over that of sampled "
    "tokens at the layer. At most 24 for a model and corpus; the table massive_activations has them all. Known: GPT-2 "
    "without a BOS has them in dimension 447 at position 0, 2480 to 3024 over the blocks 2 to 9 counted from 0; "
    "OLMo-2-7B has none.",
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

DIMENSIONS = Chart(
    "outliers.outlier_dimensions",
    "outlier dimensions",
    Query(
        "outlier_dimensions",
        """
SELECT model, checkpoint, step, corpus, view, dimension, deviations, layer, mean, variance_share, cosine_share, layers,
  if(layer_first = layer_last, layer_first::VARCHAR, concat(layer_first, '–', layer_last)) AS range
FROM outlier_dimensions
WHERE study = $study AND metric = $metric
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, corpus, view ORDER BY deviations DESC, dimension) <= 24
ORDER BY corpus, view, model, step, checkpoint, deviations DESC
""",
    ),
    "table",
    kind="table",
    keys=("view", "moment", "corpus"),
    facet="model",
    picks=corpora,
    value="deviations",
    statistics=("dimensions",),
    table="outlier_dimensions",
    columns=("dimension", "layers", "deviations", "variance_share", "cosine_share"),
    mind="Deviations, mean and shares are those of the layer where it stands out most; layer 0 is the embedding. At "
    "most 24 for a model, corpus and view; the table outlier_dimensions has them all. Of each layer 0.27 % of "
    "the dimensions exceed three deviations by chance: what stands out at one layer alone may be nothing. Known: GPT-2 "
    "138, 378 and 447, BERT 308 and 381, by rules of their own.",
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
class Standing:
    """How far each dimension stands out at a place; arrays of shape (width,).

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
    def of(cls, moments: LayerMoments, unit_squares: Floats) -> Standing:
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
        return cls(
            moments.n,
            mean,
            None if same else np.abs(mean - mean.mean()) / spread,
            None if equal else squares / squares.sum(),
            cosine,
            chance,
        )

    def number(self, place: Place) -> Value:
        """Return how many stand out."""
        if self.deviations is None:
            return Value("dimensions", place, None, self.n, reason="all dimensions have the same mean")
        return Value("dimensions", place, float((self.deviations > STANDS_OUT).sum()), self.n)


def listed_dimensions(standing: Mapping[Place, Standing]) -> Iterator[OutlierDimension]:
    """Yield the dimensions that stand out somewhere on the path, those that stand out most first."""
    known = [(place.layer, here, here.deviations) for place, here in standing.items() if here.deviations is not None]
    if not known:
        return
    deviations = np.stack([deviations for _, _, deviations in known])
    largest = deviations.max(axis=0)
    for j in np.argsort(-largest, kind="stable").tolist():
        if largest[j] <= STANDS_OUT:
            return
        layers = [known[i][0] for i in np.flatnonzero(deviations[:, j] > STANDS_OUT)]
        layer, here, _ = known[int(deviations[:, j].argmax())]
        yield OutlierDimension(
            j,
            len(layers),
            layers[0],
            layers[-1],
            float(largest[j]),
            layer,
            float(here.mean[j]),
            None if here.variance is None else float(here.variance[j]),
            None if here.cosine is None or here.chance else float(here.cosine[j] / here.cosine.sum()),
        )


def listed_activations(seen: Observed, kept: Activations, size: int) -> list[MassiveActivation]:
    """Return the massive activations by dimension and token type, with the median of sampled tokens at their layer."""
    listed = kept.listed()
    sample = replace(seen, view="all").token_sample(size)
    # On the host, where a median is a selection and not a sort.
    medians = {
        layer: float(np.median(np.abs(sample.states(seen.path[layer]).float().cpu().numpy())))
        for layer in sorted({one.layer for one in listed})
    }
    return [
        MassiveActivation(
            one.dimension,
            one.token_id,
            one.token,
            one.own,
            *one.positions,
            one.texts,
            one.count,
            *one.layers,
            one.value,
            one.layer,
            medians[one.layer],
            abs(one.value) / medians[one.layer] if medians[one.layer] > 0 else None,
        )
        for one in listed
    ]
