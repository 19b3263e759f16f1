"""The kinds of charts: for each its query, its drawing, its panels and selectors, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.report import captions, figure_queries, layout, shown
from reporter.report.charts.correlations import correlations
from reporter.report.charts.curves import cuts, scales, spectra
from reporter.report.charts.dots import dots
from reporter.report.charts.pairs import pairs
from reporter.report.charts.profile import difference, profile
from reporter.report.charts.shares import shares
from reporter.report.charts.training import training
from reporter.report.charts.types import types
from reporter.report.queries import Query
from reporter.report.scene import Panel, Pick, Scene
from reporter.report.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

    from reporter.metrics.base import Statistic

Draw = Callable[..., Any]
States = Callable[["pd.DataFrame", "Statistic", Scene], dict[str, Shown]]
Panels = Callable[["pd.DataFrame", Scene], list[Panel]]
Picks = Callable[["pd.DataFrame", Scene], list[Pick]]


@dataclass(frozen=True)
class Kind:
    """A kind of chart.

    Args:
        name: its class on the page.
        query: what it rests on.
        draw: makes the Altair chart of one panel from frame, statistic, styles and axis.
        states: what is said about it for each state of the controls in ``keys``.
        keys: the controls that make the name of a state, in this order: ``site``, ``view``, ``moment``, ``baselines``
            and names of its own selectors.
        facet: the column whose values are the panels.
        panels: its panels.
        picks: its own selectors.
        value: the column of its values.
        legend: which legend stands over it: ``depth``, ``cuts``, ``shares``, ``similarity``, ``methods`` or none.
        tall: whether it is drawn higher where it has the whole width.
        positive: whether values that are not above 0 cannot be drawn.
    """

    name: str
    query: Query
    draw: Draw
    states: States
    keys: tuple[str, ...]
    facet: str = "corpus"
    panels: Panels = layout.by_corpus
    picks: Picks = layout.nothing
    value: str = "value"
    legend: str = ""
    tall: bool = False
    positive: bool = False


PROFILE = Kind(
    "profile",
    figure_queries.PROFILE,
    profile,
    shown.over_moments,
    ("site", "view", "moment", "baselines"),
    tall=True,
)
DOTS = Kind("dots", figure_queries.DOTS, dots, shown.over_moments, ("view", "moment", "baselines"))
TRAINING = Kind(
    "training",
    figure_queries.TRAINING,
    training,
    shown.over_layers,
    ("view", "layer", "baselines"),
    picks=layout.layers,
    tall=True,
)
TRAINING_OF_MODELS = Kind(
    "training",
    figure_queries.TRAINING_OF_MODELS,
    training,
    shown.over_layers,
    ("view", "layer", "baselines"),
    picks=layout.layers,
    tall=True,
)
SHARES = Kind(
    "shares",
    figure_queries.SHARES,
    shares,
    captions.of_shares,
    ("view", "moment", "corpus"),
    "model",
    layout.by_model,
    layout.corpora,
    legend="shares",
)
TYPES = Kind(
    "types",
    figure_queries.TYPES,
    types,
    captions.of_types,
    ("view", "corpus", "part"),
    "model",
    layout.by_model,
    layout.parts,
    value="variance",
    positive=True,
)
SPECTRA = Kind(
    "spectra",
    figure_queries.SPECTRA,
    spectra,
    captions.of_spectra,
    ("view", "moment", "corpus"),
    "model",
    layout.by_model,
    layout.corpora,
    legend="depth",
)
SCALES = Kind(
    "scales",
    figure_queries.SCALES,
    scales,
    captions.of_scales,
    ("view", "moment", "corpus"),
    "model",
    layout.by_model,
    layout.corpora,
    legend="depth",
)
CUTS = Kind(
    "cuts",
    figure_queries.CUTS,
    cuts,
    captions.of_cuts,
    ("moment", "corpus", "rule", "statistic"),
    "model",
    layout.by_model,
    layout.cuts,
    legend="cuts",
)
PAIRS = Kind(
    "pairs",
    figure_queries.PAIRS,
    pairs,
    captions.of_pairs,
    ("view", "moment", "corpus", "statistic"),
    "pair",
    layout.by_pair,
    layout.pairs,
    legend="similarity",
)
DIFFERENCES = Kind(
    "differences",
    figure_queries.DIFFERENCES,
    difference,
    shown.over_comparisons,
    ("view", "moment", "statistic", "baselines"),
    "comparison",
    layout.by_comparison,
    layout.statistics,
    tall=True,
)
DIFFERENCES_OF_MODELS = Kind(
    "dots",
    figure_queries.DIFFERENCES_OF_MODELS,
    dots,
    shown.over_comparisons,
    ("view", "moment", "statistic", "baselines"),
    "comparison",
    layout.by_comparison,
    layout.statistics,
)
CORRELATIONS = Kind(
    "correlations",
    figure_queries.CORRELATIONS,
    correlations,
    captions.of_correlations,
    ("view", "score"),
    picks=layout.scores,
    legend="methods",
)
