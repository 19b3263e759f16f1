"""How sides are named, and what is said when one is not there."""

import re
from pathlib import Path

import duckdb
import pytest
from app.diff.conftest import alter, insert, number, records

from reporter.app.diff import compare
from reporter.app.diff.sides import find_sides, side_by_side
from reporter.core.errors import ReporterError, UsageError
from reporter.store.schema import tables

pytestmark = pytest.mark.usefixtures("few_tables")


def test_every_way_to_name_a_study_and_what_is_not_there_is_told_in_one_line(folder, monkeypatch):
    """In ``results`` are the studies s and t, in ``old`` is s alone, and in ``two`` are s, t and u."""
    for name, studies in (("results", "st"), ("old", "s"), ("two", "stu")):
        for study in studies:
            place = folder(name, study=study)
    monkeypatch.chdir(place.parent)
    for a, b, expected in (
        ("s", "t", ["results/s", "results/t"]),
        ("s", "old:", ["results/s", "old/s"]),
        ("old:", "t", ["old/s", "results/t"]),
        ("old:", "results:", ["old/s", "results/s"]),
        ("old:s", "./results:t", ["old/s", "results/t"]),
        ("old/results.duckdb:", "s", ["old/s", "results/s"]),
    ):
        assert [f"{side.database.parent}/{side.study}" for side in find_sides(a, b, Path("results"))] == expected

    for name in ("empty", "text"):
        Path(name).mkdir()
    duckdb.connect("empty/results.duckdb").close()
    Path("text/results.duckdb").write_text("x" * 8192)
    for a, b, told in (
        ("s", "s", "both sides are the study results:s"),
        ("s", "./results:s", "both sides are the study results:s"),
        ("x", "t", "no study 'x' in results/results.duckdb; it has: s, t"),
        ("s", "results:tt", "did you mean 't'?"),
        ("s", "nowhere:s", "nowhere/results.duckdb does not exist"),
        ("old", "s", "write 'old:'"),
        ("./old", "s", "cannot read './old'; write STUDY"),
        ("two:", "results:", "several studies: s, t, u; choose"),
        ("s", "empty:", "has no study yet"),
        ("s", "text:s", "is not a DuckDB database"),
    ):
        error = ReporterError if "not a DuckDB" in told else UsageError
        with pytest.raises(error, match=rf"^.*{re.escape(told)}.*\Z"):
            find_sides(a, b, Path("results"))


def test_an_older_file_is_seen_in_the_shape_of_today_and_left_alone_and_a_newer_one_refused(sides):
    old, new = sides
    drop = "ALTER TABLE models DROP COLUMN attention"
    alter(old, "DROP TABLE correlations", drop, "UPDATE schema_version SET version = 1")
    before = (old / "results.duckdb").read_bytes()
    with side_by_side(find_sides(f"{old}:", f"{new}:", Path("x"))) as connection:
        for table in tables().values():
            columns = [column.name for column in table.columns if column.name != "study"]
            for side in "ab" if len(columns) < len(table.columns) else "":
                found = connection.execute(f"FROM {side}_{table.name}")
                assert [column[0] for column in found.description] == columns
        assert connection.execute("SELECT attention, layers FROM a_models").fetchall() == [(None, 4)]
        assert connection.execute("FROM a_correlations").fetchall() == []
        with pytest.raises(duckdb.Error):
            connection.execute("CREATE TABLE file_0.x (y INTEGER)")
    assert (old / "results.duckdb").read_bytes() == before
    alter(new, "UPDATE schema_version SET version = 999, reporter = '9.9'")
    with pytest.raises(ReporterError, match="newer than this version"):
        find_sides(f"{old}:", f"{new}:", Path("x"))


def test_two_models_of_a_study_stand_side_by_side(folder):
    """The last checkpoint of each, under one name; what is of the study and of no model is left out."""
    place = folder("results", [("norm", 1, 1.0, 0.9, 1.1)])
    for checkpoint, step, value in (("step-9", 9, 5.0), ("step-10", 10, 3.0)):
        key = {"model": "tuned", "checkpoint": checkpoint, "step": step}
        facts = {"is_last": step == 10, "base": "bert", "status": "done"}
        insert(place, ("models", key | facts), number("norm", 1, value, 2.9, 3.1, **key))
    insert(place, ("claims", {"claim": "c", "verdict": "supported"}))
    assert find_sides("s:bert", "s:tuned", place) == find_sides(f"{place}:s:bert", "s:tuned", place)
    found = compare("s:bert", "s:tuned", place)
    assert found.spec == [] and not found.verdicts.rows
    (row,) = records(found.numbers)
    assert (row["model"], row["checkpoint"], row["a"], row["b"]) == ("bert | tuned", "final", 1.0, 3.0)
    assert row["change"] == "changed" and row["interval"] == pytest.approx(0.02**0.5)
    both = {"kind": "base", "model_a": "tuned", "checkpoint_a": "step-10", "corpus_a": "wiki", "value": 2.0}
    both |= {"model_b": "bert", "checkpoint_b": "final", "corpus_b": "wiki", "ci_low": 1.95, "ci_high": 2.04}
    both |= {"metric": "motion", "view": "text tokens", "statistic": "norm", "site": "block", "layer": 1}
    insert(place, ("differences", both))
    assert row["texts"] == "not paired"
    for a, b in (("s:bert", "s:tuned"), ("s:tuned", "s:bert")):  # of the same texts: as far as it reaches towards 0
        (row,) = records(compare(a, b, place).numbers)
        assert (row["texts"], row["interval"]) == ("paired", pytest.approx(0.05))
    for a, b, told in (
        ("s:bert", "s", "one side names a model and the other does not"),
        ("s:bert", "s:tune", "no model 'tune' in study s; did you mean 'tuned'?"),
        ("s:bert", "s:bert", "both sides are"),
    ):
        with pytest.raises(UsageError, match=re.escape(told)):
            find_sides(a, b, place)


def test_models_of_different_depth_are_compared_at_equal_depth(folder):
    """Numbers that lie on one line over depth differ nowhere; of those of a step, layer 4 of 4 has none."""
    place = folder("results", [("line", layer, layer / 4, None, None) for layer in range(5)])
    alter(place, "UPDATE layer_metrics SET site = if(layer = 0, 'embedding', 'block')")
    deep = {"model": "deep"}
    rows = [("models", {"model": "deep", "checkpoint": "final", "layers": 6, "is_last": True, "status": "done"})]
    for layer in range(7):
        site = "block" if layer else "embedding"
        rows.append(number("line", layer, layer / 6, site=site, **deep))
        rows.append(number("square", layer, layer**2, 0, layer, site=site, **deep))
    rows += [number("line", 6, 5.0, site="final", **deep), number("mean", None, 2.0, site=None, **deep)]
    of_one_layer = {"corpus": "wiki", "checkpoint": "final", "view": "text tokens", "site": "block", "layer": 4}
    rows.append(("spectra", of_one_layer | {"model": "deep", "metric": "spectrum", "rank": 1, "value": 2.0}))
    insert(place, *rows)
    alter(place, "UPDATE layer_metrics SET depth = layer / if(model = 'deep', 6, 4)")
    for a, b, only, squares in (
        ("s:bert", "s:deep", "only in B", {0: 0, 1: (1 + 4) / 2, 2: 9, 3: (16 + 25) / 2, 4: 36}),
        ("s:deep", "s:bert", "only in A", {}),
    ):
        found = compare(a, b, place)
        assert set(found.blocks) == {4, 6} and len(found.notes) == 1
        changed = records(found.numbers)
        assert {(row["change"], row["statistic"]) for row in changed} == {
            (only, statistic) for statistic in ("square", "line", "mean")
        }, "numbers of one layer of the deeper model are left out, those of no layer are not"
        assert [row["layer"] for row in changed if row["statistic"] == "line"] == [4], "after the final norm"
        assert records(found.summary)[0]["same"] == 5
        of_square = {row["layer"]: row["b"] for row in changed if row["statistic"] == "square"}
        assert of_square == squares or not squares, "interpolated"


def test_the_interval_of_a_step_of_models_of_different_depth_holds_its_difference(folder):
    """The last step of the shallower model lies between two steps of the deeper one, which the interval must read."""
    place = folder("results")
    insert(place, ("models", {"model": "deep", "checkpoint": "final", "layers": 6, "is_last": True, "status": "done"}))
    for model, layers, size in (("bert", 4, 1.0), ("deep", 6, 9.0)):
        for layer in range(layers):  # the step from a layer to the next one; the last layer has none
            value = size * (layer / layers) ** 2 + size
            more = {"model": model, "depth": layer / layers, "site": "block" if layer else "embedding"}
            insert(place, number("step", layer, value, value - 0.1, value + 0.1, **more))
    for a, b in (("s:bert", "s:deep"), ("s:deep", "s:bert")):
        changed = {row["layer"]: row for row in records(compare(a, b, place).numbers)}
        assert set(changed) == {0, 1, 2, 3}
        for row in changed.values():
            assert (row["ci_low"] + row["ci_high"]) / 2 == pytest.approx(row["delta"]) == row["b"] - row["a"]
