from __future__ import annotations

import pytest

from reporter.charts.chart import Query
from reporter.errors import ReporterError


def test_parameters_become_literals() -> None:
    query = Query("q", "\nSELECT $a, $b_c, '$5'\n")
    assert query.fill(a="x", b_c="it's") == "SELECT 'x', 'it''s', '$5'"


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(ReporterError, match=r"'q' wants a value for \$a"):
        Query("q", "SELECT $a").fill(b="x")


def test_a_value_that_looks_like_a_parameter_stays_text() -> None:
    assert Query("q", "SELECT $a").fill(a="$a'; DROP TABLE cells; --") == "SELECT '$a''; DROP TABLE cells; --'"
