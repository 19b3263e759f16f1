"""The charts of attention: each head's attention to the first token, and models beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Query, choices, parts
from reporter.charts.layout import titled
from reporter.charts.profile import beside
from reporter.charts.styles import Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(
    SENTENCES,
    "attention",
    "Attention",
    "Which heads park their attention on the first token, and which look around?",
    5,
)


def heads(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the attention of each head to the first token, layers upwards."""
    axis = alt.Axis(grid=False, domain=False, ticks=False, labelOverlap="greedy", labelSeparation=3, labelAngle=0)
    scale = alt.Scale(scheme="viridis", domain=[0, 1], clamp=True)
    return (
        alt.Chart(frame)
        .mark_rect(strokeWidth=0.6)
        .encode(
            x=alt.X("head:O", title="head", axis=axis),
            y=alt.Y("layer:O", title="layer", sort="descending", axis=axis),
            color=alt.Color("first_token:Q", scale=scale, legend=None),
            stroke=alt.Stroke("first_token:Q", scale=scale, legend=None),
            tooltip=parts.tips("layer", "head", "first_token", "sink_rate", "entropy", "distance"),
        )
        .properties(width="container", height=max(160, min(420, 14 * int(frame["layer"].nunique()))))
    )


HEADS = Chart(
    "sentences.heads",
    "Attention to the first token, head by head",
    Query(
        "attention_heads",
        """
SELECT model, checkpoint, item AS corpus, layer, head, first_token, sink_rate, entropy, distance
FROM attention_heads
WHERE study = $study
ORDER BY model, checkpoint, item, layer, head
""",
    ),
    heads,
    lead="A bright cell is a head whose weights lie on the first token, whatever the text.",
    table="attention_heads",
    columns=("first_token", "sink_rate", "entropy", "distance"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "corpus", "Reading")],
    value="first_token",
    legend="attention",
    half=True,
    statistics=("first_token",),
)

BESIDE = beside(
    "sentences.attention",
    "Models beside each other",
    "attention",
    "metric = 'attention' AND NOT ends_with(statistic, '_floor')",
    CHAPTER,
    picks=lambda frame, scene: [choices(frame, "corpus", "Reading"), titled(frame, scene, ("sink_rate",))],
)

CHARTS = (HEADS, BESIDE)
