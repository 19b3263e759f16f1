"""The charts of clouds: texts by layer, how well corpora are told apart, distributions, explained variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Pick, Query, choices, variants
from reporter.charts.distributions import counts, explained, heights
from reporter.charts.layout import titled
from reporter.charts.parts import AXES
from reporter.charts.profile import beside, by_depth
from reporter.charts.styles import Styles

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(
    SENTENCES, "clouds", "Clouds", "Texts of two or more corpora as points: are they told apart, and where?", 3
)


def _item(frame: pd.DataFrame, column: str = "item") -> Pick:
    return choices(frame, column, "Clouds")


def separability(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw how well clouds are told apart, as high as the picture beside it."""
    return by_depth(frame, styles).properties(height=400)


CLOUD_POINTS = Chart(
    "sentences.cloud-points",
    "Texts of the corpora by layer",
    Query(
        "cloud_points",
        """
SELECT model, checkpoint, item, projection, site, layer, part AS corpus, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'clouds'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, item, projection, site, layer ORDER BY hash(point), part)
  <= 2000
ORDER BY model, checkpoint, item, projection, site, layer, part, point
""",
    ),
    "points",
    lead="A point is a text, its colour its corpus.",
    table="projections",
    columns=("part", "label", "x", "y"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [_item(frame), choices(frame, "projection", "Picture", ("pca",))],
    options={"colour": ["corpus"], "order": True, "tell": ["corpus"], "axisNames": AXES, "height": 400},
    by_layer=True,
    half=True,
)

# Of a model with several checkpoints the last one is drawn beside other models.
SEPARABILITY = beside(
    "sentences.separability",
    "How well the corpora are told apart",
    "separability",
    "metric = 'clouds' AND site IN ('embedding', 'block')",
    CHAPTER,
    picks=lambda frame, scene: [_item(frame, "corpus"), titled(frame, scene)],
    draw=separability,
)

CLOUD_HISTOGRAMS = Chart(
    "sentences.cloud-histograms",
    "Distributions by layer",
    Query(
        "cloud_histograms",
        """
SELECT model, checkpoint, item, measure, part, site, layer, low, high, count,
  count / max(count) OVER (PARTITION BY model, checkpoint, item, measure, part, site, layer) AS height,
  CAST(sum(count) OVER (PARTITION BY model, checkpoint, item, measure, part, site, layer) AS BIGINT) AS n
FROM histograms
WHERE study = $study AND analysis = 'clouds'
ORDER BY model, checkpoint, item, measure, site, layer, part, low
""",
    ),
    {"height": heights, "count": counts},
    lead="Norms of each corpus, and cosine, distance and dot product of texts within a corpus and between two.",
    table="histograms",
    columns=("measure", "part", "count"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [
        _item(frame),
        choices(frame, "measure", "Measure", ("cosine", "norm", "distance", "dot")),
        variants(height="shape (peak = 1)", count="count (logarithmic)"),
    ],
    key="part",
    by_layer=True,
    half=True,
)

CLOUD_EXPLAINED = Chart(
    "sentences.cloud-explained",
    "Explained variance by layer",
    Query(
        "cloud_explained",
        """
SELECT model, checkpoint, item, part, site, layer, components, share, n
FROM explained_variance
WHERE study = $study AND analysis = 'clouds'
ORDER BY model, checkpoint, item, site, layer, part, components
""",
    ),
    explained,
    lead="How many directions the texts of a corpus really use. The dashed lines are half and 90 % of the variance.",
    table="explained_variance",
    columns=("part", "components", "share", "n"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [_item(frame)],
    key="part",
    by_layer=True,
    half=True,
)

CHARTS = (
    CLOUD_POINTS,
    SEPARABILITY,
    CLOUD_HISTOGRAMS,
    CLOUD_EXPLAINED,
)
