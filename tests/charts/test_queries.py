"""What charts ask the database, and what of its rows becomes a panel or a stop of the slider."""

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from reporter.charts.chart import filled
from reporter.charts.layout import CheckpointName, moments, panels_of
from reporter.core.errors import ReporterError


def test_parameters_become_literals_and_a_missing_one_is_named():
    assert filled("\nSELECT $a, $b_c, '$5'\n", a="x", b_c="it's") == "SELECT 'x', 'it''s', '$5'"
    assert filled("SELECT $a", a="$a'; DROP TABLE cells; --") == "SELECT '$a''; DROP TABLE cells; --'"
    with pytest.raises(ReporterError, match=r"needs a value for \$a"):
        filled("SELECT $a", b="x")


def test_a_corpus_without_a_number_has_no_panel():
    scene = cast("Any", SimpleNamespace(corpora=("b", "a", "c")))
    some = pd.DataFrame({"corpus": ["a", "b", "b"], "value": [1.0, None, 2.0]})
    none = pd.DataFrame({"corpus": ["a", "b"], "value": [1.0, None]})
    assert [panel.value for panel in panels_of(some, "corpus", scene)] == ["b", "a"]
    assert [panel.value for panel in panels_of(none, "corpus", scene)] == ["a"]
    assert [panel.value for panel in panels_of(none.assign(value=None), "corpus", scene)] == ["b", "a"]


def test_a_model_shows_its_latest_checkpoint_not_later_than_the_step():
    def shown(*names):
        return {moment.label: moment.shown for moment in moments([CheckpointName(*name) for name in names])}

    stops = shown(("a", "s0", 0), ("a", "s100", 100), ("b", "s50", 50), ("b", "s200", 200), ("c", "final", None))
    assert list(stops) == ["step 0", "step 50", "step 100", "last (step 200)"]
    assert stops["step 0"] == {"a": "s0", "c": "final"}, "b has nothing that early; c has but one and stays"
    assert stops["step 100"] == {"a": "s100", "b": "s50", "c": "final"}
    assert stops["last (step 200)"] == {"a": "s100", "b": "s200", "c": "final"}
    assert shown(("a", "final", None), ("b", "final", None)) == {"last": {"a": "final", "b": "final"}}
    by_name = shown(("a", "early", None), ("a", "late", None), ("b", "final", None))
    assert by_name == {"early": {"a": "early", "b": "final"}, "last (late)": {"a": "late", "b": "final"}}
