"""The evidence in a claim's ``detail``, laid out for reading.

The keys that every claim may have get their own place; any other key is shown under its own name, so that nothing
that was recorded is hidden.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reporter.core.numbers import estimate, p_value, short

MOST = 60
"""Rows of a table and items of a list that are shown; the CSV has them all."""
_TEXTS = ("statistic", "definition", "reason", "power", "bound", "alone", "sql")
_TABLES = ("evidence", "parts")
_LABELS = {"evidence": "By model and corpus, not corrected", "parts": "By inequality"}
_ORDER = ["name", "model", "corpus", "statistic", "value", "interval", "claimed", "verdict"]
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
        "notes": [_text(note) for note in (notes if isinstance(notes, list) else [notes] if notes else [])],
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
    items = [_with_interval(item) for item in items]
    names = dict.fromkeys(name for item in items for name in item)
    # stored JSON has its keys in alphabetical order
    order = sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER) - 1.5)
    numeric = [all(item.get(name) is None or _is_number(item[name]) for item in items) for name in order]
    return {
        "label": _LABELS.get(label, label),
        "columns": [(_words(name), number) for name, number in zip(order, numeric, strict=True)],
        "rows": [tuple(_cell(name, item.get(name)) for name in order) for item in items[:MOST]],
        "more": max(0, len(items) - MOST),
    }


def _fact(key: str, value: Any) -> str:
    sides = ("a", "b", "mean_a", "mean_b", "n_a", "n_b")
    if key != "effect" or not isinstance(value, dict) or any(name not in value for name in sides):
        return _text(value)
    means = [f"{_text(value[side])} {_text(value[f'mean_{side}'])} (n = {_text(value[f'n_{side}'])})" for side in "ab"]
    return ", ".join(means) + ("" if value.get("g") is None else f"; Hedges' g {_text(value['g'])}")


def _cell(name: str, value: Any) -> str:
    return p_value(value) if name in ("p", "p_holds", "p_fails") and _is_number(value) else _text(value)


def _with_interval(item: Mapping[str, Any]) -> dict[str, Any]:
    rest = {str(name): value for name, value in item.items() if name not in ("ci_low", "ci_high")}
    low, high = item.get("ci_low"), item.get("ci_high")
    return rest if low is None or high is None else rest | {"interval": f"{_text(low)} to {_text(high)}"}


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
