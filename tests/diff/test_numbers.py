"""Which numbers moved, where the answer is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import hypot
from pathlib import Path
from typing import Any

import duckdb
import pytest

from reporter.diff import compare
from reporter.store.formats import Result

Folder = Callable[..., Path]


def records(result: Result) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


WHAT_MOVED = (
    # value, low, high
    ((1.0, 0.9, 1.1), (1.0, 0.9, 1.1), "same"),
    ((1.0, 0.9, 1.1), (1.000009, 0.9, 1.1), "same"),
    ((1.0, 0.9, 1.1), (1.14, 1.04, 1.24), "within"),  # intervals that overlap, and sqrt(2)/10 > 0.14
    ((1.0, 0.9, 1.1), (1.15, 1.05, 1.25), "moved"),  # they still overlap
    ((1.15, 1.05, 1.25), (1.0, 0.9, 1.1), "moved"),
    ((1.0, 0.99, 1.5), (1.4, 1.3, 1.41), "within"),  # the sides that face each other count
    ((1.0, 0.5, 1.01), (1.4, 1.39, 1.8), "moved"),
    ((1.4, 1.39, 1.8), (1.0, 0.5, 1.01), "moved"),
    ((1.0, 0.9, 1.1), (1.09, None, None), "within"),
    ((1.0, 0.9, 1.1), (1.11, None, None), "moved"),
    ((1.0, None, None), (1.000009, None, None), "same"),
    ((1.0, None, None), (1.00002, None, None), "moved"),
    ((1e-12, None, None), (-3e-12, None, None), "same"),  # rounding
    ((0.0, None, None), (0.0, None, None), "same"),
    ((1.0, 1.0, 1.0), (1.1, 1.1, 1.1), "moved"),
    ((1.0, None, None), (None, None, None), "became NULL"),
    ((None, None, None), (1.0, None, None), "was NULL"),
    ((None, None, None), (None, None, None), "same"),
)


def test_what_moved(folder: Folder) -> None:
    sides = [
        folder(name, [(f"number_{i}", 1, *case[place]) for i, case in enumerate(WHAT_MOVED)])
        for place, name in enumerate(("old", "new"))
    ]
    found = compare(f"{sides[0]}:", f"{sides[1]}:", Path("x"))
    expected = {f"number_{i}": case[2] for i, case in enumerate(WHAT_MOVED)}
    assert {row["statistic"]: row["change"] for row in records(found.numbers)} == {
        name: change for name, change in expected.items() if change not in ("same", "within")
    }
    (summary,) = records(found.summary)
    counts = Counter(expected.values())
    counts["with"] = sum(a[1] is not None for a, _, _ in WHAT_MOVED)
    assert summary == {
        "metric": "motion",
        "compared": len(WHAT_MOVED),
        **{name: counts[name.removesuffix(" interval")] for name in list(summary)[2:]},
    }
    assert found.consequences


def test_the_largest_move_comes_first_and_says_how_large(folder: Folder) -> None:
    old = [
        ("norm", 1, 1.0, 0.9, 1.1),
        ("norm", 2, 1.0, 0.9, 1.2),
        ("plain", 1, 1.0, None, None),
        ("plain", 2, 5.0, None, None),
    ]
    new = [
        ("norm", 1, 3.0, 2.8, 3.1),
        ("norm", 2, 3.0, 1.5, 3.1),
        ("plain", 1, 2.0, None, None),
        ("plain", 2, 6.0, None, None),
    ]
    found = compare(f"{folder('old', old)}:", f"{folder('new', new)}:", Path("x"))
    rows = records(found.numbers)
    assert [(row["statistic"], row["layer"]) for row in rows] == [("norm", 1), ("norm", 2), ("plain", 1), ("plain", 2)]
    assert rows[0]["interval"] == pytest.approx(hypot(0.1, 0.2))
    assert rows[0]["intervals"] == pytest.approx(2 / hypot(0.1, 0.2))
    assert rows[1]["interval"] == pytest.approx(hypot(0.2, 1.5))
    assert (rows[0]["model"], rows[0]["corpus"], rows[0]["view"], rows[0]["site"]) == ("bert", "wiki", "words", "block")
    assert (rows[2]["interval"], rows[2]["relative"]) == (None, 0.5)


def test_numbers_on_one_side_only(folder: Folder) -> None:
    a = folder("old", [("norm", 1, 1.0, None, None), ("gone", 1, 1.0, None, None)])
    b = folder("new", [("norm", 1, 1.0, None, None), ("norm", 2, 1.0, None, None)])
    found = compare(f"{a}:", f"{b}:", Path("x"))
    assert [(row["change"], row["statistic"], row["layer"]) for row in records(found.numbers)] == [
        ("only in A", "gone", 1),
        ("only in B", "norm", 2),
    ]
    assert records(found.summary)[0]["compared"] == 1


def test_every_table_with_intervals_is_compared(folder: Folder) -> None:
    corpus, ends = {"corpus": "c"}, {"model_a": "a", "checkpoint_a": "x", "model_b": "b", "checkpoint_b": "x"}
    rows = {
        "layer_pairs": corpus | ends | {"statistic": "cka", "layer_a": 2, "layer_b": 3},
        "differences": ends | {"statistic": "norm", "corpus_a": "c", "corpus_b": "d"},
        "correlations": corpus | {"feature": "rate", "score": "sst2", "method": "pearson"},
    }
    sides = [folder(name) for name in ("old", "new")]
    for value, side in enumerate(sides, 1):
        with duckdb.connect(str(side / "results.duckdb")) as connection:
            for table, row in rows.items():
                row = {"study": "s", "metric": "m", "view": "words", "value": value} | row
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
    found = compare(f"{sides[0]}:", f"{sides[1]}:", Path("x"))
    moved = {
        (row["statistic"], row["model"], row["corpus"], row["layer"], row["layer_b"]) for row in records(found.numbers)
    }
    assert moved == {
        ("cka", "a | b", "c", 2, 3),
        ("norm", "a | b", "c | d", None, None),
        ("rate ~ sst2 (pearson)", None, "c", None, None),
    }


def test_two_studies_of_one_file(folder: Folder) -> None:
    out = folder("results", [("norm", 1, 1.0, None, None)])
    folder("results", [("norm", 1, 2.0, None, None)], study="t")
    found = compare("s", "t", out)
    assert [(row["a"], row["b"], row["delta"]) for row in records(found.numbers)] == [(1.0, 2.0, 1.0)]


def test_analyses_are_compared_under_the_names_of_what_they_look_at(folder: Folder) -> None:
    where: dict[str, dict[str, Any]] = {
        "groups": {"text_group": "hello", "control": "random-words", "silhouette": 0.5},
        "pair_directions": {"pairs": "p", "concept": "age", "consistency": 0.5, "ci_low": 0.4, "ci_high": 0.6},
        "direction_cosines": {"pairs": "p", "concept_a": "age", "concept_b": "tense", "cosine": 0.5},
        "journeys": {"journey": "mouse", "text": 0, "position": 3, "positions": "with", "rank_cosine": 7},
        "explained_variance": {"analysis": "clouds", "item": "c", "part": "wiki", "components": 5, "share": 0.5},
        "vocabulary_facts": {"fact": "period", "value": 12.0},
    }
    sides = [folder(name) for name in ("old", "new")]
    for side in sides:
        with duckdb.connect(str(side / "results.duckdb")) as connection:
            for table, row in where.items():
                row = {"study": "s", "model": "bert", "checkpoint": "final"} | row
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
                if side.name == "new" and table != "pair_directions":
                    name = list(row)[-1]
                    connection.execute(f"UPDATE {table} SET {name} = 2 * {name}")
            if side.name == "new":
                connection.execute("UPDATE pair_directions SET consistency = 0.6, ci_low = 0.5, ci_high = 0.7")
    found = compare(f"{sides[0]}:", f"{sides[1]}:", Path("x"))
    assert {(row["metric"], row["statistic"], row["corpus"]) for row in records(found.numbers)} == {
        ("groups", "silhouette", "hello, random-words"),
        ("pairs", "cosine", "p: age | tense"),
        ("journeys", "rank_cosine", "mouse, text 0, position 3, with positions"),
        ("clouds", "share of 5", "c: wiki"),
        ("vocabulary", "period", None),
    }
    assert {row["metric"]: row["within interval"] for row in records(found.summary)}["pairs"] == 1
