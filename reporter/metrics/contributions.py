"""The part that attention and feed-forward of each block add to the stream, along it or against it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from reporter.geometry import noise
from reporter.metrics._intervals import BOOTSTRAP, mean_with_interval
from reporter.metrics.base import Options, Statistic, Value, metric, with_floor

if TYPE_CHECKING:
    from reporter.forward.observed import Observed

_ADDED = (
    "what it adds to the residual stream as the block adds it: after a norm of its own and times the block's factor "
    "where there are such, before the norm that a post-norm block ends with"
)
_AT = "stored at layer l = 0…L−1, of block l + 1"
_STREAM = (
    "s what it is added to: h_l + a; in a post-norm block the norm of that; in a parallel block, where attention and "
    "feed-forward read the same, h_l"
)
_PUBLISHED = (
    "The authors' code averages over all tokens, the first among them: the view 'all'. Their curve of whole layers is "
    "motion.update_ratio."
)
_ALONG = "Above 0 it strengthens what is there, below 0 it takes some of it away; about 0 it writes something new. "

_step = partial(Statistic, sources=("csordas2025depth",), per="step", interval=BOOTSTRAP, published=_PUBLISHED)
_cosine = partial(_step, floor=True, bounds=(-1, 1))

STATISTICS = (
    _step(
        "attention_ratio",
        "relative size of attention's update",
        f"mean over tokens of ‖a‖ / ‖h_l‖, a of attention: {_ADDED}; {_AT}",
        short="relative size of the update",
        bounds=(0, None),
        smallest=0.01,
        plainly="How large what attention adds is beside the state that it is added to.",
        trap="A mean of ratios, not a ratio of means. Where the stream grows from block to block the same addition "
        "counts for less and less; a sink, whose stream is huge, counts next to nothing: see 'no-sinks'.",
    ),
    _cosine(
        "attention_cosine",
        "direction of attention's update",
        f"mean over tokens of cos(a, h_l), a what attention adds; {_AT}",
        trap=_ALONG + "The stream's common mean is part of it: a constant that every token gets, such as a bias, reads "
        "as a direction.",
    ),
    _step(
        "feed_forward_ratio",
        "relative size of the feed-forward's update",
        f"mean over tokens of ‖m‖ / ‖s‖, m of the feed-forward: {_ADDED}; {_STREAM}; {_AT}",
        short="relative size of the update",
        bounds=(0, None),
        smallest=0.01,
        plainly="How large what the feed-forward adds is beside the state that it is added to.",
        trap="A mean of ratios, not a ratio of means. One block may write a sink with hundreds of times the stream's "
        "length: look at 'no-sinks'.",
    ),
    _cosine(
        "feed_forward_cosine",
        "direction of the feed-forward's update",
        f"mean over tokens of cos(m, s), m what the feed-forward adds, {_STREAM}; {_AT}",
        trap=_ALONG + "In a post-norm block s has just been normed, so that it is not what attention_cosine compares "
        "with.",
    ),
    _cosine(
        "block_cosine",
        "direction of the block's update",
        f"mean over tokens of cos(h_{{l+1}} − h_l, h_l), {_AT}. Floor: a step that is independent of the state",
        trap="A block that ends in a norm (post-norm) keeps the length of a state, so that whatever it adds reads as "
        "taking away: for equally long states this is −‖h_{l+1} − h_l‖ / 2‖h_l‖. Two independent states read −0.71.",
    ),
)

_NO_TOKEN = "every token has a zero state or adds nothing here"


@metric(
    title="What attention and feed-forward add",
    summary="How much attention and feed-forward of each block add to the residual stream, and whether they "
    "strengthen what is there or take it away.",
    statistics=STATISTICS,
    question="updates",
    needs=("contributions",),
    version=4,
    cost="a few products per token and sublayer, taken while the model runs",
    against_base=tuple(statistic.name for statistic in STATISTICS),
)
def contributions(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the numbers of each block."""
    for statistic in STATISTICS:
        for place in seen.path[:-1]:
            average = seen.average("contributions", statistic.name, place)
            number = mean_with_interval(statistic.name, place, average, seen.texts, _NO_TOKEN)
            if statistic.floor and average.n:
                yield from with_floor(number, noise.pair_cosine(average.n, seen.width(place), seen.seed))
            else:
                yield number
