"""Over the models of a role: the mean of every number, with Student's interval over these models, or one over texts."""

from __future__ import annotations

from math import sqrt

import numpy as np

from reporter.geometry.intervals import quantile
from reporter.store import Store
from reporter.table import FREE

FEWEST_MODELS = 2  # one is no mean
FEWEST_SPREAD = 3  # with two, Student's t has one degree of freedom: the interval would be 12.7 standard errors wide
_KEY = ("role", "step", "corpus", "view", "metric", "statistic", "site", "layer")
_COLUMNS = (*_KEY, "models", "value", "ci_low", "ci_high")
# Null baselines are no models of a role. Means over layers are over the embedding and the blocks, as profiles show.
# A value that is fixed by definition takes no part in any mean.
_OF_MODELS = f"""
WITH own AS (
    FROM layer_metrics WHERE study = $study AND value IS NOT NULL AND {FREE}
    AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
), known AS (
    SELECT model, models.checkpoint AS last, count(DISTINCT own.step) > 1 AS trained
    FROM own JOIN models USING (study, model) WHERE is_last GROUP BY ALL
), each AS (
    SELECT model, checkpoint, {", ".join(_KEY)}, value, ci_low, ci_high FROM own
    UNION ALL BY NAME
    SELECT model, checkpoint, role, step, corpus, view, metric, statistic, avg(value ORDER BY layer) AS value,
        if(count(ci_low) = count(value), avg(ci_low ORDER BY layer), NULL) AS ci_low,
        if(count(ci_high) = count(value), avg(ci_high ORDER BY layer), NULL) AS ci_high
    FROM own WHERE site IN ('embedding', 'block') AND layer IS NOT NULL GROUP BY ALL
)
SELECT {", ".join(_KEY)}, list(value ORDER BY model) AS values, list(ci_low ORDER BY model) AS lows,
    list(ci_high ORDER BY model) AS highs
FROM (
    SELECT * FROM each JOIN known USING (model) WHERE trained AND step IS NOT NULL
    UNION ALL BY NAME
    SELECT * EXCLUDE (step) FROM each JOIN known USING (model) WHERE checkpoint = last
) WHERE role IS NOT NULL GROUP BY ALL HAVING count(*) >= {FEWEST_MODELS} ORDER BY {", ".join(_KEY)}
"""
_STORED = f"SELECT {', '.join(_COLUMNS)} FROM over_models WHERE study = $study ORDER BY {', '.join(_KEY)}"


def write_over_models(store: Store, study: str) -> int:
    """Store the mean of every number over the models of a role, where two or more have it, if it is not there yet.

    Models with several checkpoints are compared at each training step, and all models at their last checkpoint. The
    interval is mean ± t(0.975, M − 1) · s/√M for M models, s their standard deviation. Two models say nothing of
    others: their interval is over texts and speaks of these two alone. Its ends are the means of theirs, as if the
    errors of models on the same texts went together wholly, so it is never too narrow; NULL where one of them has none.

    Args:
        store: the database.
        study: id of the study.

    Returns:
        how many means were stored; 0 where they were there already.

    Source: Student 1908, "The probable error of a mean", Biometrika 6.
    """
    each, stored = (
        [tuple(row.values()) for row in store.records(sql, {"study": study})] for sql in (_OF_MODELS, _STORED)
    )
    rows = [
        dict(zip(_COLUMNS, (*key, len(values), *_interval(values, lows, highs)), strict=True))
        for *key, values, lows, highs in each
    ]
    if [tuple(row.values()) for row in rows] == stored:
        return 0
    store.replace("over_models", study, rows)
    return len(rows)


_Ends = list[float | None]  # of intervals; None where a number has none


def _interval(values: list[float], lows: _Ends, highs: _Ends) -> tuple[float, float | None, float | None]:
    """Return the mean of one number for each model, and both ends of its interval."""
    mean = float(np.mean(values))
    if len(values) < FEWEST_SPREAD:
        known = [end for end in (*lows, *highs) if end is not None]
        if len(known) < 2 * len(values):
            return mean, None, None
        return mean, float(np.mean(known[: len(values)])), float(np.mean(known[len(values) :]))
    half = quantile(0.975, len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    return mean, mean - half, mean + half
