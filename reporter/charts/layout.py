"""The parts of a chart: panels side by side, and selectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reporter.charts.styles import Styles
from reporter.core.places import TEXT_TOKENS, WITH_SPECIAL_TOKENS, WITHOUT_SINKS
from reporter.core.table import ALL_GROUPS

if TYPE_CHECKING:
    import pandas as pd

# What all charts of a page share: how models are drawn, and which checkpoint of each is shown together.


PATH, ATTENTION = "path", "attention"
"""The choices of the control *Site*: the residual stream (embedding and blocks), and after attention."""
WITH, WITHOUT = "with", "without"
"""The choices of the control *Null baselines*."""
VIEWS: dict[str, str] = {
    TEXT_TOKENS: "the tokens of the text itself",
    WITHOUT_SINKS: "the tokens of the text itself, without attention sinks and without each text's first token",
    WITH_SPECIAL_TOKENS: "all tokens, including those that the tokenizer adds",
}
"""Which tokens a token set has, in the words of a paper."""


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
        step: the training step; None for the last checkpoints, and for checkpoints without a step.
    """

    label: str
    shown: dict[str, str]
    step: int | None = None


@dataclass(frozen=True)
class Scene:
    """Settings that all figures of a page share.

    Args:
        study: id of the study.
        styles: its models as they are drawn.
        views: its views, the default first.
        moments: positions of the checkpoint slider.
        corpora: its corpora.
        sites: ``path``, and ``attention`` where there are numbers of it.
        statistics: titles in the order of their definitions, for selectors: by full name, or by name where all charts
            are of one metric.
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
    """
    of_model: dict[str, list[CheckpointName]] = {}
    for checkpoint in checkpoints:
        of_model.setdefault(checkpoint.model, []).append(checkpoint)
    last = {model: every[-1].name for model, every in of_model.items()}

    steps = []
    several = [c for every in of_model.values() if len(every) > 1 for c in every]
    for step in sorted({c.step for c in several if c.step is not None}):
        reached = {model: _checkpoint_at_step(every, step) for model, every in of_model.items()}
        shown = {model: name for model, name in reached.items() if name is not None}
        steps.append(Moment(f"step {step:,}", shown, step))
    for name in dict.fromkeys(c.name for c in several if c.step is None):
        having = [model for model, every in of_model.items() if any(c.name == name for c in every)]
        steps.append(Moment(name, last | dict.fromkeys(having, name)))
    same = [moment for moment in steps if moment.shown == last]
    label = f"last ({same[-1].label})" if same else "last"
    return [moment for moment in steps if moment.shown != last] + [Moment(label, last)]


def _checkpoint_at_step(every: Sequence[CheckpointName], step: int) -> str | None:
    if len(every) == 1 or all(c.step is None for c in every):
        return every[-1].name
    return next((c.name for c in reversed(every) if c.step is not None and c.step <= step), None)


MEAN = "mean"
"""The choice of layer in a training chart that averages over all layers; its rows have NULL there."""
ASKED = "asked"
"""The column of a chart whose numbers differ in kind between encoders and decoders: corpus and role."""
BY_ROLE = f"if(count(DISTINCT role) OVER () > 1, concat(corpus, ', ', role, 's'), corpus) AS {ASKED}"
"""That column in SQL: the corpus, and the role where there are models of both."""


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
        name: the column whose rows it selects, or several with ``|`` between them; ``variant`` chooses between a
            chart's drawings; what begins with ``$`` is a parameter of the drawing.
        label: what the selector says.
        choices: from value to text, the first one chosen at first.
        shows: for a selector of panels, the values of the panels that each choice shows; its name is then no column.
    """

    name: str
    label: str
    choices: Mapping[str, str]
    shows: Mapping[str, Sequence[str]] = field(default_factory=dict)


def panels_of(frame: pd.DataFrame, facet: str, scene: Scene) -> list[Panel]:
    """Return the panels of a frame: one for each corpus, model, pair, comparison, or other value of a column.

    A corpus of the study has its panel also where the frame has none of its rows; models stand in the order of the
    legend, a model beside itself before pairs of two.
    """
    if not facet:
        return [Panel("", "")]
    if facet == "pair":
        order = {name: place for place, name in enumerate(scene.styles.names)}
        last = len(order)
        triples = set(zip(*(frame[name].tolist() for name in ("pair", "model_a", "model_b")), strict=True))
        pairs = sorted(triples, key=lambda f: (f[1] != f[2], order.get(f[1], last), order.get(f[2], last), f[0]))
        return [
            Panel(pair, first if first == other else f"{first} ↑ {other} →", (first, other))
            for pair, first, other in pairs
        ]
    if facet in ("corpus", ASKED) and "value" in frame and (has_value := frame["value"].notna()).any():
        frame = frame[has_value]  # a panel without a single number would be empty under every view
    values = list(dict.fromkeys(str(value) for value in frame[facet].unique()))
    if facet == "model":
        return [Panel(name, name, (name,)) for name in scene.styles.names if name in values]
    if facet == ASKED:
        place = {name: number for number, name in enumerate(scene.corpora)}
        rows = {str(row[ASKED]): row for row in frame[[ASKED, "corpus", "role"]].to_dict("records")}
        values.sort(key=lambda value: rows[value]["role"] != "encoder")
        values.sort(key=lambda value: place.get(str(rows[value]["corpus"]), len(place)))
    if facet == "corpus" and set(values) <= set(scene.corpora):
        values = [name for name in scene.corpora if name in values]
    return [Panel(value, "all groups" if value == ALL_GROUPS else value) for value in values]


def corpora(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """A control for the corpus, for charts whose panels are something else."""
    return [choices(frame, "corpus", "Corpus", scene.corpora)]


def choices(frame: pd.DataFrame, column: str, label: str, order: Sequence[str] = ()) -> Pick:
    """Return a selector of the values of a column."""
    values = dict.fromkeys(str(value) for value in frame[column].dropna().unique())
    leading = [value for value in order if value in values]
    return Pick(column, label, {value: value for value in dict.fromkeys([*leading, *values])})


def variants(**names: str) -> Pick:
    """Return a selector between a chart's drawings: from the name of each to what is said."""
    return Pick("variant", "Show", names)


def titled(frame: pd.DataFrame, scene: Scene, first: Sequence[str] = ()) -> Pick:
    """Return a selector of statistics by their titles, in the order of their definitions; floors come last."""
    titles = scene.statistics
    names = choices(frame, "statistic", "Statistic", list(dict.fromkeys([*first, *titles]))).choices
    labels = {
        name: titles.get(name) or f"chance level of {titles.get(name.removesuffix('_floor'), name)}" for name in names
    }
    return Pick("statistic", "Statistic", labels)
