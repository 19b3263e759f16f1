"""Which analyses and sources of texts there are, and what a claim may name of analyses."""

from reporter.metrics.analysis import ANALYSES, analyses
from reporter.metrics.base import statistics
from reporter.runs.studies import offer
from reporter.texts.sources import SOURCES


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
