"""The deviation of a recomputed number from the stored one, and its tolerance.

The numbers of all tables are read in one form.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from reporter.app.verify.reading import Remeasured, StatePlace
from reporter.store.formats import Result, indented_table, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reporter.app.verify.verification import Verification
    from reporter.store import Store

MEANS = 1e-5
"""Relative, for means and sums of float32 states: their rounding, 6e-8, grown by the layers and by cosines."""
LOOSER: dict[str, float] = {
    "convergence.frequency_gap_p": 1e-2,  # far out in the tail it multiplies an error of t by t²
    "convergence.decay": 1e-4,
    "motion.curvature": 1e-4,  # an angle near 0 or π magnifies the rounding of its cosine
    "spectrum.effective_rank": 1e-4,  # faint axes lie in the rounding of the strong ones, and they count here
    "spectrum.effective_rank_without_first": 1e-4,
    "spectrum.entropy": 1e-4,
    "spectrum.entropy_without_first": 1e-4,
    "spectrum.effective_rank_singular": 1e-3,  # and here their roots
    "spectrum.rankme": 1e-3,
    "spectrum.decay": 1e-3,
    "spectrum.alpha_req": 1e-3,
    "spectrum.curve": 1e-4,
    "subspaces": 1e-3,  # an error of a covariance over the gap of two eigenvalues
    "entropy": 1e-4,
    "sinks.dominance": 1e-3,  # of a square over what little is left
    # Sampled states, mean vectors of texts and of token types are kept in 16 bits, a coordinate to 2^-11.
    "anisotropy.mean_cosine_centred": 1e-3,
    "anisotropy.mean_cosine_standardised": 1e-3,
    "contextuality": 1e-3,
    "outliers.sink_sensitivity": 1e-3,
    "sink_cuts": 1e-3,
    "ranges": 1e-2,  # what 16 bits leave of a state, beside what 8 bits take from few states
    "variance": 1e-3,
    "variance.tradeoff": 1e-3,  # ranks that rounding swaps
    "layer_pairs.cka": 1e-3,
    "layer_pairs.knn": 1e-2,  # neighbours that rounding swaps
    "intrinsic_dimension": 1e-2,  # the same, and a slope of logarithms of ratios near one
    "information_imbalance": 1e-2,
    "linearity": 1e-3,  # an inverse of a covariance, down to 1e-6 of its size
    "local_dimension": 2e-2,  # each of few states decides
    "lens": 1e-3,  # logits are sums over the width, and a divergence is what they have beyond each other
    "token_path": 1e-4,  # angles, of cosines in float32
    "change": 1e-3,
    "divergence": 1e-2,  # of logits that hardly differ
    "partners": 1e-3,  # a faint axis of few texts
}
_NATS = {"divergence": 1e-6, "lens": 1e-6, "loss": 1e-6}
"""What float32 leaves uncertain of differences of log-probabilities of some ten nats, near which all counts as zero."""
OF_ONE = (
    "angular_distance",
    "anisotropy",
    "change.cosine",
    "change.linear",
    "change.linear_seed",
    "change.moved",
    "contextuality",
    "contributions",
    "convergence",
    "information_imbalance",
    "layer_pairs",
    "linearity",
    "motion.block_influence",
    "sink_cuts",
    "spectrum.curve",
    "token_path",
    "variance.tradeoff",
)
"""Cosines, shares and correlations, and their differences: their rounding does not shrink with their size."""

OF_LENGTHS = ("change.distance", "change.distance_seed")
"""Parts of a state's length: bf16 products move each state by so much, however near it lies to the other one."""

OF_ITSELF = ("convergence.frequency_gap_p",)
"""Numbers of which the size of the profile says nothing: a p of 1e-20 stands beside one of 0.5."""
_TAIL = 30  # in the tail of t a p moves by about t² times as much as its t
_TINY = 1e-30  # the size of a profile of zeros, beside which anything else deviates


def tolerance_of(name: str) -> float:
    """Return by what a number may differ in float32, relative to its size: ``name`` is ``metric.statistic``."""
    return LOOSER.get(name, LOOSER.get(name.partition(".")[0], MEANS))


class Stored(NamedTuple):
    """A number as the database holds it, and half the width of its interval; None where it has none."""

    value: float | None
    half: float | None


Key = tuple[str, str, StatePlace | None, int | None]  # statistic, view, place, the other layer or the rank
Numbers = Mapping[Key, Stored]


@dataclass(frozen=True)
class Deviation:
    """The largest deviation of one statistic.

    Args:
        name: ``metric.statistic``.
        numbers: how many were compared.
        largest: |stored − again| where it is largest beside what it may be.
        relative: that over the size of the number: the largest of its profile, at least 1 for cosines and shares, a p
            itself; what rounding may move beyond it, since it is counted, is taken off.
        allowed: what ``relative`` may be.
        where: cell, view, site and layer.
        stored: the number there.
        again: the number that was measured again.
        half: half the width of the stored interval there; None where there is none.
    """

    name: str
    numbers: int
    largest: float
    relative: float
    allowed: float
    where: str
    stored: float
    again: float
    half: float | None

    @property
    def passed(self) -> bool:
        """Whether it lies within what is allowed."""
        return self.relative <= self.allowed

    def joined(self, other: Deviation) -> Deviation:
        """Return the worse of two of one statistic, with the numbers of both."""
        worse = max(self, other, key=lambda deviation: deviation.relative / deviation.allowed)
        return Deviation(**{**vars(worse), "numbers": self.numbers + other.numbers})


def numbers_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[Key, Stored]]:
    """Return stored numbers by metric."""
    by_metric: dict[str, dict[Key, Stored]] = {}
    for row in rows:
        place = None if row["layer"] is None else StatePlace(str(row["site"]), int(row["layer"]))
        other = None if row.get("other") is None else int(row["other"])
        half = None if row.get("ci_low") is None else (float(row["ci_high"]) - float(row["ci_low"])) / 2
        stored = Stored(None if row["value"] is None else float(row["value"]), half)
        by_metric.setdefault(str(row["metric"]), {})[str(row["statistic"]), str(row["view"]), place, other] = stored
    return by_metric


def compare(metric: str, stored: Numbers, again: Iterable[Remeasured], cell: str, moved: float) -> dict[str, Deviation]:
    """Return the largest deviation of each statistic that was measured again.

    A number that is stored and that the second path cannot have, since it divides by zero, is a deviation without end.
    """
    sizes: dict[tuple[str, str], float] = {}
    for (statistic, view, *_), number in stored.items():
        if number.value is not None:
            sizes[statistic, view] = max(sizes.get((statistic, view), 0.0), abs(number.value))
    deviations: dict[str, Deviation] = {}
    for measured in again:
        name = f"{metric}.{measured.statistic}"
        was = stored.get((measured.statistic, measured.view, measured.place, measured.other))
        if was is None or was.value is None:
            continue
        size = max(sizes[measured.statistic, measured.view], _TINY)
        if name in OF_ITSELF:
            size = max(abs(was.value), _TINY)
        elif name in OF_ONE or metric in OF_ONE or (moved and name in OF_LENGTHS):
            size = max(size, 1.0)
        size = max(size, _NATS.get(metric, 0.0) / tolerance_of(name))
        value = float(measured.value)  # of NumPy's own floats JSON knows nothing
        difference = abs(was.value - value) if np.isfinite(value) else float("inf")
        relative = max(0.0, difference - float(measured.slack)) / size if difference else 0.0
        where = ", ".join(filter(None, (cell, measured.view, _place_text(measured))))
        allowed = max(tolerance_of(name), moved * _TAIL if name in OF_ITSELF else moved)
        here = Deviation(name, 1, difference, relative, allowed, where, was.value, value, was.half)
        deviations[name] = deviations[name].joined(here) if name in deviations else here
    return deviations


def _place_text(number: Remeasured) -> str:
    if number.place is None:
        return ""
    other = "" if number.other is None else f" | {number.other}"
    return f"{number.place.site} {number.place.layer}{other}"


def missing(stored: Numbers, again: Iterable[Remeasured]) -> dict[str, int]:
    """Return how many stored numbers of each statistic were not measured again; those that are NULL do not count."""
    measured = {(number.statistic, number.view, number.place, number.other) for number in again}
    return Counter(key[0] for key, number in stored.items() if number.value is not None and key not in measured)


_CELL = "WHERE study = ? AND model = ? AND checkpoint = ? AND corpus = ?"
_FACTS = (
    *("texts", "count", "position_first", "position_last", "layer_first", "layer_last"),
    *("norm_ratio", "dominance", "dimension"),
)
_TABLES = (
    f"SELECT metric, statistic, view, site, layer, value, ci_low, ci_high FROM layer_metrics {_CELL}",
    f"SELECT metric, 'curve' AS statistic, view, site, layer, rank AS other, value FROM spectra {_CELL}",
    f"""SELECT 'sink_cuts' AS metric, unnest([statistic, 'left_out']) AS statistic,
        format('{{}} {{:g}}', rule, cut) AS view, site, layer, unnest([value, left_out]) AS value
        FROM sink_cuts {_CELL}""",
    f"""SELECT 'sinks' AS metric, unnest({list(_FACTS)}) AS statistic, concat('token ', token_id, if(position_first = 0,
        ' at position 0', ' further on'), if(own, '', ', not own')) AS view, NULL AS site, NULL AS layer,
        unnest([{", ".join(_FACTS)}]::DOUBLE[]) AS value FROM sinks {_CELL}""",
    f"""SELECT 'partners' AS metric, unnest([statistic, statistic || '_floor']) AS statistic,
        variant || ', pooling ' || pooling AS view, site, layer, unnest([value, chance]) AS value
        FROM partner_numbers {_CELL.replace("corpus", "partner_set")}""",
    f"""SELECT 'sinks' AS metric, 'types' AS statistic, '' AS view, NULL AS site, NULL AS layer, count(*) AS value
        FROM sinks {_CELL}""",
)
_PAIRS = """SELECT metric, statistic, view, if(layer_a = 0, 'embedding', 'block') AS site, layer_a AS layer,
    layer_b AS other, value, ci_low, ci_high FROM layer_pairs
    WHERE study = ? AND corpus = ? AND model_a = ? AND checkpoint_a = ? AND model_b = ? AND checkpoint_b = ?"""


def stored_numbers(store: Store, study: str, model: str, checkpoint: str, corpus: str) -> dict[str, Numbers]:
    """Return what is stored of a cell by metric; the tables ``sinks`` and ``sink_cuts`` count as metrics of their own.

    Their view says which sinks, or which cut. Numbers without a value are among them.
    """
    by_metric: dict[str, Numbers] = {}
    tables = [numbers_of(store.records(query, [study, model, checkpoint, corpus])) for query in _TABLES]
    for table in (*tables, stored_pairs(store, study, corpus, [model, checkpoint] * 2)):
        for metric, numbers in table.items():
            by_metric[metric] = {**by_metric.get(metric, {}), **numbers}
    return by_metric


def stored_pairs(store: Store, study: str, corpus: str, sides: Sequence[str]) -> dict[str, dict[Key, Stored]]:
    """Return what is stored of the layers of two sides, each a model and its checkpoint, by metric."""
    return numbers_of(store.records(_PAIRS, [study, corpus, *sides]))


# How a second opinion is written: a table for eyes, JSON for programs.


NEVER = (
    "Intervals, chance levels, differences between corpora, correlations, claims and analyses other than `partners` "
    "(journeys, groups, pairs, corpus comparisons, probes, static embeddings) are not measured again."
)
_MOST = 12  # cells that were left out, one by one


def show(verification: Verification, form: Literal["table", "json"] = "table") -> str:
    """Return the result of ``verify`` as text without a line break at its end."""
    return _json(verification) if form == "json" else "\n\n".join(_sections(verification))


def _sections(verification: Verification) -> Iterator[str]:
    cells = [
        f"  {cell['cell']}: {cell['texts']:,} texts, {cell['tokens']:,} tokens, run in {cell['precision']}"
        for cell in verification.cells
    ]
    yield "\n".join([f"{verification.study}: measured again, one text at a time, in float64 NumPy", *cells])
    if verification.notes:
        yield "\n".join(f"  {note}" for note in verification.notes)
    names = ("statistic", "numbers", "largest", "relative", "allowed", "half interval", "stored", "again", "where", "")
    table: list[tuple[Any, ...]] = []
    for row in verification.deviations.values():
        sizes = map(_scientific, (row.largest, row.relative, row.allowed, row.half))
        numbers = (f"{row.stored:.9g}", f"{row.again:.9g}")
        table.append((row.name, row.numbers, *sizes, *numbers, row.where, "" if row.passed else "DEVIATES"))
    if table:
        yield _table(names, table)
    if verification.unverified:
        skipped = [(name, numbers, reason) for (name, reason), numbers in verification.unverified.items()]
        yield "Not verified\n" + _table(("statistic", "numbers", "why"), _grouped(skipped))
    yield NEVER
    for heading, reasons in {
        "Left out": verification.left_out,
        "Could not be measured again": verification.failed,
    }.items():
        lines = [f"  {name}: {why}" for name, why in reasons.items()]
        lines[_MOST:] = [f"  and {len(lines) - _MOST} more; --format json lists all"] if len(lines) > _MOST else []
        if lines:
            yield "\n".join([heading, *lines])
    yield _verdict(verification)


def _grouped(skipped: list[tuple[str, int, str]]) -> list[tuple[Any, ...]]:
    groups: dict[tuple[str, str], tuple[int, set[str]]] = {}
    for name, numbers, reason in skipped:
        metric, _, statistic = name.partition(".")
        count, statistics = groups.get((metric, reason), (0, set()))
        groups[metric, reason] = count + numbers, statistics | {statistic}
    lines = []
    for (metric, reason), (count, statistics) in groups.items():
        floors = all(member.endswith("_floor") for member in statistics)
        which = "*_floor" if floors else ", ".join(sorted(statistics)) if len(statistics) < 4 else "*"
        lines.append((f"{metric}.{which}", count, reason))
    return lines


def _scientific(value: float | None) -> str:
    return "–" if value is None else "0" if value == 0 else f"{value:.1e}"


def _table(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    return indented_table(Result(names, rows, len(rows)))


def _verdict(verification: Verification) -> str:
    numbers = sum(deviation.numbers for deviation in verification.deviations.values())
    bad = [deviation.name for deviation in verification.deviations.values() if not deviation.passed]
    total = f"{numbers:,} numbers of {len(verification.deviations)} statistics"
    if bad:
        return f"DEVIATES: {', '.join(bad)} ({total} measured again)"
    if verification.failed or not verification.deviations:
        return f"NOT VERIFIED: not every cell could be measured again ({total} agree)"
    return f"verified: {total} agree with the independent path within their tolerances"


def _json(verification: Verification) -> str:
    whole = {
        "study": verification.study,
        "passed": verification.passed,
        "cells": verification.cells,
        "deviations": [vars(row) | {"passed": row.passed} for row in verification.deviations.values()],
        "unverified": [
            {"statistic": name, "numbers": numbers, "why": why}
            for (name, why), numbers in verification.unverified.items()
        ],
        "left_out": verification.left_out,
        "failed": verification.failed,
        "notes": [*verification.notes, NEVER],
    }
    return json.dumps(plain(whole), indent=2, ensure_ascii=False, allow_nan=False)
