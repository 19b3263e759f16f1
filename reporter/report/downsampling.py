"""Downsamples the charts of very large studies: leaves out whole checkpoints, then layers; never a model's last block.

A page carries its rows itself, so a study of a hundred models at twenty checkpoints cannot show every number. The query
leaves rows out before any is fetched: ``WITH`` gives each table of numbers a view of itself with fewer rows. The page
shows that query, and the caption says what is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import APART, Chart, Read
from reporter.core.confined import quoted
from reporter.store.schema import find_table, tables
from reporter.store.views import VIEWS

if TYPE_CHECKING:
    from reporter.core.table import Table

MOST_OF_STATISTIC = 20_000
"""Rows of one statistic over all checkpoints; of more, checkpoints are left out."""
MOST_OF_FIGURE = 50_000
"""Rows of any figure; of more, layers are left out."""
MOST_OF_PANELS = 250_000
"""The same where a file for each panel has its rows, so that a reader fetches only the panels in sight."""
MOST_APART = 12
"""Maximum distance of two layers of a chart over training."""
LAYERS = ("layer", "layer_a", "layer_b")

_SIZE = """
SELECT coalesce(max(rows), 0) AS rows FROM (
  SELECT count(*) AS rows FROM layer_metrics WHERE study = {study} GROUP BY metric, statistic
)
"""


@dataclass(frozen=True)
class Sampling:
    """The rows that a study's page leaves out of its figures.

    Args:
        study: id of the study, as an SQL literal.
        steps: the training steps whose checkpoints it keeps, besides the last one of each model; None for all.
        of: how many steps there are.
    """

    study: str
    steps: tuple[int, ...] | None = None
    of: int = 0

    def apply(self, sql: str, chart: Chart, read: Read) -> tuple[str, str]:
        """Return a figure's query with as many rows as a page carries, and what it keeps; empty where that is all.

        A chart over training keeps its steps, and its means are over all layers.
        """
        names = _numbers_of(sql, read)
        if chart.kind == "training":
            return self._of_training(sql, names, read)
        sampled = self._with_views(sql, names, 1)
        kept = [self._steps_kept] if sampled != sql else []
        layers = max((len(_layers(table)) for table in names.values()), default=0)
        most = MOST_OF_PANELS if chart.facet in APART else MOST_OF_FIGURE
        if layers and (rows := _count(read, sampled)) > most:
            every = math.ceil((rows / most) ** (1 / layers))
            sampled = self._with_views(sql, names, every)
            kept.append(_layers_kept(every))
        return sampled, "; ".join(kept)

    def _of_training(self, sql: str, names: Mapping[str, Table], read: Read) -> tuple[str, str]:
        if (rows := _count(read, sql)) <= MOST_OF_FIGURE:
            return sql, ""
        every = min(math.ceil(rows / MOST_OF_FIGURE) + 1, MOST_APART)
        sampled = f"{_inner(sql)} AS own\nWHERE own.layer IS NULL OR {self._is_kept('own.model', 'own.layer', every)}"
        kept = f"the mean over all layers, and {_layers_kept(every)}"
        if self.steps is None or _count(read, sampled) <= MOST_OF_FIGURE:
            return sampled, kept
        return self._with_views(sampled, names, 1), f"{self._steps_kept}; {kept}"

    @property
    def _steps_kept(self) -> str:
        return f"the checkpoints at {len(self.steps or ())} of {self.of} steps, and each model's last"

    def shows(self, step: int | None, last: bool) -> bool:
        """Return whether a page has a checkpoint of a step; it always has the last one of a model."""
        return last or self.steps is None or step is None or step in self.steps

    def _is_kept(self, model: str, layer: str, every: int) -> str:
        last = f"SELECT (model, layers) FROM models WHERE study = {self.study}"
        return f"({layer} % {every} = 0 OR ({model}, {layer}) IN ({last}))"

    def _with_views(self, sql: str, names: Mapping[str, Table], every: int) -> str:
        """Return a query that reads views of the tables of numbers, each under the table's own name."""
        views = []
        for name, table in names.items():
            models, marks, layers = table.holding("model"), table.holding("checkpoint"), _layers(table)
            where = [f"study = {self.study}"]
            if self.steps is not None:
                where += [
                    f"({model}, {mark}) IN (SELECT (model, checkpoint) FROM kept)"
                    for model, mark in zip(models, marks, strict=True)
                ]
            if every > 1:  # a difference has two sides and one layer, which is the layer of both
                where += [self._is_kept(model, layer, every) for model, layer in zip(models, layers, strict=False)]
            if len(where) > 1:
                views.append(f"{name} AS (\n  FROM main.{name} WHERE {' AND '.join(where)}\n)")
        if not views:
            return sql
        kept = f"SELECT model, checkpoint FROM models WHERE study = {self.study}"
        if self.steps is not None:
            steps = ", ".join(map(str, self.steps))
            views.insert(0, f"kept AS (\n  {kept}\n  AND (step IS NULL OR step IN ({steps}) OR is_last)\n)")
        return f"WITH {', '.join(views)}\n{_inner(sql)}"


def sampling(read: Read, study: str, steps: Sequence[int]) -> Sampling | None:
    """Return what a study's page has to leave out, None where it carries everything."""
    literal = quoted(study)
    rows = read(_SIZE.format(study=literal))["rows"].iloc[0]
    if rows < MOST_OF_STATISTIC / 10:
        return None
    every = sorted(set(steps))
    room = math.floor(MOST_OF_STATISTIC * len(every) / rows)
    if rows <= MOST_OF_STATISTIC or room >= len(every):
        return Sampling(literal)
    return Sampling(literal, spread(every, max(room, 2)), len(every))


def spread(steps: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the first and the last of some rising steps and others between, evenly spaced in their logarithm."""
    if len(steps) <= most:
        return tuple(steps)
    logs = [math.log1p(step - steps[0]) for step in steps]
    targets = [logs[-1] * i / (most - 1) for i in range(most)]
    return tuple(sorted({min(steps, key=lambda step: abs(math.log1p(step - steps[0]) - goal)) for goal in targets}))


def _names_read(node: Any, replaced: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the tables that a parsed query names without their schema, and that no ``WITH`` around them replaces."""
    if isinstance(node, list):
        for item in node:
            yield from _names_read(item, replaced)
    elif isinstance(node, dict):
        for entry in node.get("cte_map", {}).get("map", ()):
            yield from _names_read(entry["value"], replaced)
            replaced |= {entry["key"].lower()}
        name = str(node.get("table_name", "")).lower()
        if name and not node.get("schema_name") and name not in replaced:
            yield name
        yield from _names_read([item for key, item in node.items() if key != "cte_map"], replaced)


def _numbers_of(sql: str, read: Read) -> dict[str, Table]:
    """Return the tables of numbers, and views of them, that a query reads and a view can replace; DuckDB parses it."""
    tree = read(f"SELECT json_serialize_sql({quoted(sql.rstrip().removesuffix(';'))}) AS tree")["tree"].iloc[0]
    names = set(_names_read(json.loads(tree)))
    return {
        name: table
        for name, table in (tables() | {view.name: find_table(view.table) for view in VIEWS.values()}).items()
        if name in names and name != "models" and 0 < len(table.holding("model")) == len(table.holding("checkpoint"))
    }


def _count(read: Read, sql: str) -> int:
    return int(read(f"SELECT count(*) AS rows {_inner(sql)}")["rows"].iloc[0])


def _inner(sql: str) -> str:
    return f"FROM (\n{sql.rstrip().removesuffix(';')}\n)"


def _layers_kept(every: int) -> str:
    return f"one layer in {every}, from the embedding on, and each model's last block"


def _layers(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.name in LAYERS]
