"""The claims of a study as its page shows them: verdict, our number beside the paper's, and where the verdict flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Read, filled
from reporter.core.numbers import is_null, short
from reporter.report.evidence import by_model_of, changes_of, evidence_of
from reporter.report.tables import Row, figure_link, parsed, read_rows, rows_of

if TYPE_CHECKING:
    import pandas as pd

# A tiny plot of one number: our interval, the paper's number and the range in which the claim holds, on one axis.


WIDTH = 300
_MARGIN = 12


def interval_plot(row: Mapping[str, Any], bound: str) -> dict[str, Any] | None:
    """Lay out the number of a claim; None where there is no number, or nothing to see it against.

    Returns coordinates for an SVG of width ``WIDTH``: our ``value``, its ``interval`` and the number of the ``paper``
    (None where there is none), ``bands``, in which the claim holds, and labelled ``ticks``: the bounds, or else the
    ends of what is shown. ``sentence`` is the same in words.

    Args:
        row: a row of the table ``claims``.
        bound: what it is compared with, in words.
    """
    value, low, high, paper, holds_low, holds_high = (
        None if is_null(row[name]) else float(row[name])
        for name in ("value", "ci_low", "ci_high", "paper", "holds_low", "holds_high")
    )
    if value is None:
        return None
    interval = None if low is None or high is None else (low, high)
    ends = (-inf if holds_low is None else holds_low, inf if holds_high is None else holds_high)
    bands = [(-inf, ends[0]), (ends[1], inf)] if row["holds_outside"] else [ends]
    bands = bands if any(map(isfinite, ends)) else []
    bounds = sorted({end for pair in bands for end in pair if isfinite(end)})
    marks = [number for number in (value, low, high, paper, *bounds) if number is not None]
    if min(marks) == max(marks):
        return None
    room = (max(marks) - min(marks)) * 0.06
    start, scale = min(marks) - room, (WIDTH - 2 * _MARGIN) / (max(marks) - min(marks) + 2 * room)

    def x(number: float) -> float:
        place = _MARGIN + (number - start) * scale if isfinite(number) else WIDTH * (number > 0)
        return round(place, 1)

    def tick(number: float) -> dict[str, Any]:  # no label leaves the picture
        anchor = "start" if x(number) < WIDTH * 0.15 else "end" if x(number) > WIDTH * 0.85 else "middle"
        return {"x": x(number), "label": short(number), "anchor": anchor}

    parts = [f"ours {short(value)}"]
    parts += [f"interval {short(interval[0])} to {short(interval[1])}"] if interval else []
    parts += [] if paper is None else [f"paper {short(paper)}"]
    return {
        "value": x(value),
        "interval": interval and tuple(map(x, interval)),
        "paper": None if paper is None else x(paper),
        "bands": tuple((x(begin), x(end)) for begin, end in bands),
        "ticks": [tick(end) for end in bounds or (min(marks), max(marks))],
        "sentence": "; ".join([*parts, *([f"holds if {bound}"] if bound else [])]),
    }


VERDICTS = {"supported": "✓", "refuted": "✗", "inconclusive": "?", "failed": "!"}
"""Verdicts in the order of a tally, each with its sign, so that none is told by its colour alone."""

CLAIMS = """
SELECT claim, reading, says, source, kind, view, baseline, verdict, value, ci_low, ci_high,
  holds_low, holds_high, holds_outside, paper, p, p_adjusted, registration, detail
FROM claims
WHERE study = $study
ORDER BY number, claim, reading
"""

CLAIMS_BY_MODEL = """
SELECT claim, model, verdict, alone, statistic, value, ci_low, ci_high, claimed, p, p_adjusted
FROM claims_by_model
WHERE study = $study AND reading = 1
ORDER BY claim, model
"""


@dataclass(frozen=True)
class Claims:
    """All claims of a study (see :func:`read_claims`), with the query they come from."""

    all: tuple[Row, ...]
    sql: str
    frame: pd.DataFrame

    @property
    def about(self) -> list[str]:
        """The statistics that they are about."""
        return list(dict.fromkeys(name for claim in self.all for name in claim["metrics"]))

    @property
    def tally(self) -> list[tuple[str, str, int]]:
        """Verdicts that occur, each with its sign and how many claims have it."""
        counts = Counter(claim["test"]["verdict"] for claim in self.all)
        return [(verdict, VERDICTS[verdict], counts[verdict]) for verdict in VERDICTS if counts[verdict]]

    @property
    def tested(self) -> int | None:
        """How many tests the verdicts are corrected for; None where it is not known."""
        counts = [claim["test"]["detail"].get("tested") for claim in self.all]
        return max((number for number in counts if isinstance(number, int)), default=None)

    @property
    def several(self) -> list[Row]:
        """The claims that were tested more than once."""
        return [claim for claim in self.all if len(claim["tests"]) > 1]

    @property
    def columns(self) -> list[tuple[str | None, str | None]]:
        """Columns of the grid, view and null baseline: the models themselves first; none if no claim has two tests."""
        columns = dict.fromkeys(column for claim in self.several for column in reversed(claim["tests"]))
        return sorted(columns, key=lambda column: column[1] is not None)


def read_claims(read: Read, study: str) -> Claims:
    """Read the claims of a study; the first row of a claim is the claim itself.

    A claim has its ``tests`` by view and null baseline. The first one, ``test``, decides; the others tell whether the
    verdict depends on a view or on training: ``flips`` are tests on the same models under another view with another
    verdict, ``turns`` says whether another view changes the number or the profile, even where the verdict stays, and
    ``shared`` are null baselines for which the claim holds as well, so that it says nothing about what training does.
    ``sure`` tells whether a verdict has an interval, ``links`` are the addresses of its figures.
    """
    sql = filled(CLAIMS, study=study)
    frame = read(sql)
    by_model = read_rows(read, CLAIMS_BY_MODEL, study)
    groups: dict[str, list[Row]] = {}
    for row in rows_of(frame):
        verdict = row["verdict"] if row["verdict"] in VERDICTS else "failed"
        test = {"view": row["view"], "baseline": row["baseline"], "verdict": verdict, "row": row}
        groups.setdefault(str(row["claim"]), []).append(test | {"detail": parsed(row["detail"], dict)})
    claims = []
    for name, (test, *further) in groups.items():
        row, detail, evidence = test["row"], test["detail"], evidence_of(test["detail"])
        models = [model for model in by_model if model["claim"] == name]
        words = Counter(model["verdict"] for model in models)
        flips = [other for other in further if not other["baseline"] and other["verdict"] != test["verdict"]]
        held = [other for other in further if other["baseline"] and other["verdict"] == "supported"]
        claims.append(
            {
                "name": name,
                "says": row["says"] or name,
                "source": row["source"],
                "registration": row["registration"] or "not registered",
                "kind": row["kind"] or "",
                "test": test,
                "tests": {(each["view"], each["baseline"]): each for each in reversed((test, *further))},
                "flips": flips,
                "turns": bool(flips) or any(change.get("turned") for change in changes_of(detail)),
                "shared": held if test["verdict"] == "supported" else [],
                "sure": row["ci_low"] is not None or test["verdict"] not in ("supported", "refuted"),
                "links": {name: figure_link(name, test["view"]) for name in _names(detail, "metrics")},
                "metrics": list(dict.fromkeys(_names(detail, "metrics"))),
                "models": _names(detail, "models", "model"),
                "corpora": _names(detail, "corpora", "corpus"),
                "tables": _names(detail, "tables"),
                "plot": interval_plot(row, evidence["bound"]),
                "evidence": evidence,
                "by_model": by_model_of(models),
                "said_by_model": ", ".join(f"{words[word]} {word}" for word in VERDICTS if words[word]),
            }
        )
    as_in_sql = frame["holds_outside"].map({True: "true", False: "false"})
    return Claims(tuple(claims), sql, frame.assign(holds_outside=as_in_sql))


def _names(detail: Mapping[str, Any], key: str, column: str = "") -> list[str]:
    """Return the names that were recorded under a key, or else those in a column of the evidence."""
    names, rows = detail.get(key), detail.get("evidence")
    if isinstance(names, list) and (names or not column):
        return [str(name) for name in names]
    of_rows = [row.get(column) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return list(dict.fromkeys(str(name) for name in of_rows if name))
