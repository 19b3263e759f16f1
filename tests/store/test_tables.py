"""Views save the usual conditions, and ``reporter sql --tables`` says what every table and column holds."""

import duckdb
import pytest

from reporter.app.docs.reference import described, table_page


@pytest.fixture
def filled(store, cell, numbers):
    """A model at two checkpoints under two views, and its null baseline, with states after the final norm."""
    store.put("studies", ["study"], {"study": "s", "views": ["words", "all"]})
    for model, checkpoint, step in (("bert", "step-5", 5), ("bert", "step-40", 40), ("noise", "final", None)):
        baseline = {"base": "bert", "baseline": "random-init"} if model == "noise" else {}
        store.put("models", ["study", "model", "checkpoint"],
                  {"study": "s", "model": model, "checkpoint": checkpoint, "step": step,
                   "position": 2 if step == 40 else 1, "is_last": step != 5, **baseline})  # fmt: skip
        rows = [row for view in ("words", "all") for row in numbers(view=view, step=step)]
        rows += numbers(site="final", layer=4)[:1] + numbers(site=None, layer=None, depth=None)[:1]
        store.commit_cell(cell(model=model, checkpoint=checkpoint), rows)
    return store


def test_views_leave_out_what_is_no_profile(filled):
    found = filled.frame("SELECT model, checkpoint, view, site, layer FROM layers")
    assert len(found) == 2 * 2 * 5 and set(found["model"]) == {"bert"} and set(found["site"]) == {"embedding", "block"}
    found = filled.frame("SELECT checkpoint, view, layer, value FROM profiles ORDER BY layer")
    assert found.values.tolist() == [["step-40", "words", layer, pytest.approx(0.1 * layer)] for layer in range(5)]


def test_rows_are_counted_and_tables_of_plug_ins_found(filled):
    with duckdb.connect(str(filled.path)) as connection:
        connection.execute("CREATE TABLE peaks (height DOUBLE)")
        connection.execute("COMMENT ON COLUMN peaks.height IS 'how high'")
    found = described(filled.path)
    assert found["layer_metrics"].name == "layer_metrics (36 rows)" and found["sinks"].name == "sinks (0 rows)"
    assert table_page(found["peaks"]).splitlines()[0] == "peaks (0 rows)"
    assert "height DOUBLE: how high" in table_page(found["peaks"])
