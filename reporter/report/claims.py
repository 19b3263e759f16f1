"""The claims of a study as its page shows them: verdict, our number beside the paper's, and where the verdict flips."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Read, filled
from reporter.core.numbers import estimate, estimates, is_null, p_value, short
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

    parts = [f"ours {estimate(value, *(interval or ()))}"]
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
    return Claims(tuple(claims), sql, frame)


def _names(detail: Mapping[str, Any], key: str, column: str = "") -> list[str]:
    """Return the names that were recorded under a key, or else those in a column of the evidence."""
    names, rows = detail.get(key), detail.get("evidence")
    if isinstance(names, list) and (names or not column):
        return [str(name) for name in names]
    of_rows = [row.get(column) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return list(dict.fromkeys(str(name) for name in of_rows if name))


# The evidence in a claim's ``detail``, laid out for reading. The keys that every claim may have get their own place.
# Any other key is shown under its name, so that nothing that was recorded is hidden.


MOST = 60
"""Rows of a table and items of a list that are shown; the CSV has them all."""
_TEXTS = ("statistic", "definition", "reason", "power", "bound", "alone", "sql")
_TABLES = ("evidence", "parts")
_LABELS = {"evidence": "By model and corpus, not corrected", "parts": "By inequality"}
_ORDER = ["name", "model", "corpus", "statistic", "value", "claimed", "verdict"]
_ENDS = ("ci_low", "ci_high")  # stand beside their value
_ELSEWHERE = {*_TEXTS, *_TABLES, "bounds", "difference", "notes", "tested", "holds", "views"}
_ELSEWHERE |= {"metrics", "tables", "models", "corpora"}


def evidence_of(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Lay out what is known of a verdict besides its number; texts are empty where nothing was recorded.

    Returns ``statistic`` (what the number is), ``definition`` (the rule), ``reason`` (why the verdict is what it is),
    ``power`` (what it would take to decide), ``bound`` (what the number is compared with), ``alone`` (the verdict
    without the correction for the number of claims, where it is another one), ``sql`` (a query for the numbers behind
    it), ``bounds`` (the measured numbers that it is compared with, each with its interval), ``difference`` (the number
    minus the nearest of them), ``notes`` (what a reader must know), ``views`` (what each other view changes, in
    sentences), ``tables`` (numbers by model and corpus, and by inequality) and ``facts``: everything else, as label and
    text.

    Args:
        detail: the column ``detail``, parsed; any key may be missing or of a kind that is not expected.
    """
    notes = detail.get("notes")
    tables = [(name, value) for key in _TABLES for name, value in _by_statistic(key, detail.get(key))]
    rest = {key: value for key, value in detail.items() if key not in _ELSEWHERE and value not in (None, "", [], {})}
    texts = {name: _text(detail[name]) if detail.get(name) else "" for name in _TEXTS}
    if texts["statistic"].strip() == texts["sql"].strip():  # a claim by SQL; the query has its own place
        texts["statistic"] = ""
    facts = [(_words(key), _fact(key, value)) for key, value in rest.items()]
    return {
        **texts,
        **{name: _minus(texts[name]) for name in ("definition", "reason", "power")},
        "bound": _bound(texts["bound"]),
        "bounds": [
            (_bound(_text(bound["bound"])), estimate(bound["value"], bound["ci_low"], bound["ci_high"]))
            for bound in detail.get("bounds") or ()
        ],
        "difference": estimate(*detail["difference"].values()) if detail.get("difference") else "",
        "notes": list(map(_text, notes if isinstance(notes, list) else [notes] if notes else [])),
        "views": [_minus(_text(change["says"])) for change in changes_of(detail)],
        "tables": [_table(name, value) for name, value in tables if value and _is_table(value)],
        "facts": facts + [(name, _text(value)) for name, value in tables if value and not _is_table(value)],
    }


def by_model_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Lay out what each model says to a claim: rows of the table ``claims_by_model``; None where there are none.

    What is the same in all of them stands above already.
    """
    if not rows:
        return None
    columns = [name for name in ("statistic", "claimed") if len({row[name] for row in rows}) > 1]
    names = ("model", *columns, "value", "ci_low", "ci_high", "verdict")
    shown = [{name: row[name] for name in names} for row in rows]
    for row in shown:
        row |= {"claimed": _bound(row["claimed"])} if row.get("claimed") else {}
    return _table("Each by itself", shown)


def _bound(text: str) -> str:
    return re.sub(r"([<>≤≥]) ", "\\1\N{NO-BREAK SPACE}", _minus(text))


def _minus(text: str) -> str:
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def changes_of(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what other views change of a claim: objects with ``says`` and ``turned``."""
    changes = detail.get("views")
    changes = changes if isinstance(changes, list) else []
    return [change for change in changes if isinstance(change, dict) and "says" in change]


def _by_statistic(key: str, value: Any) -> list[tuple[str, Any]]:
    """Return a table, or one for each statistic where rows are of several, so that no column mixes them.

    Where nearly each row is of another one (a peak is at another layer of each model), they stay together, and the
    statistic stands in front of its value.
    """
    if key != "evidence" or not value or not _is_table(value):
        return [(key, value)]
    tables: dict[Any, list[dict[str, Any]]] = {}
    for row in value:
        tables.setdefault(row.get("statistic"), []).append(row)
    if len(tables) < 2 or len(tables) > max(2, len(value) // 2):
        return [(key, value)]
    kept = {name: [{k: v for k, v in row.items() if k != "statistic"} for row in rows] for name, rows in tables.items()}
    return [(f"{_LABELS[key]}: {name}" if name else key, rows) for name, rows in kept.items()]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _table(label: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a table of objects, one column for each key; ``more`` rows are left out.

    ``columns`` are a heading and whether it is one of numbers.
    """
    names = dict.fromkeys(name for item in items for name in item if name not in _ENDS)
    # stored JSON has its keys in alphabetical order
    order = sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER) - 1.5)
    numeric = {name for name in order if all(item.get(name) is None or _is_number(item[name]) for item in items)}
    return {
        "label": _LABELS.get(label, label),
        "columns": [(_words(name), name in numeric) for name in order],
        "rows": list(zip(*(_column(name, items[:MOST]) for name in order), strict=True)),
        "more": max(0, len(items) - MOST),
    }


def _fact(key: str, value: Any) -> str:
    sides = ("a", "b", "mean_a", "mean_b", "n_a", "n_b")
    if key != "effect" or not isinstance(value, dict) or any(name not in value for name in sides):
        return _text(value)
    means = [f"{_text(value[side])} {_text(value[f'mean_{side}'])} (n = {_text(value[f'n_{side}'])})" for side in "ab"]
    return ", ".join(means) + ("" if value.get("g") is None else f"; Hedges' g {_text(value['g'])}")


def _column(name: str, items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write a column of a table; a value stands with its interval."""
    if name == "value" and any(item.get("ci_low") is not None for item in items):
        return estimates([(item.get("value"), item.get("ci_low"), item.get("ci_high")) for item in items])
    p = name in ("p", "p_holds", "p_fails")
    return [p_value(item[name]) if p and _is_number(item.get(name)) else _text(item.get(name)) for item in items]


def _words(name: Any) -> str:
    return str(name).replace("_", " ")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_number(value):
        return f"{value:,}" if isinstance(value, int) else short(value)
    if isinstance(value, dict):
        return "; ".join(f"{_words(name)}: {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        more = f" … and {len(value) - MOST} more" if len(value) > MOST else ""
        return ", ".join(map(_text, value[:MOST])) + more
    return str(value)
