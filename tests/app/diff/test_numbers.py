"""Which numbers changed, where the answer is known; nearly all cases are one comparison."""

from collections import Counter
from math import hypot

import pytest
from app.diff.conftest import compared, fill, insert, number, records

from reporter.app.diff import compare
from reporter.app.diff.show import show
from reporter.store.schema import tables

BERT = {"model": "bert", "checkpoint": "final", "corpus": "c"}
PLACE = {"view": "text tokens", "site": "block", "layer": 1}
CHANGES = (
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
    ((1.0, 1.0, 1.0), (1.1, 1.1, 1.1), "changed"),
    ((1.0, None, None), (None, None, None), "NULL in B"),
    ((None, None, None), (1.0, None, None), "NULL in A"),
    ((None, None, None), (None, None, None), "same"),
    ((1.0, None, None), None, "only in A"),
    (None, (1.0, None, None), "only in B"),
)
SIZES = {"grows": (100, 126), "shrinks": (126, 100), "alike": (100, 125)}
"""Words of corpora in A and B."""


def rows_of(side):
    """The rows of a study beside the numbers of :data:`CHANGES`; ``side`` is 0 in A and 1 in B."""
    # small and large changes, with an interval and without one
    yield number("norm", 1, *((1.0, 0.9, 1.1), (3.0, 2.8, 3.1))[side], metric="size")
    yield number("norm", 2, *((1.0, 0.9, 1.2), (3.0, 1.5, 3.1))[side], metric="size")
    yield number("plain", 1, 1.0 + side, metric="size")
    yield number("plain", 2, 5.0 + side, metric="size")
    # other tables with intervals
    ends, more = {"model_a": "a", "checkpoint_a": "x", "model_b": "b", "checkpoint_b": "x"}, {"view": "text tokens"}
    more |= {"metric": "m", "value": side}
    yield "layer_pairs", ends | more | {"corpus": "c", "statistic": "cka", "layer_a": 2, "layer_b": 3}
    yield "differences", ends | more | {"statistic": "norm", "corpus_a": "c", "corpus_b": "d"}
    yield "correlations", more | {"corpus": "c", "feature": "rate", "score": "sst2", "method": "pearson"}
    # long lists: an eigenvalue curve of 23 axes, as many token types, and a single text
    for i in range(1, 24):
        yield "spectra", BERT | PLACE | {"metric": "spectrum", "rank": i, "value": i + side}
        kind = {"token_id": i, "token": f"<{i}>", "count": i, "variance": 1 + side, "norm_of_mean": 1}
        yield "token_types", BERT | PLACE | kind | {"metric": "types"}
    text = {"text": 7, "site": "block", "layer": 1, "linear": bool(side), "hidden": None}
    yield "probe_texts", {"model": "bert", "checkpoint": "final", "probe": "c", **text}
    # a finding and a sink token that have another rank in B, and one of each side alone
    about = {"kind": "extremes", "metric": "m", "model": "bert", "corpus": "c", "view": "text tokens"}
    about |= {"value": 0.5, "ci_low": 0.4, "ci_high": 0.6}
    for name, rank in ({"x": 1, "y": 2}, {"y": 1, "z": 2})[side].items():
        yield "findings", about | {"rank": rank, "statistic": name}
        sink = {"token": f"<{name}>", "own": True, "position_first": 1, "position_last": 4, "texts": 7}
        yield "sink_answers", BERT | sink | {"number": rank}
    # two views with equal numbers and one with others
    for layer in (1, 2):
        for view, value in (("text tokens", side), ("without sinks", side), ("with special tokens", side + 0.5)):
            yield number("norm", layer, value, value - 0.1, value + 0.1, view=view, metric="views")
    for corpus, words in SIZES.items():
        yield "corpora", {"corpus": corpus, "words": words[side]}
        for statistic, value in (("total", 1.0 + side), ("tradeoff", 1.0), ("coverage", 1.0)):
            yield number(statistic, 1, value, value - 0.1, value + 0.1, metric="variance", corpus=corpus)


@pytest.fixture(scope="module")
def found(tmp_path_factory, empty):
    """What differs between two studies of one file."""
    out = tmp_path_factory.mktemp("numbers") / "results"
    for side, study in enumerate(("s", "t")):
        numbers = [(f"number_{i}", 1, *case[side]) for i, case in enumerate(CHANGES) if case[side]]
        fill(out, empty, numbers, study=study)
        insert(out, *rows_of(side), study=study)
    return compare("s", "t", out)


def changed(found, *metrics):
    return [row for row in records(found.numbers) if row["metric"] in metrics]


def test_which_numbers_changed(found):
    expected = {f"number_{i}": case[2] for i, case in enumerate(CHANGES) if case[2] not in ("same", "within")}
    assert {row["statistic"]: row["change"] for row in changed(found, "motion")} == expected
    (summary,) = (row for row in records(found.summary) if row["metric"] == "motion")
    counts = Counter(case[2] for case in CHANGES)
    counts["with"] = sum(bool(a and b and a[1]) for a, b, _ in CHANGES)
    counts["compared"] = len(CHANGES) - counts["only in A"] - counts["only in B"]
    names = {name: counts[name.removesuffix(" interval")] for name in list(summary)[1:]}
    assert summary == {"metric": "motion", **names}
    assert found.has_consequences


def test_the_largest_change_comes_first_and_says_how_large(found):
    rows = changed(found, "size")
    assert [(row["statistic"], row["layer"]) for row in rows] == [("norm", 1), ("norm", 2), ("plain", 1), ("plain", 2)]
    assert [row["interval"] for row in rows[:2]] == pytest.approx([hypot(0.1, 0.2), hypot(0.2, 1.5)])
    assert rows[0]["intervals"] == pytest.approx(2 / hypot(0.1, 0.2))
    assert (rows[0]["model"], rows[0]["corpus"], rows[0]["view"], rows[0]["site"]) == (
        "bert",
        "wiki",
        "text tokens",
        "block",
    )
    assert (rows[2]["interval"], rows[2]["relative"]) == (None, 0.5)


def test_every_table_with_intervals_is_compared(found):
    parts = ("statistic", "model", "corpus", "layer", "layer_b")
    assert {tuple(row[part] for part in parts) for row in changed(found, "m")} == {
        ("cka", "a | b", "c", 2, 3),
        ("norm", "a | b", "c | d", None, None),
        ("rate ~ sst2 (pearson)", None, "c", None, None),
    }


def test_long_lists_are_compared_in_part(found):
    """Of an eigenvalue curve the axes 1, 2, 4, …; of token types the 20 most frequent ones; of single texts none."""
    names = {row["statistic"] for row in changed(found, "spectrum", "types")}
    axes = {f"value of axis {rank}" for rank in (1, 2, 4, 8, 16)}
    assert names == axes | {f"variance of token <{i}>" for i in range(4, 24)}
    metrics = {"motion", "size", "m", "spectrum", "types", "views", "variance", "findings", "sink_answers"}
    assert {row[0] for row in found.summary.rows} == metrics


def test_what_has_a_rank_is_compared_by_what_it_is(found):
    """A finding is the same one at another rank; one that only one side has is not compared with another one."""
    rows = {(row["change"], row["metric"], row["statistic"]) for row in changed(found, "findings", "sink_answers")}
    assert {row for row in rows if row[1] == "findings" or "texts" in row[2]} == {
        *((f"only in {side}", "findings", f"value of m.{name}, extremes") for side, name in ("Ax", "Bz")),
        *((f"only in {side}", "sink_answers", f"texts of token <{name}>") for side, name in ("Ax", "Bz")),
    }


def test_views_that_are_alike_count_once(found):
    assert (
        sorted(row["view"] for row in changed(found, "views"))
        == ["text tokens, without sinks"] * 2 + ["with special tokens"] * 2
    )
    assert [row["compared"] for row in records(found.summary) if row["metric"] == "views"] == [4]


def test_numbers_that_change_with_the_corpus_have_a_caution_where_its_size_is_another(found):
    for note, corpus in zip(found.notes, ("grows", "shrinks"), strict=True):
        a, b = SIZES[corpus]
        assert f"'{corpus}' has {a} words in A and {b} in B" in note
        assert "variance.total" in note and "tradeoff" not in note, "a number that did not change needs no caution"
        assert note in show(found) and note in show(found, "json")


def test_every_number_that_a_table_declares_is_compared_under_a_name_of_its_own(sides):
    """Each is 0 on one side and 1 on the other, which an interval explains where there is one."""
    expected = Counter()
    for value, side in enumerate(sides):
        rows = []
        for table in (table for table in tables().values() if table.compared):
            row = {column.name: column.name if column.type == "VARCHAR" else 3 for column in table.columns}
            row |= {name: None for name in table.types if table.types[name] == "TIMESTAMP"}
            row |= {"study": "s", "main": False, "own": True, "rank": 4, "position_first": 0, "position_last": 0}
            for told in table.compared:
                assert "VARCHAR" not in map(table.types.get, told.values), f"{table.name} compares a text"
                ends = ("ci_low", "ci_high") if told.interval is True else told.interval or ()
                row |= dict.fromkeys(told.values, value) | dict(zip(ends, (value - 5, value + 5), strict=bool(ends)))
                expected["within interval" if ends else "changed"] += value * len(told.values)
            rows.append((table.name, {name: row[name] for name in table.types}))
        insert(side, *rows)
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
