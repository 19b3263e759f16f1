"""The sentences of an overview: where two sides differ most, whether sinks explain it, and how else they differ.

The sentences are templates over rows of the stored comparison. A sentence claims a difference only if it is significant
after the correction for all comparisons (Bonferroni), and if it is large enough to mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from statistics import median
from typing import TYPE_CHECKING, Any

from reporter.core.numbers import Measured, compared, decimals_of, estimate, joined, short, whole
from reporter.core.places import capital, end, listed, places
from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.judge.comparison import PAIR, differs
from reporter.judge.outcomes import LEVEL
from reporter.judge.questions.subjects import MATERIAL, share_of_range, topic
from reporter.report.compared import Number, StoredComparison
from reporter.report.tables import Row, figure_link

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic

MOST_WORDS = 25
"""The longest sentence."""
MOST_TOPICS = 3
"""The most kinds of difference that the sentences are about."""
MORE = {
    "anisotropy.top_variance_share": "vary more along one direction",
    "anisotropy.mean_cosine": "are more alike in direction",
    "contextuality.self_similarity_adjusted": "of a token depend less on context",
    "contributions.attention_ratio": "are changed more by attention",
    "contributions.feed_forward_ratio": "are changed more by the feed-forward",
    "convergence.similarity": "are closer to their final direction",
    "entropy.prompt_normalised": "spread more evenly within a text",
    "intrinsic_dimension.twonn": "have a higher local dimension",
    "linearity.linearity": "follow more linearly from block to block",
    "local_dimension.mean": "have a higher local dimension",
    "motion.step_cosine": "turn less from block to block",
    "spectrum.effective_rank": "spread over more directions",
    "subspaces.speed": "change their leading directions faster",
    "token_path.curvature": "turn more from token to token",
    "variance.within_share": "vary more with context",
}
"""What a larger value says of the states of a model, to be followed by *than*."""
AS_PERCENT = ("share of", "variance explained", "accuracy")
"""How titles begin whose numbers are shares of a whole."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the overview.

    Args:
        text: what is seen.
        strength: how sure it is, and about what.
        figure: the chart that shows it.
        views: the token sets that the chart is to show.
    """

    text: str
    strength: str
    figure: str
    views: tuple[str, ...]

    @property
    def link(self) -> str:
        """The address of its figure."""
        return figure_link(self.figure, *self.views)


@dataclass(frozen=True)
class _Told:
    """How two sides differ in a statistic.

    Args:
        name: the statistic.
        corpus: the corpus.
        view: the token set.
        of: the side that changes more over depth.
        other: the other side.
        row: the difference, in a region or in the mean over layers.
        effect: the part of the standardised difference that the sentence tells.
    """

    name: str
    corpus: str
    view: str
    of: str
    other: str
    row: Row
    effect: float

    @property
    def region(self) -> bool:
        """Whether it is about some layers."""
        return bool(self.row["span"] == "region")


def sentences_of(stored: StoredComparison, corpus: str) -> Iterator[Sentence]:
    """Yield at most three sentences about a corpus; none if it has too few texts for a verdict."""
    if not stored.fixed and stored.units.get(corpus, 0) < VERDICT_TEXTS:
        return
    if len(stored.styles) == 1:
        yield from _described(stored, corpus)
    elif stored.sides.pair:
        yield from _compared(stored, corpus)
    else:
        yield from _ranges(stored, corpus)


def _compared(stored: StoredComparison, corpus: str) -> Iterator[Sentence]:
    """Say how two sides differ in what the study asks for first, whether sinks explain it, and where else they do."""
    view, pair = stored.views[0], stored.sides.pair
    every = {
        (name, of_view): told
        for name in filter(stored.comparable, stored.known)
        for of_view in stored.views
        if (told := _told(stored, name, corpus, of_view)) is not None
    }
    large = sorted(
        (told for told in every.values() if told.effect >= MATERIAL),
        key=lambda told: (told.view != view, -told.effect),
    )
    sinks: Sentence | None = None
    used = set[str]()
    effects_of = {name: told.effect for (name, of_view), told in every.items() if of_view == view}
    asked = [max(names, key=lambda name: effects_of.get(name, -1.0)) for names in stored.asked]
    if stored.judged:  # the answer above has the verdict, and what differs
        asked = []
    elif not large and not effects_of.keys() & set(asked):
        yield _nothing(stored, " and ".join(_the(stored, side.name) for side in pair))

    def told_with_sinks(told: _Told) -> Iterator[Sentence]:
        nonlocal sinks
        yield _difference_sentence(stored, told)
        if sinks is None and told.view == view and (sinks := _sinks_sentence(stored, told)) is not None:
            yield sinks

    for name in asked:
        used.add(topic(name))
        yield from told_with_sinks(every[name, view]) if (name, view) in every else _alike(stored, name, corpus, view)
    # without sinks only if they matter: the table beside the sentences is of the first token set
    for told in large:
        if len(used) >= MOST_TOPICS or topic(told.name) in used:
            continue
        if told.view != (stored.views[-1] if sinks else view) and (used or told.view == stored.views[-1]):
            continue
        used.add(topic(told.name))
        yield from told_with_sinks(told)


def _alike(stored: StoredComparison, name: str, corpus: str, view: str) -> Iterator[Sentence]:
    """Yield that a statistic which the study asks for does not differ; nothing where that was not tested."""
    statistic, gap = stored.known[name], stored.difference(name, corpus, view)
    if gap is None or gap["p"] is None:
        return
    a, b = _means(stored, name, corpus, view, [side.name for side in stored.sides.pair])
    first, second = (_the(stored, side.name) for side in stored.sides.pair)
    text = (
        f"{capital(statistic.title)} does not differ significantly: {a} in {first}, {b} in {second}, "
        f"on average over {_over(statistic)}."
    )
    alone = "significant only without correction for all comparisons" if gap["p"] <= 2 * LEVEL else ""
    yield Sentence(text, _strength(stored, gap, alone), name, (view,))


def _nothing(stored: StoredComparison, whom: str) -> Sentence:
    text = f"No main statistic differs significantly and by much between {whom}."
    figure = next(filter(stored.comparable, stored.known), "")
    return Sentence(text, "corrected for all comparisons", figure, stored.views[:1])


def _told(stored: StoredComparison, name: str, corpus: str, view: str) -> _Told | None:
    """Return how two sides differ; None if they do not, or if models of one side lie on both sides of another's."""
    mean, rows = stored.difference(name, corpus, view), stored.rows(name, corpus, view, minus_view=None)
    if mean is None or not _apart(stored, name, corpus, view):
        return None
    by_layer = [row for row in rows if row["minus"] is not None and row["effect"] is not None]
    first = next((row for row in by_layer if row["span"] == "layer"), mean)
    row = next((row for row in by_layer if row["span"] == "region"), mean)
    if row is mean and not differs(mean):
        return None
    effect = row["effect"]
    if row is mean:
        of_sides = [stored.mean(name, corpus, view, side) for side in stored.sides.pair]
        values = [of_side["value"] for of_side in of_sides if of_side is not None]
        effect = min(share_of_range(stored.known[name], mean["value"], *values), effect)
    return _Told(name, corpus, view, first["side"], first["minus"], row, effect)


def _apart(stored: StoredComparison, name: str, corpus: str, view: str) -> bool:
    """Tell whether every model of one side lies above every one of the other, where they are too few for a test."""
    if stored.over_models:
        return True
    sides = stored.sides
    means = {model: stored.mean(name, corpus, view, side) for model, side in sides.each.items()}
    a, b = ([row["value"] for model in side.models if (row := means[model])] for side in sides.pair)
    if len(a) + len(b) < len(means):
        return False
    return len(a) == len(b) == 1 or min(a) > max(b) or max(a) < min(b)


def _difference_sentence(stored: StoredComparison, told: _Told) -> Sentence:
    statistic, row = stored.known[told.name], told.row
    title, step = statistic.title, statistic.per == "step"
    high, low = (row["side"], row["minus"]) if row["value"] > 0 else (row["minus"], row["side"])
    more = MORE.get(told.name, "")
    lead = f"In {_the(stored, high)}, states {more}"
    ways: tuple[str, ...]
    if told.region:
        here, there = _in_region(stored, told)
        verb = "averages" if any(side.several for side in stored.sides.pair) else "is"
        a, where, whose = _written(here, title), _where(here, step), f" of {_the(stored, told.of)}"
        every = stored.layers(told.name, told.corpus, told.view, told.other)
        values, inside = ([row["value"] for row in rows] for rows in (every, here))
        beyond = max(values) < min(inside) or min(values) > max(inside)
        b = _written(every if beyond else there, title)
        span = "throughout" if beyond else "at these depths"
        rest = f"{b} {span} {'in' if beyond else 'of'} {_the(stored, told.other)}"
        if high == told.of:
            ways = (f"{lead} {where} ({title} {a}, against {rest}).",)
        else:
            ways = (f"{lead} ({title} {b} {span}, against {a} {where}{whose}).",)
        ways += (
            f"{capital(title)} {verb} {a} {where}{whose}, but {rest}.",
            f"{capital(title)}: {a} {where}{whose}, {rest}.",
        )
    else:
        a, b = _means(stored, told.name, told.corpus, told.view, (high, low))
        first, second, over = _the(stored, high), _the(stored, low), _over(statistic)
        ways = (
            f"{lead} than in {second} ({title} {a} against {b} on average over {over}).",
            f"{lead} ({title} {a} against {b} on average over {over}).",
            f"{capital(title)} averages {a} in {first} and {b} in {second} over {over}.",
            f"{capital(title)}: {a} in {first}, {b} in {second}.",
        )
    possible = [way for way in ways if more or not way.startswith(lead)]
    text = next((way for way in possible if len(way.split()) <= MOST_WORDS), possible[-1])
    basis = "embedding included" if not told.region and not step else ""
    if basis and row["common"]:
        basis = "over the layers that both have"
    return Sentence(text, _strength(stored, row, basis), told.name, (told.view,))


def _over(statistic: Statistic) -> str:
    return "blocks" if statistic.per == "step" else "layers"


def _the(stored: StoredComparison, name: str) -> str:
    """Return a side for the middle of a sentence: a model, or ``the 3 encoders``."""
    side = next((side for side in stored.sides.pair if side.name == name and side.several), None)
    return name if side is None else f"the {stored.name_of(side)}"


def _in_region(stored: StoredComparison, told: _Told, view: str = "") -> tuple[list[Row], list[Row]]:
    """Return the numbers of both sides at the depths of a region."""
    first, last = told.row["depth_first"], told.row["depth_last"]
    of, other = (
        stored.rows(told.name, told.corpus, view or told.view, span="layer", side=side, minus=None)
        for side in (told.of, told.other)
    )
    here = [row for row in of if first - 1e-9 <= row["depth_first"] <= last + 1e-9]
    here = [row for row in here if row["layer_first"] is not None or told.row["layer_first"] is None]
    near = {round(row["depth_first"], 9) for row in here}
    return here, [row for row in other if round(row["depth_first"], 9) in near]


def _where(rows: Sequence[Row], step: bool) -> str:
    """Name the layers or blocks of some numbers of a model, or the depths of those of several."""
    layers = [row["layer_first"] for row in rows]
    if None not in layers:
        return f"{'at' if layers == [0] and not step else 'in'} {places(layers, step)}"
    first, last = (f"{row['depth_first']:.2g}" for row in (rows[0], rows[-1]))
    return f"at depth {first}" if first == last else f"at depths {first} to {last}"


def _width(rows: Sequence[Row]) -> float:
    """Return how wide the intervals of some numbers are, half of them narrower; 0 where one has none."""
    widths = [0.0 if row["ci_low"] is None else row["ci_high"] - row["ci_low"] for row in rows]
    return median(widths) if all(row["ci_low"] is not None for row in rows) else 0.0


def _means(stored: StoredComparison, name: str, corpus: str, view: str, sides: Sequence[str]) -> list[str]:
    """Write the means over layers of some sides with the same decimals: those of the most certain one."""
    title, scale = stored.known[name].title, 100.0 if stored.known[name].title.startswith(AS_PERCENT) else 1.0
    rows = [stored.rows(name, corpus, view, span="mean", side=side, minus=None)[0] for side in sides]
    numbers = [[row[column] for column in ("value", "ci_low", "ci_high")] for row in rows]
    scaled = ([None if number is None else scale * number for number in row] for row in numbers)
    decimals = max((certain for row in scaled if (certain := decimals_of(*row)) is not None), default=None)
    return [_written([row], title, decimals) for row in rows]


def _written(rows: Sequence[Row], title: str, decimals: int | None = None) -> str:
    """Write the range of some numbers with the decimals that their intervals leave certain; shares in percent."""
    values, width = [row["value"] for row in rows], _width(rows)
    percent = title.startswith(AS_PERCENT)
    scale, one = (100.0, 100.0) if percent else (1.0, 1.0)
    ends = [scale * min(values), scale * max(values)]
    size = max(map(abs, ends))
    if not size or (decimals is None and not width):
        texts = [short(end) for end in ends]
    else:
        if decimals is None:
            decimals = max(ceil(-log10(scale * width)), 1 - floor(log10(size)))
        decimals = max(decimals, 0)
        while decimals < 5 and any(abs(end) < one <= float(f"{abs(end):.{decimals}f}") for end in ends):
            decimals += 1  # 0.9996 is not 1
        texts = [f"{end:,.{decimals}f}".replace("-", "−") for end in ends] if decimals <= 5 else [*map(short, ends)]
    return joined(*texts) + "\N{NO-BREAK SPACE}%" * percent


def _strength(stored: StoredComparison, row: Row, basis: str = "") -> str:
    """Say how sure a difference is; one of means over layers is written as in the table beside the sentences."""
    name, sides = f"{row['metric']}.{row['statistic']}", [row["side"], row["minus"]]
    percent, sign = stored.known[name].title.startswith(AS_PERCENT), -1 if row["value"] < 0 else 1
    factor = 100 if percent else 1
    text = estimate(*_scaled(row, sign * factor))
    if row["span"] == "mean":
        place = {"span": "mean", "minus": None}
        means = (stored.rows(name, row["corpus"], row["view"], side=side, **place)[0] for side in sides[::sign])
        high, low = (_scaled(mean, factor) for mean in means)
        *_, text = compared(high, low, _scaled(row, sign * factor))
    parts = [f"difference {text}{' percentage points' * percent}"]
    parts += [row["view"]] * (len(stored.views) > 1) + [f"on {row['corpus']}"] * (len(stored.corpora) > 1)
    return "; ".join([*parts, *([basis] if basis else [])])


def _scaled(row: Row, factor: int) -> Measured:
    """Return the number of a row with the ends of its interval, times a factor."""
    value, low, high = (None if number is None else factor * number for number in Number.of(row).measured)
    return (value, low, high) if factor > 0 else (value, high, low)


def scope_of(stored: StoredComparison) -> str:
    """Say what intervals are over, what they are corrected for, and what the sentences say nothing about."""
    sides = stored.sides
    over = f"95 % intervals over {'models' if stored.over_models else 'texts'}; significant after correction for "
    over += "all comparisons."
    if stored.fixed and not stored.over_models:
        over = "The texts are no sample of others, so there are no intervals."
    if len(sides.roles) == 1:
        return f"{over} One model: descriptive, says nothing about others."
    if not sides.both:
        return f"{over} Models of one role: descriptive, says nothing about others."
    if stored.over_models:
        return over
    counts = [len(side.models) for side in sides.pair]
    few = "One model of each role" if counts == [1, 1] else "Few models of a role"
    return f"{over} {few}: descriptive, says nothing about encoders and decoders in general."


def _sinks_sentence(stored: StoredComparison, told: _Told) -> Sentence | None:
    """Say whether a difference remains without sinks; None where there are none, or that is not known."""
    if stored.views != PAIR:
        return None
    pair = sorted(stored.sides.pair, key=lambda side: side.name != told.of)
    with_sinks = {
        stored.name_of(side): count
        for side in pair
        if (count := sum(stored.sinks.get((model, told.corpus), 0) for model in side.models))
    }
    place = {column: told.row[column] for column in ("span", "depth_first", "depth_last")}
    left = stored.rows(told.name, told.corpus, PAIR[1], side=told.row["side"], minus=told.row["minus"], **place)
    if not with_sinks or not left:
        return None
    (gap, *_), bare = left, replace(told, view=PAIR[1])
    title = stored.known[told.name].title
    if told.region:
        here, there = _in_region(stored, bare)
        a, b = _written(here, title), _written(there, title)
        where = f"the same {'depths' if told.row['layer_first'] is None else 'layers'} have"
    else:
        a, b = _means(stored, told.name, told.corpus, PAIR[1], (told.of, told.other))
        where = f"the mean over {_over(stored.known[told.name])} is"
    changes = stored.rows(told.name, told.corpus, PAIR[0], minus_view=PAIR[1], **place)
    both = f"{a} in {_the(stored, told.of)} against {b} in {_the(stored, told.other)}"
    count = sum(with_sinks.values())
    tokens = f"{whole(count)} sink {'token' if count == 1 else 'tokens'}"
    names = listed(with_sinks)
    if abs(gap["value"]) <= abs(told.row["value"]) / 2 and any(map(differs, changes)):
        text = f"Sinks explain most of it: without {tokens} of {names}, {where} {both}."
    elif differs(gap) and gap["value"] * told.row["value"] > 0:
        text = f"The difference remains without {tokens} of {names}: {both}."
    elif differs(gap):
        text = f"Without {tokens} of {names} the difference reverses: {both}."
    else:
        return None
    note = "each text's first token is left out as well"
    return Sentence(text, note, told.name, PAIR)


def _described(stored: StoredComparison, corpus: str) -> Iterator[Sentence]:
    """Describe a single model: where its statistics are highest and lowest."""
    (model,) = stored.styles
    view, ends = stored.views[-1], list[tuple[float, str, Row]]()
    for name in stored.known:
        ends += [
            (row["effect"], name, row)
            for row in stored.rows(name, corpus, view, minus=model)
            if differs(row) and row["effect"] >= MATERIAL
        ]
    for _, name, row in _leading(ends):
        title, step = stored.known[name].title, stored.known[name].per == "step"
        profile = {point["layer_first"]: point for point in stored.layers(name, corpus, view, model)}
        top, bottom = row["layer_first"], row["minus_layer"]
        high, low = (
            f"{_written([profile[layer]], title)} at {end(layer, stored.blocks.get(model, 0), step)}"
            for layer in (top, bottom)
        )
        if {top, bottom} == {min(profile), max(profile)}:
            text = f"{capital(title)} {'rises' if top > bottom else 'falls'} from "
            text += f"{low} to {high}." if top > bottom else f"{high} to {low}."
        else:
            text = f"{capital(title)} is highest, {high}, and lowest, {low}."
        yield Sentence(text, _strength(stored, row), name, (view,))


def _leading(found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the three largest effects, each with the name of its statistic next, of different topics."""
    by_topic: dict[str, tuple[Any, ...]] = {}
    for entry in sorted(found, key=lambda entry: -entry[0]):
        by_topic.setdefault(topic(entry[1]), entry)
    return list(by_topic.values())[:3]


def _ranges(stored: StoredComparison, corpus: str) -> Iterator[Sentence]:
    """Say how far several models of one role differ: the lowest and the highest mean over layers."""
    view, sides = stored.views[-1], stored.sides.each
    apart = list[tuple[float, str, Row]]()
    for name, statistic in stored.known.items():
        means = {model: stored.mean(name, corpus, view, side) for model, side in sides.items()}
        gap = stored.difference(name, corpus, view)
        if None in means.values() or gap is None or not differs(gap):
            continue
        values = [row["value"] for model in (gap["side"], gap["minus"]) if (row := means[model])]
        if (effect := share_of_range(statistic, gap["value"], *values)) >= MATERIAL:
            apart.append((effect, name, gap))
    if not apart:
        yield _nothing(stored, f"the {len(sides)} models")
    for _, name, gap in _leading(apart):
        statistic = stored.known[name]
        a, b = _means(stored, name, corpus, view, (gap["minus"], gap["side"]))
        over = "" if statistic.per == "model" else f", on average over {_over(statistic)}"
        text = f"{capital(statistic.title)} ranges from {a} in {gap['minus']} to {b} in {gap['side']}{over}."
        yield Sentence(text, _strength(stored, gap), name, (view,))
