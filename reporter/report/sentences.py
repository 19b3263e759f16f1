"""The sentences of an overview: where two sides differ most, whether sinks explain it, and how else they differ.

A sentence claims a difference only if its interval excludes 0 after the correction for all comparisons (Bonferroni),
and if it is large enough to mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, isnan, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.core.numbers import estimate, short, whole
from reporter.core.places import capital, end, listed, places
from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.judge.estimates import Array
from reporter.judge.points import around
from reporter.judge.questions.subjects import MATERIAL, share_of_range, topic
from reporter.report.sides import PAIR, Curve, MainStatistics, Number, Side, at_common_depths, effects
from reporter.report.tables import figure_link

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic

MOST_WORDS = 25
"""The longest sentence."""
MOST_TOPICS = 3
"""The most kinds of difference that the sentences are about."""
LARGE = 0.8
"""A sentence is about the layers with at least this share of the largest standardised difference."""
TOLD = 0.4
"""These layers have at least this share of all the differences; else the sentence is about the mean over layers."""
EVERYWHERE = 0.75
"""A difference in more than this share of the layers is one of the mean over layers."""
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
class _Contrast:
    """How two sides differ in a statistic.

    Args:
        name: the statistic.
        view: the token set.
        of: the side that changes more over depth.
        other: the other side.
        gap: the first minus the second.
        run: the points of the first one's profile that the sentence is about; empty for the mean over layers.
        effect: the part of the standardised difference that the sentence tells.
    """

    name: str
    view: str
    of: Side
    other: Side
    gap: Number
    run: tuple[int, ...]
    effect: float


def sentences_of(numbers: MainStatistics) -> Iterator[Sentence]:
    """Yield at most three sentences about the first corpus; none if it has too few texts for a verdict."""
    corpus = numbers.corpora[0]
    if not numbers.fixed and numbers.units.get(corpus, 0) < VERDICT_TEXTS:
        return
    if len(numbers.styles) == 1:
        yield from _described(numbers, corpus)
    elif numbers.sides:
        yield from _compared(numbers, corpus, numbers.sides)
    else:
        yield from _ranges(numbers, corpus)


def tests_of(numbers: MainStatistics) -> int:
    """Return how many comparisons the sentences are chosen from: statistics, token sets, layers, pairs of models."""
    sides = numbers.sides or (Side.of(numbers.styles[0]),)
    wide = max(sides, key=lambda side: max((numbers.blocks.get(model, 0) for model in side.models), default=0))
    profiles = [
        profile
        for name in numbers.known
        if numbers.comparable(name)
        for view in numbers.views
        if (profile := numbers.curve(name, numbers.corpora[0], view, wide)) is not None
    ]
    models = len(numbers.styles)
    if numbers.sides or models == 1:
        return max(1, sum(len(profile.x) + 1 for profile in profiles))
    return max(1, len(profiles) * models * (models - 1) // 2)


def _compared(numbers: MainStatistics, corpus: str, sides: tuple[Side, Side]) -> Iterator[Sentence]:
    """Say how two sides differ in what the study asks for first, whether sinks explain it, and where else they do."""
    tests, view = tests_of(numbers), numbers.views[0]
    contrasts = {
        (name, of_view): contrast
        for name in numbers.known
        if numbers.comparable(name)
        for of_view in numbers.views
        if (contrast := _contrast(numbers, name, corpus, of_view, sides, tests)) is not None
    }
    large = sorted(
        (contrast for contrast in contrasts.values() if contrast.effect >= MATERIAL),
        key=lambda contrast: (contrast.view != view, -contrast.effect),
    )
    sinks: Sentence | None = None
    used = set[str]()
    effects_of = {name: contrast.effect for (name, of_view), contrast in contrasts.items() if of_view == view}
    asked = [max(names, key=lambda name: effects_of.get(name, -1.0)) for names in numbers.asked]
    if numbers.judged:  # the answer above has the verdict, and what differs
        asked = []
    elif not large and not effects_of.keys() & set(asked):
        yield _nothing(numbers, f"{_the(sides[0])} and {_the(sides[1])}")
    for name in asked:
        used.add(topic(name))
        if (name, view) not in contrasts:
            yield from _alike(numbers, name, corpus, view, sides)
            continue
        yield _contrast_sentence(numbers, corpus, contrasts[name, view])
        if sinks is None and (sinks := _sinks_sentence(numbers, corpus, contrasts[name, view], tests)) is not None:
            yield sinks
    # without sinks only if they matter: the table beside the sentences is of the first token set
    for contrast in large:
        if len(used) >= MOST_TOPICS or topic(contrast.name) in used:
            continue
        if contrast.view != (numbers.views[-1] if sinks else view) and (used or contrast.view == numbers.views[-1]):
            continue
        used.add(topic(contrast.name))
        yield _contrast_sentence(numbers, corpus, contrast)
        if sinks is None and contrast.view == view:
            sinks = _sinks_sentence(numbers, corpus, contrast, tests)
            if sinks is not None:
                yield sinks


def _alike(numbers: MainStatistics, name: str, corpus: str, view: str, sides: tuple[Side, Side]) -> Iterator[Sentence]:
    """Yield that a statistic which the study asks for does not differ; nothing where that was not tested."""
    statistic, gap = numbers.known[name], numbers.difference(name, corpus, view, *sides)
    if isnan(gap.low):
        return
    means = [numbers.number(name, corpus, view, side) for side in sides]
    a, b = (_written([number.value], max(map(_gap_of, means)), statistic.title) for number in means)
    text = (
        f"{capital(statistic.title)} does not differ significantly: {a} in {_the(sides[0])}, {b} in {_the(sides[1])}, "
        f"on average over {_over(statistic)}."
    )
    yield Sentence(text, _strength(numbers, statistic, corpus, gap, view), name, (view,))


def _nothing(numbers: MainStatistics, whom: str) -> Sentence:
    text = f"No main statistic differs significantly and by much between {whom}."
    figure = next((name for name in numbers.known if numbers.comparable(name)), "")
    return Sentence(text, "corrected for all comparisons", figure, numbers.views[:1])


def _contrast(
    numbers: MainStatistics, name: str, corpus: str, view: str, sides: tuple[Side, Side], tests: int
) -> _Contrast | None:
    """Return how two sides differ; None if they do not, or if models of one side lie on both sides of another's."""
    profiles = [numbers.curve(name, corpus, view, side) for side in sides]
    a, b = profiles
    if a is None or b is None or len(a.x) < 2 or len(b.x) < 2 or not _apart(numbers, name, corpus, view, sides):
        return None
    # the sentence is about the side that changes more over depth
    spans = [float(p.values.max() - p.values.min()) for p in (a, b)]
    of, other = sides if spans[0] >= spans[1] else sides[::-1]
    here, there = (a, b) if of is sides[0] else (b, a)
    here, there = at_common_depths(here, there)
    gaps = [numbers.gap(here, there, [index]) for index in range(len(here.x))]
    values = here.values - there.values
    sizes = effects(numbers.known[name], here, there)
    top = int(sizes.argmax())
    sure = np.array([gap.differs(tests) for gap in gaps])
    large = sure & (values * values[top] > 0) & (sizes >= LARGE * sizes[top])
    run = around(top, large) if large[top] else ()
    if run and sizes[list(run)].sum() >= TOLD * sizes.sum() and len(run) <= EVERYWHERE * len(sizes):
        gap, effect = numbers.gap(here, there, run), float(sizes[list(run)].sum() / len(sizes))
        return _Contrast(name, view, of, other, gap, run, effect)
    first, second = (numbers.number(name, corpus, view, side) for side in (of, other))
    gap = numbers.difference(name, corpus, view, of, other)
    if not gap.differs(tests):
        return None
    effect = share_of_range(numbers.known[name], gap.value, first.value, second.value)
    return _Contrast(name, view, of, other, gap, (), min(effect, float(sizes.mean())))


def _apart(numbers: MainStatistics, name: str, corpus: str, view: str, sides: tuple[Side, Side]) -> bool:
    """Tell whether every model of one side lies above every one of the other, where they are too few for a test."""
    if numbers.over_models:
        return True
    values = {style.model: numbers.number(name, corpus, view, Side.of(style)).value for style in numbers.styles}
    a, b = ([values[model] for model in side.models] for side in sides)
    if any(map(isnan, (*a, *b))):
        return False
    return len(a) == len(b) == 1 or min(a) > max(b) or max(a) < min(b)


def _contrast_sentence(numbers: MainStatistics, corpus: str, contrast: _Contrast) -> Sentence:
    statistic = numbers.known[contrast.name]
    title, step = statistic.title, statistic.per == "step"
    written = partial(_written, title=title)
    high, low = (contrast.of, contrast.other) if contrast.gap.value > 0 else (contrast.other, contrast.of)
    more = MORE.get(contrast.name, "")
    lead = f"In {_the(high)}, states {more}"
    several = contrast.of.several or contrast.other.several
    ways: tuple[str, ...]
    if contrast.run:
        here, there = _profiles(numbers, corpus, contrast)
        inside = list(contrast.run)
        a = written(here.values[inside], _width(here, inside))
        where, whose = _where(here, inside, step), f" of {_the(contrast.of)}"
        every = numbers.curve(contrast.name, corpus, contrast.view, contrast.other)
        assert every is not None  # it has the points of `there`
        beyond = every.values.max() < here.values[inside].min() or every.values.min() > here.values[inside].max()
        b = written(every.values, _width(every)) if beyond else written(there.values[inside], _width(there, inside))
        span, verb = ("throughout" if beyond else "at these depths"), "averages" if several else "is"
        rest = f"{b} {span} {'in' if beyond else 'of'} {_the(contrast.other)}"
        if high is contrast.of:
            ways = (f"{lead} {where} ({title} {a}, against {rest}).",)
        else:
            ways = (f"{lead} ({title} {b} {span}, against {a} {where}{whose}).",)
        ways += (
            f"{capital(title)} {verb} {a} {where}{whose}, but {rest}.",
            f"{capital(title)}: {a} {where}{whose}, {rest}.",
        )
    else:
        means = [numbers.number(contrast.name, corpus, contrast.view, side) for side in (high, low)]
        a, b = (written([number.value], max(map(_gap_of, means))) for number in means)
        over = _over(statistic)
        ways = (
            f"{lead} than in {_the(low)} ({title} {a} against {b} on average over {over}).",
            f"{lead} ({title} {a} against {b} on average over {over}).",
            f"{capital(title)} averages {a} in {_the(high)} and {b} in {_the(low)} over {over}.",
            f"{capital(title)}: {a} in {_the(high)}, {b} in {_the(low)}.",
        )
    possible = [way for way in ways if more or not way.startswith(lead)]
    text = next((way for way in possible if len(way.split()) <= MOST_WORDS), possible[-1])
    basis = "embedding included" if not contrast.run and not step else ""
    if basis and numbers.lacking(contrast.name, corpus, contrast.view) is not None:
        basis = "over the layers that both have"
    return Sentence(
        text,
        _strength(numbers, statistic, corpus, contrast.gap, contrast.view, basis),
        contrast.name,
        (contrast.view,),
    )


def _over(statistic: Statistic) -> str:
    return "blocks" if statistic.per == "step" else "layers"


def _the(side: Side) -> str:
    return f"the {side.name}" if side.several else side.name


def _profiles(numbers: MainStatistics, corpus: str, contrast: _Contrast) -> tuple[Curve, Curve]:
    """Return both profiles at the points of the side that the sentence is about."""
    a, b = (numbers.curve(contrast.name, corpus, contrast.view, side) for side in (contrast.of, contrast.other))
    assert a is not None and b is not None
    return at_common_depths(a, b)


def _where(profile: Curve, inside: Sequence[int], step: bool) -> str:
    """Name some points of a profile: layers or blocks of a model, or depths of several."""
    if profile.labels:
        layers = [profile.labels[index] for index in inside]
        return f"{'at' if layers == [0] and not step else 'in'} {places(layers, step)}"
    first, last = (f"{profile.x[index]:.2g}" for index in (inside[0], inside[-1]))
    return f"at depth {first}" if first == last else f"at depths {first} to {last}"


def _width(profile: Curve, inside: Sequence[int] | slice = slice(None)) -> float:
    """Return how wide the intervals of a profile are, half of them narrower."""
    widths = profile.widths[inside]
    return float(np.median(widths)) if np.isfinite(widths).all() else 0.0


def _gap_of(number: Number) -> float:
    return 0.0 if isnan(number.low) else number.high - number.low


def _written(values: Sequence[float] | Array, width: float, title: str) -> str:
    """Write the range of some numbers with the decimals that intervals so wide leave certain; shares in percent."""
    percent = title.startswith(AS_PERCENT)
    scale, one = (100.0, 100.0) if percent else (1.0, 1.0)
    ends = [scale * float(min(values)), scale * float(max(values))]
    size = max(map(abs, ends))
    if not size or not width:
        texts = [short(end) for end in ends]
    else:
        decimals = max(ceil(-log10(scale * width)), 1 - floor(log10(size)), 0)
        while decimals < 5 and any(abs(end) < one <= float(f"{abs(end):.{decimals}f}") for end in ends):
            decimals += 1  # 0.9996 is not 1
        texts = [f"{end:,.{decimals}f}".replace("-", "−") for end in ends] if decimals <= 5 else [*map(short, ends)]
    joined = texts[0] if texts[0] == texts[1] else " to ".join(texts) if "−" in "".join(texts) else "–".join(texts)
    return joined + "\N{NO-BREAK SPACE}%" * percent


def _strength(
    numbers: MainStatistics, statistic: Statistic, corpus: str, gap: Number, view: str, basis: str = ""
) -> str:
    """Say how sure a difference is."""
    size = gap if gap.value >= 0 or gap.of is None else Number(gap.of.times(np.array([-1.0])))
    if statistic.title.startswith(AS_PERCENT):
        parts = [f"difference {estimate(100 * size.value, 100 * size.low, 100 * size.high)} percentage points"]
    else:
        parts = [f"difference {size.text}"]
    parts += [view] * (len(numbers.views) > 1) + [f"on {corpus}"] * (len(numbers.corpora) > 1)
    return "; ".join([*parts, *([basis] if basis else [])])


def scope_of(numbers: MainStatistics) -> str:
    """Say what intervals are over, what they are corrected for, and what the sentences say nothing about."""
    over = f"95 % intervals over {'models' if numbers.over_models else 'texts'}; significant after correction for "
    over += "all comparisons."
    if len(numbers.styles) == 1:
        return f"{over} One model: descriptive, says nothing about others."
    if not numbers.both:
        return f"{over} Models of one role: descriptive, says nothing about others."
    if numbers.over_models:
        return over
    counts = [len(side.models) for side in numbers.sides]
    few = "One model of each role" if counts == [1, 1] else "Few models of a role"
    return f"{over} {few}: descriptive, says nothing about encoders and decoders in general."


def _sinks_sentence(numbers: MainStatistics, corpus: str, first: _Contrast, tests: int) -> Sentence | None:
    """Say whether a difference remains without sinks; None where there are none, or that is not known."""
    if numbers.views != PAIR:
        return None
    pair = first.of, first.other
    with_sinks = {
        side.name: count
        for side in pair
        if (count := sum(numbers.sinks.get((model, corpus), 0) for model in side.models))
    }
    bare = replace(first, view=PAIR[1])
    if not with_sinks or None in [numbers.curve(first.name, corpus, bare.view, side) for side in pair]:
        return None
    if first.run:
        here, there = _profiles(numbers, corpus, bare)
        before = _profiles(numbers, corpus, first)
        if here.labels != before[0].labels or len(here.x) != len(before[0].x):
            return None
        inside = list(first.run)
        gaps = [numbers.gap(here, there, [index]) for index in inside]
        value = float(np.mean([gap.value for gap in gaps]))
        sure = all(gap.differs(tests) for gap in gaps)
        changed = any(
            all(numbers.gap(earlier, left, [index]).differs(tests) for index in inside)
            for earlier, left in zip(before, (here, there), strict=True)
        )
        a, b = here.values[inside], there.values[inside]
        widths = _width(here, inside), _width(there, inside)
        where = f"the same {'layers' if here.labels else 'depths'} have"
    else:
        means = [numbers.number(first.name, corpus, bare.view, side) for side in pair]
        gap = numbers.difference(first.name, corpus, bare.view, *pair)
        value, sure = gap.value, gap.differs(tests)
        changed = any(numbers.change(first.name, corpus, PAIR, side).differs(tests) for side in pair)
        a, b = (np.array([number.value]) for number in means)
        widths = _gap_of(means[0]), _gap_of(means[1])
        where = f"the mean over {_over(numbers.known[first.name])} is"
    title = numbers.known[first.name].title
    both = (
        f"{_written(a, widths[0], title)} in {_the(pair[0])} against {_written(b, widths[1], title)} in {_the(pair[1])}"
    )
    count = sum(with_sinks.values())
    tokens = f"{whole(count)} sink {'token' if count == 1 else 'tokens'}"
    names = listed(with_sinks)
    if abs(value) <= abs(first.gap.value) / 2 and changed:
        text = f"Sinks explain most of it: without {tokens} of {names}, {where} {both}."
    elif sure and value * first.gap.value > 0:
        text = f"The difference remains without {tokens} of {names}: {both}."
    elif sure:
        text = f"Without {tokens} of {names} the difference reverses: {both}."
    else:
        return None
    note = "each text's first token is left out as well"
    return Sentence(text, note, first.name, PAIR)


def _described(numbers: MainStatistics, corpus: str) -> Iterator[Sentence]:
    """Describe a single model: where its statistics are highest and lowest."""
    (side,) = map(Side.of, numbers.styles)
    found = []
    tests = tests_of(numbers)
    for name, statistic in numbers.known.items():
        profile = numbers.curve(name, corpus, numbers.views[-1], side)
        if profile is None or len(profile.x) < 2 or not profile.labels:
            continue
        top, bottom = int(profile.values.argmax()), int(profile.values.argmin())
        gap = Number(profile.numbers.weighted(np.eye(len(profile.x))[[top]] - np.eye(len(profile.x))[[bottom]]))
        effect = share_of_range(statistic, gap.value, profile.values[top], profile.values[bottom])
        if gap.differs(tests) and effect >= MATERIAL:
            found.append((effect, name, top, bottom, gap, profile))
    for _, name, top, bottom, gap, profile in _leading(found):
        title, step = numbers.known[name].title, numbers.known[name].per == "step"
        high, low = (
            f"{_written([profile.values[index]], _width(profile, [index]), title)} at "
            f"{end(profile.labels[index], profile.blocks, step)}"
            for index in (top, bottom)
        )
        ends = {0, len(profile.x) - 1}
        if {top, bottom} == ends:
            text = (
                f"{capital(title)} {'rises' if top else 'falls'} from {low if top else high} to {high if top else low}."
            )
        else:
            text = f"{capital(title)} is highest, {high}, and lowest, {low}."
        view = numbers.views[-1]
        yield Sentence(text, _strength(numbers, numbers.known[name], corpus, gap, view), name, (view,))


def _leading(found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the three largest effects, each with the name of its statistic next, of different topics."""
    by_topic: dict[str, tuple[Any, ...]] = {}
    for entry in sorted(found, key=lambda entry: -entry[0]):
        by_topic.setdefault(topic(entry[1]), entry)
    return list(by_topic.values())[:3]


def _ranges(numbers: MainStatistics, corpus: str) -> Iterator[Sentence]:
    """Say how far several models of one role differ: the lowest and the highest mean over layers."""
    models = list(map(Side.of, numbers.styles))
    tests = tests_of(numbers)
    found = []
    view = numbers.views[-1]
    for name, statistic in numbers.known.items():
        means = [(numbers.number(name, corpus, view, side), side) for side in models]
        if any(isnan(number.value) for number, _ in means):
            continue
        means.sort(key=lambda pair: pair[0].value)
        (low, first), (high, last) = means[0], means[-1]
        gap = numbers.difference(name, corpus, view, last, first)
        effect = share_of_range(statistic, gap.value, high.value, low.value)
        if gap.differs(tests) and effect >= MATERIAL:
            found.append((effect, name, low, first, high, last, gap))
    if not found:
        yield _nothing(numbers, f"the {len(models)} models")
    for _, name, low, first, high, last, gap in _leading(found):
        statistic = numbers.known[name]
        a, b = (_written([number.value], _gap_of(number), statistic.title) for number in (low, high))
        over = "" if statistic.per == "model" else f", on average over {_over(statistic)}"
        text = f"{capital(statistic.title)} ranges from {a} in {first.name} to {b} in {last.name}{over}."
        yield Sentence(text, _strength(numbers, numbers.known[name], corpus, gap, view), name, (view,))
