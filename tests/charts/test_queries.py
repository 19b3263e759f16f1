"""What charts ask the database, and what of its rows becomes a panel or a stop of the slider."""

from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pandas as pd
import pytest

from reporter.charts.chart import filled
from reporter.charts.layout import ASKED, BY_ROLE, CheckpointName, moments, panels_of
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


def names(*given):
    return [CheckpointName(*one) for one in given]


def test_single_checkpoints_have_one_moment():
    (only,) = moments(names(("bert", "final", None), ("gpt2", "final", None)))
    assert (only.label, only.shown) == ("last", {"bert": "final", "gpt2": "final"})


def test_a_model_shows_its_latest_checkpoint_not_later_than_the_step():
    found = moments(
        names(("a", "s0", 0), ("a", "s100", 100), ("b", "s50", 50), ("b", "s200", 200), ("c", "final", None))
    )
    assert [moment.label for moment in found] == ["step 0", "step 50", "step 100", "last (step 200)"]
    assert found[0].shown == {"a": "s0", "c": "final"}, "b has nothing that early; c has but one and stays"
    assert found[2].shown == {"a": "s100", "b": "s50", "c": "final"}
    assert found[3].shown == {"a": "s100", "b": "s200", "c": "final"}


def test_checkpoints_without_a_step_go_by_their_name():
    found = moments(names(("a", "early", None), ("a", "late", None), ("b", "final", None)))
    assert [moment.label for moment in found] == ["early", "last (late)"]
    assert found[0].shown == {"a": "early", "b": "final"}
