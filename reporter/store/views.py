"""The view of ``results.duckdb`` that readers begin with: a saved query over its tables."""

from __future__ import annotations

from dataclasses import dataclass

from reporter.core.table import Column
from reporter.store.schema import Model, StatisticRow, find_table


@dataclass(frozen=True)
class View:
    """A saved query: rows of one table under a condition, with columns of tables that it joins.

    Args:
        name: its name.
        comment: what a row of it is.
        table: whose columns it has, with their comments.
        joined: tables that each add one row at most, as SQL, with the columns that they add.
        where: which rows it has.
    """

    name: str
    comment: str
    table: str
    joined: tuple[tuple[str, tuple[Column, ...]], ...]
    where: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns: those of its table, then those of the joined ones."""
        return (*find_table(self.table).columns, *self.added)

    @property
    def added(self) -> tuple[Column, ...]:
        """The columns of the joined tables."""
        return tuple(column for _, columns in self.joined for column in columns)

    @property
    def sql(self) -> str:
        """The statement that makes it; it names the columns, so that a new column does not break it."""
        own = [f'{self.table}."{column.name}"' for column in find_table(self.table).columns]
        columns = ", ".join([*own, *(column.name for column in self.added)])
        tables = " ".join([self.table, *(f"LEFT JOIN {join}" for join, _ in self.joined)])
        return f"CREATE OR REPLACE VIEW {self.name} AS SELECT {columns} FROM {tables} WHERE {self.where}"


def _columns(row: type[Model] | type[StatisticRow], *names: str) -> tuple[Column, ...]:
    return tuple(column for column in row.table.columns if column.name in names)


LAYERS = View(
    "layers",
    "The view to begin with: the numbers of layer_metrics for the embedding (layer 0) and the blocks (1..L), one row a "
    "layer of a checkpoint, for every corpus, token set and statistic, with its title. Left out are states after the "
    "final norm (site 'final') and after attention, numbers of the whole model, and null baselines.",
    "layer_metrics",
    (
        ("models USING (study, model, checkpoint)", _columns(Model, "is_last")),
        ("statistics USING (study, metric, statistic)", _columns(StatisticRow, "title")),
    ),
    "site IN ('embedding', 'block') AND layer IS NOT NULL AND baseline IS NULL",
)


VIEWS = {LAYERS.name: LAYERS}
