"""A row class is its table: what is declared once becomes columns, and what cannot be one is refused at once."""

from datetime import datetime
from typing import Any, Literal

import pytest

from reporter.core.errors import ReporterError
from reporter.core.table import OfModel, Row, UnderView, aside, at_place, column, of_cell
from reporter.metrics import base as registry
from reporter.metrics.base import Metric, Value
from reporter.models.places import Place
from reporter.store import schema
from reporter.store.rows import part_in_sql

Side = Literal["left", "right"]


class Peak(UnderView, table="peaks"):
    """The token that is farthest out
    at one layer.

    This paragraph is for people who read the code.
    """

    rank: int = column("1 for the first", key=True)
    place: Place | None = at_place(layer="which block")
    n: int = column("how many there are", "BIGINT", last=True)
    side: Side | None = column("'left' or 'right'")
    kind: str = column("what it is", name="class")
    norm: float = column("norm of its state", default=1.5)
    seen: datetime | None = column("when", default=None)
    more: dict[str, Any] = column("JSON object", default_factory=dict)
    rare: bool = column("whether it is rare", default=False)
    reason: str = aside(default="")


CELL = {
    "model": "m",
    "checkpoint": "final",
    "step": 3,
    "role": "encoder",
    "corpus": "c",
    "metric": "far",
    "view": "all",
}


def test_columns_follow_from_the_class():
    assert [(c.name, c.type) for c in Peak.table.columns] == [
        *((name, "VARCHAR") for name in ("study", "model", "checkpoint")),
        ("step", "BIGINT"),
        *((name, "VARCHAR") for name in ("role", "corpus", "view", "metric")),
        *(("rank", "INTEGER"), ("site", "VARCHAR"), ("layer", "INTEGER"), ("depth", "DOUBLE")),
        *(("side", "VARCHAR"), ("class", "VARCHAR"), ("norm", "DOUBLE"), ("seen", "TIMESTAMP"), ("more", "VARCHAR")),
        *(("rare", "BOOLEAN"), ("n", "BIGINT")),
    ]
    assert Peak.table.comment == "The token that is farthest out at one layer."
    assert Peak.table.key == ("study", "model", "checkpoint", "corpus", "view", "metric", "rank", "site", "layer")
    comments = {c.name: c.comment for c in Peak.table.columns}
    assert (comments["layer"], comments["class"]) == ("which block", "what it is")


def test_a_row_says_its_columns_and_its_cell_the_others():
    row = Peak(2, Place("block", 3), 7, None, "a word")
    own = {"rank": 2, "site": "block", "layer": 3, "depth": 0.75, "side": None, "class": "a word", "norm": 1.5, "n": 7}
    assert row.record(CELL, layers=4) == CELL | own | {"seen": None, "more": {}, "rare": False}
    whole = Peak(2, None, 7, "left", "a word", reason="for nobody").record({}, layers=4)
    assert (whole["site"], whole["layer"], whole["depth"]) == (None, None, None)
    assert "model" not in whole and "reason" not in whole
    with pytest.raises(AttributeError):
        row.rank = 3  # type: ignore[misc]


def test_which_cell_a_row_belongs_to():
    class Walk(OfModel, table="walks", metric="walk"):
        """A walk."""

        trail = of_cell("name of the trail", part="corpus")

    class Meeting(Row, table="meetings", checkpoint="final", metric="meet"):
        """Two models meet."""

        study = OfModel.study
        model_a = of_cell("the one")
        model_b = of_cell("the other")
        spot = of_cell("where", part="corpus")

    assert [part_in_sql(Walk.table, part) for part in ("model", "corpus", "metric")] == ["model", "trail", "'walk'"]
    assert Walk().record(CELL, 1)["trail"] == "c"
    assert part_in_sql(Meeting.table, "model").startswith("CASE WHEN model_a = model_b")
    assert part_in_sql(Meeting.table, "corpus") == "spot" and part_in_sql(Meeting.table, "checkpoint") == "'final'"


def test_what_cannot_be_a_table_is_refused():
    with pytest.raises(TypeError, match=r"Bare\.size is not a column; write `size: … = column\("):

        class Bare(Row, table="bare"):
            """A row."""

            size: int

    with pytest.raises(TypeError, match=r"Odd\.size: the type of a column must be one of bool, int"):

        class Odd(Row, table="odd"):
            """A row."""

            size: complex = column("how large")

    with pytest.raises(TypeError, match=r"Silent: name the table .* a docstring"):

        class Silent(Row, table="silent"):
            size: int = column("how large")


@pytest.mark.parametrize(
    ("name", "base", "told"),
    [
        (
            "cells",
            UnderView,
            r"table 'cells' is declared twice, by reporter\.store\.schema\.Cell and .*Mine; rename one",
        ),
        ("spectra", UnderView, r"table 'spectra' is declared twice, by reporter\.metrics\.spectrum\.Eigenvalue and"),
        ("mine", OfModel, "the rows of .*Mine have no column for their corpus"),
    ],
)
def test_tables_that_cannot_be_are_told(monkeypatch, name, base, told):
    class Mine(base, table=name):
        """A row."""

    far = Metric(name="far", title="", summary="", statistics=(), needs=(), compute=iter, tables=(Mine,))
    known = registry.catalogue() | {"zzz": far}
    monkeypatch.setattr(registry, "catalogue", lambda: known)
    with pytest.raises(ReporterError, match=told):
        schema.tables()
    monkeypatch.undo()
    assert schema.tables()["layer_metrics"] is Value.table
