"""The statistics that a claim may name: those of metrics at once, those of analyses when one is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reporter.spec.claim_parts import ANALYSES


class KnownStatistics(Mapping[str, Mapping[str, str]]):
    """By metric or analysis, the names of its statistics and what each has one number for.

    Analyses bring NumPy, which a check of studies without claims about them must not wait for.

    Args:
        metrics: the same of the metrics.
    """

    def __init__(self, metrics: Mapping[str, Mapping[str, str]]) -> None:
        self._metrics = metrics

    def __getitem__(self, name: str) -> Mapping[str, str]:
        if name in self._metrics:
            return self._metrics[name]
        if name not in ANALYSES:
            raise KeyError(name)
        from reporter.analyses.registry import analyses

        return {statistic.name: statistic.per for statistic in analyses()[name].statistics}

    def __iter__(self) -> Iterator[str]:
        yield from self._metrics
        yield from ANALYSES

    def __len__(self) -> int:
        return len(self._metrics) + len(ANALYSES)

    def __contains__(self, name: object) -> bool:
        return name in self._metrics or name in ANALYSES
