"""How far the numbers of two runs may differ where devices, batches or precisions do.

u is the unit roundoff of the factors of a product: 0 in float32, which rounds only sums, 2⁻¹¹ in TF32, 2⁻⁸ in bfloat16.

1. A computed product of k terms is the exact product of factors that are off by at most γ, relatively (Higham 2002,
   "Accuracy and Stability of Numerical Algorithms", chapter 3). Rounding both factors of each term gives 2u, and a
   float32 sum of k terms gives ``roundings(k)``·2⁻²⁴ (:mod:`reporter.geometry.pairs`). So γ = 2u + roundings(k)·2⁻²⁴.
   k is the length of the longest product of the model, four times its width.
2. A device therefore measures a model whose weights are off by at most γ. The CPU measures such models: each weight is
   multiplied by 1 + e, e uniform in ±γ. The largest change of a statistic over all its places is its response R.
3. A number may differ by 8·R, eight times the response, as rounding errors of eight standard deviations are never met
   in ``roundings``. It may also differ by 8·2⁻²⁴ of the largest number of its statistic, since numbers are made of
   float32 states. Each end of an interval may differ as much as its own response allows.
4. Counts and ranks jump. A number may also differ by one observation: 1/n of the range of its statistic, of the largest
   number where the range is open. A column of the table counts such numbers. An end of the interval of a median is
   itself an observation: it may be the next one, and where few observations lie in the interval, the next one can be as
   far away as the wider of the two intervals is wide.
5. A place where a number exists in one of these models and not in another is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reporter.geometry.pairs import UNIT32, roundings
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.store import Store

SAFETY = 8
UNITS = {"float32": 0.0, "TF32": 2.0**-11, "bfloat16": 2.0**-8}
STATISTICS = {
    f"{kind.name}.{statistic.name}": statistic
    for kinds in (catalogue(), analyses())
    for kind in kinds.values()
    for statistic in kind.statistics
}
"""Every statistic of every registered metric and analysis."""
_NUMBERS = """
SELECT concat_ws(' ', study, model, checkpoint, corpus, view, metric, statistic, site, layer) AS key,
    metric || '.' || statistic AS name, value, ci_low, ci_high, n
FROM layer_metrics
UNION ALL
SELECT concat_ws(' ', study, model_a, checkpoint_a, layer_a, model_b, checkpoint_b, layer_b, corpus, view, metric,
    statistic), metric || '.' || statistic, value, ci_low, ci_high, n
FROM layer_pairs
"""


def read_numbers(store: Store) -> pd.DataFrame:
    """Return every number of a run with its interval, by what it is of."""
    return store.frame(_NUMBERS).set_index("key").sort_index()


def relative_error(products: str, width: int) -> float:
    """Return γ of a model of that width."""
    return 2 * UNITS[products] + roundings(4 * width) * UNIT32


@dataclass(frozen=True)
class Compared:
    """How far the numbers of a run are from those of another one; ``failed`` are those beyond their tolerance."""

    statistics: int
    numbers: int
    equal: int
    worst: float
    of: str
    by_one: int
    failed: list[str]


def compare(numbers: pd.DataFrame, against: pd.DataFrame, moved: Sequence[pd.DataFrame]) -> Compared:
    """Compare numbers; the response is how far the later ones of ``moved`` are from the first."""
    origin, *others = moved
    a, b = against, numbers.reindex(against.index)
    near = [other.reindex(origin.index) for other in others]
    unsure = pd.concat([x["value"].isna() != origin["value"].isna() for x in near]).groupby(level=0).any()
    lacks = (a["value"].isna() != b["value"].isna()) & ~unsure.reindex(a.index, fill_value=False)
    failed = [f"{key}: {a.at[key, 'value']}, {b.at[key, 'value']}" for key in a.index[lacks]]
    failed += [f"{key}: not there, {numbers.at[key, 'value']}" for key in numbers.index.difference(a.index)]
    bounds = [STATISTICS[name.removesuffix("_floor")].bounds for name in a["name"]]
    reach = np.array([high - low if None not in (low, high) else np.nan for low, high in bounds], dtype=float)
    medians = np.array(["median" in STATISTICS[name.removesuffix("_floor")].title for name in a["name"]])
    equal = by_one = total = 0
    worst, of, names = 0.0, "", set[str]()
    for column in ("value", "ci_low", "ci_high"):
        changes = pd.concat([(x[column] - origin[column]).abs() for x in near]).groupby(level=0).max()
        response = changes.groupby(origin["name"]).max().reindex(a["name"]).fillna(0.0).to_numpy()
        size = a[column].abs().groupby(a["name"]).transform("max").fillna(0.0).to_numpy()
        tolerance = np.maximum(SAFETY * (response + UNIT32 * size), np.finfo(float).tiny)
        x, y = a[column].to_numpy(dtype=float), b[column].to_numpy(dtype=float)
        both = ~np.isnan(x) & ~np.isnan(y)
        off = np.where(both, np.abs(x - y), 0.0)
        one = np.where(np.isnan(reach), size, reach) / np.maximum(a["n"].to_numpy(), 1)
        if column != "value":
            wide = np.fmax(*((side["ci_high"] - side["ci_low"]).to_numpy(dtype=float) for side in (a, b)))
            one = np.where(medians, np.fmax(one, wide), one)
        jumps = (off > tolerance) & (off <= one)
        ratio = np.where(jumps, 0.0, off / tolerance)
        failed += [
            f"{a.index[i]} {column}: {x[i]:.8g}, {y[i]:.8g}, tolerance {tolerance[i]:.2g}"
            for i in np.flatnonzero(ratio > 1)
        ]
        total, equal, by_one = total + int(both.sum()), equal + int((both & (x == y)).sum()), by_one + int(jumps.sum())
        names |= set(a["name"][both])
        if ratio.max(initial=0.0) > worst:
            worst, of = float(ratio.max()), str(a["name"].iloc[int(ratio.argmax())])
    return Compared(len(names), total, equal, worst, of, by_one, failed)
