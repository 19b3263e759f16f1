"""Analyses: a definition that people read, the items of a study it looks at, and how it looks.

A metric is a function of observables of a corpus. An analysis looks at what a study writes itself (a text, a group,
pairs) or at the weights, so it gets the loaded model. Both yield rows, and both are cells: cached by a fingerprint,
stored in one transaction, failing alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from reporter.core.errors import ReporterError
from reporter.core.imports import Registry
from reporter.core.places import Pooling
from reporter.geometry.arrays import Progress, silent
from reporter.metrics.base import HELPERS, Definition, declaring
from reporter.study.offer import Section
from reporter.study.study import Study

if TYPE_CHECKING:
    from reporter.forward.text_vectors import OfText
    from reporter.models.load import LoadedModel
    from reporter.models.places import Layout
    from reporter.study import Study
    from reporter.texts import Texts

POOLED = "pooling of a text's tokens into one vector: 'first', 'mean' or 'last'"
SAME_TOKEN = (
    "the token that pooling reads, if it is the same in all texts; NULL where texts differ, or with mean pooling"
)


def texts_share(texts: str, token: str, pooling: str) -> str:
    """Return a sentence without its full stop: pooling reads the same token in all of some texts."""
    end = "end" if pooling == "last" else "begin"
    return f"all {texts} {end} in the token {token}, and its state is read as the vector of each text"


@dataclass(frozen=True)
class Corpus:
    """A corpus that an item names.

    Args:
        texts: its texts.
        max_tokens: where the study cuts them.
    """

    texts: Texts
    max_tokens: int


@dataclass(frozen=True)
class Context:
    """The input of an analysis besides the item.

    Args:
        model: the loaded model; products are in the precision of its weights, float32 unless a study asks otherwise.
        layout: the places that are read.
        pooling: how a text becomes one vector.
        auto: whether ``pooling`` is the default of the model's role (the study says ``pooling: auto``); probes of texts
            then try the other poolings as well.
        corpora: the corpora that the item names, by name.
        seed: the study's seed: of samples, permutations, controls.
        batch_tokens: the most tokens in a batch, padding included; changes no number.
        tell: told of progress.
        warnings: what a reader should know before believing the numbers; an analysis appends to it.
        base: loads the last checkpoint of the model's base, once for all analyses with ``against_base``.
        known: by where texts are cut the vectors of texts that a pass gathered, by text.
    """

    model: LoadedModel
    layout: Layout
    pooling: Pooling
    corpora: Mapping[str, Corpus]
    seed: int
    batch_tokens: int = 8192
    tell: Progress = silent
    auto: bool = False
    warnings: list[str] = field(default_factory=list)
    base: Callable[[], LoadedModel] | None = None
    known: Mapping[int, Mapping[str, OfText]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Analysis(Definition):
    """An analysis; its ``name`` is its key in a study, and stands where cells of metrics have the metric.

    Args:
        section: what stands under its name in a study file.
        resolve: turns an item as the study says it into a frozen Pydantic model with everything that the numbers depend
            on besides weights, corpora, seed and pooling, the contents of files among it (relative to the folder);
            raises ``ReporterError`` where such a file is wrong. What that model writes as JSON decides whether what
            was computed still holds, and ``compute`` gets it.
        unfit: returns why the corpora of an item do not suffice, as far as that shows without a model; else nothing.
        pooled: whether it reads one vector for each text, so that ``pooling`` matters.
        last_only: whether of a model with several checkpoints only the last one is looked at.
        baselines: whether models with random weights are looked at, too, where the study asks for that baseline.
        against_base: whether it compares a model with its base, so that models without one are left out.
    """

    section: Section
    resolve: Callable[[Any, Path], BaseModel] = lambda item, folder: item
    unfit: Callable[[Any, Mapping[str, Texts]], str] = lambda item, texts: ""
    pooled: bool = False
    last_only: bool = False
    baselines: bool = False
    against_base: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        taken = self.name in Study.model_fields or hasattr(Study, self.name)
        if self.name and (taken or not re.fullmatch("[a-z][a-z0-9_]*", self.name)):
            raise ReporterError(
                f"an analysis cannot be named {self.name!r}: its name must be a new key of study files, in lower case"
            )

    def items(self, study: Study) -> Mapping[str, Any]:
        """Return what of a study it looks at, by the name that stands where other cells have their corpus."""
        return self.section.items(study.sections.get(self.name))

    def corpora(self, item: Any) -> tuple[str, ...]:
        """Return the corpora that an item names and so reads."""
        return tuple(name for name, _ in self.section.named("corpora", item))

    def looks_at(self, item: Any, model: str) -> bool:
        """Whether an item is about a model of the study: it names that model, ``all``, or cannot name any."""
        for reference in self.section.references:
            named = getattr(item, reference.key, None) if reference.to == "models" else None
            if named not in (None, "all") and model not in ([named] if isinstance(named, str) else named):
                return False
        return True


def default_pooling(role: str) -> Pooling:
    """Return how a text becomes one vector by default.

    The mean for encoders: the first token of one that was never trained on sentences says little. The last token for
    decoders: it alone has seen the whole text.
    """
    return "last" if role == "decoder" else "mean"


# Analyses come from the modules of this folder, the entry point ``reporter.analyses``, files, notebooks.

ANALYSES: Registry[Analysis] = Registry("analysis", "analyses", "reporter.metrics", helpers=HELPERS)

analysis = declaring(Analysis, ANALYSES)


def analyses() -> dict[str, Analysis]:
    """Every analysis by name, in alphabetical order. Importing them brings neither torch nor scikit-learn."""
    return ANALYSES.all()
