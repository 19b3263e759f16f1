"""What a claim may name of analyses is known without loading them."""

import subprocess
import sys

from reporter.analyses.known import KnownStatistics
from reporter.analyses.registry import analyses

METRICS = {"motion": {"norm": "layer"}}


def test_every_analysis_is_known_and_its_statistics():
    known = KnownStatistics(METRICS)
    assert list(known) == ["motion", *analyses()] and len(known) == len(list(known))
    assert known["motion"] is METRICS["motion"] and "nothing" not in known and known.get("nothing") is None
    for name, analysis in analyses().items():
        assert known[name] == {statistic.name: statistic.per for statistic in analysis.statistics}


def test_a_claim_about_metrics_does_not_wait_for_numpy():
    code = (
        "import sys; from reporter.analyses.known import KnownStatistics\n"
        "known = KnownStatistics({'motion': {'norm': 'layer'}})\n"
        "assert known.get('motion') and 'pairs' in known and 'numpy' not in sys.modules\n"
        "assert known['pairs']['consistency'] == 'layer' and 'numpy' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
