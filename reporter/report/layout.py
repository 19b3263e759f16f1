"""Which panels a figure has, and which selectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reporter.report.scene import Panel, Pick, Scene
from reporter.table import ALL_GROUPS

if TYPE_CHECKING:
    import pandas as pd

MEAN = "mean"
"""The choice of layer in a training chart that averages over all layers; on the page it stands for NULL."""
INSIDE = "inside each model"
PARTS = {"0": "0, the embedding", "0.25": "¼", "0.5": "½", "0.75": "¾", "1": "1, the last block"}


def by_corpus(frame: pd.DataFrame, scene: Scene) -> list[Panel]:
    """A panel for each corpus of the study, also where the figure has none of its rows; of an analysis its items."""
    found = list(dict.fromkeys(str(corpus) for corpus in frame["corpus"]))
    own = scene.corpora if set(found) <= set(scene.corpora) else found
    return [Panel(corpus, "all groups" if corpus == ALL_GROUPS else corpus) for corpus in own]


def by_model(frame: pd.DataFrame, scene: Scene) -> list[Panel]:
    """A panel for each model that has rows, in the order of the legend."""
    present = set(frame["model"])
    return [Panel(name, name, (name,)) for name in scene.styles.names if name in present]


def by_pair(frame: pd.DataFrame, scene: Scene) -> list[Panel]:
    """A panel for each two models that have rows, a model beside itself first."""
    order = {name: place for place, name in enumerate(scene.styles.names)}
    found = set(zip(frame["pair"], frame["model_a"], frame["model_b"], strict=True))
    last = len(order)
    ordered = sorted(found, key=lambda f: (f[1] != f[2], order.get(f[1], last), order.get(f[2], last), f[0]))
    return [Panel(pair, one if one == other else f"{one} ↑ {other} →", (one, other)) for pair, one, other in ordered]


def by_comparison(frame: pd.DataFrame, scene: Scene) -> list[Panel]:
    """A panel for each comparison."""
    return [Panel(name, name) for name in dict.fromkeys(frame["comparison"])]


def nothing(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """No selector."""
    return []


def layers(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which layer a training chart follows."""
    numbers = sorted({int(layer) for layer in frame["layer"].dropna()})
    names = {str(layer): str(layer) if layer else "0 (embedding)" for layer in numbers}
    return [Pick("layer", "Layer", {MEAN: "mean over all layers", **names})]


def corpora(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which corpus; the panels are something else."""
    return [_column(frame, "corpus", "Corpus", scene.corpora)]


def parts(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which corpus, and at which depth."""
    found = [f"{part:g}" for part in sorted(set(frame["part"]))]
    # the middle: ends are special
    order = [part for part in ("0.5", *PARTS) if part in found]
    choices = {part: PARTS[part] for part in dict.fromkeys(order)}
    return [Pick("part", "Depth", choices), *corpora(frame, scene)]


def pairs(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which statistic and corpus, and which pairs of models."""
    panels = by_pair(frame, scene)
    inside = [panel.value for panel in panels if panel.models[0] == panel.models[1]]
    between = [panel for panel in panels if panel.models[0] != panel.models[1]]
    groups = {INSIDE: inside} if inside else {}
    for name in scene.styles.names:
        own = [panel.value for panel in between if name in panel.models]
        if own:
            groups[f"{name} with others"] = own
    shows = Pick("among", "Pairs", {name: name for name in groups}, groups)
    return [_column(frame, "statistic", "Statistic", scene.statistics), shows, *corpora(frame, scene)]


def cuts(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which statistic, by which rule sinks are cut, and which corpus."""
    rules = Pick("rule", "Sinks by", {"dominance": "one coordinate", "factor": "norm alone"})
    return [_column(frame, "statistic", "Statistic"), rules, *corpora(frame, scene)]


def statistics(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which statistic."""
    return [_column(frame, "statistic", "Statistic", scene.statistics)]


def scores(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which score the features are held against."""
    return [_column(frame, "score", "Score")]


def _column(frame: pd.DataFrame, name: str, label: str, order: Sequence[str] = ()) -> Pick:
    found = dict.fromkeys(str(value) for value in frame[name])
    wanted = [value for value in order if value in found]
    return Pick(name, label, {value: value for value in dict.fromkeys([*wanted, *found])})
