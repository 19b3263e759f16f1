"""What a chart is divided into: panels side by side, and selectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reporter.charts.scene import Scene
from reporter.table import ALL_GROUPS

if TYPE_CHECKING:
    import pandas as pd


ASKED = "asked"
"""The column of a chart whose numbers are of different things in encoders and in decoders: corpus and role."""


@dataclass(frozen=True)
class Panel:
    """One of the small charts of a figure.

    Args:
        value: the value of the figure's facet column that it shows.
        label: its heading.
        models: the models that it is about; it hides with them. Empty where it is about all.
    """

    value: str
    label: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pick:
    """A selector of one figure.

    Args:
        name: the column whose rows it selects, or several with ``|`` between them; ``variant`` chooses between a
            chart's drawings; what begins with ``$`` is a parameter of the drawing.
        label: what the selector says.
        choices: from value to text, the first one chosen at first.
        shows: for a selector of panels, the values of the panels that each choice shows; its name is then no column.
    """

    name: str
    label: str
    choices: Mapping[str, str]
    shows: Mapping[str, Sequence[str]] = field(default_factory=dict)


def panels_of(frame: pd.DataFrame, facet: str, scene: Scene) -> list[Panel]:
    """Return the panels of a frame: one for each corpus, model, pair, comparison, or other value of a column.

    A corpus of the study has its panel also where the frame has none of its rows; models stand in the order of the
    legend, a model beside itself before pairs of two.

    Args:
        frame: the rows.
        facet: the column whose values are the panels; empty for a single one.
        scene: the order of models and corpora.
    """
    if not facet:
        return [Panel("", "")]
    if facet == "pair":
        order = {name: place for place, name in enumerate(scene.styles.names)}
        last = len(order)
        found = set(zip(*(frame[name].tolist() for name in ("pair", "model_a", "model_b")), strict=True))
        pairs = sorted(found, key=lambda f: (f[1] != f[2], order.get(f[1], last), order.get(f[2], last), f[0]))
        return [Panel(pair, one if one == other else f"{one} ↑ {other} →", (one, other)) for pair, one, other in pairs]
    if facet in ("corpus", ASKED) and "value" in frame and (known := frame["value"].notna()).any():
        frame = frame[known]  # a panel without a single number would be empty under every view
    values = list(dict.fromkeys(str(value) for value in frame[facet].unique()))
    if facet == "model":
        return [Panel(name, name, (name,)) for name in scene.styles.names if name in values]
    if facet == ASKED:
        place = {name: number for number, name in enumerate(scene.corpora)}
        rows = {str(row[ASKED]): row for row in frame[[ASKED, "corpus", "role"]].to_dict("records")}
        values.sort(
            key=lambda value: (place.get(str(rows[value]["corpus"]), len(place)), rows[value]["role"] != "encoder")
        )
    if facet == "corpus" and set(values) <= set(scene.corpora):
        values = [name for name in scene.corpora if name in values]
    return [Panel(value, "all groups" if value == ALL_GROUPS else value) for value in values]


def corpora(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which corpus; the panels are something else."""
    return [choices(frame, "corpus", "Corpus", scene.corpora)]


def choices(frame: pd.DataFrame, column: str, label: str, order: Sequence[str] = ()) -> Pick:
    """Return a selector of the values of a column.

    Args:
        frame: the rows.
        column: whose values.
        label: what the selector says.
        order: values that come first, where they occur.
    """
    found = dict.fromkeys(str(value) for value in frame[column].dropna().unique())
    wanted = [value for value in order if value in found]
    return Pick(column, label, {value: value for value in dict.fromkeys([*wanted, *found])})


def variants(**names: str) -> Pick:
    """Return a selector between a chart's drawings: from the name of each to what is said."""
    return Pick("variant", "Show", names)


def titled(frame: pd.DataFrame, scene: Scene, first: Sequence[str] = ()) -> Pick:
    """Return a selector of statistics by their titles, in the order of their definitions; floors come last.

    Args:
        frame: the rows.
        scene: names and titles.
        first: names that come before the others.
    """
    titles = scene.statistics
    found = choices(frame, "statistic", "Statistic", list(dict.fromkeys([*first, *titles]))).choices
    said = {name: titles.get(name) or f"floor of: {titles.get(name.removesuffix('_floor'), name)}" for name in found}
    return Pick("statistic", "Statistic", said)
