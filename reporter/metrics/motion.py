"""Length and direction of the steps of a token's state from layer to layer (Luisto 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import pi
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry import noise
from reporter.metrics._intervals import mean_or_reason
from reporter.metrics.base import Options, Statistic, Value, metric

if TYPE_CHECKING:
    from reporter.forward.means import Average
    from reporter.forward.observed import Observed

_mean = partial(Statistic, method="bootstrap")
_step = partial(Statistic, sources=("luisto2024toybox",), per="step", method="bootstrap")
_path = partial(Statistic, sources=("aubry2025coupling",), per="model", method="bootstrap", floor=True)

STATISTICS = (
    _step(
        "step_length",
        "length of a step",
        "Mean over tokens of ‖h_{l+1} − h_l‖, stored at layer l = 0…L−1.",
        bounds=(0, None),
        trap="In the model's own units: compare models by motion.update_ratio.",
    ),
    _step(
        "step_cosine",
        "cosine of consecutive states",
        "Mean over tokens of cos(h_l, h_{l+1}), stored at layer l = 0…L−1.",
        floor=True,
        bounds=(-1, 1),
        plainly="Cosine between a block's input and output (1: unchanged).",
        trap="A large common mean makes this near 1 whatever the block does.",
    ),
    _mean(
        "block_influence",
        "block influence (BI)",
        "Mean over tokens of 1 − cos(h_l, h_{l+1}), which is 1 − step_cosine. Stored at layer l = 0…L−1. It belongs to "
        "the block that maps h_l to h_{l+1}: block l + 1 counted from 1, layer l in code that counts from 0.",
        ("men2024shortgpt",),
        per="step",
        floor=True,
        bounds=(0, 2),
        trap="A low value does not mean that the block is removable: the effect on the output may be large. A long "
        "common mean lowers it.",
        published="The paper's code takes every token that the tokenizer returns (`with special tokens`) and the "
        "library's hidden_states. The last of these is after the final norm, so the last number is not of the block "
        "alone. Known values: the nine lowest layers of Llama-2-7B are 27 26 25 28 24 29 23 21 22, counted from 0.",
    ),
    _mean(
        "norm",
        "norm",
        "Mean over tokens of ‖h_l‖, l = 0…L.",
        ("luisto2024toybox",),
        bounds=(0, None),
        trap="Blocks that end in a norm (post-norm encoders) fix it. In other models the residual stream grows.",
    ),
    _mean(
        "growth",
        "growth factor of the residual stream",
        "exp of the slope of the least-squares line of log N(l) on l = 1…L, with N(l) the mean over tokens of ‖h_l‖. "
        "This is the factor per block if all blocks had the same one. The embedding is left out.",
        ("heimersheim2023residual",),
        per="model",
        bounds=(0, None),
        smallest=0.001,
        trap="A few sinks can dominate the mean norm of middle layers; compare without sinks. About 1 by construction "
        "in post-norm encoders.",
        published="The authors leave out position 0 and estimate 1.045 from GPT-2 XL's curve. Elsewhere 'growth' is "
        "the last norm over the first.",
    ),
    _step(
        "update_ratio",
        "length of a step over norm",
        "Mean over tokens of ‖h_{l+1} − h_l‖ / ‖h_l‖, stored at layer l = 0…L−1.",
        bounds=(0, None),
        trap="Mean of per-token ratios, not the ratio of both means.",
    ),
    _step(
        "curvature",
        "angle between consecutive steps",
        "Mean over tokens of the angle between h_{l+1} − h_l and h_{l+2} − h_{l+1}, stored at layer l = 0…L−2.",
        short="angle between updates",
        unit="radians",
        floor=True,
        bounds=(0, float(np.pi)),
        trap="For independent states at each layer it is 2π/3 ≈ 2.09, not π/2: consecutive steps share a state.",
        published="Elsewhere curvature is the angle from token to token within a layer: token_path.curvature. This "
        "number is the angle from layer to layer.",
    ),
    _path(
        "line_shape",
        "line-shape score (LSS)",
        "Mean over tokens of L / ‖Σ_l s_l/‖s_l‖‖, with s_l = h_{l+1} − h_l, l = 0…L−1. It is 1 if all steps have the "
        "same direction. L independent steps give about √L, independent states about L (the chance level).",
        bounds=(1, None),
        smallest=0.01,
        trap="High means crooked, and the score grows with the number of blocks. Every step counts equally, however "
        "short it is.",
        published="This is the published form, with each step scaled to length 1. The ratio of distance to path "
        "length, often given under this name, is straightness.",
    ),
    _path(
        "straightness",
        "straightness of a token's path",
        "Mean over tokens of ‖h_L − h_0‖ / Σ_l ‖h_{l+1} − h_l‖, l = 0…L−1. It is 1 if all steps have the same "
        "direction.",
        bounds=(0, 1),
        trap="One giant step, such as a sink's, makes a path straight. Where norms grow from block to block the last "
        "steps dominate.",
    ),
)


_UNDEFINED = "every token has a zero state or a zero step here"


def _defined(layers: int) -> dict[str, int]:
    return {
        "step_length": layers,
        "step_cosine": layers,
        "norm": layers + 1,
        "update_ratio": layers,
        "curvature": max(layers - 1, 0),
    }


@metric(
    title="Motion through the layers",
    summary="How far each block moves a token's state, in which direction, and relative to the state's norm.",
    statistics=STATISTICS,
    question="updates",
    needs=("text_sums",),
    version=5,
    cost="a few products per token and layer",
    against_base=("step_length", "step_cosine", "norm", "update_ratio", "curvature"),
)
def motion(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean of each quantity at each layer where it is defined, and the numbers of whole paths."""
    floors = {"step_cosine": noise.pair_cosine, "curvature": noise.step_angle}
    for statistic, end in _defined(seen.layers).items():
        for place in seen.path[:end]:
            average = seen.average("text_sums", statistic, place)
            floor = None
            if average.n and statistic in floors:
                floor = floors[statistic](average.n, seen.width(place), seen.seed)
            yield mean_or_reason(statistic, place, average, _UNDEFINED, floor=floor)
            if statistic == "step_cosine":
                influence = replace(average, value=1 - average.value, replicates=1 - average.replicates)
                floor = None if floor is None else 1 - floor
                yield mean_or_reason("block_influence", place, influence, _UNDEFINED, floor=floor)
    yield _growth([seen.average("text_sums", "norm", place) for place in seen.path[1:]])
    for index, statistic in enumerate(("line_shape", "straightness")):
        average = seen.average("text_sums", statistic, seen.path[-1])
        floor = noise.path_shape(seen.layers, seen.width(seen.path[-1]), seen.seed)[index] if average.n else None
        yield mean_or_reason(statistic, None, average, _UNDEFINED, floor=floor)


def _growth(norms: Sequence[Average]) -> Value:
    """Return exp of the slope of the line through the logarithms of mean norms at blocks 1…L."""
    n = min((norm.n for norm in norms), default=0)
    if len(norms) < 2:
        return Value("growth", None, None, n, reason="a line needs two blocks")
    if not n:
        return Value("growth", None, None, 0, reason="no token")
    if any(norm.value <= 0 for norm in norms):
        return Value("growth", None, None, n, reason="all states of a block are zero")
    layers = np.arange(len(norms)) - (len(norms) - 1) / 2
    slopes = layers / (layers @ layers)
    with np.errstate(invalid="ignore", divide="ignore"):  # a replicate may have drawn no text
        replicates = np.exp(np.log(np.stack([norm.replicates for norm in norms], axis=1)) @ slopes)
    value = float(np.exp(np.log([norm.value for norm in norms]) @ slopes))
    return Value("growth", None, value, n, spread=replicates)


# How straight the path from token to token is within a layer (Hosseini & Fedorenko 2023).


_TRIPLES = 4096  # for the chance level, whatever the corpus holds: it is a mean that does not depend on their number

_NO_TRIPLE = "no text has three neighbouring tokens that differ from each other here"

TOKEN_PATH = (
    _mean(
        "curvature",
        "turning angle from token to token",
        "Mean over texts of a text's mean angle between x_t − x_{t−1} and x_{t+1} − x_t, with x_t the state of token "
        "t. A token counts if it and both its neighbours belong to the token set and neither step is zero. A token "
        "that the token set leaves out therefore cuts the path.",
        ("hosseini2023straighten",),
        short="turning angle",
        unit="radians",
        floor=True,
        bounds=(0, pi),
        plainly="How sharply the path from token to token bends within a text.",
        trap="For independent tokens it is 2π/3 ≈ 2.09 (120°), not π/2. A sink, far from all other tokens, makes two "
        "large steps; compare without sinks.",
        published="The authors give degrees, and mostly the change from layer to layer. The code of Skean et al. has "
        "had two other numbers under this name. The first is the angle between the states of neighbouring tokens. The "
        "later one is the angle between their differences from the absolute cosine, never above π/2.",
    ),
    Statistic(
        "straightening",
        "how much straighter the path is than at layer 0",
        "token_path.curvature at layer 0 minus token_path.curvature at this layer.",
        ("hosseini2023straighten",),
        unit="radians",
        method="bootstrap",
        interval="Both layers have the same weights.",
        bounds=(-pi, pi),
        fixed=(("first", 0.0),),
        trap="Layer 0 differs between models: token vectors with or without positions and a norm. Without positions an "
        "immediately repeated token is left out there.",
        published="The authors subtract in the other order: there a negative number is straightening.",
    ),
)


@metric(
    title="Path from token to token",
    summary="How sharply the path from token to token bends within a text, at each layer, and whether layers "
    "straighten it.",
    statistics=TOKEN_PATH,
    question="directions",
    needs=("token_path",),
    version=4,
    cost="a few products per token and layer",
    against_base=("curvature",),
)
def token_path(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean angle at each place, and how far it is below that of layer 0."""
    first = seen.average("token_path", "curvature", seen.path[0])
    for place in seen.places:
        average = seen.average("token_path", "curvature", place)
        floor = noise.step_angle(_TRIPLES, seen.width(place), seen.seed) if average.n else None
        texts = min(average.distinct, seen.texts)
        yield mean_or_reason("curvature", place, average, _NO_TRIPLE, texts, floor)
        if not average.n or not first.n:
            reason = _NO_TRIPLE if first.n else _NO_TRIPLE.replace("here", "at layer 0")
            yield Value("straightening", place, None, 0, reason=reason)
            continue
        both = first.replicates - average.replicates
        n, texts = min(first.n, average.n), min(first.distinct, texts)
        yield Value("straightening", place, first.value - average.value, n, texts=texts, spread=both)
