"""The chart of followed tokens beside each other: when do two of them part?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Query, choices, parts
from reporter.charts.styles import Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(SENTENCES, "followed", "Followed tokens", "When do two tokens part, or become alike?", 5)
ANY = "any two tokens"
DASHES = {"pair": [1, 0], ANY: [1, 3]}


def pairs(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two followed tokens by layer, and the mean of any two tokens of the texts."""
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domainMax=1, zero=False))
    return parts.by_kind(frame, "pair", DASHES, y, parts.tips("pair", "kind", "layer", "value"))


PAIRED = Chart(
    "sentences.followed",
    "Two followed tokens by layer",
    Query(
        "followed",
        f"""
WITH own AS (
  SELECT model, checkpoint, journey, layer, depth, cosine, mean_cosine,
    token_a || ' (text ' || (text_a + 1) || ', position ' || position_a || ') and ' || token_b
      || ' (text ' || (text_b + 1) || ', position ' || position_b || ')' AS pair
  FROM journey_pairs WHERE study = $study AND site IN ('embedding', 'block')
)
SELECT model, checkpoint, journey, pair, 'pair' AS kind, layer, depth, cosine AS value FROM own
UNION ALL
SELECT DISTINCT model, checkpoint, journey, '{ANY}', '{ANY}', layer, depth, mean_cosine FROM own
ORDER BY model, checkpoint, journey, kind, pair, layer
""",
    ),
    pairs,
    lead="Cosine of the states of two tokens that the study follows. Dotted: the mean of any two tokens of its texts; "
    "two tokens are alike where they lie above it.",
    mind="A text or two: no interval. In a narrow cone any two tokens have a high cosine, so read a pair beside the "
    "dotted line, not beside 1.",
    table="journey_pairs",
    columns=("cosine", "mean_cosine"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "journey", "Journey")],
    key="pair",
    half=True,
)
