"""Few activations, dimensions and tokens that outweigh all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.charts import AxisLimits, Chart, curves
from reporter.core.places import WITHOUT_SINKS
from reporter.core.table import TOKEN, TOKEN_ID, Comparable, OfCorpus, column
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import Error, error_over_texts
from reporter.metrics import _outlier_lists as lists
from reporter.metrics._intervals import LARGEST, mean_or_reason, per_doubling, sampled
from reporter.metrics.base import Options, Share, Size, Statistic, Value, metric, undefined, valued

if TYPE_CHECKING:
    from reporter.forward.moments import LayerMoments
    from reporter.forward.observed import Observed, Place


_ORDINARY = (
    "The median is over the text's tokens that are neither sinks nor at position 0. Tokens that the tokenizer added, "
    "such as [SEP], are included."
)
_norm_ratio = partial(Size, method="bootstrap")
_rare = partial(Share, smallest=0.001)

STATISTICS = (
    _rare(
        "massive",
        "tokens with a massive activation",
        "Share of tokens with some |x_j| > 100 and > 1000 times the median |x|. The median is over all entries of all "
        "tokens of the same text at the same layer.",
        ("sun2024massive",),
        trap="The first threshold is absolute: a model with small states has none by definition.",
    ),
    Size(
        "largest",
        "largest activation",
        "max |x_j| over tokens and dimensions.",
        ("sun2024massive",),
        trap="A single token decides it, and it grows with the corpus.",
        grows=per_doubling("Rises by up to 2 %", "0.5", LARGEST),
    ),
    Statistic(
        "largest_ratio",
        "largest activation over the typical one",
        "max |x_j| divided by the root mean square of x_j, both over tokens and dimensions.",
        ("sun2024massive",),
        bounds=(1, None),
        trap="Grows with the corpus: isotropic Gaussian states have about √(2·log(n·d)).",
        grows=per_doubling("Rises by up to 2 %", "0.4 to 0.6", LARGEST),
    ),
    Size(
        "dimensions",
        "outlier dimensions",
        "Number of dimensions j with |μ_j − m| > 3 s, with μ the mean state, m and s the mean and standard deviation "
        "of the d numbers μ_j. This is the three-deviations rule of the source, on mean activations instead of "
        "weights.",
        ("kovaleva2021busters",),
        smallest=1.0,
        trap="By chance 0.27 % of the dimensions exceed three deviations. At most a ninth of the dimensions can.",
    ),
    Size(
        "top3_cosine_share",
        "share of three dimensions in the mean cosine",
        "Sum of the three largest c_j over Σ c_j, with c_j = ((Σu)_j² − Σu_j²)/(n(n − 1)) and u = x/‖x‖. c_j is the "
        "contribution of dimension j to the mean cosine over all pairs of different tokens. Exact: no pairs are "
        "sampled.",
        ("timkey2021bark",),
        short="share of three dimensions",
        scale="log",
        plainly="Share of the mean cosine that comes from the three strongest dimensions.",
        trap="Contributions can be negative, so the top three can exceed 100 %. Meaningless if the mean cosine is "
        "about 0.",
    ),
    _rare(
        "sink_share",
        "share of sinks",
        "Number of sinks among the texts' own tokens, divided by the number of these tokens (0 if the token set "
        "leaves sinks out). At some block, a sink has a norm of more than twice the median norm of its text's tokens. "
        "There, one coordinate j also outweighs all others together: (x_j − m_j)² > Σ_{i≠j} x_i². j is the sink's "
        "largest |x_j|, and m_j the median of coordinate j over the text. Both medians include tokens that the "
        "tokenizer added. `sinks:` in a study sets another rule. The table `sinks` lists all sinks.",
        ("sun2024massive", "queipo2026attention"),
        per="model",
        trap="If texts begin with a BOS, the BOS is the sink, and it does not count as a token of the text.",
    ),
    _norm_ratio(
        "sink_norm_ratio",
        "norm of sinks over that of other tokens",
        f"Mean over sinks of ‖x‖ / median ‖x‖. {_ORDINARY} Every token that is a sink at some block counts at every "
        "layer.",
        ("sun2024massive", "queipo2026attention"),
        short="norm over that of others",
        trap="The rule for sinks itself requires 2 medians at some block. A BOS counts only `with special tokens`.",
        published="Elsewhere the token at position 0 is compared, whether it is a sink or not: first_norm_ratio.",
    ),
    _norm_ratio(
        "first_norm_ratio",
        "norm of the first token over that of other tokens",
        f"Mean over texts of ‖x‖ / median ‖x‖, with x the state at position 0. {_ORDINARY} Texts count whose token at "
        "position 0 is in the token set.",
        ("queipo2026attention",),
        short="norm over that of others",
        trap="Position 0 is the first word in one model and a BOS in another. Only `with special tokens` has a BOS. "
        "See `models.first_token`.",
        published="Others divide by the mean norm, which further sinks in the text raise. Known values for the first "
        "of 512 tokens, at the end of training: 19.5 after block 4 of Pythia-160m, 43.3 after block 9 of Pythia-410m.",
    ),
    Share(
        "sink_sensitivity",
        "effect of the sink threshold",
        "Largest minus smallest λ1/Σλ without sinks, over five thresholds c for a sink: (x_j − m_j)² > c·Σ_{i≠j} x_i² "
        f"with c = {', '.join(f'{cut:g}' for cut in lists.DOMINANCES)}. It is 0 if no token lies between the "
        "thresholds. Computed from up to `sample` tokens. The table `sink_cuts` has λ1/Σλ and two more statistics at "
        "each threshold, also for thresholds of the norm alone.",
        ("sun2024massive",),
        trap="A large value means that no threshold separates sinks from other tokens: numbers without sinks depend on "
        "the threshold.",
    ),
)

TOP3_SHARE = next(statistic for statistic in STATISTICS if statistic.name == "top3_cosine_share")


class OutlierOptions(Options):
    """The number of tokens that measure the effect of the sink threshold."""

    sample: int = Field(default=2048, ge=32, description="tokens that measure the effect of the sink threshold")


OF_PLACES = ("massive", "largest", "largest_ratio", "dimensions", "top3_cosine_share")
"""What is read at every place."""


class SinkToken(OfCorpus, table="sinks"):
    """The sinks of one token type: how many, where, and on which coordinate; position 0 of a text has its own row."""

    compared = (
        Comparable(
            ("count", "texts", "layer_first", "layer_last", "norm_ratio", "dominance", "dimension"),
            "corpus",
            of="'token ' || token || if(position_first = 0, ' at position 0', '') || if(own, '', ', not own')",
        ),
    )

    token_id: int = column(TOKEN_ID, key=True)
    token: str = column(TOKEN)
    own: bool = column("whether it is one of the text's own tokens; otherwise the tokenizer added it", key=True)
    position_first: int = column("first position of such a sink; 0 is the start of the input", key=True)
    position_last: int = column("last position of such a sink")
    texts: int = column("texts with such a sink", "BIGINT")
    count: int = column("number of such sinks", "BIGINT")
    layer_first: int = column("first block at which one of them is a sink")
    layer_last: int = column("last block at which one of them is a sink")
    norm_ratio: float = column("largest norm over the median norm of its text, over all blocks")
    dominance: float = column(
        "largest weight of one coordinate against all others together, (x_j - m_j)^2 / sum of x_i^2"
    )
    dimension: int | None = column("dimension of this coordinate, counted from 0; NULL where none dominates")


# Nothing is left out where no token lies between the thresholds.
CUTS = Chart(
    "outliers.cuts",
    "does the sink threshold matter?",
    """
SELECT model, role, checkpoint, step, corpus, rule, cut, statistic, layer, depth, value, n, left_out
FROM sink_cuts
WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block')
ORDER BY corpus, role, model, step, checkpoint, rule, statistic, cut, layer
""",
    curves.cuts,
    kind="cuts",
    say=curves.of_cuts,
    reach=AxisLimits(by="statistic"),
    facet="model",
    picks=curves.which_cut,
    legend="cuts",
    lead="One line per threshold for calling a token a sink.",
    definition="The statistic over the texts' own tokens, without first tokens and without tokens that exceed the "
    "threshold at some block. Lines that coincide mean that the threshold does not matter. Threshold by one "
    "coordinate: (x_j − m_j)² against all other coordinates together, for tokens with more than twice the median norm "
    "of their text. Threshold by the norm alone: in medians of the text.",
    statistics=("sink_sensitivity",),
    behind=True,
    mind="Computed from a sample of tokens, so the numbers differ slightly from the numbers of all tokens.",
)


@metric(
    title="Outliers",
    summary="Are single activations, dimensions or tokens so large that they dominate other numbers?",
    statistics=STATISTICS,
    question="sinks",
    needs=("moments", "activations", "sink_tokens", "norm_ratios", "tokens"),
    options=OutlierOptions,
    version=8,
    cost="a few passes over the states of each layer; where tokens lie between the sink thresholds, a width × width "
    "product of a bounded sample per layer",
    tables=(SinkToken, lists.SinkCut, lists.MassiveActivation, lists.OutlierDimension),
    charts=(lists.MASSIVE, lists.DIMENSIONS, CUTS),
)
def outliers(
    seen: Observed, options: OutlierOptions
) -> Iterator[Value | SinkToken | lists.SinkCut | lists.MassiveActivation | lists.OutlierDimension]:
    """Yield massive activations, outlier dimensions and their share of the cosine at every place; the sinks."""
    from reporter.forward.outliers import Activations, SinkTokens

    size, sinks, kept, strata = options.sample, seen.get(SinkTokens), seen.get(Activations), list(seen.strata)
    standing: dict[Place, lists.DimensionFacts] = {}
    for place in seen.places:
        index, moments = kept.layout.index[place], seen.moments(place)
        if moments.n == 0:
            yield from undefined(OF_PLACES, place, 0, "no token")
            continue
        largest = float(kept.largest[index, strata].max())
        yield Value("massive", place, float(kept.massive[index, strata].sum()) / moments.n, moments.n)
        yield Value("largest", place, largest, moments.n)
        square = float(np.mean(np.square(moments.mean) + moments.squares / moments.n))
        ratio = max(1.0, largest / square**0.5) if square else None
        yield valued("largest_ratio", place, ratio, moments.n, "all states are zero")
        standing[place] = here = lists.DimensionFacts.of(moments, kept.unit_squares[index][strata].sum(dim=0).numpy())
        beyond = None if here.deviations is None else float((here.deviations > lists.STANDS_OUT).sum())
        yield valued("dimensions", place, beyond, here.n, "all dimensions have the same mean")
        yield _top3_share(moments, here, place, seen)
    if not seen.wants("sink_norm_ratio", "first_norm_ratio", "sink_share", "sink_sensitivity"):
        return
    yield from _norm_ratios(seen)
    yield from lists.listed_dimensions({place: here for place, here in standing.items() if place in seen.path})
    yield from seen.once(("massive activations", size), lambda: lists.listed_activations(seen, kept, size))
    n, own_sinks = (seen.tokens, 0) if seen.view == WITHOUT_SINKS else sinks.counts.tolist()
    yield valued("sink_share", None, own_sinks / n if n else None, n, "no token belongs to a text")
    yield from (SinkToken(**sink) for sink in sinks.listed())
    sink_cuts = seen.once(("sink cuts", size), lambda: lists.cuts(seen, size))
    yield from sink_cuts
    for place in seen.places:
        yield _sensitivity(sink_cuts, place)


def _norm_ratios(seen: Observed) -> Iterator[Value]:
    absent = {
        "sink": "the token set has no sink, or only in texts without other tokens",
        "first": "no token of the token set is at position 0, or only in texts without other tokens",
    }
    for quantity, reason in absent.items():
        for place in seen.path:
            average = seen.average("norm_ratios", quantity, place)
            yield mean_or_reason(f"{quantity}_norm_ratio", place, average, reason)


def _top3_share(moments: LayerMoments, here: lists.DimensionFacts, place: Place, seen: Observed) -> Value:
    n, name, parts = moments.units, "top3_cosine_share", here.cosine
    if parts is None:
        return Value(name, place, None, n, reason="fewer than two states that are not zero")
    if here.chance:
        return Value(name, place, None, n, reason="the mean cosine is not above its chance level")
    largest = np.argsort(parts)[-3:]
    share = float(parts[largest].sum() / parts.sum())
    error = _error_of_share(share, largest, moments, place, seen)
    return Value(name, place, share, n, *TOP3_SHARE.ends(share, error))


def _error_of_share(share: float, largest: Ints, moments: LayerMoments, place: Place, seen: Observed) -> Error | None:
    """Return the error of Σ m_j² over three dimensions by ‖m‖², m the mean of u.

    With m₃ the mean in those dimensions alone, φ = 2(m₃ − share·m)·(u − m)/‖m‖².
    """
    import torch

    mean = moments.unit_sum / moments.units
    direction = -share * mean
    direction[largest] += mean[largest]
    sample = sampled(seen)
    x = wide(sample.states(place))
    along = (x @ torch.from_numpy(direction).to(x.device)) / x.norm(dim=1)
    influence: Floats = 2 * (along.nan_to_num_(nan=0.0).cpu().numpy() - direction @ mean) / (mean @ mean)
    return error_over_texts(influence, sample.texts, moments.n, seen.texts, sample.keys)


def _sensitivity(cuts_of_places: Sequence[lists.SinkCut], place: Place) -> Value:
    here = [
        cut for cut in cuts_of_places if (cut.place, cut.rule, cut.statistic) == (place, "dominance", lists.TOP_SHARE)
    ]
    shares = [cut.value for cut in here if cut.value is not None]
    if len(shares) < len(here) or not here:
        return Value("sink_sensitivity", place, None, 0, reason="fewer than two tokens, or all states are equal")
    return Value("sink_sensitivity", place, max(shares) - min(shares), here[0].n)
