from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pandas as pd
import pytest

from reporter.charts.chart import filled
from reporter.charts.layout import ASKED, BY_ROLE, panels_of
from reporter.core.errors import ReporterError


def test_parameters_become_literals_and_a_missing_one_is_named():
    assert filled("\nSELECT $a, $b_c, '$5'\n", a="x", b_c="it's") == "SELECT 'x', 'it''s', '$5'"
    assert filled("SELECT $a", a="$a'; DROP TABLE cells; --") == "SELECT '$a''; DROP TABLE cells; --'"
    with pytest.raises(ReporterError, match=r"needs a value for \$a"):
        filled("SELECT $a", b="x")


def test_a_number_that_roles_do_not_share_has_a_panel_for_each_role():
    """Where there are models of both; of one role alone the panel is the corpus."""
    rows = [("bert", "encoder", "b"), ("gpt2", "decoder", "b"), ("gpt2", "decoder", "a")]
    query = f"SELECT model, role, corpus, {BY_ROLE}, view, value FROM rows"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (model TEXT, role TEXT, corpus TEXT, view TEXT, value INT)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, 'words', 1)", rows)
        frame = connection.execute(query).df()
        connection.execute("DELETE FROM rows WHERE role = 'encoder'")
        alone = connection.execute(query).df()
    scene = cast("Any", SimpleNamespace(corpora=("b", "a")))
    assert [panel.value for panel in panels_of(frame, ASKED, scene)] == ["b, encoders", "b, decoders", "a, decoders"]
    assert [panel.value for panel in panels_of(alone, ASKED, scene)] == ["b", "a"]


def test_a_corpus_without_a_number_has_no_panel():
    scene = cast("Any", SimpleNamespace(corpora=("b", "a", "c")))
    some = pd.DataFrame({"corpus": ["a", "b", "b"], "value": [1.0, None, 2.0]})
    none = pd.DataFrame({"corpus": ["a", "b"], "value": [1.0, None]})
    assert [panel.value for panel in panels_of(some, "corpus", scene)] == ["b", "a"]
    assert [panel.value for panel in panels_of(none, "corpus", scene)] == ["a"]
    assert [panel.value for panel in panels_of(none.assign(value=None), "corpus", scene)] == ["b", "a"]
