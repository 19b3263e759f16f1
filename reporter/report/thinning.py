"""What a page of very many numbers leaves out: whole checkpoints, then layers; never a model or its last block.

A page carries its rows itself, so a study of a hundred models at twenty checkpoints cannot show every number. What is
left out is left out by the query, before a row is fetched: it is the query that the page shows. The caption says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reporter.charts.chart import APART, Chart, Read
from reporter.store.schema import tables

if TYPE_CHECKING:
    from reporter.table import Table

MOST_OF_STATISTIC = 20_000
"""Rows of one statistic over all checkpoints; more of them and checkpoints are left out."""
MOST_OF_FIGURE = 50_000
"""Rows of any figure; more of them and layers are left out."""
MOST_OF_PANELS = 250_000
"""The same where a file for each panel has its rows, so that a reader fetches what she looks at."""
MOST_APART = 12
"""Layers of a chart over training lie no further apart."""
LAYERS = ("layer", "layer_a", "layer_b")

_SIZE = """
SELECT coalesce(max(rows), 0) AS rows FROM (
  SELECT count(*) AS rows FROM layer_metrics WHERE study = {study} GROUP BY metric, statistic
)
"""


@dataclass(frozen=True)
class Thinning:
    """What a study's page leaves out of its figures.

    Args:
        study: id of the study, as an SQL literal.
        steps: the training steps whose checkpoints it keeps, besides the last one of each model; None for all.
        of: how many steps there are.
    """

    study: str
    steps: tuple[int, ...] | None = None
    of: int = 0

    def applied(self, sql: str, chart: Chart, read: Read) -> tuple[str, str]:
        """Return a figure's query with as many rows as a page carries, and what it keeps; empty where that is all.

        Args:
            sql: the query of everything.
            chart: whose it is; one that follows training keeps its steps, and its means are over all layers.
            read: runs a query.
        """
        if chart.kind == "training":
            return self._of_training(sql, read)
        own = self._among(sql, 1)
        said = [self._steps_said] if own != sql else []
        layers = max((len(_layers(table)) for table in _read_by(sql)), default=0)
        most = MOST_OF_PANELS if chart.facet in APART else MOST_OF_FIGURE
        if layers and (rows := _rows(read, own)) > most:
            every = math.ceil((rows / most) ** (1 / layers))
            own = self._among(sql, every)
            said.append(_layers_said(every))
        return own, "; ".join(said)

    def _of_training(self, sql: str, read: Read) -> tuple[str, str]:
        if (rows := _rows(read, sql)) <= MOST_OF_FIGURE:
            return sql, ""
        every = min(math.ceil(rows / MOST_OF_FIGURE) + 1, MOST_APART)
        own = f"{_inner(sql)} AS own\nWHERE own.layer IS NULL OR {self._shown('own.model', 'own.layer', every)}"
        said = f"the mean over all layers, and {_layers_said(every)}"
        if self.steps is None or _rows(read, own) <= MOST_OF_FIGURE:
            return own, said
        return self._among(own, 1), f"{self._steps_said}; {said}"

    @property
    def _steps_said(self) -> str:
        return f"the checkpoints at {len(self.steps or ())} of {self.of} steps, and each model's last"

    def shows(self, step: int | None, last: bool) -> bool:
        """Tell whether a page has a checkpoint of a step; the last one of a model it always has."""
        return last or self.steps is None or step is None or step in self.steps

    def _shown(self, model: str, layer: str, every: int) -> str:
        """The condition that a layer is one in so many, or its model's last block, where most profiles turn."""
        last = f"SELECT (model, layers) FROM models WHERE study = {self.study}"
        return f"({layer} % {every} = 0 OR ({model}, {layer}) IN ({last}))"

    def _among(self, sql: str, every: int) -> str:
        """Return a query that reads the tables of numbers without what is left out, each under its own name."""
        parts = []
        for table in _read_by(sql):
            models, marks, layers = table.holding("model"), table.holding("checkpoint"), _layers(table)
            where = [f"study = {self.study}"]
            if self.steps is not None:
                where += [
                    f"({model}, {mark}) IN (SELECT (model, checkpoint) FROM kept)"
                    for model, mark in zip(models, marks, strict=True)
                ]
            if every > 1:  # a difference has two sides and one layer, which is that of both
                where += [self._shown(model, layer, every) for model, layer in zip(models, layers, strict=False)]
            if len(where) > 1:
                parts.append(f"{table.name} AS (\n  FROM main.{table.name} WHERE {' AND '.join(where)}\n)")
        if not parts:
            return sql
        if self.steps is not None:
            steps = ", ".join(map(str, self.steps))
            parts.insert(
                0,
                f"kept AS (\n  SELECT model, checkpoint FROM models WHERE study = {self.study}\n"
                f"  AND (step IS NULL OR step IN ({steps}) OR is_last)\n)",
            )
        return f"WITH {', '.join(parts)}\n{_inner(sql)}"


def thinning(read: Read, study: str, steps: Sequence[int]) -> Thinning | None:
    """Return what a study's page has to leave out, None where it carries everything.

    Args:
        read: runs a query.
        study: id of the study.
        steps: the training steps of its checkpoints.
    """
    literal = "'" + study.replace("'", "''") + "'"
    rows = read(_SIZE.format(study=literal))["rows"].iloc[0]
    if rows < MOST_OF_STATISTIC / 10:
        return None
    found = sorted(set(steps))
    room = math.floor(MOST_OF_STATISTIC * len(found) / rows)
    if rows <= MOST_OF_STATISTIC or room >= len(found):
        return Thinning(literal)
    return Thinning(literal, spread(found, max(room, 2)), len(found))


def spread(steps: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the first and the last of some steps and others between, evenly spaced in their logarithm.

    Args:
        steps: different steps in rising order.
        most: how many to return at most, from 2 on.
    """
    if len(steps) <= most:
        return tuple(steps)
    logs = [math.log1p(step - steps[0]) for step in steps]
    wanted = [logs[-1] * i / (most - 1) for i in range(most)]
    return tuple(sorted({min(steps, key=lambda step: abs(math.log1p(step - steps[0]) - at)) for at in wanted}))


def _read_by(sql: str) -> list[Table]:
    """The tables of checkpoints' numbers that a query reads; that of the models themselves stays whole."""
    named = {name.lower() for name in re.findall(r'\b(?:FROM|JOIN)\s+"?([a-z_]+)', sql, re.IGNORECASE)}
    return [
        table
        for name, table in tables().items()
        if name in named and name != "models" and 0 < len(table.holding("model")) == len(table.holding("checkpoint"))
    ]


def _rows(read: Read, sql: str) -> int:
    return int(read(f"SELECT count(*) AS rows {_inner(sql)}")["rows"].iloc[0])


def _inner(sql: str) -> str:
    """Return a statement as the source of another one; its own names of tables stay its own."""
    return f"FROM (\n{sql.rstrip().removesuffix(';')}\n)"


def _layers_said(every: int) -> str:
    return f"one layer in {every}, from the embedding on, and each model's last block"


def _layers(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.name in LAYERS]
