"""What a claim may name of analyses."""

from reporter.analyses.registry import analyses
from reporter.metrics.registry import statistics
from reporter.runs.studies import offer


def test_every_analysis_is_known_and_its_statistics():
    known = offer().statistics
    assert set(known) == {*statistics(), *analyses()} and known["motion"] == statistics()["motion"]
    for name, analysis in analyses().items():
        assert known[name] == {statistic.name: statistic.per for statistic in analysis.statistics}
