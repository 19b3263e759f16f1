"""Tables: a row class is a frozen dataclass whose fields are the columns of its table.

It declares once the name of its table, its columns and what each holds::

    class Peak(UnderView, table="peaks"):
        "The token that is farthest out at one layer."

        place: Place = at_place()
        token_id: int = column("id in the model's vocabulary", key=True)
        norm: float = column("norm of its state")

The first paragraph of its docstring and the comments are stored in the database; SQL types follow from the annotations.
Every ``Peak`` that a metric or an analysis yields is a row, if it names the class among its ``tables``. Columns that
say which cell it belongs to come from the base (here :class:`UnderView`) or from the body of the class, without a type.
Columns have the order of their declaration, those of the base first.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, ClassVar, Literal, Self, Union, dataclass_transform, get_args, get_origin, get_type_hints

WEIGHTS = "(weights)"
"""Takes the place of a corpus where only the weights are read."""
ALL_GROUPS = "(groups)"
"""Takes the place of a corpus where all groups of texts are read together."""

LOW = "lower end of the interval; NULL without an interval"
HIGH = "upper end of the interval"
TOKEN_ID = "id in the model's vocabulary"
TOKEN = "the token: ␣ is a space, <0xE7> a byte that is not text; ids distinguish tokens with equal text"

LAST_CHECKPOINT = "(study, model, checkpoint) IN (SELECT (study, model, checkpoint) FROM models WHERE is_last)"
"""SQL condition: a row is about the last checkpoint of its model. Every query that reads only that one uses it."""
NTH_CHECKPOINT = "(SELECT study, model, checkpoint, position AS nth_checkpoint FROM models)"
"""SQL table to join: which of a model's checkpoints it is, in the study's order."""
VIEWS = "coalesce(list_position(['text tokens', 'with special tokens', 'without sinks'], view), 9), view"
"""The order of token sets in SQL; of a number on several sets the first is read."""
FREE = "by_definition IS NOT TRUE"
"""SQL condition over ``layer_metrics``: the rows whose values say something of the model."""

_TYPES = {bool: "BOOLEAN", int: "INTEGER", float: "DOUBLE", str: "VARCHAR", datetime: "TIMESTAMP"}
_TYPES |= {dict: "VARCHAR", list: "VARCHAR"}  # as JSON
_DEPTH = "layer / L, so models of different depth share an axis"


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        name: its name.
        type: its DuckDB type.
        comment: what it holds, stored with it.
        key: whether it is one of the columns that together identify a row of the table.
        part: what it repeats of the cell (a part of its name, ``step``, ``role``, ``view``, ``kind``), filled in by the
            runner; empty for what the row itself says. A cell that compares two sides has the parts ``model_a``,
            ``model_b`` and so on. ``place``: one of the three columns of a field that holds a place.
        field: the field of the row class that holds its value; empty where the cell does.
        last: whether it comes after the columns that are declared later.
    """

    name: str
    type: str
    comment: str
    key: bool = False
    part: str = ""
    field: str = ""
    last: bool = False


@dataclass(frozen=True)
class Comparable:
    """Numbers of a table that ``reporter diff`` compares between two studies, in SQL over its columns.

    Args:
        values: columns of numbers.
        about: what a number is about, in place of the corpus of a metric.
        statistic: what it is a number of; the column's name if left out.
        interval: whether ``ci_low`` and ``ci_high`` are its interval, or the two columns that are.
        of: what the column is one of, where its name does not say all: ``norm`` of ``token the``.
        by: columns that identify a row in both studies, where the table's key does not, as a rank does not.
        among: which rows are compared, as an SQL clause (``WHERE …``, ``QUALIFY …``); all where it is empty.
    """

    values: tuple[str, ...]
    about: str
    statistic: str = ""
    interval: bool | tuple[str, str] = False
    of: str = ""
    by: tuple[str, ...] = ()
    among: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        name: its name.
        comment: what a row is: the first paragraph of the docstring of its class.
        columns: in order.
        fixed: parts of the cell's name that are the same for all rows and so have no column.
        compared: the numbers in it that ``reporter diff`` compares.
        more: the rest of the docstring.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]
    fixed: Mapping[str, str] = field(default_factory=dict)
    compared: tuple[Comparable, ...] = ()
    more: str = ""

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that together identify a row."""
        return tuple(column.name for column in self.columns if column.key)

    @cached_property
    def types(self) -> dict[str, str]:
        """The DuckDB type of each column."""
        return {column.name: column.type for column in self.columns}

    def holding(self, part: str) -> tuple[str, ...]:
        """Return the columns that hold a part of the cell's name: none, one, or one for each of two sides."""
        return self._holding.get(part, ())

    @cached_property
    def _holding(self) -> dict[str, tuple[str, ...]]:
        by_part: dict[str, tuple[str, ...]] = {}
        for column in self.columns:
            part = re.sub("_[ab]$", "", column.part)
            by_part[part] = (*by_part.get(part, ()), column.name)
        return by_part


def column(
    comment: str,
    type: str = "",
    *,
    key: bool = False,
    name: str = "",
    last: bool = False,
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Any:
    """Declare a field of a row class as a column.

    Args:
        comment: what it holds.
        type: its DuckDB type, where it does not follow from the annotation: BIGINT for counts that may be large.
        key: whether it is one of the columns that together identify a row.
        name: its name, where that is not the field's.
        last: whether it comes after the columns that are declared later.
        default: the field's default.
        default_factory: makes the field's default.
    """
    metadata = {"columns": (Column(name, type, comment, key, last=last),)}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def at_place(
    site: str = "'embedding', 'block', 'final' or 'attention'", layer: str = "0 = embedding, 1..L = blocks"
) -> Any:
    """Declare a field that holds a place, or None for the whole model: the columns site, layer and depth.

    The arguments are the comments of the columns.
    """
    columns = (
        Column("site", "VARCHAR", site, key=True, part="place"),
        Column("layer", "INTEGER", layer, key=True, part="place"),
        Column("depth", "DOUBLE", _DEPTH, part="place"),
    )
    return field(metadata={"columns": columns})


def aside(*, default: Any, kw_only: bool = False, compare: bool = True) -> Any:
    """Declare a field that is no column; an array is left out where rows are compared."""
    return field(default=default, kw_only=kw_only, compare=compare, metadata={"columns": ()})


def of_cell(comment: str, type: str = "VARCHAR", *, part: str = "", key: bool = True) -> Column:
    """Return a column that says which cell a row belongs to, for the body of a row class, without a type.

    ``part`` is the part of the cell, where its name is not that of the column; see :class:`Column`.
    """
    return Column("", type, comment, key, part)


@dataclass_transform(frozen_default=True, field_specifiers=(column, at_place, aside))
class Row:
    """Base of all row classes; one that names no ``table`` is the base of others.

    ``class Peak(UnderView, table="peaks")``; further keywords are parts of the cell's name that all rows of the table
    share: ``corpus="(weights)", metric="vocabulary"``.
    """

    table: ClassVar[Table] = Table("", "", ())
    compared: ClassVar[tuple[Comparable, ...]] = ()

    def __init_subclass__(cls, *, table: str = "", **fixed: str) -> None:
        """Make the class a frozen dataclass, and its table. Raises ``TypeError`` for what cannot be a table."""
        super().__init_subclass__()
        by_name = {column.name: column for column in (*cls.table.columns, *_columns(cls))}
        columns = sorted(by_name.values(), key=lambda column: column.last)
        first, _, more = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
        comment = " ".join(first.split())
        if table and not (comment and re.fullmatch("[a-z][a-z0-9_]*", table)):
            raise TypeError(f"{cls.__name__}: name the table like 'layer_metrics' and give the class a docstring")
        cls.table = Table(table, comment, tuple(columns), {**cls.table.fixed, **fixed}, cls.compared, more)
        dataclass(frozen=True)(cls)

    @classmethod
    def of(cls, source: Mapping[str, Any], **more: Any) -> Self:
        """Return a row with the values that a mapping has under the names of the fields; ``more`` is taken first."""
        fields = vars(cls)["__dataclass_fields__"]
        return cls(**{name: value for name, value in source.items() if name in fields} | more)

    def record(self, cell: Mapping[str, Any], layers: int) -> dict[str, Any]:
        """Return the row's values by column.

        Args:
            cell: the parts of its cell, by :attr:`Column.part`; columns of other parts are left out.
            layers: blocks of the (first) model, for the depth.
        """
        values: dict[str, Any] = {}
        for column in self.table.columns:
            if column.part == "place":
                values[column.name] = _of_place(getattr(self, column.field), column.name, layers)
            elif column.field:
                values[column.name] = getattr(self, column.field)
            elif column.part in cell:
                values[column.name] = cell[column.part]
        return values


def _of_place(place: Any, name: str, layers: int) -> Any:
    if place is None:
        return None
    return place.layer / layers if name == "depth" else getattr(place, name)


def _columns(cls: type[Row]) -> list[Column]:
    """Return the columns that the body of a class declares, in order."""
    annotations = inspect.get_annotations(cls)
    bare = [name for name in annotations if not isinstance(vars(cls).get(name), Field)]
    if bare:
        raise TypeError(f"{cls.__name__}.{bare[0]} is not a column; write `{bare[0]}: … = column('description')`")
    columns: list[Column] = []
    for name, declared in vars(cls).items():
        if isinstance(declared, Column):
            columns.append(replace(declared, name=name, part=declared.part or name))
        elif isinstance(declared, Field):
            columns += [replace(col, name=col.name or name, field=name) for col in declared.metadata["columns"]]
    untyped = {column.field: annotations[column.field] for column in columns if not column.type}
    types = get_type_hints(SimpleNamespace(__annotations__=untyped), vars(sys.modules[cls.__module__]))
    return [col if col.type else replace(col, type=_sql_type(cls, col.field, types[col.field])) for col in columns]


def _sql_type(cls: type[Row], name: str, annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = [part for part in get_args(annotation) if part is not NoneType]
    if get_origin(annotation) is Literal:
        annotation = type(get_args(annotation)[0])
    sql_type = _TYPES.get(get_origin(annotation) or annotation)
    if sql_type is None:
        raise TypeError(
            f"{cls.__name__}.{name}: the type of a column must be one of {', '.join(t.__name__ for t in _TYPES)}"
        )
    return sql_type


NUMBER_ROWS: list[Callable[[], Mapping[str, tuple[type[Row], ...]]]] = []
"""A room whose cells yield numbers appends a function when it is imported. The function returns the row classes of each
metric or analysis, under '' those of all. The database has a table for each of them.
"""


class OfStudy(Row):
    """A row that belongs to a study."""

    study = of_cell("id of the study")


class OfModel(OfStudy):
    """A row that belongs to a model checkpoint."""

    model = of_cell("name of the model in the study")
    checkpoint = of_cell("name of the checkpoint; 'final' where the study names none")
    step = of_cell("training step of the checkpoint; NULL where it is unknown", "BIGINT", key=False)
    role = of_cell("'encoder' or 'decoder', measured: whether later tokens change earlier states", key=False)


CORPUS = of_cell("name of the corpus in the study")
VIEW = of_cell("token set: 'text tokens', 'with special tokens' or 'without sinks'")
METRIC = of_cell("metric, the first part of a number's name")


class OfCorpus(OfModel):
    """A row of a metric on a corpus that is the same under every view, and so stored once."""

    corpus = CORPUS
    metric = METRIC


class OfPair(OfStudy):
    """A row of a metric about a pair of layers or of models, on a corpus under one view."""

    corpus = CORPUS
    view = VIEW
    metric = METRIC


class UnderView(OfModel):
    """A row of a metric on a corpus under one view."""

    corpus = CORPUS
    view = VIEW
    metric = METRIC
