"""Which numbers changed, where the answer is known."""

from collections import Counter
from math import hypot

import pytest
from app.diff.conftest import alter, compared, insert, records

from reporter.app.diff import compare
from reporter.app.diff.show import show
from reporter.store.schema import tables

CHANGES = (
    # value, low, high
    ((1.0, 0.9, 1.1), (1.0, 0.9, 1.1), "same"),
    ((1.0, 0.9, 1.1), (1.000009, 0.9, 1.1), "same"),
    ((1.0, 0.9, 1.1), (1.14, 1.04, 1.24), "within"),  # intervals that overlap, and sqrt(2)/10 > 0.14
    ((1.0, 0.9, 1.1), (1.15, 1.05, 1.25), "changed"),  # they still overlap
    ((1.15, 1.05, 1.25), (1.0, 0.9, 1.1), "changed"),
    ((1.0, 0.99, 1.5), (1.4, 1.3, 1.41), "within"),  # the sides that face each other count
    ((1.0, 0.5, 1.01), (1.4, 1.39, 1.8), "changed"),
    ((1.4, 1.39, 1.8), (1.0, 0.5, 1.01), "changed"),
    ((1.0, 0.9, 1.1), (1.09, None, None), "within"),
    ((1.0, 0.9, 1.1), (1.11, None, None), "changed"),
    ((1.0, None, None), (1.000009, None, None), "same"),
    ((1.0, None, None), (1.00002, None, None), "changed"),
    ((1e-12, None, None), (-3e-12, None, None), "same"),  # rounding
    ((0.0, None, None), (0.0, None, None), "same"),
    ((1.0, 1.0, 1.0), (1.1, 1.1, 1.1), "changed"),
    ((1.0, None, None), (None, None, None), "NULL in B"),
    ((None, None, None), (1.0, None, None), "NULL in A"),
    ((None, None, None), (None, None, None), "same"),
)


def test_which_numbers_changed(folder):
    numbers = [[(f"number_{i}", 1, *case[side]) for i, case in enumerate(CHANGES)] for side in (0, 1)]
    found = compared(folder("old", numbers[0]), folder("new", numbers[1]))
    expected = {f"number_{i}": case[2] for i, case in enumerate(CHANGES)}
    assert {row["statistic"]: row["change"] for row in records(found.numbers)} == {
        name: change for name, change in expected.items() if change not in ("same", "within")
    }
    (summary,) = records(found.summary)
    counts = Counter(expected.values())
    counts["with"] = sum(a[1] is not None for a, _, _ in CHANGES)
    assert summary == {
        "metric": "motion",
        "compared": len(CHANGES),
        **{name: counts[name.removesuffix(" interval")] for name in list(summary)[2:]},
    }
    assert found.has_consequences


def test_the_largest_change_comes_first_and_says_how_large(folder):
    bare = (None, None)
    old = [("norm", 1, 1.0, 0.9, 1.1), ("norm", 2, 1.0, 0.9, 1.2), ("plain", 1, 1.0, *bare), ("plain", 2, 5.0, *bare)]
    new = [("norm", 1, 3.0, 2.8, 3.1), ("norm", 2, 3.0, 1.5, 3.1), ("plain", 1, 2.0, *bare), ("plain", 2, 6.0, *bare)]
    found = compared(folder("old", old), folder("new", new))
    rows = records(found.numbers)
    assert [(row["statistic"], row["layer"]) for row in rows] == [("norm", 1), ("norm", 2), ("plain", 1), ("plain", 2)]
    assert rows[0]["interval"] == pytest.approx(hypot(0.1, 0.2))
    assert rows[0]["intervals"] == pytest.approx(2 / hypot(0.1, 0.2))
    assert rows[1]["interval"] == pytest.approx(hypot(0.2, 1.5))
    assert (rows[0]["model"], rows[0]["corpus"], rows[0]["view"], rows[0]["site"]) == ("bert", "wiki", "words", "block")
    assert (rows[2]["interval"], rows[2]["relative"]) == (None, 0.5)


def test_numbers_of_one_side_only_are_named_where_two_studies_of_one_file_are_compared(folder):
    out = folder("results", [("norm", 1, 1.0, None, None), ("gone", 1, 1.0, None, None)])
    folder("results", [("norm", 1, 2.0, None, None), ("norm", 2, 1.0, None, None)], study="t")
    result = compare("s", "t", out)
    assert [(row["change"], row["statistic"], row["layer"], row["delta"]) for row in records(result.numbers)] == [
        ("changed", "norm", 1, 1.0),
        ("only in A", "gone", 1, None),
        ("only in B", "norm", 2, None),
    ]
    assert records(result.summary)[0]["compared"] == 1


def test_every_table_with_intervals_is_compared(sides):
    corpus, ends = {"corpus": "c"}, {"model_a": "a", "checkpoint_a": "x", "model_b": "b", "checkpoint_b": "x"}
    rows = {
        "layer_pairs": corpus | ends | {"statistic": "cka", "layer_a": 2, "layer_b": 3},
        "differences": ends | {"statistic": "norm", "corpus_a": "c", "corpus_b": "d"},
        "correlations": corpus | {"feature": "rate", "score": "sst2", "method": "pearson"},
    }
    for value, side in enumerate(sides, 1):
        insert(side, *((table, row | {"metric": "m", "view": "words", "value": value}) for table, row in rows.items()))
    parts = ("statistic", "model", "corpus", "layer", "layer_b")
    assert {tuple(row[part] for part in parts) for row in records(compared(*sides).numbers)} == {
        ("cka", "a | b", "c", 2, 3),
        ("norm", "a | b", "c | d", None, None),
        ("rate ~ sst2 (pearson)", None, "c", None, None),
    }


BERT = {"model": "bert", "checkpoint": "final", "corpus": "c"}


def test_every_number_that_a_table_declares_is_compared_under_a_name_of_its_own(sides):
    """Each is 0 on one side and 1 on the other, which an interval explains where there is one."""
    expected = Counter()
    for table in tables().values():
        texts = {column.name: column.name if column.type == "VARCHAR" else 3 for column in table.columns}
        for number, side in enumerate(sides):
            row = texts | {name: None for name in table.types if table.types[name] == "TIMESTAMP"}
            row |= {"study": "s", "main": False, "own": True, "rank": 4, "position_first": 0, "position_last": 0}
            for told in table.compared:
                ends = ("ci_low", "ci_high") if told.interval is True else told.interval or ()
                row |= dict.fromkeys(told.values, number) | dict(zip(ends, (number - 5, number + 5), strict=bool(ends)))
                expected["within interval" if ends else "changed"] += number * len(told.values)
            if table.compared:
                insert(side, (table.name, {name: row[name] for name in table.types}))
    result = compared(*sides)
    summary, rows = records(result.summary), records(result.numbers)
    assert {name: sum(row[name] for row in summary) for name in expected} == expected
    assert {(row["change"], row["a"], row["b"]) for row in rows} == {("changed", 0, 1)}
    names = {(row["metric"], row["statistic"], row["model"], row["corpus"], row["view"], row["layer"]) for row in rows}
    assert len(names) == len(rows) == expected["changed"] > 50
    assert names >= {
        ("metric", "value of dimension 3, token token at position 0", "model", "corpus", None, None),
        ("metric", "norm_of_mean of token token", "model", "corpus", "view", 3),
        ("pairs", "cosine", "model", "pair_set: concept_a | concept_b", None, 3),
        ("vocabulary", "fact", "model", None, None, None),
    }


def test_long_lists_are_compared_in_part(sides):
    """Of an eigenvalue curve the axes 1, 2, 4, …; of token types the 20 most frequent ones; of single texts none."""
    place = {"view": "words", "site": "block", "layer": 1}
    for number, side in enumerate(sides):
        text = {"text": 7, "site": "block", "layer": 1, "linear": bool(number), "hidden": None}
        rows = [("probe_texts", {"model": "bert", "checkpoint": "final", "probe": "c", **text})]
        for i in range(1, 24):
            rows.append(("spectra", BERT | place | {"metric": "spectrum", "rank": i, "value": i + number}))
            kind = {"token_id": i, "token": f"<{i}>", "count": i, "variance": 1 + number, "norm_of_mean": 1}
            rows.append(("token_types", BERT | place | kind | {"metric": "variance"}))
        insert(side, *rows)
    rows = records(compared(*sides).numbers)
    names = {row["statistic"] for row in rows}
    assert {row["metric"] for row in rows} == {"spectrum", "variance"}
    assert {name for name in names if "axis" in name} == {f"value of axis {rank}" for rank in (1, 2, 4, 8, 16)}
    assert {name for name in names if "token" in name} == {f"variance of token <{i}>" for i in range(4, 24)}


def test_what_has_a_rank_is_compared_by_what_it_is(sides):
    """A finding is the same one at another rank; one that only one side has is not compared with another one."""
    about = {"kind": "extremes", "metric": "m", "model": "bert", "corpus": "c", "view": "words"}
    for side, ranks in zip(sides, ({"x": 1, "y": 2}, {"y": 1, "z": 2}), strict=True):
        for name, rank in ranks.items():
            ends = {"value": 0.5, "ci_low": 0.4, "ci_high": 0.6}
            number = {"token": f"<{name}>", "own": True, "position_first": 1, "position_last": 4, "texts": 7}
            insert(
                side,
                ("findings", about | ends | {"rank": rank, "statistic": name}),
                ("sink_answers", BERT | number | {"number": rank}),
            )
    gone = {(row["change"], row["metric"], row["statistic"]) for row in records(compared(*sides).numbers)}
    assert {row for row in gone if row[1] == "findings" or "texts" in row[2]} == {
        ("only in A", "findings", "value of m.x, extremes"),
        ("only in B", "findings", "value of m.z, extremes"),
        ("only in A", "sink_answers", "texts of token <x>"),
        ("only in B", "sink_answers", "texts of token <z>"),
    }


def test_what_rows_are_told_apart_by_are_columns_of_their_table():
    for table in tables().values():
        for told in table.compared:
            assert set(told.by) <= set(table.types) and set(told.values) <= set(table.types)
            if isinstance(told.interval, tuple):
                assert set(told.interval) <= set(table.types)


@pytest.mark.parametrize(("words", "cautioned"), [((100, 126), True), ((126, 100), True), ((100, 125), False)])
def test_numbers_that_change_with_the_corpus_have_a_caution_where_its_size_is_another(folder, words, cautioned):
    numbers = [("total", 1, 1.0, 0.9, 1.1), ("tradeoff", 1, 1.0, 0.9, 1.1), ("coverage", 1, 1.0, 0.9, 1.1)]
    sides = [folder("old", numbers), folder("new", [(*n[:2], 2.0, 1.9, 2.1) for n in numbers[:1]] + numbers[1:])]
    for side, many in zip(sides, words, strict=True):
        alter(side, "UPDATE layer_metrics SET metric = 'variance'", f"UPDATE corpora SET words = {many}")
    found = compared(*sides)
    assert len(found.notes) == cautioned
    for note in found.notes:
        assert f"'wiki' has {words[0]} words in A and {words[1]} in B" in note
        assert "variance.total" in note and "tradeoff" not in note, "a number that did not change needs no caution"
    assert all(note in show(found) and note in show(found, "json") for note in found.notes)
