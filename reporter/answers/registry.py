"""All questions, in the order in which they are answered."""

from __future__ import annotations

from reporter.answers.decision import Decision


def decisions() -> tuple[Decision, ...]:
    """Return every question that there is an answer to; a new one is a line here."""
    from reporter.answers.blocks import BLOCKS
    from reporter.answers.changed import CHANGED
    from reporter.answers.concepts import CONCEPTS
    from reporter.answers.layer import LAYER
    from reporter.answers.probed import PROBED
    from reporter.answers.sinks import SINKS
    from reporter.answers.training import TRAINING

    return (LAYER, CONCEPTS, CHANGED, PROBED, BLOCKS, TRAINING, SINKS)
