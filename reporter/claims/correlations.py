"""Over the models of a study: how the features of their layers go with how well they do."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from reporter.geometry.correlation import Method, fisher_interval
from reporter.store import Store
from reporter.store.schema import Correlation

Record = dict[Any, Any]
FEWEST_MODELS = 3  # two points always lie on a line
LOSS = ("loss", "lm")

# Baselines have no part.
_FEATURES = """
SELECT l.model, m.role, l.corpus, l.view, l.metric, l.statistic, l.value
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND m.is_last AND m.baseline IS NULL AND m.status = 'done' AND l.layer IS NULL
  AND l.value IS NOT NULL
ORDER BY l.model
"""
_SCORES = "SELECT DISTINCT model, scores FROM models WHERE study = $study AND scores IS NOT NULL AND baseline IS NULL"


def correlate(feature: str, score: str, x: list[float], y: list[float]) -> Iterator[Correlation]:
    """Yield Pearson's and Spearman's correlation of a feature and a score over the same models.

    The interval is that of Fisher's z, none for fewer than four models; p is two-sided.
    """
    n = len(x)
    methods: tuple[Method, Method] = ("pearson", "spearman")
    if n < FEWEST_MODELS or len(set(x)) == 1 or len(set(y)) == 1:
        yield from (Correlation(feature, score, method, None, None, None, None, n) for method in methods)
        return
    from scipy import stats  # takes a second, and most studies have too few models

    for method, function in zip(methods, (stats.pearsonr, stats.spearmanr), strict=True):
        found = function(x, y)
        value = float(found.statistic)
        low, high = fisher_interval(value, n, method)
        yield Correlation(feature, score, method, value, low, high, float(found.pvalue), n)


def write_correlations(store: Store, study: str) -> int:
    """Correlate every number of whole models with every score, and store it in place of what was there.

    Scores are those that the study gives, and the measured loss, which is compared among encoders and among decoders
    apart.

    Args:
        store: the database.
        study: id of the study.

    Returns:
        how many correlations were stored.
    """
    with store.reading() as read:
        features: list[Record] = read(_FEATURES, {"study": study}).to_dict("records")
        given = {row["model"]: json.loads(row["scores"]) for row in read(_SCORES, {"study": study}).to_dict("records")}
    rows: list[Record] = [
        found.record({"corpus": corpus, "view": view, "metric": metric}, 0)
        for (corpus, view, metric, feature), values in _by_feature(features).items()
        for score, of_models in _scores(features, given, corpus, view).items()
        if len(both := [model for model in values if model in of_models]) >= 2
        for found in correlate(feature, score, [values[m] for m in both], [of_models[m] for m in both])
    ]
    store.replace("correlations", study, rows)
    return len(rows)


def _by_feature(features: list[Record]) -> dict[tuple[str, str, str, str], dict[str, float]]:
    found: dict[Any, dict[str, float]] = defaultdict(dict)
    for row in features:
        if (row["metric"], row["statistic"]) != LOSS:
            found[row["corpus"], row["view"], row["metric"], row["statistic"]][row["model"]] = row["value"]
    return found


def _scores(
    features: list[Record], given: Mapping[str, Mapping[str, float]], corpus: str, view: str
) -> dict[str, dict[str, float]]:
    """Return the value of each score for each model that has it."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for model, scores in given.items():
        for score, value in scores.items():
            found[score][model] = value
    for row in features:
        if (row["corpus"], row["view"], row["metric"], row["statistic"]) == (corpus, view, *LOSS):
            found[f"loss.lm of {row['role']}s"][row["model"]] = row["value"]
    return found
