"""The comparison of a study as the run stored it (table ``comparisons``): for the overview, and as a table to download.

No number is computed here: :mod:`reporter.judge.comparison` says what a row is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Drawn, Read, filled
from reporter.charts.layout import Scene
from reporter.charts.styles import ModelStyle
from reporter.core.numbers import Measured, estimate
from reporter.judge.comparison import compared_views
from reporter.judge.estimates import FEWEST_MODELS
from reporter.judge.sides import Side, Sides
from reporter.report.tables import Row, rows_of
from reporter.store.rows import spec_of

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic
    from reporter.report.contents import Contents

WIDTH, HEIGHT, MARGIN = 336, 104, 14
"""Of a small profile, in quarters of a pixel: whole numbers are short, and there are many."""
FIRST, MOST_ASKED = ("anisotropy", "intrinsic_dimension"), 2
"""Metrics that are said first of a study that measures them, and how many are said whether they differ or not."""
COMPARISONS = """
SELECT * EXCLUDE (study) FROM comparisons WHERE study = $study
ORDER BY corpus, view, metric, statistic, span, side, minus NULLS FIRST, depth_first
"""


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval; None where there is none.

    Args:
        measured: the number and the ends of its interval.
        written: its text beside the numbers that it is compared with; empty: as it is written alone.
    """

    measured: Measured = (None, None, None)
    written: str = ""

    @classmethod
    def of(cls, row: Row | None) -> Number:
        """Return the number of a row; none without a row."""
        return cls() if row is None else cls((row["value"], row["ci_low"], row["ci_high"]))

    @property
    def text(self) -> str:
        """The number and its interval as a page shows them."""
        return self.written or estimate(*self.measured)

    @property
    def parts(self) -> tuple[str, str]:
        """The number, and its interval in brackets; empty where there is none."""
        number, bracket, ends = self.text.partition(" [")
        return number, f"[{ends}" if bracket else ""


class StoredComparison:
    """The comparison of a study, with the facts of the study that its overview needs.

    ``sets`` are its token sets, ``views`` those that sentences compare; ``frame`` has its rows.
    """

    def __init__(self, read: Read, contents: Contents, known: Mapping[str, Statistic]) -> None:
        scene, self.known = contents.scene, known
        self.sets, self.views, self.corpora = tuple(scene.views), compared_views(scene.views), list(scene.corpora)
        self.texts = {str(row["corpus"]): int(row["texts"] or 0) for row in contents.corpora}
        clusters = {str(row["corpus"]): row["clusters"] for row in contents.corpora}
        self.units = {corpus: int(clusters[corpus] or count) for corpus, count in self.texts.items()}
        for row in contents.cells:  # of the models, the one that reads the fewest different texts decides
            if row["corpus"] in self.units and row.get("distinct_texts") is not None:
                self.units[row["corpus"]] = min(self.units[row["corpus"]], int(row["distinct_texts"]))
        spec = spec_of(contents.study.get("spec"))
        self.fixed, self.metrics = spec.get("texts") == "fixed", _metrics(spec.get("metrics"))
        last = {str(row["model"]): row for row in contents.models if row["is_last"]}
        self.styles = {style.model: style for style in scene.styles.own}
        roles = {model: style.role for model, style in self.styles.items()}
        self.sides = Sides.of(roles, {model: row["base"] for model, row in last.items()})
        # A cell of a comparison, such as `wiki | tweets`, counts the sinks of its sides again.
        searched = [row for row in contents.cells if row.get("sinks") is not None and row["corpus"] in self.texts]
        self.sinks_known = bool(searched)
        self.sinks = {
            (str(row["model"]), str(row["corpus"])): int(row["sinks"])
            for row in searched
            if row["model"] in self.styles and row["checkpoint"] == last.get(row["model"], {}).get("checkpoint")
        }
        self.blocks = {str(row["model"]): int(row["layers"]) for row in contents.models if row.get("layers")}
        self.judged = bool(self.sides.tuned) and any(answer["name"] == "changed" for answer in contents.answers)
        self.sql = filled(COMPARISONS, study=scene.study)
        self.frame = read(self.sql).astype(dict.fromkeys(("layer_first", "layer_last", "minus_layer"), "Int64"))
        self._rows: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for row in rows_of(self.frame):
            self._rows[f"{row['metric']}.{row['statistic']}", row["corpus"], row["view"]].append(row)
        compared = self.frame["models"][self.frame["minus"].notna()]
        self.over_models = bool(self.sides.pair) and len(compared) > 0 and bool(compared.min() >= FEWEST_MODELS)
        """Whether intervals of differences are over models."""

    def rows(self, name: str, corpus: str, view: str, **columns: Any) -> list[Row]:
        """Return the rows of a statistic whose columns have some values, by depth."""
        rows = self._rows.get((name, corpus, view), [])
        return [row for row in rows if all(row[column] == value for column, value in columns.items())]

    def mean(self, name: str, corpus: str, view: str, side: Side) -> Row | None:
        """Return the mean over layers of a side."""
        return next(iter(self.rows(name, corpus, view, span="mean", side=side.name, minus=None)), None)

    def layers(self, name: str, corpus: str, view: str, side: str) -> list[Row]:
        """Return the number of a side at each layer; of several models of different depth at common depths."""
        rows = self.rows(name, corpus, view, span="layer", side=side, minus=None)
        return [row for row in rows if row["layer_first"] is not None] or rows

    def difference(self, name: str, corpus: str, view: str) -> Row | None:
        """Return the difference of the means over layers of the sides that are compared."""
        rows = self.rows(name, corpus, view, span="mean", minus_view=None)
        return next((row for row in rows if row["minus"] is not None), None)

    def style_of(self, side: Side) -> ModelStyle:
        """Return the style of a side, with its name for readers."""
        return replace(self.styles[side.models[0]], model=self.name_of(side))

    def name_of(self, side: Side) -> str:
        """Return the name of a side for readers: a model, or ``3 encoders``."""
        return f"{len(side.models)} {side.role}s" if side.several else side.name

    def comparable(self, name: str) -> bool:
        """Tell whether a statistic means the same in all columns."""
        return self.sides.comparable(self.known[name])

    @property
    def asked(self) -> list[list[str]]:
        """The main statistics of the two metrics that the study names first; anisotropy and dimension before others."""
        by_metric: dict[str, list[str]] = {}
        for name in filter(self.comparable, self.known):
            by_metric.setdefault(name.partition(".")[0], []).append(name)
        order = [*(name for name in FIRST if name in self.metrics or not self.metrics), *self.metrics]
        return [by_metric[metric] for metric in dict.fromkeys(order) if metric in by_metric][:MOST_ASKED]

    def effect(self, name: str, corpus: str) -> float:
        """Return the largest standardised difference of the token sets; 0 where nothing is compared."""
        rows = [self.difference(name, corpus, view) for view in self.views]
        return max((float(row["effect"]) for row in rows if row is not None), default=0.0)


def _metrics(value: Any) -> list[str]:
    """Return the metrics that a study names, in its order; none where it names all."""
    names = [str(next(iter(part), "")) if isinstance(part, dict) else str(part) for part in value or ()]
    return [] if not isinstance(value, list | tuple) or "all" in names else names


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
