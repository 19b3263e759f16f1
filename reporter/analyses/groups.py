"""Groups: do texts that mean the same lie together, more than texts that merely look alike?

Points: the projection ``pca`` holds the vectors of at most 300 texts of each group on components of all of them; a
group is a part. Controls are not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reporter.analyses.analysis import POOLED, Analysis, Context
from reporter.analyses.controls import alphabet_of, random_characters, random_words
from reporter.analyses.group_charts import CHARTS
from reporter.analyses.group_statistics import STATISTICS
from reporter.analyses.pictures import Point, points
from reporter.analyses.samples import stream
from reporter.errors import ReporterError
from reporter.geometry.clouds import Spreads, spreads
from reporter.metrics.base import Value
from reporter.table import ALL_GROUPS, OfModel, Row, at_place, column

if TYPE_CHECKING:
    from reporter.forward.places import Place
    from reporter.spec import Study

Control = Literal["none", "random-characters", "random-words"]
Groups = Mapping[str, list[str]]

_ENDINGS: dict[Control, str] = {"none": "", "random-characters": "_characters", "random-words": "_words"}
_ONE = "there is one group alone: nothing to tell it apart from"
_SAME = "all texts have the same vector here"


class GroupSpread(OfModel, table="groups", corpus=ALL_GROUPS, metric="groups"):
    """A group of texts that mean the same, or a control made to match, at one layer."""

    text_group: str = column("name of the group in the study", key=True)
    control: Control = column("'none', 'random-characters' or 'random-words'", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    silhouette: float | None = column("mean silhouette of its texts among all groups of the same control")
    within: float = column("mean distance of two of its texts")
    between: float | None = column("mean distance of one of its texts and one of another group")
    ratio: float | None = column("within / between")
    n: int = column("texts", "BIGINT")


def _items(study: Study) -> Mapping[str, Any]:
    return {ALL_GROUPS: study.groups} if study.groups else {}


def _resolve(item: Any, folder: Path) -> Any:
    return {name: list(texts) for name, texts in item.items()}


def _compute(item: Any, context: Context) -> Iterator[Value | Row]:
    from reporter.analyses.pooled import pooled

    groups: Groups = item
    for control in _ENDINGS:
        try:
            texts = _texts(groups, control, context)
            vectors = pooled([text for of in texts.values() for text in of], context, what=_called(control))
        except ReporterError as error:
            if control == "none":
                raise
            # A tokenizer may know no whole word, or nothing of what chance wrote.
            for place in context.layout.places:
                yield from _numbers(place, control, None, str(error))
            continue
        group = np.repeat(np.arange(len(texts)), [len(of) for of in texts.values()])
        for place, x in vectors.items():
            found = spreads(x, group)
            yield from _numbers(place, control, found, _ONE if len(texts) < 2 else _SAME)
            for name, of in zip(texts, found.groups, strict=True):
                which = (name, control, context.pooling, place)
                yield GroupSpread(*which, of.silhouette, of.within, of.between, of.ratio, of.n)
            if control == "none":
                yield from points(place, {name: x[group == code] for code, name in enumerate(texts)}, texts)


def _called(control: Control) -> str:
    return "texts" if control == "none" else control.replace("-", " ")


def _texts(groups: Groups, control: Control, context: Context) -> Groups:
    """Return the texts of each group, or those of a control that match them."""
    if control == "none":
        return groups
    if control == "random-characters":
        alphabet = alphabet_of([text for texts in groups.values() for text in texts])
        return {
            name: random_characters(texts, alphabet, stream(context.seed, control, name))
            for name, texts in groups.items()
        }
    from reporter.models.words import whole_words

    words = whole_words(context.model.checkpoint, offline=True)  # it is loaded, so its files are here
    return {name: random_words(texts, words, stream(context.seed, control, name)) for name, texts in groups.items()}


def _numbers(place: Place, control: Control, found: Spreads | None, reason: str) -> Iterator[Value]:
    whole = None if found is None else found.whole
    numbers = {"silhouette": whole.silhouette if whole else None, "ratio": whole.ratio if whole else None}
    if whole is not None and control == "none":
        yield Value("within", place, whole.within, whole.n)
        numbers["between"] = whole.between
    for name, value in numbers.items():
        if whole is None or value is None:
            yield Value(f"{name}{_ENDINGS[control]}", place, None, 0, reason=reason)
        else:
            yield Value(f"{name}{_ENDINGS[control]}", place, value, whole.n)


GROUPS = Analysis(
    name="groups",
    title="Groups of texts that mean the same",
    summary="Whether texts of a group lie closer to each other than to those of other groups, layer by layer, and "
    "whether meaningless texts of the same make do so, too.",
    statistics=STATISTICS,
    cost="a forward pass over three times the texts; all their distances at each layer",
    tables=(GroupSpread, Point),
    charts=CHARTS,
    items=_items,
    resolve=_resolve,
    compute=_compute,
    pooled=True,
    rounds=3,  # with both controls
    baselines=True,
)
