"""Correlations over the models of a study: a mark for each feature and method, its interval as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.chart import Query
from reporter.charts.layout import Pick, choices
from reporter.charts.readings import Shown, groups
from reporter.charts.scene import Scene
from reporter.charts.styles import FLOOR_GREY, INK, RULE_GREY, Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CORRELATIONS = Query(
    "correlations",
    """
SELECT corpus, view, score, feature, method, value, ci_low, ci_high, p, n
FROM correlations
WHERE study = $study AND metric = $metric
ORDER BY corpus, view, score, max(abs(value)) OVER (PARTITION BY corpus, view, score, feature) DESC NULLS LAST,
  feature, method
""",
)

ROW = 34
"""Height of one feature, in pixels."""
METHODS = ["pearson", "spearman"]
FEWEST_MODELS = 3
"""Below it a correlation says nothing: any two points lie on a line."""


def correlations(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw correlations between -1 and 1, the strongest feature on top."""
    scale = alt.Scale(domain=[-1, 1], nice=False)
    x = alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(grid=True, values=[-1, -0.5, 0, 0.5, 1], format="~g"))
    # null sort keeps the order of the rows, which is that of the query
    y = alt.Y("feature:N", title=None, sort=None, axis=alt.Axis(labelLimit=120, domain=False, grid=False))
    place = alt.YOffset("method:N", scale=alt.Scale(domain=METHODS, paddingOuter=0.5))
    shape = alt.Shape("method:N", scale=alt.Scale(domain=METHODS, range=["circle", "diamond"]), legend=None)
    color = alt.Color("method:N", scale=alt.Scale(domain=METHODS, range=[FLOOR_GREY, INK]), legend=None)
    valid = alt.Chart().transform_filter("isValid(datum.value)")
    layers = [alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY).encode(x=alt.XDatum(0, scale=scale))]
    if parts.has(frame, "ci_low"):
        line = valid.mark_rule(strokeWidth=2, opacity=0.4)
        ends = alt.X("ci_low:Q", title=None, scale=scale)
        layers.append(line.encode(x=ends, x2=alt.X2("ci_high:Q"), y=y, yOffset=place, color=color))
    points = valid.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        yOffset=place,
        shape=shape,
        color=color,
        tooltip=[
            alt.Tooltip("feature:N"),
            alt.Tooltip("score:N"),
            alt.Tooltip("method:N"),
            alt.Tooltip("value:Q", format=parts.NUMBER, title="correlation"),
            alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"),
            alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"),
            alt.Tooltip("p:Q", format=".2~g"),
            alt.Tooltip("n:Q", title="models"),
        ],
    )
    height = ROW * max(1, frame["feature"].nunique())
    return alt.layer(*layers, points, data=frame).properties(width="container", height=height)


def of_correlations(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say on how many models a correlation rests; a state for each ``view|score``."""
    states: dict[str, Shown] = {}
    for (view, score, corpus), rows in groups(frame, ["view", "score", "corpus"]):
        fewest, most = int(rows["n"].min()), int(rows["n"].max())
        count = f"n = {fewest}" if fewest == most else f"n = {fewest} to {most}"
        text = f"{count} models"
        if fewest < FEWEST_MODELS:
            text += f": fewer than {FEWEST_MODELS} say nothing, any two points lie on a line"
        states.setdefault(f"{view}|{score}", Shown({})).readings[corpus] = text
    return states


def correlation_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table of correlations: both methods of a feature in one row, the strongest first."""
    columns = ["corpus", "view", "score", "feature"]
    found = []
    for key, rows in groups(frame, columns):
        row: dict[str, Any] = dict(zip(columns, key, strict=True))
        row["n"] = int(rows["n"].max())
        for method in ("pearson", "spearman"):
            own = rows[rows["method"] == method]
            names = ("value", "ci_low", "ci_high", "p")
            row[method] = {name: own[name].iloc[0] for name in names} if len(own) else dict.fromkeys(names)
        row["strength"] = rows["value"].abs().max()
        found.append(row)
    return sorted(found, key=lambda row: (row["strength"] != row["strength"], -row["strength"]))


def which_score(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which score the features are held against."""
    return [choices(frame, "score", "Score")]
