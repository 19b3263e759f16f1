"""What a report says first: a line, three sentences, a table of the main statistics, verdicts, and what to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING

from reporter.charts.chart import Drawn, Read
from reporter.charts.styles import DECODER, ENCODER, ModelStyle
from reporter.core.numbers import compared, counted, whole
from reporter.core.places import capital, listed
from reporter.judge.numbers import main_statistics
from reporter.report import tables as queries
from reporter.report.citing import read_passes, span
from reporter.report.compared import path_of
from reporter.report.sentences import Sentence, scope_of, sentences_of
from reporter.report.sides import PAIR, MainStatistics, Number, Side

if TYPE_CHECKING:
    from reporter.report.contents import Contents

PREFERRED = (
    ("anisotropy.top_variance_share",),
    ("anisotropy.mean_cosine", "contextuality.self_similarity_adjusted"),
    ("convergence.similarity",),
    ("contributions.feed_forward_ratio", "contributions.attention_ratio", "motion.step_cosine"),
)
"""The statistics of the four charts beside those of the sentences; of each choice the first that has numbers."""


@dataclass(frozen=True)
class Cells:
    """A row of the table for one token set: a number for each column, their difference, and for each model."""

    numbers: tuple[Number, ...]
    difference: Number | None
    lines: tuple[tuple[Side, str], ...]
    models: tuple[Number, ...] = ()


@dataclass(frozen=True)
class StatisticRow:
    """A row of the table: a statistic.

    Args:
        id: its full name, and its chart.
        title: its name for readers.
        unit: its unit; empty for a pure number.
        meaning: what it says, in one line.
        note: why it has no difference; empty where it has.
        over: which layers it is over, where one side lacks some of the other's.
        effect: the standardised difference that orders the rows.
        cells: by token set.
    """

    id: str
    title: str
    unit: str
    meaning: str
    note: str
    over: str
    effect: float
    cells: Mapping[str, Cells]


@dataclass(frozen=True)
class CorpusTable:
    """The rows of one corpus."""

    corpus: str
    rows: tuple[StatisticRow, ...]


@dataclass(frozen=True)
class Overview:
    """The first page of a study.

    Args:
        line: what is compared, on what.
        sentences: at most three.
        scope: what their intervals are over, and what they say nothing about.
        charts: ids of up to four statistics.
        sets: token sets, the first one shown first.
        columns: of the table.
        difference: the heading of the differences; empty where there are none.
        models: the models behind the columns, where these are means of roles.
        tables: one for each corpus.
        quote: what a reader should know before quoting a number.
        numbers: what all of it is made of.
    """

    line: str
    numbers: MainStatistics
    sentences: tuple[Sentence, ...] = ()
    scope: str = ""
    charts: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    columns: tuple[Side, ...] = ()
    difference: str = ""
    models: tuple[Side, ...] = ()
    tables: tuple[CorpusTable, ...] = ()
    quote: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[StatisticRow, ...]:
        """The rows of the first corpus."""
        return self.tables[0].rows if self.tables else ()

    @property
    def unsure(self) -> bool:
        """Whether a number of these rows has no interval."""
        numbers = [number for line in self.rows for cells in line.cells.values() for number in cells.numbers]
        return any(isnan(number.low) and not isnan(number.value) for number in numbers)


def read_overview(read: Read, contents: Contents) -> Overview:
    """Return the overview of a study.

    Args:
        read: runs a query.
        contents: the study, with its charts, claims and cells.
    """
    main = (drawn for drawn in contents.charts if drawn.chart.main)
    charts = {drawn.id: drawn for drawn in main if drawn.chart.kind in ("profile", "dots")}
    shown = {name for name, drawn in charts.items() if not drawn.empty}
    numbers = MainStatistics(read, contents, {name: s for name, s in main_statistics().items() if name in shown})
    tables = [CorpusTable(corpus, tuple(_rows(numbers, charts, corpus))) for corpus in contents.scene.corpora]
    tables = [table for table in tables if table.rows]
    models = tuple(map(Side.of, contents.scene.styles.own))
    sides, sentences = numbers.sides, tuple(sentences_of(numbers)) if tables else ()
    return Overview(
        line=_line(numbers),
        numbers=numbers,
        sentences=sentences,
        scope=scope_of(numbers) if tables else "",
        charts=_charts(numbers, charts, [sentence.figure for sentence in sentences]),
        sets=numbers.sets,
        columns=numbers.columns if tables else (),
        difference=f"{sides[0].name} − {sides[1].name}" if sides and tables else "",
        models=models if any(side.several for side in numbers.columns) and tables else (),
        tables=tuple(tables),
        quote=tuple(_quote(contents, numbers)),
    )


# The table.


def _rows(numbers: MainStatistics, charts: Mapping[str, Drawn], corpus: str) -> Iterator[StatisticRow]:
    lines = []
    for name, statistic in numbers.known.items():
        paths = _paths(numbers, name, corpus)
        cells = {view: _cells(numbers, name, corpus, view, paths[view]) for view in numbers.sets}
        if not all(isnan(number.value) for cell in cells.values() for number in cell.numbers):
            effect = max(numbers.effect(name, corpus, view) for view in numbers.views)
            note = "" if numbers.comparable(name) else "not comparable between roles"
            lacking = any(numbers.lacking(name, corpus, view) is not None for view in numbers.views)
            over = "over the layers that both have" if lacking and not note else ""
            meaning = charts[name].chart.lead
            title = capital(statistic.title)
            lines.append(StatisticRow(name, title, statistic.unit, meaning, note, over, effect, cells))
    yield from sorted(lines, key=lambda line: (bool(line.note), -line.effect))


def _cells(numbers: MainStatistics, name: str, corpus: str, view: str, lines: tuple[tuple[Side, str], ...]) -> Cells:
    apart = numbers.sides if numbers.comparable(name) else None
    difference = numbers.difference(name, corpus, view, *apart) if apart else None
    several = any(side.several for side in numbers.columns)
    models = map(Side.of, numbers.styles) if several else ()
    of_columns = tuple(numbers.number(name, corpus, view, side) for side in numbers.columns)
    of_models = tuple(numbers.number(name, corpus, view, side) for side in models)
    if difference is not None and len(of_columns) == 2:
        *texts, last = compared(*(number.measured for number in (*of_columns, difference)))
        of_columns = tuple(replace(number, written=text) for number, text in zip(of_columns, texts, strict=True))
        difference = replace(difference, written=last)
    return Cells(of_columns, difference, lines, of_models)


def _paths(numbers: MainStatistics, name: str, corpus: str) -> dict[str, tuple[tuple[Side, str], ...]]:
    """Return the small profiles of a row by token set, on one scale for all."""
    curves = {
        (view, side): numbers.curve(name, corpus, view, side) for view in numbers.sets for side in numbers.columns
    }
    shown = {key: profile for key, profile in curves.items() if profile is not None and len(profile.x) > 1}
    values = [value for profile in shown.values() for value in profile.values.tolist()]
    paths: dict[str, tuple[tuple[Side, str], ...]] = dict.fromkeys(numbers.sets, ())
    for (view, side), profile in shown.items():
        points = list(zip(profile.x, profile.values, strict=True))
        paths[view] = (*paths[view], (side, path_of(points, min(values), max(values))))
    return paths


def _charts(numbers: MainStatistics, charts: Mapping[str, Drawn], first: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics of the four charts: those that the sentences are about, and the usual ones."""
    profiles = {name for name, drawn in charts.items() if drawn.chart.kind == "profile"}
    possible = {name for name in profiles & numbers.known.keys() if numbers.comparable(name)}
    usual = [name for choice in PREFERRED if (name := next((n for n in choice if n in possible), ""))]
    chosen = list(dict.fromkeys([*(name for name in first if name in possible), *usual]))
    corpus = numbers.corpora[0] if numbers.corpora else ""
    effect = {n: max((numbers.effect(n, corpus, view) for view in numbers.views), default=0.0) for n in possible}
    chosen += sorted(possible - set(chosen), key=lambda name: (-effect[name], name))
    return tuple(chosen[: len(PREFERRED)])


# What stands around them.


def _line(numbers: MainStatistics) -> str:
    """Say what is compared, on what."""
    blocks, styles = numbers.blocks, numbers.styles_by_role
    if not styles:
        return "No model has numbers yet."
    if len(styles) <= 2:
        models = " against ".join(f"{style.model} ({_role(style)}{_blocks(blocks, [style])})" for style in styles)
    else:
        roles = listed(counted(len(of_role), _role(of_role[0])) for of_role in numbers.roles.values())
        depth = _blocks(blocks, styles).removeprefix(", ")
        models = roles + (f" ({depth})" if depth else "")
    corpora = [corpus for corpus in numbers.corpora if numbers.texts.get(corpus)]
    if not corpora:
        return f"{models}."
    if len(corpora) > 3:
        return f"{models} on {counted(len(corpora), 'corpus', 'corpora')}."
    sizes = [(corpus, numbers.texts[corpus], numbers.units[corpus]) for corpus in corpora]
    texts = [f"{counted(n, 'text')}{f' in {units} clusters' * (units < n)} of {corpus}" for corpus, n, units in sizes]
    return f"{models} on {listed(texts)}."


def _role(style: ModelStyle) -> str:
    return style.role if style.role in (ENCODER, DECODER) else "model"


def _blocks(blocks: Mapping[str, int], styles: Sequence[ModelStyle]) -> str:
    sizes = [blocks[style.model] for style in styles if style.model in blocks]
    if len(set(sizes)) > 1:
        return f", {min(sizes)} to {max(sizes)} blocks"
    return f", {counted(sizes[0], 'block')}" if sizes else ""


def _quote(contents: Contents, numbers: MainStatistics) -> Iterator[str]:
    """Yield what a reader should know before quoting a number: four bullets at most."""
    if not numbers.styles:
        return
    if numbers.sinks_known:
        yield _sinks_note(numbers)
    if numbers.both:
        counts = listed(counted(len(numbers.roles[role]), role) for role in (ENCODER, DECODER))
        of_these = "differences describe these models, not their roles"
        yield f"{capital(counts)}: {'intervals of differences are over models' if numbers.over_models else of_these}."
    if any(numbers.texts.get(corpus) for corpus in numbers.corpora):
        yield _texts_note(contents, numbers)
    models = queries.model_rows(contents.models)
    warned = queries.warnings(models, contents.cells)
    failed = sum(row["status"] == "failed" for row in [*contents.cells, *contents.models, *contents.corpora])
    parts = [f"{counted(failed, 'measurement')} failed"] if failed else []
    parts += [f"{counted(len(warned), 'warning')} about {_warned_models(warned)}"] if warned else []
    if parts:
        yield f"{capital(' and '.join(parts))}: see Method."


def _warned_models(warned: Sequence[tuple[str, Sequence[str]]]) -> str:
    names = list(dict.fromkeys(name for _, of_it in warned for name in of_it))
    return listed(names) if len(names) <= 3 else f"{len(names)} models"


def _sinks_note(numbers: MainStatistics) -> str:
    totals: Counter[str] = Counter()
    for (model, _), count in numbers.sinks.items():
        totals[model] += count
    searched = [style.model for style in numbers.styles if style.model in totals]
    having = [model for model in searched if totals[model]]
    if not having:
        where = "any model" if len(searched) == len(numbers.styles) else listed(searched)
        return f"No token of a text is a sink in {where}; tokens that the tokenizer adds are not counted here."
    shares = [f"{whole(totals[model])} in {model}" for model in having]
    which = listed(shares) if len(shares) <= 3 else f"{whole(sum(totals.values()))} in {len(having)} models"
    rest = [model for model in searched if not totals[model]]
    none = "" if not rest else f", none in {listed(rest) if len(rest) <= 3 else f'{len(rest)} models'}"
    advice = "" if numbers.views != PAIR else " Also compare without sinks."
    return f"Sinks among the tokens of texts: {which}{none}.{advice}"


def _texts_note(contents: Contents, numbers: MainStatistics) -> str:
    texts = sum(numbers.texts.get(corpus, 0) for corpus in numbers.corpora)
    models, passes = {style.model for style in numbers.styles}, read_passes(contents)
    readings = [r for corpus in numbers.corpora for r in passes.get(corpus, ()) if r.model in models]
    tokens: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    for reading in readings:
        tokens[reading.model] += reading.tokens
        cut[reading.model] += reading.cut
    size = f", {span(list(tokens.values()))} tokens per model" if tokens else ""
    most = max(cut.values(), default=0)
    cut_short = f"; {counted(most, 'text') if most else 'none'} cut short" if tokens else ""
    return f"{capital(counted(texts, 'text'))}{size}{cut_short}."
