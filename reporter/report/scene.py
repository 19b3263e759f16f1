"""What all figures of a page share, and what a figure is divided into: panels side by side, and selectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reporter.report.moments import Moment
from reporter.report.styles import Styles

PATH, ATTENTION = "path", "attention"
"""The choices of the control *Site*: the residual stream (embedding and blocks), and after attention."""
WITH, WITHOUT = "with", "without"
"""The choices of the control *Null baselines*."""


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
        statistics: names in the order of their definitions, for selectors.
    """

    study: str
    styles: Styles
    views: Sequence[str]
    moments: Sequence[Moment]
    corpora: Sequence[str]
    sites: Sequence[str] = (PATH,)
    statistics: Sequence[str] = ()

    @property
    def baselines(self) -> list[str]:
        """The choices of the control *Null baselines*; there is none where nothing could be hidden."""
        return [WITH, WITHOUT] if self.styles.baselines else [WITH]


@dataclass(frozen=True)
class Panel:
    """One of the small charts of a figure.

    Args:
        value: the value of the figure's facet column that it shows.
        label: its heading.
        models: the models that it is about; it hides with them. Empty where it is about all.
    """

    value: str
    label: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pick:
    """A selector of one figure.

    Args:
        name: the column whose rows it selects.
        label: what the selector says.
        choices: from value to text, the first one chosen at first.
        shows: for a selector of panels, the values of the panels that each choice shows; its name is then no column.
    """

    name: str
    label: str
    choices: Mapping[str, str]
    shows: Mapping[str, Sequence[str]] = field(default_factory=dict)
