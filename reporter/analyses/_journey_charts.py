"""The chart of followed tokens beside each other: when do two of them part?"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Query, choices, parts
from reporter.charts.styles import CATEGORIES, Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(SENTENCES, "followed", "Followed tokens", "When do two tokens part, or become alike?", 5)
ANY = "any two tokens"


def pairs(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two followed tokens by layer, and the mean of any two tokens of the texts."""
    kinds = list(dict.fromkeys(frame["pair"]))
    colors = [color for color, _ in zip(cycle(CATEGORIES), kinds, strict=False)]
    x = parts.layers(frame)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domainMax=1, zero=False))
    color = alt.Color("pair:N", scale=alt.Scale(domain=kinds, range=colors), legend=None)
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=["pair", ANY], range=[[1, 0], [1, 3]]), legend=None)
    base = alt.Chart().encode(x=x, color=color, detail=alt.Detail("kind:N"))
    line = base.mark_line(strokeWidth=1.9).encode(y=y, strokeDash=dash)
    points = base.mark_point(filled=True, size=40, opacity=0.9).encode(
        y=y, tooltip=parts.tips("pair", "kind", "layer", "value")
    )
    return (
        alt.layer(parts.here(), line, points, data=frame)
        .add_params(*parts.at_params())
        .properties(width="container", height=260)
    )


PAIRED = Chart(
    "sentences.followed",
    "Two followed tokens by layer",
    Query(
        "followed",
        f"""
WITH own AS (
  SELECT model, checkpoint, journey, layer, depth, cosine, mean_cosine,
    token_a || ' (text ' || text_a || ', position ' || position_a || ') and ' || token_b || ' (text ' || text_b
      || ', position ' || position_b || ')' AS pair
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
