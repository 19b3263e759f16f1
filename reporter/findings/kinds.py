"""The kinds of findings, in the order in which a reader should meet them.

First what would mislead (a profile that sinks make), then what speaks of more than one model, then each model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from reporter.findings import concepts, extremes, references, roles, sinks, training

if TYPE_CHECKING:
    from reporter.findings.question import Question
    from reporter.findings.subjects import Subjects

KINDS: Mapping[str, Callable[[Subjects], Iterator[Question]]] = {
    "sinks": sinks.ask,
    "roles": roles.ask,
    "training": training.ask,
    "concepts": concepts.ask,
    "extremes": extremes.ask,
    "references": references.ask,
}
