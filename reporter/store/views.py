"""Views of ``results.duckdb``: the conditions that nearly every question has, saved under a name.

A view has the columns of the table that it reads, with their comments; only rows are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reporter.metrics.base import Value
from reporter.table import LAST_CHECKPOINT

if TYPE_CHECKING:
    from reporter.table import Column, Table


@dataclass(frozen=True)
class View:
    """A saved query.

    Args:
        name: its name.
        comment: which rows it has.
        of: the table whose rows they are.
        where: the condition.
    """

    name: str
    comment: str
    of: Table
    where: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns: those of its table."""
        return self.of.columns

    @property
    def sql(self) -> str:
        """The statement that makes it; columns by name, so that one that is added does not break it."""
        columns = ", ".join(f'"{column.name}"' for column in self.columns)
        return f"CREATE OR REPLACE VIEW {self.name} AS SELECT {columns} FROM {self.of.name} WHERE {self.where}"


LAYERS = View(
    "layers",
    "The numbers of layer_metrics that make a profile: one row for each layer 0..L of each number, the embedding and "
    "the blocks; without the states after the closing norm (site 'final') and after attention, without numbers of the "
    "whole model and without null baselines.",
    Value.table,
    "site IN ('embedding', 'block') AND layer IS NOT NULL AND (study, model) NOT IN "
    "(SELECT (study, model) FROM models WHERE baseline IS NOT NULL)",
)

PROFILES = View(
    "profiles",
    "What the report shows first of the view 'layers': one row for each layer of each number, at the last checkpoint "
    "of each model and under the first of the study's views.",
    Value.table,
    f"{LAYERS.where} AND {LAST_CHECKPOINT} "
    "AND (study, \"view\") IN (SELECT (study, json_extract_string(views, '$[0]')) FROM studies)",
)

VIEWS = {view.name: view for view in (LAYERS, PROFILES)}
