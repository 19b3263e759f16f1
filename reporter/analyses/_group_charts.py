"""The charts of groups: texts by layer, and groups against their controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Pick, Query, parts, variants
from reporter.charts.parts import AXES
from reporter.charts.styles import Styles, colours, ordered
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(
    SENTENCES,
    "groups",
    "Groups",
    "Do texts that mean the same lie together, more than random texts of the same make?",
    1,
)
CONTROLS = {"none": [1, 0], "random-characters": [2, 3], "random-words": [6, 4]}
"""Dash of a group's own texts and of what was made to match them."""


def of_groups(column: str) -> Any:
    """Return what draws a column of ``groups`` over the layers, each group a colour, each control a dash.

    Args:
        column: ``silhouette`` or ``ratio``.
    """

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        names = ordered(list(frame["text_group"]), styles.named)
        x = parts.layers()
        y = alt.Y(f"{column}:Q", title=None, scale=parts.same_reach(frame, column))
        color = alt.Color("text_group:N", scale=alt.Scale(domain=names, range=colours(len(names))), legend=None)
        dash = alt.StrokeDash(
            "control:N", scale=alt.Scale(domain=list(CONTROLS), range=list(CONTROLS.values())), legend=None
        )
        seen = "controls === 'with' || datum.control === 'none'"
        base = alt.Chart().transform_filter(seen).encode(x=x, y=y, color=color, detail=alt.Detail("control:N"))
        line = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)
        points = base.transform_filter("datum.control === 'none'").mark_point(filled=True, size=36, opacity=1)
        points = points.encode(
            tooltip=parts.tips("text_group", "layer", "silhouette", "within", "between", "ratio", "n")
        )
        far = base.mark_point(size=60, opacity=0, filled=True)
        far = far.encode(
            tooltip=parts.tips("text_group", "control", "layer", "silhouette", "within", "between", "ratio")
        )
        chart = alt.layer(parts.here(), line, far, points, data=frame).add_params(*parts.at_params(controls="with"))
        return chart.properties(width="container", height=400)

    return draw


GROUP_POINTS = Chart(
    "sentences.group-points",
    "Texts by layer",
    Query(
        "group_points",
        """
SELECT model, checkpoint, site, layer, part AS text_group, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'groups' AND projection = 'pca'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, site, layer ORDER BY hash(point), part) <= 2000
ORDER BY model, checkpoint, site, layer, part, point
""",
    ),
    "points",
    lead="A point is a text, its colour its group; each layer is laid out by itself.",
    table="projections",
    columns=("part", "label", "x", "y"),
    chapter=CHAPTER,
    options={"colour": ["text_group"], "order": True, "tell": ["text_group"], "axisNames": AXES, "height": 400},
    by_layer=True,
    mind="Two components may hide what others show, and their signs mean nothing: a picture may flip from layer to "
    "layer.",
    half=True,
)

GROUPS = Chart(
    "sentences.groups",
    "Groups against their controls",
    Query(
        "groups",
        """
SELECT model, checkpoint, text_group, control, pooling, site, layer, depth, silhouette, within, between, ratio, n
FROM groups
WHERE study = $study AND site IN ('embedding', 'block')
QUALIFY dense_rank() OVER (PARTITION BY model, checkpoint ORDER BY text_group) <= 24
ORDER BY model, checkpoint, control <> 'none', control, text_group, layer
""",
    ),
    {name: of_groups(name) for name in ("silhouette", "ratio")},
    lead="Solid: the groups. Dotted and dashed: random characters and random words made to match each group.",
    table="groups",
    columns=("text_group", "control", "silhouette", "within", "between", "ratio", "n"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [
        variants(silhouette="silhouette", ratio="distance within / between"),
        Pick("$controls", "Controls", {"with": "shown", "without": "hidden"}),
    ],
    key="text_group",
    half=True,
)

CHARTS = (
    GROUP_POINTS,
    GROUPS,
)
