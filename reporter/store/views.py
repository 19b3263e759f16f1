"""The views of ``results.duckdb``: saved queries over its tables that readers want most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reporter.core.table import LAST_CHECKPOINT, Column
from reporter.store.schema import find_table

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class View:
    """A saved query: rows of one table under a condition, with the columns of the table and their comments."""

    name: str
    comment: str
    table: str
    where: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns: those of its table."""
        return find_table(self.table).columns

    @property
    def sql(self) -> str:
        """The statement that makes it; it names the columns, so that a new column does not break it."""
        columns = ", ".join(f'"{column.name}"' for column in self.columns)
        return f"CREATE OR REPLACE VIEW {self.name} AS SELECT {columns} FROM {self.table} WHERE {self.where}"


LAYERS = View(
    "layers",
    "Profiles over layers: the rows of layer_metrics for the embedding (layer 0) and the blocks (1..L). Left out are "
    "states after the final norm (site 'final') and after attention, numbers of the whole model, and null baselines.",
    "layer_metrics",
    "site IN ('embedding', 'block') AND layer IS NOT NULL AND (study, model) NOT IN "
    "(SELECT (study, model) FROM models WHERE baseline IS NOT NULL)",
)


PROFILES = View(
    "profiles",
    "The part of the view 'layers' that the report shows first: the last checkpoint of each model, and the first view "
    "of the study.",
    "layer_metrics",
    f"{LAYERS.where} AND {LAST_CHECKPOINT} "
    "AND (study, \"view\") IN (SELECT (study, json_extract_string(views, '$[0]')) FROM studies)",
)


VIEWS = {view.name: view for view in (LAYERS, PROFILES)}
