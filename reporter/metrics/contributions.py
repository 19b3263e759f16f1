"""The part that attention and feed-forward of each block add to the stream, along it or against it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.metrics._intervals import WHOLE_LAYERS, layer_with_interval, mean_or_reason
from reporter.metrics.base import Options, Statistic, Value, metric

if TYPE_CHECKING:
    from reporter.forward.observed import Observed

_ADDED = (
    "The output is taken as the block adds it to the residual stream. That is after the sublayer's own norm and the "
    "block's scale factor, where there are such, and before the norm at the end of a post-norm block."
)
_AT = "Block l + 1 is stored at layer l = 0…L−1."
_STREAM = (
    "s is the state that m is added to: h_l + a. In a post-norm block s is the norm of h_l + a. In a parallel block, "
    "where attention and feed-forward read the same state, s is h_l."
)
_SIGN = "Above 0 the update amplifies the stream's content; below 0 it erases part of it; near 0 it writes new content."
_PUBLISHED = (
    "The authors' code averages over all tokens, including the first (`with special tokens`). The authors' curve of "
    "whole layers is motion.update_ratio."
)

_step = partial(Statistic, sources=("csordas2025depth",), per="step", method="bootstrap", published=_PUBLISHED)
_cosine = partial(_step, floor=True, bounds=(-1, 1))

STATISTICS = (
    _step(
        "attention_ratio",
        "relative size of attention's update",
        f"Mean over tokens of ‖a‖ / ‖h_l‖, with a the output of attention. {_ADDED} {_AT}",
        short="relative size of the update",
        bounds=(0, None),
        smallest=0.01,
        plainly="Norm of attention's output relative to the residual stream.",
        trap="Mean of per-token ratios. In a growing stream equal updates look ever smaller; sinks hardly count.",
    ),
    _cosine(
        "attention_cosine",
        "direction of attention's update",
        f"Mean over tokens of cos(a, h_l), with a the output of attention. {_SIGN} {_AT}",
        trap="The stream's common mean takes part: a constant added to every token, such as a bias, counts as a "
        "direction.",
    ),
    _step(
        "feed_forward_ratio",
        "relative size of the feed-forward's update",
        f"Mean over tokens of ‖m‖ / ‖s‖, with m the output of the feed-forward. {_STREAM} {_ADDED} {_AT}",
        short="relative size of the update",
        bounds=(0, None),
        smallest=0.01,
        plainly="Norm of the feed-forward's output relative to the residual stream.",
        trap="Mean of per-token ratios. One block may write a sink with hundreds of times the stream's norm; compare "
        "without sinks.",
    ),
    _cosine(
        "feed_forward_cosine",
        "direction of the feed-forward's update",
        f"Mean over tokens of cos(m, s), with m the output of the feed-forward. {_STREAM} {_SIGN} {_AT}",
        trap="In a post-norm block s has just been normalised, so it is not the state that attention_cosine compares "
        "with.",
    ),
    _cosine(
        "block_cosine",
        "direction of the block's update",
        f"Mean over tokens of cos(h_{{l+1}} − h_l, h_l). {_AT} Chance level: an update that is independent of the "
        "state. For equally long states the number is −‖h_{l+1} − h_l‖ / 2‖h_l‖.",
        trap="A post-norm block keeps the length of states, so any update counts as negative. For independent states "
        "it is −0.71, not 0.",
    ),
    Statistic(
        "turn",
        "block after which updates amplify",
        "The last block whose mean cosine of the update with the stream, contributions.block_cosine, is 0 or more "
        "while that of the block before is below 0. Blocks count from 1.",
        ("hu2025effective", "csordas2025depth"),
        per="model",
        unit="layers",
        method="bootstrap",
        interval=WHOLE_LAYERS,
        bounds=(1, None),
        smallest=1.0,
        trap="A cosine that stays near 0 crosses it often, and the last crossing then says little. Post-norm blocks "
        "have none.",
        published="The authors' code averages this cosine with attention_cosine and feed_forward_cosine, and gives the "
        "block before.",
    ),
)

_NO_TOKEN = "every token has a zero state or adds nothing here"
_NO_TURN = "the mean cosine never rises from below 0"


@metric(
    title="What attention and feed-forward add",
    summary="How much attention and feed-forward of each block add to the residual stream, and whether they amplify or "
    "erase its content.",
    statistics=STATISTICS,
    question="updates",
    needs=("contributions",),
    version=5,
    cost="a few products per token and sublayer, taken while the model runs",
    against_base=tuple(statistic.name for statistic in STATISTICS if statistic.per == "step"),
)
def contributions(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the numbers of each block, and the last one from which updates amplify."""
    for statistic in STATISTICS[:-1]:
        for place in seen.path[:-1]:
            average = seen.average("contributions", statistic.name, place)
            floor = None
            if statistic.floor and average.n:
                floor = noise.pair_cosine(average.n, seen.width(place), seen.seed)
            yield mean_or_reason(statistic.name, place, average, _NO_TOKEN, floor=floor)
    cosines = [seen.average("contributions", "block_cosine", place) for place in seen.path[:-1]]
    yield layer_with_interval("turn", cosines, _last_turn, seen.texts, _NO_TOKEN, _NO_TURN)


def _last_turn(cosines: Floats) -> Floats:
    turns = np.zeros(cosines.shape, dtype=bool)
    turns[1:] = (cosines[1:] >= 0) & (cosines[:-1] < 0)
    return np.where(turns.any(axis=0), len(turns) - turns[::-1].argmax(axis=0), np.nan)
