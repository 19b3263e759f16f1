"""How far the numbers of two sides differ, with the intervals of claims and of the overview."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.core.table import FREE
from reporter.geometry.intervals import quantile
from reporter.judge.estimates import Estimates, bounds_of_difference, clipped
from reporter.judge.facts import bounds_in, with_analyses
from reporter.judge.profiles import PROFILE, Profile, read_profiles

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

Blocks = tuple[int, int] | None
"""How many blocks two models have that differ in depth."""
DEEPER = "deeper"
"""The name of the numbers of the deeper of two models at its own layers."""
_COLUMNS = ("id", "ci_low", "ci_high", "p", "texts")
_Numbers = dict[tuple[Any, ...], tuple[list[dict[str, Any]], Profile]]


def bring_to_common_depths(connection: duckdb.DuckDBPyConnection, blocks: tuple[int, int]) -> None:
    """Make the numbers of the deeper of two models at the relative depths of the other one's layers."""
    import pandas as pd

    side, common, rows = ("a" if blocks[0] > blocks[1] else "b"), min(blocks), []
    of_layers = f"SELECT DISTINCT {', '.join(PROFILE)} FROM {side}_{DEEPER} WHERE layer IS NOT NULL"
    connection.execute(f"CREATE TEMP VIEW differing AS {of_layers}")
    for (*key, site), (_, profile) in _profiles(connection, side, True, "false").items():
        x = np.arange(common + 1) / common
        at = profile.brought_to(x[(x >= profile.x[0] - 1e-9) & (x <= profile.x[-1] + 1e-9)])
        low, high = at.numbers.interval()
        for depth, *number in zip(*(array.tolist() for array in (at.x, at.values, low, high)), strict=True):
            layer = round(depth * common)
            rows.append((*key, "embedding" if site == "block" and not layer else site, layer, *number))
    columns = (*PROFILE, "site", "layer", "value", "ci_low", "ci_high")
    connection.register("brought", pd.DataFrame(rows, columns=columns).replace([np.inf, -np.inf], np.nan))
    own = f"""SELECT * FROM {side}_{DEEPER} ANTI JOIN brought USING ({", ".join(PROFILE)}, site, layer)
        WHERE layer IS NULL OR (value IS NULL AND layer <= {common})"""
    connection.execute(
        f"DROP VIEW differing; CREATE TEMP TABLE {side}_layer_metrics AS {own} UNION ALL BY NAME FROM brought"
    )


def contrasts(connection: duckdb.DuckDBPyConnection, numbers: pd.DataFrame, blocks: Blocks) -> pd.DataFrame:
    """Return the 95 % intervals of numbers of B minus those of A, by ``id``, where anything is known of them.

    Profiles are compared as everywhere: paired over texts where both sides read the same ones and have their parts. A
    stored difference of a model and its base keeps its interval. Any other two numbers count as independent, and one
    without an interval as certain beside one that has one.

    Args:
        connection: of two sides.
        numbers: what they are of, ``a`` and ``b`` with the ends of their intervals, and how far the interval of a
            stored difference reaches ``down`` and ``up``.
        blocks: of two models that differ in depth.
    """
    import pandas as pd

    of_layers = numbers[numbers["source"] == "layer_metrics"]
    connection.register("differing", of_layers[[*PROFILE]].drop_duplicates())
    places = of_layers[[*PROFILE, "site", "layer"]].astype(object)
    ids = dict(zip(places.where(places.notna(), None).itertuples(index=False, name=None), of_layers["id"], strict=True))
    known = [(ids[place], *contrast) for place, *contrast in _of_profiles(connection, blocks) if place in ids]
    found = pd.DataFrame(known, columns=_COLUMNS)
    gap, (low, high) = numbers["b"] - numbers["a"], _estimates(numbers, "b").minus(_estimates(numbers, "a")).interval()
    apart = numbers.assign(ci_low=low, ci_high=high, p=np.nan, texts="not paired")
    stored = apart.assign(ci_low=gap - numbers["down"], ci_high=gap + numbers["up"], texts="paired")
    sized = numbers[["low_a", "low_b"]].notna().any(axis=1)
    surest_first = (found[found["texts"] != "not paired"], stored[numbers["down"].notna()], found, apart[sized])
    frames = [frame[[*_COLUMNS]] for frame in surest_first if len(frame)]
    return pd.concat(frames or [found]).drop_duplicates("id")


def _estimates(rows: pd.DataFrame, side: str) -> Estimates:
    value, low, high = (rows[name].to_numpy(float) for name in (side, f"low_{side}", f"high_{side}"))
    down, up = (np.nan_to_num(np.maximum(reach, 0.0)) / quantile(0.975) for reach in (value - low, high - value))
    return Estimates.of_tails(value, down, up)


def _of_profiles(connection: duckdb.DuckDBPyConnection, blocks: Blocks) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each number whose error is known, its interval, p, and how it was taken over texts."""
    deeper = "" if blocks is None else "ab"[blocks[1] > blocks[0]]
    a, b = (_profiles(connection, side, side == deeper) for side in "ab")
    alike = "SELECT corpus FROM a_corpora JOIN b_corpora USING (corpus, content_hash)"
    same, statistics = {corpus for (corpus,) in connection.execute(alike).fetchall()}, with_analyses()
    for key in a.keys() & b.keys():
        (mine, of_a), (theirs, of_b) = a[key], b[key]
        gap, layers = _gap(of_a, of_b, of_a.corpus in same, blocks)
        bounds = bounds_of_difference(bounds_in(statistics, f"{key[4]}.{key[5]}"))
        sites = {row["layer"]: row["site"] for row in (*mine, *theirs)}
        texts = None if gap.fixed else "paired" if gap.parts is not None and of_a.corpus in same else "not paired"
        numbers = zip(*(array.tolist() for array in (*gap.interval(), gap.p)), layers or (None,), strict=False)
        for low, high, p, layer in numbers:
            if np.isfinite([low, high]).all():
                ends = (None, None) if gap.fixed else clipped((low, high), bounds)
                yield (*key[:-1], sites[layer], layer), *ends, p, texts


def _gap(a: Profile, b: Profile, same_texts: bool, blocks: Blocks) -> tuple[Estimates, tuple[int, ...]]:
    """Return B minus A at the layers that both have; of models that differ in depth at those of the shallower one."""
    if blocks is not None:
        shallow, deep = (a, b) if blocks[0] < blocks[1] else (b, a)
        inside = (shallow.x >= deep.x[0] - 1e-9) & (shallow.x <= deep.x[-1] + 1e-9)
        shallow = shallow.some(np.flatnonzero(inside).tolist())
        deep = deep.brought_to(shallow.x)
        a, b = (shallow, deep) if blocks[0] < blocks[1] else (deep, shallow)
    elif a.labels and b.labels:
        both = [layer for layer in a.labels if layer in b.labels]
        a, b = (profile.some([profile.labels.index(layer) for layer in both]) for profile in (a, b))
    return b.numbers.minus(a.numbers, paired=same_texts), a.labels or b.labels


def _profiles(connection: duckdb.DuckDBPyConnection, side: str, deeper: bool, fixed: str = f"NOT ({FREE})") -> _Numbers:
    """Return the profiles of one side that are among those in ``differing``, with their rows."""

    def read(query: str) -> list[dict[str, Any]]:
        of_side = re.sub(r"\bFROM (?!differing)(?=\w)", f"FROM {side}_", query).replace("study = $study", "true")
        cursor = connection.execute(of_side)
        return [dict(zip((c[0] for c in cursor.description), row, strict=True)) for row in cursor.fetchall()]

    names = ", ".join(PROFILE)
    which = f"({names}) IN (SELECT ({names}) FROM differing)"
    rows = read(
        f"SELECT {names}, site, layer, depth, value, ci_low, ci_high, {fixed} AS fixed "
        f"FROM {DEEPER if deeper else 'layer_metrics'} WHERE value IS NOT NULL AND {which} "
        f"ORDER BY {names}, replace(site, 'embedding', 'block'), layer"
    )
    return {key: (of, profile) for key, of, profile in read_profiles(read, rows, with_analyses(), which)}
