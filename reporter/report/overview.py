"""What a report says first: a line, three sentences, a table of the main statistics, verdicts, and what to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reporter.charts.chart import Drawn, Read
from reporter.charts.styles import DECODER, ENCODER, ModelStyle
from reporter.core.numbers import compared, counted, whole
from reporter.core.places import capital, listed
from reporter.judge.comparison import PAIR, differs
from reporter.judge.facts import main_statistics
from reporter.report import tables as queries
from reporter.report.citing import read_passes, span
from reporter.report.compared import Number, StoredComparison, path_of
from reporter.report.sentences import Sentence, scope_of, sentences_of

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
    """A row of the table for one token set: a number for each column, their difference, and for each model.

    ``uncorrected``: the interval of the difference excludes 0, and p corrected for all comparisons is not significant.
    """

    numbers: tuple[Number, ...]
    difference: Number | None
    lines: tuple[tuple[ModelStyle, str], ...]
    models: tuple[Number, ...] = ()
    uncorrected: bool = False


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
        effect: the difference as a share of the statistic's range, a mean over layers, which orders the rows.
        sure: whether its difference is significant after correction, under the first token set.
        cells: by token set.
    """

    id: str
    title: str
    unit: str
    meaning: str
    note: str
    over: str
    effect: float
    sure: bool
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
        said: by corpus at most three sentences.
        scope: what their intervals are over, and what they say nothing about.
        charts: ids of up to four statistics.
        sets: token sets, the first one shown first.
        columns: of the table.
        difference: the heading of the differences; empty where there are none.
        models: the models behind the columns, where these are means of roles.
        tables: one for each corpus.
        quote: what a reader should know before quoting a number.
        stored: what all of it is made of.
    """

    line: str
    stored: StoredComparison
    said: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    scope: str = ""
    charts: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    columns: tuple[ModelStyle, ...] = ()
    difference: str = ""
    models: tuple[ModelStyle, ...] = ()
    tables: tuple[CorpusTable, ...] = ()
    quote: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The sentences about the first corpus."""
        return next(iter(self.said.values()), ())

    @property
    def rows(self) -> tuple[StatisticRow, ...]:
        """The rows of the first corpus."""
        return self.tables[0].rows if self.tables else ()

    @property
    def uncorrected(self) -> bool:
        """Whether a difference of the tables is significant only without correction."""
        return any(cells.uncorrected for table in self.tables for row in table.rows for cells in row.cells.values())

    @property
    def unsure(self) -> bool:
        """Whether a number of these rows has no interval."""
        numbers = [n.measured for line in self.rows for cells in line.cells.values() for n in cells.numbers]
        return any(low is None and value is not None for value, low, _ in numbers)


def read_overview(read: Read, contents: Contents) -> Overview:
    """Return the overview of a study.

    Args:
        read: runs a query.
        contents: the study, with its charts, claims and cells.
    """
    main = (drawn for drawn in contents.charts if drawn.chart.main)
    charts = {drawn.id: drawn for drawn in main if drawn.chart.kind in ("profile", "dots")}
    shown = {name for name, drawn in charts.items() if not drawn.empty}
    stored = StoredComparison(read, contents, {name: s for name, s in main_statistics().items() if name in shown})
    tables = [CorpusTable(corpus, tuple(_rows(stored, charts, corpus))) for corpus in contents.scene.corpora]
    tables = [table for table in tables if table.rows]
    said = {table.corpus: tuple(sentences_of(stored, table.corpus)) for table in tables}
    sides, sentences = stored.sides, next(iter(said.values()), ())
    several = tables and any(side.several for side in sides.columns)
    return Overview(
        line=_line(stored),
        stored=stored,
        said=said,
        scope=scope_of(stored) if tables else "",
        charts=_charts(stored, charts, [sentence.figure for sentence in sentences]),
        sets=stored.sets,
        columns=tuple(map(stored.style_of, sides.columns)) if tables else (),
        difference=" − ".join(map(stored.name_of, sides.pair)) if tables else "",
        models=tuple(map(stored.style_of, sides.each.values())) if several else (),
        tables=tuple(tables),
        quote=tuple(_quote(contents, stored)),
    )


# The table.


def _rows(stored: StoredComparison, charts: Mapping[str, Drawn], corpus: str) -> Iterator[StatisticRow]:
    lines = []
    for name, statistic in stored.known.items():
        paths = _paths(stored, name, corpus)
        cells = {view: _cells(stored, name, corpus, view, paths[view]) for view in stored.sets}
        if not all(number.measured[0] is None for cell in cells.values() for number in cell.numbers):
            note = "" if stored.comparable(name) else "not comparable between roles"
            gaps = [stored.difference(name, corpus, view) for view in stored.views if stored.sides.pair]
            over = "over the layers that both have" if any(gap and gap["common"] for gap in gaps) else ""
            sure = any(gap is not None and differs(gap) for gap in gaps[:1])
            meaning, title = charts[name].chart.lead, capital(statistic.title)
            effect = stored.effect(name, corpus)
            lines.append(StatisticRow(name, title, statistic.unit, meaning, note, over, effect, sure, cells))
    yield from sorted(lines, key=lambda line: (bool(line.note), not line.sure, -line.effect))


def _cells(
    stored: StoredComparison, name: str, corpus: str, view: str, lines: tuple[tuple[ModelStyle, str], ...]
) -> Cells:
    sides = stored.sides
    of_columns, of_models = (
        tuple(Number.of(stored.mean(name, corpus, view, side)) for side in some)
        for some in (sides.columns, sides.each.values() if any(side.several for side in sides.columns) else ())
    )
    if not sides.pair or not stored.comparable(name):
        return Cells(of_columns, None, lines, of_models)
    gap = stored.difference(name, corpus, view)
    numbers = [number.measured for number in (*of_columns, Number.of(gap))]
    written = compared(*numbers) if len(numbers) == 3 else [""] * len(numbers)
    *shown, difference = map(Number, numbers, written)
    return Cells(tuple(shown), difference, lines, of_models, gap is not None and _uncorrected(gap))


def _uncorrected(gap: queries.Row) -> bool:
    low, high = gap["ci_low"], gap["ci_high"]
    return gap["p_adjusted"] is not None and not differs(gap) and not low <= 0 <= high


def _paths(stored: StoredComparison, name: str, corpus: str) -> dict[str, tuple[tuple[ModelStyle, str], ...]]:
    """Return the small profiles of a row by token set, on one scale for all."""
    profiles = {
        (view, side): [(row["depth_first"], row["value"]) for row in stored.layers(name, corpus, view, side.name)]
        for view in stored.sets
        for side in stored.sides.columns
    }
    values = [value for points in profiles.values() for _, value in points]
    paths: dict[str, tuple[tuple[ModelStyle, str], ...]] = dict.fromkeys(stored.sets, ())
    for (view, side), points in profiles.items():
        if points:
            paths[view] = (*paths[view], (stored.style_of(side), path_of(points, min(values), max(values))))
    return paths


def _charts(stored: StoredComparison, charts: Mapping[str, Drawn], first: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics of the four charts: those that the sentences are about, and the usual ones."""
    profiles = {name for name, drawn in charts.items() if drawn.chart.kind == "profile"}
    possible = {name for name in profiles & stored.known.keys() if stored.comparable(name)}
    usual = [name for choice in PREFERRED if (name := next((n for n in choice if n in possible), ""))]
    chosen = list(dict.fromkeys([*(name for name in first if name in possible), *usual]))
    corpus = stored.corpora[0] if stored.corpora else ""
    chosen += sorted(possible - set(chosen), key=lambda name: (-stored.effect(name, corpus), name))
    return tuple(chosen[: len(PREFERRED)])


# What stands around them.


def _line(stored: StoredComparison) -> str:
    """Say what is compared, on what."""
    by_role = stored.sides.by_role
    ordered = [model for models in by_role.values() for model in models]
    if not ordered:
        return "No model has numbers yet."
    if len(ordered) <= 2:
        roles_of = {model: _role(role) for role, models in by_role.items() for model in models}
        models = " against ".join(f"{model} ({roles_of[model]}{_blocks(stored, [model])})" for model in ordered)
    else:
        roles = listed(counted(len(models), _role(role)) for role, models in by_role.items())
        depth = _blocks(stored, ordered).removeprefix(", ")
        models = roles + (f" ({depth})" if depth else "")
    corpora = [corpus for corpus in stored.corpora if stored.texts.get(corpus)]
    if not corpora:
        return f"{models}."
    if len(corpora) > 3:
        return f"{models} on {counted(len(corpora), 'corpus', 'corpora')}."
    sizes = [(corpus, stored.texts[corpus], stored.units[corpus]) for corpus in corpora]
    texts = [f"{counted(n, 'text')}{f' in {units} clusters' * (units < n)} of {corpus}" for corpus, n, units in sizes]
    return f"{models} on {listed(texts)}."


def _role(role: str) -> str:
    return role if role in (ENCODER, DECODER) else "model"


def _blocks(stored: StoredComparison, models: Sequence[str]) -> str:
    sizes = [stored.blocks[model] for model in models if model in stored.blocks]
    if len(set(sizes)) > 1:
        return f", {min(sizes)} to {max(sizes)} blocks"
    return f", {counted(sizes[0], 'block')}" if sizes else ""


def _quote(contents: Contents, stored: StoredComparison) -> Iterator[str]:
    """Yield what a reader should know before quoting a number: four bullets at most."""
    if not stored.styles:
        return
    if stored.sinks_known:
        yield _sinks_note(stored)
    if stored.sides.both:
        counts = listed(counted(len(stored.sides.by_role[role]), role) for role in (ENCODER, DECODER))
        of_these, over = "differences describe these models, not their roles", stored.over_models
        yield f"{capital(counts)}: {'intervals of differences are over models' if over else of_these}."
    if any(stored.texts.get(corpus) for corpus in stored.corpora):
        yield _texts_note(contents, stored)
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


def _sinks_note(stored: StoredComparison) -> str:
    totals: Counter[str] = Counter()
    for (model, _), count in stored.sinks.items():
        totals[model] += count
    searched = [model for model in stored.styles if model in totals]
    having = [model for model in searched if totals[model]]
    if not having:
        where = "any model" if len(searched) == len(stored.styles) else listed(searched)
        return f"No token of a text is a sink in {where}; tokens that the tokenizer adds are not counted here."
    shares = [f"{whole(totals[model])} in {model}" for model in having]
    which = listed(shares) if len(shares) <= 3 else f"{whole(sum(totals.values()))} in {len(having)} models"
    rest = [model for model in searched if not totals[model]]
    none = "" if not rest else f", none in {listed(rest) if len(rest) <= 3 else f'{len(rest)} models'}"
    advice = "" if stored.views != PAIR else " Also compare without sinks."
    return f"Sinks among the tokens of texts: {which}{none}.{advice}"


def _texts_note(contents: Contents, stored: StoredComparison) -> str:
    texts = sum(stored.texts.get(corpus, 0) for corpus in stored.corpora)
    models, passes = set(stored.styles), read_passes(contents)
    readings = [r for corpus in stored.corpora for r in passes.get(corpus, ()) if r.model in models]
    tokens: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    for reading in readings:
        tokens[reading.model] += reading.tokens
        cut[reading.model] += reading.cut
    size = f", {span(list(tokens.values()))} tokens per model" if tokens else ""
    most = max(cut.values(), default=0)
    cut_short = f"; {counted(most, 'text') if most else 'none'} cut short" if tokens else ""
    return f"{capital(counted(texts, 'text'))}{size}{cut_short}."
