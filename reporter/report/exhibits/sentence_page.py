"""What stands on the page of sentences, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.analyses.registry import analyses
from reporter.report.exhibits import sentence_charts as charts
from reporter.report.exhibits import sentence_queries as queries
from reporter.report.exhibits.exhibit import Exhibit, choices, variants
from reporter.report.exhibits.static_charts import counts, explained, heights
from reporter.report.scene import Pick

if TYPE_CHECKING:
    import pandas as pd

HEADINGS = {
    "groups": ("Groups", "Do texts that mean the same lie together, more than random texts of the same make?"),
    "pairs": ("Pairs", "Is a concept a direction: do the differences of its pairs point the same way?"),
    "clouds": ("Clouds", "Texts of two or more corpora as points: are they told apart, and where?"),
    "probes": ("Probes", "What can a simple classifier read from the states of each layer?"),
}
"""Heading and lead of each section."""


ORDER = ("linear_selectivity", "hidden_selectivity")
"""Statistics that are shown first."""


def exhibits() -> dict[str, tuple[Exhibit, ...]]:
    """Return the exhibits of each section."""
    return {
        "groups": (GROUP_POINTS, GROUPS),
        "pairs": (CONCEPTS, PAIR_POINTS, DIRECTIONS),
        "clouds": (CLOUD_POINTS, SEPARABILITY, CLOUD_HISTOGRAMS, CLOUD_EXPLAINED),
        "probes": (PROBES, SELECTIVITY),
    }


def _item(frame: pd.DataFrame, column: str = "item", label: str = "Clouds") -> Pick:
    return choices(frame, column, label)


def _statistic(frame: pd.DataFrame, metric: str) -> Pick:
    """Return a selector of statistics, in the order of their definitions; floors come last."""
    titles = {statistic.name: statistic.title for statistic in analyses()[metric].statistics}
    order = [name for name in ORDER if name in titles] + list(titles)
    found = choices(frame, "statistic", "Statistic", order).choices
    said = {name: titles.get(name) or f"floor of: {titles.get(name.removesuffix('_floor'), name)}" for name in found}
    return Pick("statistic", "Statistic", said)


def _bring(frame: pd.DataFrame) -> Pick:
    names = dict.fromkeys(frame["concept"])
    return Pick("$bring", "Bring out", {"": "all alike", **{name: name for name in names}})


GROUP_POINTS = Exhibit(
    "sentences.group-points",
    "Texts by layer",
    "A point is a text, its colour its group; each layer is laid out by itself.",
    "projections",
    ("part", "label", "x", "y"),
    queries.GROUP_POINTS,
    drawing="points",
    options={
        "colour": ["text_group"],
        "order": True,
        "tell": ["text_group"],
        "axisNames": ["PC1", "PC2", ""],
        "height": 400,
    },
    by_layer=True,
    mind="two components may hide what others show, and their signs mean nothing: a picture may flip from layer to "
    "layer.",
    half=True,
)

GROUPS = Exhibit(
    "sentences.groups",
    "Groups against their controls",
    "Solid: the groups. Dotted and dashed: random characters and random words made to match each group.",
    "groups",
    ("text_group", "control", "silhouette", "within", "between", "ratio", "n"),
    queries.GROUPS,
    charts={name: charts.of_groups(name) for name in ("silhouette", "ratio")},
    picks=lambda frame: [
        variants(silhouette="silhouette", ratio="distance within / between"),
        Pick("$controls", "Controls", {"with": "shown", "without": "hidden"}),
    ],
    options={"legend": "text_group", "at": True},
    half=True,
)

CONCEPTS = Exhibit(
    "sentences.concepts",
    "Directions of concepts beside each other",
    "The cosine of the mean differences of two concepts. ●: p is below 0.05 divided by the number of these cosines; "
    "○: below 0.05 alone, as one in twenty is by chance.",
    "direction_cosines",
    ("concept_a", "concept_b", "cosine", "p"),
    queries.DIRECTION_COSINES,
    charts={"cosine": charts.concepts},
    picks=lambda frame: [choices(frame, "pairs", "Pairs")],
    options={"scale": "cosine"},
    by_layer=True,
    mind="p comes from random turns, so it cannot be smaller than one over their number: of many concepts none may "
    "reach the stricter level, whatever they do.",
    half=True,
)

DIRECTIONS = Exhibit(
    "sentences.directions",
    "Consistency of a concept",
    "1: all differences of a concept point one way; 0: they have nothing in common. Bring a concept out to see its "
    "interval.",
    "pair_directions",
    ("concept", "consistency", "ci_low", "ci_high", "p", "relative_norm", "n"),
    queries.PAIR_DIRECTIONS,
    charts={name: charts.directions(name) for name in ("consistency", "relative_norm")},
    picks=lambda frame: [
        choices(frame, "pairs", "Pairs"),
        variants(consistency="consistency", relative_norm="length of the mean difference, relative"),
        _bring(frame),
    ],
    options={"legend": "concept", "at": True},
)

PAIR_POINTS = Exhibit(
    "sentences.pair-points",
    "Differences by layer",
    "A point is a pair: its second text minus its first. An arrow is the mean of a concept; where its pairs agree, "
    "they lie around its tip.",
    "projections",
    ("part", "label", "x", "y"),
    queries.PAIR_POINTS,
    drawing="points",
    picks=lambda frame: [choices(frame, "pairs", "Pairs")],
    options={
        "colour": ["concept"], "tell": ["concept"], "arrows": True, "origin": True, "order": True, "height": 460,
        "axisNames": ["PC1", "PC2", ""], "even": True,
    },
    by_layer=True,
    half=True,
)  # fmt: skip

CLOUD_POINTS = Exhibit(
    "sentences.cloud-points",
    "Texts of the corpora by layer",
    "A point is a text, its colour its corpus.",
    "projections",
    ("part", "label", "x", "y"),
    queries.CLOUD_POINTS,
    drawing="points",
    picks=lambda frame: [_item(frame), choices(frame, "projection", "Picture", ("pca",))],
    options={"colour": ["corpus"], "order": True, "tell": ["corpus"], "axisNames": ["PC1", "PC2", ""], "height": 400},
    by_layer=True,
    half=True,
)

CLOUD_HISTOGRAMS = Exhibit(
    "sentences.cloud-histograms",
    "Distributions by layer",
    "Norms of each corpus, and cosine, distance and dot product of texts within a corpus and between two.",
    "histograms",
    ("measure", "part", "count"),
    queries.CLOUD_HISTOGRAMS,
    charts={"height": heights, "count": counts},
    picks=lambda frame: [
        _item(frame),
        choices(frame, "measure", "Measure", ("cosine", "norm", "distance", "dot")),
        variants(height="shape (peak = 1)", count="count (logarithmic)"),
    ],
    options={"legend": "part"},
    by_layer=True,
    half=True,
)

CLOUD_EXPLAINED = Exhibit(
    "sentences.cloud-explained",
    "Explained variance by layer",
    "How many directions the texts of a corpus really use. The dashed lines are half and 90 % of the variance.",
    "explained_variance",
    ("part", "components", "share", "n"),
    queries.CLOUD_EXPLAINED,
    charts={"share": explained},
    picks=lambda frame: [_item(frame)],
    options={"legend": "part"},
    by_layer=True,
    half=True,
)

SEPARABILITY = Exhibit(
    "sentences.separability",
    "How well the corpora are told apart",
    "Each model at its last checkpoint, over relative depth.",
    "layer_metrics",
    ("value", "ci_low", "ci_high", "n"),
    queries.SEPARABILITY,
    charts={"value": charts.separability},
    picks=lambda frame: [
        _item(frame, "corpus"),
        _statistic(frame, "clouds"),
    ],
    options={"legend": "model"},
    together=True,
    half=True,
    metric="clouds",
)

PROBES = Exhibit(
    "sentences.probes",
    "Accuracy and its control",
    "Solid: cross-validated accuracy. Dashed: the same classifier on classes drawn at random; dotted: the floor.",
    "layer_metrics",
    ("value", "ci_low", "ci_high", "n"),
    queries.PROBES,
    charts={"value": charts.probes},
    picks=lambda frame: [_item(frame, "corpus", "Probe")],
    options={"legend": "classifier", "at": True},
    half=True,
    metric="probes",
)

SELECTIVITY = Exhibit(
    "sentences.selectivity",
    "Models beside each other",
    "Selectivity is accuracy less that on random classes. Each model at its last checkpoint, over relative depth.",
    "layer_metrics",
    ("value", "ci_low", "ci_high", "n"),
    queries.SELECTIVITY,
    charts={"value": charts.by_depth},
    picks=lambda frame: [_item(frame, "corpus", "Probe"), _statistic(frame, "probes")],
    options={"legend": "model"},
    together=True,
    half=True,
    metric="probes",
)
