"""What is said of a corpus that is read in windows: which numbers of whole texts are not of whole texts there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.analyses.registry import analyses
from reporter.metrics.registry import catalogue

if TYPE_CHECKING:
    from reporter.metrics.base import Metric
    from reporter.spec import Study


def in_windows(metric: Metric) -> set[str]:
    """Return what a metric reads of a text in windows where it is about texts: ``each`` of them, the ``first``."""
    from reporter.observables.kinds import KINDS  # brings torch, for studies with windows alone

    return {found for name in metric.needs if (found := KINDS[name].in_windows)}


def windowed(study: Study, corpus: str) -> str:
    """Return a warning of a corpus that is read in windows; empty where nothing that the study asks for is about texts.

    Args:
        study: the study.
        corpus: its name there.
    """
    said = study.corpora[corpus]
    if said.window is None:
        return ""
    read = {choice.name: in_windows(catalogue()[choice.name]) for choice in study.metrics}
    each = [name for name, found in read.items() if "each" in found]
    first = [name for name, found in read.items() if "first" in found]
    for name, analysis in analyses().items():
        if any(corpus in analysis.corpora(item) for item in analysis.items(study).values()):
            first.append(name)
    parts = [f"numbers of whole texts ({', '.join(each)}) are of each window"] if each else []
    parts += [f"of a longer text only the first window is read by {', '.join(first)}"] if first else []
    return f"corpus '{corpus}' is read in windows of {said.window} tokens: {'; '.join(parts)}" if parts else ""
