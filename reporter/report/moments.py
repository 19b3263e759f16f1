"""Which checkpoint of each model is shown together: at the end, or at a step of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointName:
    """A checkpoint of a model that has numbers."""

    model: str
    name: str
    step: int | None


@dataclass(frozen=True)
class Moment:
    """One position of the checkpoint slider.

    Args:
        label: what the slider says.
        shown: the checkpoint that each model shows; a model that is not in it has none that early.
    """

    label: str
    shown: dict[str, str]


def moments(checkpoints: Sequence[CheckpointName]) -> list[Moment]:
    """Return every moment that differs, the last one at the end.

    At step s a model shows its latest checkpoint that is not later than s. A model with a single checkpoint
    is shown always. Checkpoints without a step (a list of revisions, say) get a moment by their name.

    Args:
        checkpoints: all checkpoints, those of one model in the order of training.
    """
    of_model: dict[str, list[CheckpointName]] = {}
    for checkpoint in checkpoints:
        of_model.setdefault(checkpoint.model, []).append(checkpoint)
    last = {model: own[-1].name for model, own in of_model.items()}

    found = []
    several = [c for own in of_model.values() if len(own) > 1 for c in own]
    for step in sorted({c.step for c in several if c.step is not None}):
        shown = {model: name for model, own in of_model.items() if (name := _at(own, step)) is not None}
        found.append(Moment(f"step {step:,}", shown))
    for name in dict.fromkeys(c.name for c in several if c.step is None):
        shown = {m: name if any(c.name == name for c in own) else last[m] for m, own in of_model.items()}
        found.append(Moment(name, shown))
    same = [moment for moment in found if moment.shown == last]
    label = f"last ({same[-1].label})" if same else "last"
    return [moment for moment in found if moment.shown != last] + [Moment(label, last)]


def _at(own: Sequence[CheckpointName], step: int) -> str | None:
    if len(own) == 1 or all(c.step is None for c in own):
        return own[-1].name
    reached = [c for c in own if c.step is not None and c.step <= step]
    return reached[-1].name if reached else None
