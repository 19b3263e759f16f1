"""What a table and a column are, and the columns that several tables share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column: its name, DuckDB type and the comment stored with it."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Table:
    """A table, what one of its rows is, and the columns that tell its rows apart."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]


STUDY = Column("study", "VARCHAR", "id of the study")
MODEL = Column("model", "VARCHAR", "name of the model in the study")
CHECKPOINT = Column("checkpoint", "VARCHAR", "name of the checkpoint; 'final' where the model has only one")
STEP = Column("step", "BIGINT", "training step of the checkpoint; NULL where it is unknown")
ROLE = Column("role", "VARCHAR", "'encoder' or 'decoder', measured: does a later token change an earlier state?")
CORPUS = Column("corpus", "VARCHAR", "name of the corpus in the study")

METRIC = Column("metric", "VARCHAR", "metric, the first part of a number's name")
SITE = Column("site", "VARCHAR", "'embedding', 'block', 'final' or 'attention'")
LAYER = Column("layer", "INTEGER", "0 = embedding, 1..L = blocks")
DEPTH = Column("depth", "DOUBLE", "layer / L, so that models of different depth share an axis")
VIEW = Column("view", "VARCHAR", "which tokens count: 'words', 'all' or 'no-sinks'")
VALUE = Column("value", "DOUBLE", "the number; NULL where it could not be computed (reason in cells.reasons)")
LOW = Column("ci_low", "DOUBLE", "lower end of its interval; NULL where it has none")
HIGH = Column("ci_high", "DOUBLE", "upper end of its interval")
N = Column("n", "BIGINT", "how many observations it rests on")
HERE = (STUDY, MODEL, CHECKPOINT, STEP, ROLE, CORPUS, VIEW, METRIC, SITE, LAYER, DEPTH)
