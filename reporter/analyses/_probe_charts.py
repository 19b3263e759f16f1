"""The charts of probes: accuracy and its control, and models beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Query, choices, parts
from reporter.charts.layout import titled
from reporter.charts.profile import beside
from reporter.charts.styles import Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(SENTENCES, "probes", "Probes", "What can a simple classifier read from the states of each layer?", 4)
KINDS = {"accuracy": [1, 0], "control": [6, 3], "floor": [1, 3]}


def probes(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw what classifiers read at each layer, and what they read of classes drawn at random."""
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    tips = parts.tips("classifier", "kind", "layer", "value", "ci_low", "ci_high", "n")
    return parts.by_kind(frame, "classifier", KINDS, y, tips, _band)


def by_pooling(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the accuracy of the linear probe over layers, a line for each pooling."""
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    tips = parts.tips("pooling", "kind", "layer", "value", "ci_low", "ci_high", "n")
    kinds = {kind: KINDS[kind] for kind in ("accuracy", "floor")}
    return parts.by_kind(frame, "pooling", kinds, y, tips, _band)


def _band(base: Any) -> Any:
    """The interval of the accuracy."""
    band = base.transform_filter("datum.kind === 'accuracy'").mark_area(opacity=0.15)
    return band.encode(y=alt.Y("ci_low:Q", title=None), y2=alt.Y2("ci_high:Q"))


PROBES = Chart(
    "sentences.probes",
    "Accuracy and its control",
    Query(
        "probes",
        """
SELECT model, checkpoint, corpus,
  CASE split_part(statistic, '_', 1) WHEN 'linear' THEN 'linear probe' WHEN 'hidden' THEN 'one-hidden-layer probe'
    ELSE 'neighbours of the same class' END AS classifier,
  if(ends_with(statistic, '_control'), 'control', if(ends_with(statistic, '_floor'), 'floor', 'accuracy')) AS kind,
  layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = 'probes' AND site IN ('embedding', 'block')
  AND NOT regexp_matches(statistic, '_(selectivity|memorised)')
ORDER BY model, checkpoint, corpus, list_position(['linear probe', 'one-hidden-layer probe'], classifier) NULLS LAST,
  kind, layer
""",
    ),
    probes,
    lead="Solid: cross-validated accuracy, and the share of neighbours of the same class. Dashed: the same classifier "
    "on classes drawn at random; dotted: chance.",
    mind="Each band is for one layer alone. The table probe_differences compares layers, and a model with its base, on "
    "the same texts; the answer 'What do probes tell apart?' says which of them differ.",
    table="layer_metrics",
    columns=("value", "ci_low", "ci_high", "n"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "corpus", "Probe")],
    key="classifier",
    half=True,
    statistics=("*",),
)

POOLINGS = Chart(
    "sentences.poolings",
    "Accuracy by pooling",
    Query(
        "probe_poolings",
        """
WITH own AS (
  SELECT *, if(pooling = 'mean', 'mean of the tokens', pooling || ' token') || if(main, ' (default)', '') AS named
  FROM probe_poolings WHERE study = $study AND site IN ('embedding', 'block')
  WINDOW of_probe AS (PARTITION BY model, checkpoint, probe)
  QUALIFY min(pooling) OVER of_probe <> max(pooling) OVER of_probe
)
SELECT model, checkpoint, probe, named AS pooling, 'accuracy' AS kind, layer, depth, accuracy AS value, ci_low, ci_high,
  n, main
FROM own
UNION ALL
SELECT model, checkpoint, probe, named, 'floor', layer, depth, chance, NULL, NULL, n, main FROM own WHERE main
ORDER BY model, checkpoint, probe, main DESC, pooling, kind, layer
""",
    ),
    by_pooling,
    lead="Cross-validated accuracy of the linear probe with each pooling, on the same texts. Dotted: chance.",
    mind="Each band is for one layer and pooling alone; the answer 'Which layer?' compares them on the same texts.",
    table="probe_poolings",
    columns=("pooling", "accuracy", "ci_low", "ci_high", "n"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "probe", "Probe")],
    key="pooling",
    half=True,
)

SELECTIVITY = beside(
    "sentences.selectivity",
    "Models beside each other",
    "selectivity",
    "metric = 'probes' AND site IN ('embedding', 'block') AND NOT ends_with(statistic, '_floor')",
    CHAPTER,
    picks=lambda frame, scene: [
        choices(frame, "corpus", "Probe"),
        titled(frame, scene, ("linear_selectivity", "hidden_selectivity")),
    ],
    lead="Selectivity is accuracy less that on random classes. Each model at its last checkpoint, over relative depth.",
)

CHARTS = (
    PROBES,
    POOLINGS,
    SELECTIVITY,
)
