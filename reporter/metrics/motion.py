"""Length and direction of the steps of a token's state from layer to layer (Luisto 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import pi
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry import noise
from reporter.geometry.intervals import percentile_interval
from reporter.metrics._intervals import BOOTSTRAP, mean_with_interval
from reporter.metrics.base import Options, Statistic, Value, metric, with_floor

if TYPE_CHECKING:
    from reporter.forward.means import Average
    from reporter.forward.observed import Observed

_mean = partial(Statistic, interval=BOOTSTRAP)
_step = partial(Statistic, sources=("luisto2024toybox",), per="step", interval=BOOTSTRAP)
_path = partial(Statistic, sources=("aubry2025coupling",), per="model", interval=BOOTSTRAP, floor=True)

STATISTICS = (
    _step(
        "step_length",
        "length of a step",
        "mean over tokens of ‖h_{l+1} − h_l‖, stored at layer l = 0…L−1",
        bounds=(0, None),
        trap="In the model's own units: compare models by the update ratio.",
    ),
    _step(
        "step_cosine",
        "cosine of consecutive states",
        "mean over tokens of cos(h_l, h_{l+1}), stored at layer l = 0…L−1",
        floor=True,
        bounds=(-1, 1),
        plainly="How little a block turns a token's state; 1 not at all.",
        trap="Near 1 in a residual stream whose common mean is large, whatever the block does.",
    ),
    _mean(
        "block_influence",
        "block influence (BI)",
        "1 − step_cosine: the mean over tokens of 1 − cos(h_l, h_{l+1}), stored at layer l = 0…L−1; of the block "
        "that turns h_l into h_{l+1}: block l + 1 counted from 1, layer l in code that counts from 0",
        ("men2024shortgpt",),
        per="step",
        floor=True,
        bounds=(0, 2),
        trap="Low does not yet mean that the block can go: it says how far a block turns the states, not what that "
        "does to the output. Where a common mean is long it is near 0 whatever the block does, as step_cosine near 1.",
        published="The paper's code takes every token that the tokenizer returns (the view 'all') and the library's "
        "hidden_states, the last of which is after the closing norm: its last number is not of the block alone. "
        "Known: of Llama-2-7B the nine lowest are layers 27 26 25 28 24 29 23 21 22, counted from 0.",
    ),
    _mean(
        "norm",
        "norm",
        "mean over tokens of ‖h_l‖, l = 0…L",
        ("luisto2024toybox",),
        bounds=(0, None),
        trap="A block that ends in a norm (post-norm encoders) fixes it; elsewhere the residual stream grows.",
    ),
    _mean(
        "growth",
        "growth factor of the residual stream",
        "exp of the slope of the least-squares line of log N(l) on l = 1…L, N(l) the mean over tokens of ‖h_l‖: by "
        "what a block multiplies the norm if all multiply it alike; the embedding is left out",
        ("heimersheim2023residual",),
        per="model",
        bounds=(0, None),
        smallest=0.001,
        trap="One number for a curve that may have phases: see norm. A few sinks can be most of the mean norm in the "
        "middle and bend the line: read the view 'no-sinks'. Blocks that end in a norm (post-norm encoders) read "
        "about 1 by construction.",
        published="The authors leave out position 0 and read 1.045 off GPT-2 XL's curve; elsewhere 'growth' is the "
        "last norm over the first.",
    ),
    _step(
        "update_ratio",
        "length of a step over norm",
        "mean over tokens of ‖h_{l+1} − h_l‖ / ‖h_l‖, stored at layer l = 0…L−1",
        bounds=(0, None),
        trap="A mean of ratios, not a ratio of means.",
    ),
    _step(
        "curvature",
        "turn between consecutive steps",
        "mean over tokens of the angle between h_{l+1} − h_l and h_{l+2} − h_{l+1}, stored at layer l = 0…L−2",
        short="turn between updates",
        unit="radians",
        floor=True,
        bounds=(0, float(np.pi)),
        trap="Independent states at each layer read 2π/3 ≈ 2.09, not π/2: consecutive steps share a state.",
        published="Elsewhere curvature is a turn from token to token within a layer: that is token_path.curvature. "
        "This number turns from layer to layer.",
    ),
    _path(
        "line_shape",
        "line-shape score (LSS)",
        "mean over tokens of L / ‖Σ_l s_l/‖s_l‖‖, s_l = h_{l+1} − h_l, l = 0…L−1: 1 if all steps have one direction",
        bounds=(1, None),
        smallest=0.01,
        trap="High is crooked, and it grows with depth: L independent steps read about √L, independent states about L "
        "(the floor). Every step counts alike, however short it is.",
        published="This is the published form, each step scaled to length 1. The ratio of distance and way, "
        "often given under this name, is straightness.",
    ),
    _path(
        "straightness",
        "straightness of a token's path",
        "mean over tokens of ‖h_L − h_0‖ / Σ_l ‖h_{l+1} − h_l‖, l = 0…L−1: 1 if all steps have one direction",
        bounds=(0, 1),
        trap="A mean of ratios, not a ratio of means. One giant step, such as a sink's, is a straight line; and where "
        "norms grow from block to block the last steps decide.",
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
    summary="How long the step of each layer is, how much it turns the state, and how it compares with its norm.",
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
            value = mean_with_interval(statistic, place, average, seen.texts, _UNDEFINED)
            yield value
            floor = None
            if average.n and statistic in floors:
                floor = floors[statistic](average.n, seen.width(place), seen.seed)
                yield Value(f"{statistic}_floor", place, floor, average.n)
            if statistic == "step_cosine":
                yield from _influence(value, floor)
    yield _growth([seen.average("text_sums", "norm", place) for place in seen.path[1:]], seen.texts)
    for index, statistic in enumerate(("line_shape", "straightness")):
        average = seen.average("text_sums", statistic, seen.path[-1])
        yield replace(mean_with_interval(statistic, seen.path[-1], average, seen.texts, _UNDEFINED), place=None)
        if average.n:
            floor = noise.path_shape(seen.layers, seen.width(seen.path[-1]), seen.seed)[index]
            yield Value(f"{statistic}_floor", None, floor, average.n)


def _influence(cosine: Value, floor: float | None) -> Iterator[Value]:
    if cosine.value is None:
        yield replace(cosine, statistic="block_influence")
        return
    low, high = (None if end is None else 1 - end for end in (cosine.ci_high, cosine.ci_low))
    yield replace(cosine, statistic="block_influence", value=1 - cosine.value, ci_low=low, ci_high=high)
    if floor is not None:
        yield Value("block_influence_floor", cosine.place, 1 - floor, cosine.n)


def _growth(norms: Sequence[Average], texts: int) -> Value:
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
    return Value("growth", None, value, n, *percentile_interval(replicates, texts))


# How straight the path from token to token is within a layer (Hosseini & Fedorenko 2023).


_TRIPLES = (
    4096  # that the floor is drawn from, whatever the corpus holds: it is a mean that does not hang on their number
)

_NO_TRIPLE = "no text has three neighbouring tokens that differ from each other here"

TOKEN_PATH = (
    _mean(
        "curvature",
        "turning angle from token to token",
        "mean over texts of the mean over a text of the angle between x_t − x_{t−1} and x_{t+1} − x_t, x_t the state "
        "of token t at one layer; a token is read where it and both its neighbours belong to the view, so that what a "
        "view leaves out cuts the path and is not stepped over, and where neither step is zero",
        ("hosseini2023straighten",),
        short="turning angle",
        unit="radians",
        floor=True,
        bounds=(0, pi),
        plainly="How sharply the path from token to token turns within a text.",
        trap="Independent tokens read 2π/3 ≈ 2.09 (120°), not π/2: consecutive steps share a state. Over tokens, "
        "within a layer; motion.curvature is over layers, of one token. A decoder's sink, far from all others, makes "
        "steps there and back: look at no-sinks, too.",
        published="The authors give degrees, and mostly the change from layer to layer. The code of Skean et al. has "
        "two other numbers under this name: first the angle between the states of neighbouring tokens (not their "
        "differences), later that between their differences, of the absolute cosine, which is never beyond π/2.",
    ),
    Statistic(
        "straightening",
        "how much straighter the path is than at layer 0",
        "token_path.curvature at layer 0 minus the same at this place",
        ("hosseini2023straighten",),
        unit="radians",
        interval=BOOTSTRAP + "; both layers under the same weights",
        bounds=(-pi, pi),
        fixed=(("first", 0.0),),
        trap="Layer 0 is what enters the first block: token vectors, to which some models have added positions or a "
        "norm. Where it knows no position, a token that is repeated at once makes no step there and is left out.",
        published="The authors subtract the other way round: a fall is a straightening there.",
    ),
)


@metric(
    title="Path from token to token",
    summary="How much the states of a text turn from one token to the next, within each layer, and whether the layers "
    "straighten that path.",
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
        number = mean_with_interval("curvature", place, average, average.distinct, _NO_TRIPLE)
        floor = noise.step_angle(_TRIPLES, seen.width(place), seen.seed)
        yield from with_floor(number, floor) if average.n else (number,)
        if not average.n or not first.n:
            reason = _NO_TRIPLE if first.n else _NO_TRIPLE.replace("here", "at layer 0")
            yield Value("straightening", place, None, 0, reason=reason)
            continue
        both = first.replicates - average.replicates
        n, texts = min(first.n, average.n), min(first.distinct, average.distinct)
        yield Value("straightening", place, first.value - average.value, n, *percentile_interval(both, texts))
