"""The kinds of findings, in the order in which a reader should meet them.

First what a study was made to ask: what changed against a base, where encoders and decoders differ, or its models. Then
what training and sinks make, and last each model's own profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from reporter.findings import changed, concepts, corpora, extremes, models, references, roles, sinks, training

if TYPE_CHECKING:
    from reporter.findings.question import Question
    from reporter.findings.subjects import Subjects

KINDS: Mapping[str, Callable[[Subjects], Iterator[Question]]] = {
    "base": changed.ask_states,
    "base-loss": changed.ask_loss,
    "base-numbers": changed.ask_numbers,
    "roles": roles.ask,
    "models": models.ask,
    "training": training.ask,
    "concepts": concepts.ask,
    "sinks": sinks.ask,
    "corpora": corpora.ask,
    "extremes": extremes.ask,
    "references": references.ask,
    "chance": references.ask_chance,
}
