"""The main comparison as a table to download: models and roles on the main statistics, with and without sinks.

Its numbers are those of the overview (:mod:`reporter.report.sides`): means over the embedding and the blocks at the
last checkpoint, without values that a definition fixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import isnan
from typing import TYPE_CHECKING

from reporter.charts.chart import Drawn
from reporter.charts.layout import Scene
from reporter.report.sides import PAIR, MainStatistics, Number
from reporter.report.tables import Row

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT, MARGIN = 336, 104, 14
"""Of a small profile, in quarters of a pixel: whole numbers are short, and there are many."""
_NO_NUMBER: Row = {"value": None, "ci_low": None, "ci_high": None}


@dataclass(frozen=True)
class Compared:
    """The main comparison.

    Args:
        charts: the statistics, as the charts of their profiles.
        views: the views beside each other.
        tables: one for each ``corpus``: its ``roles``, then its ``models`` in the order of the legend. Each of these
            has a ``name``, a ``style`` and ``cells``: the ``numbers`` of a statistic, one for each view. Of two sides
            ``difference`` is a line like these, with the names that it is ``of``; else None.
        sql: a query that shows the numbers by layer.
        frame: the numbers of all models and roles.
    """

    charts: tuple[Drawn, ...]
    views: tuple[str, ...]
    tables: tuple[Row, ...]
    sql: str
    frame: pd.DataFrame


def read_compared(
    numbers: MainStatistics, scene: Scene, main: Sequence[Drawn], first: Sequence[str]
) -> Compared | None:
    """Compare the models; None where fewer than two have numbers, or there are none."""
    charts = [drawn for drawn in main if drawn.chart.kind in ("profile", "dots") and not drawn.empty]
    if len(scene.styles.own) < 2 or not charts:
        return None
    order = list(dict.fromkeys([*first, *(drawn.id for drawn in charts)]))
    charts.sort(key=lambda drawn: order.index(drawn.id))
    import pandas as pd

    views = PAIR if set(PAIR) <= set(scene.views) else tuple(scene.views[:2])
    rows = list(_rows(numbers, scene, [drawn.id for drawn in charts]))
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    by_key = {(row["statistic"], row["corpus"], row["view"], row["model"] or f"{row['role']}s"): row for row in rows}
    count = {(row["corpus"], row["role"]): row["models"] for row in rows if row["model"] is None}
    tables = []
    for corpus in scene.corpora:

        def cells(name: str, corpus: str = corpus) -> list[Row]:
            return [
                {"numbers": [by_key.get((drawn.id, corpus, view, name), _NO_NUMBER) for view in views]}
                for drawn in charts
            ]

        roles = []
        for role in ("encoder", "decoder"):
            if number := count.get((corpus, role)):
                name = f"{number} {role}s, mean (interval over {'models' if number > 2 else 'texts'})"
                roles.append({"name": name, "style": None, "cells": cells(f"{role}s")})
        models: list[Row] = [{"name": s.model, "style": s, "cells": cells(s.model)} for s in scene.styles.own]
        pair = numbers.sides
        difference = None
        if pair:
            difference = {
                "name": f"{pair[0].name} − {pair[1].name}",
                "of": [side.name for side in pair],
                "cells": [
                    {"numbers": [_difference(numbers, drawn.id, corpus, view) for view in views]} for drawn in charts
                ],
            }
        if any(number["value"] is not None for line in models for cell in line["cells"] for number in cell["numbers"]):
            tables.append({"corpus": corpus, "roles": roles, "models": models, "difference": difference})
    return Compared(tuple(charts), views, tuple(tables), numbers.sql, frame) if tables else None


def _difference(numbers: MainStatistics, name: str, corpus: str, view: str) -> Row:
    """Return the first side minus the second, of a statistic that can be compared."""
    if not numbers.sides or not numbers.comparable(name):
        return _NO_NUMBER
    return _known(numbers.difference(name, corpus, view, *numbers.sides))


def _known(number: Number) -> Row:
    """Return a number and the ends of its interval, None for each that is unknown."""
    return dict(zip(_NO_NUMBER, (None if isnan(part) else part for part in number.measured), strict=True))


_COLUMNS = ("statistic", "corpus", "view", "role", "model", "models", "value", "ci_low", "ci_high")


def _rows(numbers: MainStatistics, scene: Scene, names: Sequence[str]) -> Iterator[Row]:
    """Yield the mean over layers of each role and each model."""
    roles = [numbers.role_side(role) for role in numbers.roles]
    sides = [*(side for side in roles if side.several), *numbers.each]
    for name, corpus, view in product(sorted(names), scene.corpora, scene.views):
        for side in sides:
            if not isnan((number := numbers.number(name, corpus, view, side)).value):
                of = (name, corpus, view, side.role, None if side.several else side.name, number.models)
                yield dict(zip(_COLUMNS, (*of, *_known(number).values()), strict=True))


Profiles = dict[tuple[str, str, str], list[tuple[float, float]]]


def profiles_of(drawn: Drawn, scene: Scene) -> Profiles:
    """Return a statistic over depth at the last checkpoints, by corpus, token set and model."""
    frame, last = drawn.frame, scene.moments[-1].shown
    if frame is None or "depth" not in frame:
        return {}
    columns = (frame[name] for name in ("statistic", "corpus", "view", "model", "checkpoint", "site", "depth", "value"))
    profiles: Profiles = {}
    for statistic, corpus, view, model, checkpoint, site, depth, value in zip(*columns, strict=True):
        is_shown = drawn.id.endswith(f".{statistic}") and site in ("embedding", "block")
        if is_shown and last.get(model) == checkpoint and value == value and depth == depth:
            profiles.setdefault((corpus, view, model), []).append((float(depth), float(value)))
    return profiles


def path_of(points: Sequence[tuple[float, float]], low: float, high: float) -> str:
    """Return a small profile as an SVG path."""
    scale = (HEIGHT - 2 * MARGIN) / ((high - low) or 1)
    places = [(round(MARGIN + x * (WIDTH - 2 * MARGIN)), round(HEIGHT - MARGIN - (y - low) * scale)) for x, y in points]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)]
    return f"M{places[0][0]} {places[0][1]}l" + " ".join(f"{x} {y}" for x, y in steps).replace(" -", "-")
