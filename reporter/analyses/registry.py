"""All analyses, in the order of a study's page. Importing this brings neither torch nor scikit-learn."""

from __future__ import annotations

from functools import cache

from reporter.analyses.analysis import Analysis


@cache
def analyses() -> dict[str, Analysis]:
    """Return every analysis by name."""
    from reporter.analyses.clouds import CLOUDS
    from reporter.analyses.groups import GROUPS
    from reporter.analyses.journeys import JOURNEYS
    from reporter.analyses.pairs import PAIRS
    from reporter.analyses.probes import PROBES
    from reporter.analyses.vocabulary import VOCABULARY

    return {analysis.name: analysis for analysis in (JOURNEYS, GROUPS, PAIRS, CLOUDS, PROBES, VOCABULARY)}
