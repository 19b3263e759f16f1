"""What all charts of a page share: how models are drawn, and which checkpoint of each is shown together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reporter.charts.styles import Styles

PATH, ATTENTION = "path", "attention"
"""The choices of the control *Site*: the residual stream (embedding and blocks), and after attention."""
WITH, WITHOUT = "with", "without"
"""The choices of the control *Null baselines*."""


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


@dataclass(frozen=True)
class Scene:
    """What all figures of a page share.

    Args:
        study: id of the study.
        styles: its models as they are drawn.
        views: its views, the default first.
        moments: positions of the checkpoint slider.
        corpora: its corpora.
        sites: ``path``, and ``attention`` where there are numbers of it.
        statistics: titles by name, in the order of their definitions, for selectors.
    """

    study: str
    styles: Styles
    views: Sequence[str]
    moments: Sequence[Moment]
    corpora: Sequence[str]
    sites: Sequence[str] = (PATH,)
    statistics: Mapping[str, str] = field(default_factory=dict)

    @property
    def baselines(self) -> list[str]:
        """The choices of the control *Null baselines*; there is none where nothing could be hidden."""
        return [WITH, WITHOUT] if self.styles.baselines else [WITH]


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
