"""The comparison of models in a paper: its tables, and a sentence for each main statistic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product

from reporter.charts.layout import VIEWS
from reporter.charts.picture import capitalised
from reporter.charts.styles import OTHER
from reporter.core.numbers import Measured, compared, estimates, is_null
from reporter.core.places import listed
from reporter.report.compared import Number
from reporter.report.contents import Contents
from reporter.report.tables import missing
from reporter.report.tex import MOST_MODELS, PaperTable, split

ABSENT = "–"


@dataclass(frozen=True)
class _Comparison:
    """The main statistics of models or roles on a corpus under a token set.

    Args:
        name: of its table.
        corpus: the corpus.
        tokens: which tokens it is computed from.
        are_roles: whether its lines are means over the models of a role.
        lines: names of models or roles.
        difference: the name of the first minus the second; empty where there is none.
        titles: the statistics.
        numbers: of each statistic the numbers of the lines, and the difference where there is one.
        reasons: why a statistic has no interval, by its title.
        partial: titles of statistics of which one side lacks layers of the other.
    """

    name: str
    corpus: str
    tokens: str
    are_roles: bool
    lines: Sequence[str]
    difference: str
    titles: Sequence[str]
    numbers: Sequence[Sequence[Measured]]
    reasons: Mapping[str, str]
    partial: Sequence[str]

    @property
    def cells(self) -> list[list[str]]:
        """The numbers as they are written, statistic by statistic, with one precision for each."""
        return [self._written(numbers) for numbers in self.numbers]

    def _written(self, numbers: Sequence[Measured]) -> list[str]:
        if not self.difference:
            return estimates(numbers)
        a, b, gap = numbers
        return [*estimates([a, b]), ABSENT] if is_null(gap[0]) else list(compared(a, b, gap))

    @property
    def caption(self) -> str:
        """What the numbers are, and why some have no interval."""
        what = "Means over models and layers" if self.are_roles else "Mean over the embedding and all blocks"
        text = f"{what}, with 95 % intervals, on {self.corpus}. Computed from {self.tokens}."
        if self.difference:
            text += " The difference is paired over texts where both models read the same ones."
        if self.partial:
            text += f" Over the layers that both have: {listed(map(_inside, self.partial))}."
        without: dict[str, list[str]] = {}
        for title, numbers in zip(self.titles, self.numbers, strict=True):
            if any(not is_null(value) and is_null(low) for value, low, _ in numbers[: len(self.lines)]):
                without.setdefault(self.reasons.get(title, ""), []).append(_inside(title))
        for reason, titles in without.items():
            text += f" No interval: {listed(titles)}{f' ({reason})' if reason else ''}."
        return text

    @property
    def paragraph(self) -> str:
        """The caption and a sentence for each statistic."""
        note = "Intervals of differences are not corrected for the number of statistics." if self.difference else ""
        return " ".join(filter(None, [self.caption, note, *self.sentences()]))

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each statistic, also where nothing differs."""
        for title, numbers, cells in zip(self.titles, self.numbers, self.cells, strict=True):
            own = [f"{cell} in {line}" for line, cell in zip(self.lines, cells, strict=False) if cell != ABSENT]
            if own:
                yield f"{title} was {listed(own)}{self._gap(numbers[-1], cells[-1])}."

    def _gap(self, gap: Measured, cell: str) -> str:
        if not self.difference or is_null(gap[0]):
            return ""
        _, low, high = gap
        if is_null(low):
            return f" (difference {cell}, which has no interval)"
        # the other way round is no verdict: the intervals are not corrected for the number of statistics
        return f"{'; they did not differ significantly' if low <= 0 <= high else ''} (difference {cell})"


def _inside(title: str) -> str:
    """Return a title as it is written inside a sentence."""
    return title if title.startswith("Grassmann") else title[:1].lower() + title[1:]


def _comparisons(contents: Contents) -> Iterator[_Comparison]:
    """Yield models against statistics for each corpus and token set; role means first, where there are both roles."""
    stored = contents.compared
    if stored is None:
        return
    main = [drawn for drawn in contents.charts if drawn.chart.main and drawn.id in stored.known]
    first = [*contents.findings.about, *contents.claims.about]
    charts = sorted(main, key=lambda drawn: first.index(drawn.id) if drawn.id in first else len(first))
    titles, reasons = [capitalised(drawn.chart.title) for drawn in charts], _reasons(contents)
    own = {title: reasons[drawn.id] for title, drawn in zip(titles, charts, strict=True) if drawn.id in reasons}
    models = tuple(stored.sides.each.values())
    roles = tuple(side for side in stored.sides.of_roles.values() if side.several and side.role != OTHER)
    kinds = {"roles": roles, "models": models} if len(roles) > 1 else {"": models}
    for corpus, view, (kind, sides) in product(stored.corpora, stored.views, kinds.items()):
        paired = set(sides) == set(stored.sides.pair)
        sides = stored.sides.pair if paired else sides  # the first minus the second
        rows = [
            [*(stored.mean(drawn.id, corpus, view, side) for side in sides)]
            + [stored.difference(drawn.id, corpus, view)] * paired
            for drawn in charts
        ]
        numbers = [[Number.of(row).measured for row in of_statistic] for of_statistic in rows]
        has = [any(not is_null(number[0]) for number in of_statistic) for of_statistic in numbers]
        partial = [any(row is not None and row["common"] for row in of_statistic) for of_statistic in rows]
        lines = [stored.name_of(side) for side in sides]
        if any(has):
            yield _Comparison(
                "-".join(filter(None, ("compared", kind, corpus.replace(".", "-"), view.replace(" ", "-")))),
                corpus,
                VIEWS.get(view, view),
                kind == "roles",
                lines,
                " − ".join(lines) if paired else "",
                list(compress(titles, has)),
                list(compress(numbers, has)),
                own,
                list(compress(titles, partial)),
            )


def _reasons(contents: Contents) -> dict[str, str]:
    """Return why statistics have no interval, by their full names."""
    rows = missing(contents.study, models=(), corpora=(), cells=contents.cells)["reasons"]
    texts = ((row["numbers"], row["reason"].partition(",")[0]) for row in rows if "no interval" in row["reason"])
    return {number: text.removeprefix("no interval with ") for numbers, text in texts for number in numbers}


def comparison_tables(contents: Contents, width: float) -> dict[str, list[PaperTable]]:
    """Return the tables by the names of their files; the first is ``compared``, the others say what they are.

    The longer side goes down the page.
    """
    tables: dict[str, list[PaperTable]] = {}
    for comparison in _comparisons(contents):
        rows = [list(line) for line in zip(*comparison.cells, strict=True)]
        grid = PaperTable(comparison.name if tables else "compared", comparison.caption, {}, rows)
        names = [*comparison.lines, *filter(None, [comparison.difference])]
        tables[grid.name] = split(grid, comparison.titles, names, width)
    return tables


def results_text(contents: Contents) -> str:
    """Return a paragraph with a sentence for each main statistic on the first corpus; empty without a comparison."""
    first = next(_comparisons(contents), None)
    if first is None or len(first.lines) > MOST_MODELS:
        return ""
    return first.paragraph
