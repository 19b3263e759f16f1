import os
import subprocess
from functools import partial
from operator import attrgetter
from unittest.mock import Mock

import pytest
from store.conftest import alter, cell, numbers, records

from reporter.app.docs.reference import described, table_page
from reporter.core.errors import ReporterError
from reporter.runs.whole import write_statistics
from reporter.store import Store, query
from reporter.store.making import create_file
from reporter.store.schema import SCHEMA_VERSION, tables
from reporter.store.views import VIEWS

FACTS = attrgetter("name", "type", "comment")


def test_a_new_file_is_small_and_describes_every_table_and_column(fresh):
    fresh.commit_cell(cell(), numbers())
    assert [file.name for file in fresh.path.parent.iterdir()] == ["results.duckdb"]
    assert fresh.path.stat().st_size < 660_000  # of which the names and comments of all tables are nearly everything
    ((options,),) = records(fresh, "SELECT tags FROM duckdb_databases() WHERE path IS NOT NULL")
    assert options["storage_version"] == "v1.4.0+", "which older clients open"
    found = records(fresh, "SELECT table_name, comment FROM duckdb_tables()")
    assert dict(found) == {name: table.comment for name, table in tables().items()}
    views = records(fresh, "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal")
    assert dict(views) == {name: view.comment for name, view in VIEWS.items()}
    columns = "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal"
    described = tables() | VIEWS
    expected = {(name, *column) for name in described for column in map(FACTS, described[name].columns)}
    assert set(records(fresh, columns)) == expected
    assert all(comment and comment.strip() for *_, comment in [*found, *expected])


def test_views_leave_out_what_is_no_profile_and_every_table_is_described(store):
    """A model at two checkpoints under two views, and its null baseline, with states after the final norm."""
    store.put("studies", ["study"], {"study": "s", "views": ["text tokens", "with special tokens"]})
    for model, checkpoint, step in (("bert", "step-5", 5), ("bert", "step-40", 40), ("noise", "final", None)):
        row = {"study": "s", "model": model, "checkpoint": checkpoint, "step": step, "position": 1 + (step == 40)}
        row |= {"base": "bert", "baseline": "random-init"} if model == "noise" else {}
        store.put("models", ["study", "model", "checkpoint"], row | {"is_last": step != 5})
        rows = [row for view in ("text tokens", "with special tokens") for row in numbers(view=view, step=step)]
        rows += numbers(site="final", layer=4)[:1] + numbers(site=None, layer=None, depth=None)[:1]
        store.commit_cell(cell(model=model, checkpoint=checkpoint), rows)
    write_statistics(store, "s")
    statistics = store.records("FROM statistics")
    found = store.frame("SELECT model, checkpoint, view, site, layer FROM layers")
    assert len(found) == 2 * 2 * 5 and set(found["model"]) == {"bert"} and set(found["site"]) == {"embedding", "block"}
    (title,) = (row["title"] for row in statistics if row["statistic"] == "norm")
    found = store.frame(
        "SELECT checkpoint, view, layer, title, value FROM layers WHERE is_last AND view = 'text tokens' ORDER BY layer"
    )
    assert found.values.tolist() == [
        ["step-40", "text tokens", layer, title, pytest.approx(0.1 * layer)] for layer in range(5)
    ]
    alter(store.path, "CREATE TABLE peaks (height DOUBLE); COMMENT ON COLUMN peaks.height IS 'how high'")
    found = described(store.path)  # what `reporter sql --tables` prints, a plug-in's table among it
    assert found["layer_metrics"].name == "layer_metrics (36 rows)" and found["sinks"].name == "sinks (0 rows)"
    page = table_page(found["peaks"])
    assert page.splitlines()[0] == "peaks (0 rows)" and "height DOUBLE: how high" in page


def test_a_file_of_another_version_is_refused_and_left_as_it_is(store):
    store.commit_cell(cell(), numbers())
    for version, what_to_do in ((SCHEMA_VERSION - 1, "move it away and run the study again"), (99, "upgrade reporter")):
        alter(store.path, f"UPDATE schema_version SET version = {version}, reporter = '9.9'")
        before, other = store.path.read_bytes(), Store(store.path)
        for use in (store.commit_cell, store.frame, other.cells, partial(query, store.path)):
            with pytest.raises(ReporterError, match=what_to_do):
                use(cell() if use == store.commit_cell else "FROM cells")
        assert store.path.read_bytes() == before


def test_a_write_adds_what_a_new_plug_in_brings_and_says_once_where_numbers_are_lost(store, caplog):
    store.commit_cell(cell(metric="outliers"), numbers(statistic="kurtosis"))
    alter(store.path, "ALTER TABLE massive_activations DROP COLUMN value; DROP TABLE sinks")
    for study in ("t", "u"):
        store.commit_cell(cell(study=study), numbers())
    assert store.frame("SELECT value FROM massive_activations").empty and store.frame("FROM sinks").empty
    (said,) = caplog.messages
    assert said.startswith("results.duckdb has no table sinks") and "STUDY --only outliers --force`" in said


def test_a_file_that_somebody_changed_is_refused_in_one_line(store):
    for change, said in (
        ("ALTER TABLE layer_metrics DROP COLUMN ci_low", "column ci_low of table layer_metrics"),
        ("ALTER TABLE layer_metrics ADD COLUMN ci_low DOUBLE; DROP TABLE claims", "table claims"),
    ):
        alter(store.path, change)
        with pytest.raises(ReporterError, match=f"{said} is missing; restore it from a backup, or move it away"):
            Store(store.path).commit_cell(cell(study="t"), numbers())
        with pytest.raises(ReporterError, match=r"was changed by another program \(.*restore it from a backup"):
            Store(store.path).frame("SELECT layer_metrics.ci_low FROM layer_metrics, claims")


@pytest.mark.parametrize("place", [0.02, 0.3, 0.6, 0.9])
def test_a_flipped_byte_is_found_or_changes_nothing(store, place):
    store.commit_cell(cell(), numbers())
    whole = records(store, "FROM layer_metrics ORDER BY ALL")
    data = bytearray(store.path.read_bytes())
    data[int(place * len(data))] ^= 16
    store.path.write_bytes(data)
    try:
        assert records(Store(store.path), "FROM layer_metrics ORDER BY ALL") == whole
    except ReporterError as error:
        assert "is damaged (" in str(error) and "move it away and run the study again" in str(error)


def test_a_file_system_without_hard_links_will_do(fresh, monkeypatch):
    monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError))
    fresh.commit_cell(cell(), numbers())
    assert len(fresh.cells("s")) == 1 and [one.name for one in fresh.path.parent.iterdir()] == [fresh.path.name]
    before = fresh.path.stat()
    create_file(fresh.path)  # by another process that began at the same time
    assert fresh.path.stat() == before and len(fresh.cells("s")) == 1


def test_a_database_without_tables_is_filled_and_a_file_that_is_no_results_refused_and_left_alone(fresh):
    fresh.path.parent.mkdir()
    alter(fresh.path, "SELECT 1")
    assert fresh.cells("s") == {}
    fresh.commit_cell(cell(), numbers())
    assert len(fresh.cells("s")) == 1
    for content, says in (
        ("CREATE TABLE cells (a INTEGER)", "tables of another program; choose another folder"),
        ("CREATE TABLE schema_version (a TEXT)", "tables of another program; choose another folder"),
        (b"", "is not a DuckDB database; move it away"),
        (b"not a database " * 1000, "is not a DuckDB database; move it away"),
    ):
        fresh.path.unlink(missing_ok=True)
        alter(fresh.path, content) if isinstance(content, str) else fresh.path.write_bytes(content)
        before = fresh.path.read_bytes()
        for use in (lambda: fresh.commit_cell(cell()), lambda: fresh.cells("s")):
            with pytest.raises(ReporterError, match=says):
                use()
        assert fresh.path.read_bytes() == before
    with pytest.raises(ReporterError, match=r"results\.duckdb cannot be written"):
        Store(fresh.path / "results.duckdb").commit_cell(cell())


def test_a_full_disk_is_one_sentence_and_what_was_there_stays(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=False).returncode:
        pytest.skip("needs to mount a small disk")
    try:
        store, kept = Store(small / "results.duckdb"), []
        with pytest.raises(ReporterError, match="No space left on device"):
            for i in range(60):
                store.commit_cell(cell(model=f"m{i}", why=os.urandom(20_000).hex()), numbers())
                kept.append(f"m{i}")
        subprocess.run(["mount", "-o", "remount,size=50m", small], check=True)
        assert kept and sorted(key.model for key in store.cells("s")) == sorted(kept)
        store.commit_cell(cell(model="last"), numbers())
    finally:
        subprocess.run(["umount", small], check=True)
