"""A row class is its table: what is declared once becomes columns, and what cannot be one is refused at once."""

from datetime import datetime
from typing import Any, Literal

import pytest

from reporter.core.errors import ReporterError
from reporter.core.table import OfModel, Row, UnderView, aside, at_place, column
from reporter.metrics import base as registry
from reporter.metrics.base import Metric, Value
from reporter.models.places import Place
from reporter.store import schema
from reporter.store.rows import part_in_sql


class Peak(UnderView, table="peaks"):
    """The token that is farthest out
    at one layer.

    This paragraph is for people who read the code.
    """

    rank: int = column("1 for the first", key=True)
    place: Place | None = at_place(layer="which block")
    n: int = column("how many there are", "BIGINT", last=True)
    side: Literal["left", "right"] | None = column("'left' or 'right'")
    kind: str = column("what it is", name="class")
    norm: float = column("norm of its state", default=1.5)
    seen: datetime | None = column("when", default=None)
    more: dict[str, Any] = column("JSON object", default_factory=dict)
    rare: bool = column("whether it is rare", default=False)
    reason: str = aside(default="")


def test_columns_follow_from_the_class():
    names = "study model checkpoint step role corpus view metric rank site layer depth side class norm seen more rare n"
    columns = dict.fromkeys(names.split(), "VARCHAR") | {"step": "BIGINT", "n": "BIGINT", "rare": "BOOLEAN"}
    columns |= {"rank": "INTEGER", "layer": "INTEGER", "depth": "DOUBLE", "norm": "DOUBLE", "seen": "TIMESTAMP"}
    assert [(c.name, c.type) for c in Peak.table.columns] == list(columns.items())
    assert Peak.table.comment == "The token that is farthest out at one layer."
    assert Peak.table.key == ("study", "model", "checkpoint", "corpus", "view", "metric", "rank", "site", "layer")
    comments = {c.name: c.comment for c in Peak.table.columns}
    assert (comments["layer"], comments["class"]) == ("which block", "what it is")


def test_a_row_says_its_columns_and_its_cell_the_others():
    cell = {
        "model": "m",
        "checkpoint": "final",
        "step": 3,
        "role": "encoder",
        "corpus": "c",
        "view": "with special tokens",
    }
    row = Peak(2, Place("block", 3), 7, None, "a word")
    own = {"rank": 2, "site": "block", "layer": 3, "depth": 0.75, "side": None, "class": "a word", "norm": 1.5, "n": 7}
    assert row.record(cell, layers=4) == cell | own | {"seen": None, "more": {}, "rare": False}
    whole = Peak(2, None, 7, "left", "a word", reason="for nobody").record({}, layers=4)
    assert (whole["site"], whole["layer"], whole["depth"]) == (None, None, None)
    assert "model" not in whole and "reason" not in whole


def test_which_cell_a_row_belongs_to():
    pairs, meetings = schema.tables()["journey_pairs"], schema.tables()["model_pairs"]
    assert [part_in_sql(pairs, part) for part in ("model", "corpus", "metric")] == ["model", "journey", "'journeys'"]
    assert part_in_sql(meetings, "model").startswith("CASE WHEN model_a = model_b")


def test_a_class_and_a_plug_in_that_cannot_be_a_table_are_refused(monkeypatch):
    with pytest.raises(TypeError, match=r"Bare\.size is not a column; write `size: … = column\("):

        class Bare(Row, table="bare"):
            """A row."""

            size: int

    class Twice(UnderView, table="cells"):
        """A row."""

    class Lost(OfModel, table="lost"):
        """A row."""

    for row, says in (
        (Twice, r"table 'cells' is declared twice, by reporter\.store\.schema\.CellRow and .*Twice; rename one"),
        (Lost, "the rows of .*Lost have no column for their corpus"),
    ):
        far = Metric(name="far", title="", summary="", statistics=(), needs=(), compute=iter, tables=(row,))
        with monkeypatch.context() as patch:
            known = registry.catalogue() | {"zzz": far}
            patch.setattr(registry, "catalogue", lambda known=known: known)
            with pytest.raises(ReporterError, match=says):
                schema.tables()
    assert schema.tables()["layer_metrics"] is Value.table
