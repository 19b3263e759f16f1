"""What analyses say of themselves, and where they come from."""

import pytest

from reporter.metrics.analysis import ANALYSES, analyses
from reporter.metrics.base import statistics
from reporter.runs.studies import offer
from reporter.store.schema import tables
from reporter.texts.sources import SOURCES


@pytest.mark.parametrize("name", ["groups", "pairs", "clouds", "probes", "partners"])
def test_every_number_of_an_analysis_is_explained(name):
    analysis = analyses()[name]
    assert analysis.pooled and analysis.baselines and analysis.title and analysis.summary and analysis.cost
    assert all(tables()[row.table.name] is row.table for row in analysis.tables)
    assert 1 <= sum(statistic.main for statistic in analysis.statistics) <= 2
    for statistic in analysis.statistics:
        assert statistic.title and len(statistic.definition) > 10 and statistic.works, statistic.name
        assert statistic.trap, statistic.name
        assert "Chance level: " in statistic.definition or not statistic.floor


def test_every_analysis_is_known_and_its_statistics():
    known = offer().statistics
    assert set(known) == {*statistics(), *analyses()} and known["motion"] == statistics()["motion"]
    for name, analysis in analyses().items():
        assert known[name] == {statistic.name: statistic.per for statistic in analysis.statistics}


def test_installed_packages_may_bring_analyses_and_sources(monkeypatch):
    asked = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: asked.append(group) or [])
    for registry in (ANALYSES, SOURCES):
        monkeypatch.setattr(registry, "_offered", False)
        assert registry.all()
    assert asked == ["reporter.analyses", "reporter.sources"]
