"""Probes: what a simple classifier can read from the states of each layer.

Points: the projection ``pca`` holds the vectors of at most 300 texts or words of each class; a class is a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.analyses.analysis import Analysis, Context
from reporter.analyses.crossval import (
    Ints,
    Outcome,
    Train,
    all_the_same,
    cross_validated,
    linear,
    one_hidden_layer,
    paired,
    stratified,
)
from reporter.analyses.labelled import Labelled, of_corpus, of_words
from reporter.analyses.pictures import Point, points
from reporter.analyses.probe_charts import CHARTS
from reporter.analyses.probe_statistics import STATISTICS
from reporter.analyses.samples import stream
from reporter.analyses.yaml_lists import LISTS, read_list
from reporter.errors import ReporterError
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import wilson
from reporter.metrics.base import Value
from reporter.table import Row

if TYPE_CHECKING:
    from reporter.forward.places import Place
    from reporter.spec import Study

_LINEAR_ALONE = "the study asks for the linear probe alone (hidden: 0)"
_SAME = "all texts have the same vector here"


def _items(study: Study) -> Mapping[str, Any]:
    return study.probes


def _corpora(item: Any) -> tuple[str, ...]:
    from reporter.spec.probes import CorpusProbe

    return (item.corpus,) if isinstance(item, CorpusProbe) else ()


def _resolve(item: Any, folder: Path) -> Any:
    from reporter.spec.probes import CorpusProbe

    if isinstance(item, CorpusProbe):
        return item.model_dump(mode="json")
    words, where = item.words, ""
    if not isinstance(words, dict):
        path = LISTS / "word-classes.yaml" if words == "shipped" else folder / words
        words, where = read_list(path, "{noun: [cat, …], verb: […]}", _written), f"{path}: "
    classes: dict[str, str] = {}
    for name, of in words.items():
        for word in of:
            if classes.setdefault(word, name) != name:
                raise ReporterError(
                    f"{where}the word '{word}' is in '{classes[word]}' and in '{name}'; keep one of them"
                )
    written = {name: list(of) for name, of in words.items()}
    return {**item.model_dump(mode="json", exclude={"words"}), "words": written}


def _written(data: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from reporter.spec.part import complaints_of, failure
    from reporter.spec.probes import WordsProbe

    try:
        return WordsProbe.model_validate({"words": data}).words
    except ValidationError as error:  # 'words' is no key of the file
        raise failure(*(_inside(complaint) for complaint in complaints_of(error))) from None


def _inside(complaint: Any) -> Any:
    from reporter.spec.part import Complaint

    left_out = ("words", "dict[str,tuple[str, ...]]")
    location = tuple(part for part in complaint.location if part not in left_out)
    return Complaint(complaint.message, location, complaint.anchor)


def _compute(item: Any, context: Context) -> Iterator[Row]:
    from reporter.analyses.pooled import pooled

    if "corpus" in item:
        read = of_corpus(context.corpora[item["corpus"]], item["sample"], item["folds"], context)
    else:
        read = of_words(item["words"], item["sample"], item["folds"], context)
    places = context.layout.places
    if len(read.names) < 2:
        for place in places:
            yield from _nothing(place, f"fewer than two classes have {item['folds']} different texts, one for a fold")
        return
    vectors = pooled(read.texts, context, read.max_tokens)
    fold = stratified(read.y, item["folds"], stream(context.seed, "folds"))
    for done, place in enumerate(places, 1):
        x = vectors[place]
        if all_the_same(x):
            yield from _nothing(place, _SAME)
        else:
            yield from _at(place, x, read, fold, item["hidden"], context.seed)
        yield from points(place, {name: x[read.y == code] for code, name in enumerate(read.names)}, _texts(read))
        context.tell("layers", done, len(places))


def _texts(read: Labelled) -> dict[str, list[str]]:
    return {
        name: [text for text, own in zip(read.texts, read.y.tolist(), strict=True) if own == code]
        for code, name in enumerate(read.names)
    }


def _at(place: Place, x: Floats, read: Labelled, fold: Ints, hidden: int, seed: int) -> Iterator[Value]:
    y, classes = read.y, len(read.names)
    control = stream(seed, "control").choice(y, len(y))

    def both(train: Train, train_control: Train) -> tuple[Outcome, Outcome]:
        return cross_validated(x, y, fold, train), cross_validated(x, control, fold, train_control)

    majority = float(np.bincount(y).max() / len(y))
    yield from _four(place, "linear", *both(linear(classes), linear(classes)), majority)
    if not hidden:
        yield from _nothing(place, _LINEAR_ALONE, "hidden")
        return
    trains = [one_hidden_layer(classes, hidden, seed, f"{what} {place}") for what in ("classes", "control")]
    yield from _four(place, "hidden", *both(*trains), majority)


def _four(place: Place, name: str, of: Outcome, control: Outcome, majority: float) -> Iterator[Value]:
    n = len(of.right)
    yield Value(name, place, of.accuracy, n, *wilson(int(of.right.sum()), n))
    yield Value(f"{name}_floor", place, majority, n)
    yield Value(f"{name}_control", place, control.accuracy, n, *wilson(int(control.right.sum()), n))
    selectivity, low, high = paired(of.right, control.right)
    yield Value(f"{name}_selectivity", place, selectivity, n, low, high)
    yield Value(f"{name}_memorised", place, control.seen, n)


def _nothing(place: Place, reason: str, which: str = "") -> Iterator[Value]:
    for statistic in STATISTICS:
        if statistic.name.startswith(which):
            yield Value(statistic.name, place, None, 0, reason=reason)


PROBES = Analysis(
    name="probes",
    title="Probes",
    summary="How well a linear classifier, and one with a hidden layer, read the class of a text or word from its "
    "vector at each layer, and how much of that is the classifier's own doing.",
    statistics=STATISTICS,
    cost="a forward pass over the sample; at each layer four classifiers for each fold",
    tables=(Point,),
    charts=CHARTS,
    items=_items,
    resolve=_resolve,
    compute=_compute,
    corpora=_corpora,
    pooled=True,
    baselines=True,
)
