"""Probes: what a simple classifier can read from the states of each layer, and whether neighbours are of one class.

Points: the projection ``pca`` holds the vectors of at most 300 texts or words of each class; a class is a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from reporter.charts import SENTENCES, Chapter, Chart, choices, parts
from reporter.charts.layout import titled
from reporter.charts.profile import beside
from reporter.charts.styles import Styles, alt
from reporter.core.errors import ReporterError
from reporter.core.places import POOLINGS, Pooling
from reporter.core.table import HIGH, LOW, Comparable, OfModel, Row, at_place, column, of_cell
from reporter.core.threads import spread
from reporter.geometry.arrays import Bools, Floats, Ints
from reporter.geometry.intervals import share_interval
from reporter.metrics import _classifiers as classifiers
from reporter.metrics import _items as items
from reporter.metrics._intervals import group_of_state
from reporter.metrics.analysis import POOLED, Context, Corpus, analysis
from reporter.metrics.base import Cosine, Share, Statistic, Value, beginning, undefined
from reporter.study.offer import Reference, Section
from reporter.study.part import AsTuple, InheritedText, Name, Part, Prose, one_of, wrong
from reporter.study.problems import show
from reporter.texts.excerpts import begins

if TYPE_CHECKING:
    import pandas as pd

    from reporter.models.places import Place
    from reporter.texts import Texts

# The charts of probes: accuracy and its control, and models beside each other.


CHAPTER = Chapter(
    SENTENCES, "probes", "Probes", "What can a simple classifier predict from the states of each layer?", 4
)
DASHES = {"accuracy": [1, 0], "control": [6, 3], "floor": [1, 3]}


def accuracies(column: str, *kinds: str, title: str | None = "accuracy") -> Callable[[pd.DataFrame, Styles], Any]:
    """Return what draws accuracies over layers: a colour for each value of a column, a dash for each kind."""

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        scale = alt.Scale(domain=[min(0, frame["value"].min()), 1])
        axis = alt.Axis(format="%" if title == "accuracy" else "~g", tickCount=5)
        y = alt.Y("value:Q", title=title, scale=scale, axis=axis)
        tooltips = parts.tooltips(column, "kind", "layer", "value", "ci_low", "ci_high", "n")
        lines = parts.NamedLines.of(frame, column, "value", list(dict.fromkeys(frame[column])), 0.0, 1.0)
        return parts.by_kind(lines, frame, {kind: DASHES[kind] for kind in kinds}, y, tooltips, band)

    def band(base: Any) -> Any:
        area = base.transform_filter("datum.kind === 'accuracy'").mark_area(opacity=0.15)
        return area.encode(y=alt.Y("ci_low:Q", title=title), y2=alt.Y2("ci_high:Q"))

    return draw


_chart = partial(Chart, chapter=CHAPTER, half=True)
PROBES = _chart(
    "sentences.probes",
    "Accuracy and its control",
    """
SELECT model, checkpoint, corpus,
  CASE split_part(statistic, '_', 1) WHEN 'linear' THEN 'linear probe' WHEN 'hidden' THEN 'one-hidden-layer probe'
    ELSE 'neighbours of the same class' END AS classifier,
  if(ends_with(statistic, '_control'), 'control', if(ends_with(statistic, '_floor'), 'floor', 'accuracy')) AS kind,
  layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = 'probes' AND site IN ('embedding', 'block')
  AND NOT regexp_matches(statistic, '_(selectivity|memorised)')
ORDER BY model, checkpoint, corpus, list_position(['linear probe', 'one-hidden-layer probe'], classifier) NULLS LAST,
  kind, layer
""",
    accuracies("classifier", *DASHES),
    lead="Solid: accuracy, or share of neighbours. Dashed: random classes. Dotted: majority class, or chance.",
    mind="Each band is for one layer. For differences between layers see the answer 'Where do probes differ?' and the "
    "table probe_differences.",
    columns=("value", "ci_low", "ci_high", "n"),
    picks=lambda frame, scene: [choices(frame, "corpus", "Probe")],
    key="classifier",
    statistics=("*",),
)

BY_POOLING = _chart(
    "sentences.poolings",
    "Accuracy by pooling",
    """
WITH own AS (
  SELECT *, if(pooling = 'mean', 'mean of the tokens', pooling || ' token') || if(main, ' (default)', '') AS named
  FROM probe_poolings WHERE study = $study AND site IN ('embedding', 'block')
  WINDOW of_probe AS (PARTITION BY model, checkpoint, probe)
  QUALIFY min(pooling) OVER of_probe <> max(pooling) OVER of_probe
)
SELECT model, checkpoint, probe, named AS pooling, 'accuracy' AS kind, layer, depth, accuracy AS value, ci_low, ci_high,
  n, main
FROM own
UNION ALL
SELECT model, checkpoint, probe, named, 'floor', layer, depth, chance, NULL, NULL, n, main FROM own WHERE main
ORDER BY model, checkpoint, probe, main DESC, pooling, kind, layer
""",
    accuracies("pooling", "accuracy", "floor"),
    lead="Cross-validated accuracy of the linear probe by pooling. Dotted: majority class.",
    mind="Each band is for one layer and one pooling. The answer 'Which layer?' compares layers on the same texts.",
    columns=("pooling", "accuracy", "ci_low", "ci_high", "n"),
    picks=lambda frame, scene: [choices(frame, "probe", "Probe")],
    key="pooling",
)

SELECTIVITY = beside(
    "sentences.selectivity",
    "Comparison of models",
    "metric = 'probes' AND site IN ('embedding', 'block') AND NOT ends_with(statistic, '_floor')",
    CHAPTER,
    picks=lambda frame, scene: [
        choices(frame, "corpus", "Probe"),
        titled(frame, scene, ("linear_selectivity", "hidden_selectivity")),
    ],
    lead="Accuracy minus accuracy on random classes, at each model's last checkpoint.",
)


class _Probe(Part):
    folds: int = Field(5, ge=2, le=20, description="Folds of the cross-validation.")
    sample: int = Field(
        1000, ge=20, le=20000, description="Maximum number of texts or words, chosen evenly from the classes."
    )
    neighbours: int = Field(10, ge=1, le=200, description="Number of nearest texts or words whose class is compared.")
    hidden: int = Field(64, ge=0, le=1024, description="Hidden units of the second probe; 0: linear probe only.")
    models: items.ModelNames = items.ALL_MODELS


class CorpusProbe(_Probe):
    """Predicts the label of each text from its pooled vector."""

    corpus: Name = Field(description="A corpus of this study with labels.")


def _classes(value: Any) -> Any:
    if isinstance(value, dict):
        for name, words in value.items():
            if not isinstance(words, list | tuple) or len(words) < 2:
                raise wrong(f"expected a list of two or more words, got {show(words)}", name)
        if len(value) < 2:
            raise wrong("needs two or more classes, each with its words")
        return value
    if isinstance(value, str):
        if value == "shipped":
            return value
        return Path(value.as_path() if isinstance(value, InheritedText) else value)
    if isinstance(value, Path):
        return value
    raise wrong(f"expected 'shipped', a YAML file, or classes such as {{noun: [cat, …], verb: […]}}, got {show(value)}")


class WordsProbe(_Probe):
    """Predicts the class of each word from its pooled vector; each word is a text."""

    words: Annotated[
        Literal["shipped"] | dict[Name, Annotated[tuple[Prose, ...], AsTuple]] | Path,
        BeforeValidator(_classes, json_schema_input_type=str | dict[str, list[str]]),
    ] = Field(
        description="'shipped' (nouns, verbs and adjectives that come with reporter), a mapping from class to words, "
        "or a YAML file with such a mapping."
    )


class WrittenWords(_Probe):
    """Words by class, wherever they were written."""

    words: dict[str, tuple[str, ...]]


ProbeSpec = Annotated[
    CorpusProbe | WordsProbe,
    BeforeValidator(
        one_of({"corpus": CorpusProbe, "words": WordsProbe}, "{corpus: tweets}"),
        json_schema_input_type=CorpusProbe | WordsProbe,
    ),
]
"""A mapping with the key ``corpus`` or the key ``words``."""

_GROUPS = 10  # of texts, that the interval of the share of neighbours leaves out
_SPARE = 20  # neighbours that are listed beyond twice as many as count, so that a group left out leaves enough of them

_SAMPLED = (
    "Equal texts count once, and classes with fewer texts than folds are left out. The sample takes the same number of "
    "texts of each class, or all texts of a smaller class. Pooling is the study's (`pooling:`); 'auto' is the mean for "
    "encoders and the last token for decoders. With 'auto' the table probe_poolings has the accuracies of the linear "
    "probe with the other poolings."
)
_FLOOR = "Majority class: the accuracy of always predicting the most frequent class."
_PAIRED = "95 % CI over texts (mean ± t standard errors of the paired differences)."


def _statistics(name: str, title: str, definition: str, plainly: str, traps: tuple[str, ...]) -> tuple[Statistic, ...]:
    used, control, selectivity, memorised = traps
    return (
        Share(
            name,
            f"accuracy of the {title} probe",
            "Share of texts (or words) whose class a classifier predicts correctly from their pooled vector, in "
            f"cross-validation. {_FLOOR} The folds are random (5 by default), with each class spread evenly over them. "
            f"Each text is classified once, by the classifier trained on the other folds. {definition} "
            f"{classifiers.STANDARDISED} {_SAMPLED}",
            ("luisto2024toybox", "wilson1927probable"),
            interval=classifiers.WILSON,
            floor=True,
            noise="majority class",
            plainly=plainly,
            trap=used,
        ),
        Share(
            f"{name}_control",
            f"accuracy of the {title} probe on random classes",
            f"As probes.{name}, with a random class for each distinct text or word (control task). The random classes "
            "are as frequent as the classes of the sample. Vectors and folds are the same.",
            ("hewitt2019designing", "wilson1927probable"),
            interval=classifiers.WILSON,
            trap=control,
        ),
        Cosine(
            f"{name}_selectivity",
            f"selectivity of the {title} probe",
            f"{name} − {name}_control: accuracy minus accuracy on random classes.",
            ("hewitt2019designing",),
            interval=_PAIRED,
            plainly="How much better the probe predicts real classes than random ones." if plainly else "",
            trap=selectivity,
        ),
        Share(
            f"{name}_memorised",
            f"random classes that the {title} probe memorises",
            "Share of its own training texts whose random class (of the control task) the classifier predicts "
            "correctly. Mean over folds.",
            ("hewitt2019designing",),
            trap=memorised,
        ),
    )


STATISTICS = (
    *_statistics(
        "linear",
        "linear",
        classifiers.LOGISTIC,
        "How often a linear classifier predicts the right class.",
        (
            "A decodable class need not be used by the model. With few texts per dimension wide layers look worse than "
            "they are.",
            "About chance for any probe, since memorised texts do not recur in other folds. The source trains and "
            "tests on the same word types.",
            "Based on one draw of random classes: differences below 2/√n are noise.",
            "Depends on the number of texts and dimensions, not on the model. Near 1 the probe can fit any labels.",
        ),
    ),
    *_statistics(
        "hidden",
        "one-hidden-layer",
        classifiers.PERCEPTRON,
        "",
        (
            "A stronger classifier decodes more, also what the model does not use. Compare layers at equal n.",
            "About chance for any probe; for memorisation see hidden_memorised.",
            "One draw of random classes only: differences below 2/√n are noise.",
            "A property of the probe: near 1 it can fit any labels of its training texts.",
        ),
    ),
    Share(
        "label_overlap",
        "share of neighbours of the same class",
        "Mean over texts (or words) of the share of the k nearest others that have the same class. Distances are "
        "Euclidean, between pooled vectors that are not standardised; k = 10 by default (`neighbours`). Equally near "
        "texts share the last places. The texts are those of the classifiers. "
        "Chance level: Σ_c (n_c/n)·(n_c − 1)/(n − 1), exactly, the value for random classes.",
        ("valeriani2023geometry", "doimo2020hierarchical"),
        short="share of neighbours",
        method="jackknife",
        scale="fisher",
        interval=f"One of {_GROUPS} groups of texts is left out, and neighbours are "
        "searched among the rest. In simulations it covers 96 to 100 % of Gaussian classes.",
        floor=True,
        noise="chance",
        trap="Misses classes that lie along few directions. Depends on k and the number of texts; classes of k or "
        "fewer texts cannot reach 1.",
        published="The authors use ImageNet's classes, with k a tenth of a class. `return_label_overlap` of DADApy "
        "gives classes of different sizes equal weight by default.",
    ),
)

_LINEAR_ALONE = "the study has only the linear probe (hidden: 0)"
_SAME = "all texts have the same vector here"


class OfProbe(OfModel, metric="probes"):
    """Base of what is stored for one probe."""

    probe = of_cell("name of the probe in the study", part="corpus")


class ProbePooling(OfProbe, table="probe_poolings"):
    """The accuracy of the linear probe at one layer with one pooling.

    With `pooling: auto`, probes of texts use the mean, the last and the first token, all from one forward pass. Probes
    of words, and studies that name a pooling, have one pooling only.
    """

    compared = (
        Comparable(
            ("accuracy",),
            "probe",
            of="'the linear probe, pooling ' || pooling",
            interval=True,
            among="WHERE NOT main",  # the others are in layer_metrics
        ),
    )

    pooling: str = column(POOLED, key=True)
    place: Place = at_place()
    main: bool = column(
        "whether it is the study's pooling, or with `pooling: auto` the default of the model's role; layer_metrics and "
        "probe_differences use this pooling"
    )
    accuracy: float = column("share of texts whose class the linear probe predicts correctly, cross-validated")
    ci_low: float = column(LOW)
    ci_high: float = column(HIGH)
    chance: float = column("share of the majority class: the accuracy of always predicting the most frequent class")
    n: int = column("texts", "BIGINT")


class ProbeText(OfProbe, table="probe_texts"):
    """A held-out text or word at one layer with one pooling: whether its class was predicted correctly."""

    text: int = column(
        "position in the corpus, or among the words of all classes, from 1; the same in every model", key=True
    )
    label: str = column("class of the text")
    unit: int = column("position of the first text of its cluster; without clusters, its own")
    fold: int = column("fold that held it out, from 0")
    pooling: str = column(POOLED, key=True)
    place: Place = at_place()
    linear: bool = column("whether the linear probe predicted it correctly")
    predicted: str = column("class that the linear probe predicted")
    hidden: bool | None = column(
        "whether the probe with a hidden layer predicted it correctly; NULL without such a probe, and for poolings "
        "other than the main one (probe_poolings.main)"
    )


class ProbeItem(OfProbe, table="probe_items"):
    """A text or word of a probe."""

    text: int = column("as probe_texts.text", key=True)
    begins: str = beginning("the text")


def _resolve(spec: CorpusProbe | WordsProbe, folder: Path) -> CorpusProbe | WrittenWords:
    if isinstance(spec, CorpusProbe):
        return spec
    if isinstance(spec.words, dict):
        words, where = spec.words, ""
    else:
        path = items.LISTS / "word-classes.yaml" if spec.words == "shipped" else folder / spec.words
        words, where = items.read_list(path, "{noun: [cat, …], verb: […]}", _written), f"{path}: "
    classes: dict[str, str] = {}
    for name, class_words in words.items():
        for word in class_words:
            if classes.setdefault(word, name) != name:
                raise ReporterError(
                    f"{where}the word '{word}' is in '{classes[word]}' and in '{name}'; keep one of them"
                )
    return WrittenWords(**spec.model_dump(exclude={"words"}), words=words)


def _written(data: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    words = items.under(WordsProbe, "words", data, "dict[str,tuple[str, ...]]").words
    assert isinstance(words, dict)
    return words


def _few_labels(folds: int, clustered: bool) -> str:
    what = "clusters of texts" if clustered else "texts"
    return f"fewer than two labels have at least {folds} different {what}, one for each fold"


def _unfit(item: Any, texts: Mapping[str, Texts]) -> str:
    if not isinstance(item, CorpusProbe):
        return ""
    of, codes = texts[item.corpus], texts[item.corpus].label_codes
    if codes is None or of.labels is None:
        return ""
    units = np.fromiter(map(hash, of), np.int64) if of.clusters is None else of.clusters
    sizes = [len(np.unique(units[np.asarray(codes) == code])) for code in range(len(of.labels))]
    small = sum(size < item.folds for size in sizes)
    if len(sizes) - small < 2:
        return _few_labels(item.folds, of.clusters is not None)
    left_out = f"{small:,} of {len(sizes):,} labels have fewer than {item.folds} texts and are left out"
    return left_out if small else ""


@analysis(
    title="Probes",
    summary="How well a linear classifier, and a classifier with a hidden layer, predict the class of a text or word "
    "from its vector at each layer. How much the classifier itself contributes, and whether neighbours share the "
    "class.",
    question="prediction",
    statistics=STATISTICS,
    cost="a forward pass over the sample; per layer and fold four classifiers, and with `pooling: auto` two more for "
    "the other poolings",
    tables=(ProbePooling, ProbeText, ProbeItem, items.Point),
    version=10,  # texts are numbered from 1
    charts=(PROBES, BY_POOLING, SELECTIVITY),
    section=Section(
        ProbeSpec,
        "Classes that a classifier predicts from the states, by a short name.",
        ("probe", "probes"),
        (Reference("corpus", "corpora", labelled=True), Reference("models", "models", several=True)),
        example="{topic: {corpus: CORPUS}}",
    ),
    resolve=_resolve,
    unfit=_unfit,
    pooled=True,
    baselines=True,
)
def probes(item: CorpusProbe | WrittenWords, context: Context) -> Iterator[Row]:
    """Yield what both classifiers read at each place, and what they read of random classes."""
    from reporter.metrics._items import pooled_by

    further: list[Pooling] = []
    if isinstance(item, CorpusProbe):
        read = of_corpus(context.corpora[item.corpus], item.sample, item.folds, context)
        further = [pooling for pooling in POOLINGS if context.auto and pooling != context.pooling]
    else:
        read = of_words(item.words, item.sample, item.folds, context)
    places = context.layout.places
    if len(read.names) < 2:
        for place in places:
            clustered = isinstance(item, CorpusProbe) and context.corpora[item.corpus].texts.clusters is not None
            yield from undefined(STATISTICS, place, 0, _few_labels(item.folds, clustered))
        return
    by_pooling = pooled_by(read.texts, context, (context.pooling, *further), read.max_tokens)
    vectors = by_pooling[context.pooling]
    fold = classifiers.stratified(read.y, item.folds, items.stream(context.seed, "folds"), read.units)
    done = count(1)

    def at(place: Place) -> list[Row]:
        x = vectors[place].astype(np.float64)
        if classifiers.all_the_same(x):
            rows: list[Row] = list(undefined(STATISTICS, place, 0, _SAME))
        else:
            rows = [
                *_classified(place, x, read, fold, item.hidden, context),
                *_overlap(place, x, read, item.neighbours),
            ]
        for pooling in further:
            x = by_pooling[pooling][place].astype(np.float64)
            if not classifiers.all_the_same(x):
                outcome = classifiers.cross_validated(x, read.y, fold, classifiers.linear)
                rows += _by_text(place, pooling, outcome, None, read, fold, main=False)
        context.tell("layers", next(done), len(places))
        return rows

    for row, text in zip(read.rows, read.texts, strict=True):
        yield ProbeItem(row + 1, begins(text))
    texts: dict[str, list[str]] = {name: [] for name in read.names}
    for text, code in zip(read.texts, read.y.tolist(), strict=True):
        texts[read.names[code]].append(text)
    for place, rows in zip(places, spread(at, places), strict=True):
        x = vectors[place].astype(np.float64)
        yield from rows
        yield from items.points(place, {name: x[read.y == code] for code, name in enumerate(read.names)}, texts)


def _classified(place: Place, x: Floats, read: Labelled, fold: Ints, hidden: int, context: Context) -> Iterator[Row]:
    """Yield the numbers of both classifiers, and which texts were classified correctly."""
    y, n, seed = read.y, len(read.y), context.seed
    control = items.stream(seed, "control").choice(y, n)
    majority = float(np.bincount(y).max() / n)
    trains: dict[str, list[classifiers.Train]] = {"linear": [classifiers.linear] * 2}
    if hidden:
        trains["hidden"] = [
            classifiers.one_hidden_layer(len(read.names), hidden, seed, f"{what} {place}")
            for what in ("classes", "control")
        ]
    else:
        yield from undefined((s for s in STATISTICS if s.name.startswith("hidden")), place, 0, _LINEAR_ALONE)
    outcomes: dict[str, classifiers.Classified] = {}
    for name, (train, train_control) in trains.items():
        outcome = classifiers.cross_validated(x, y, fold, train)
        of_control = classifiers.cross_validated(x, control, fold, train_control)
        outcomes[name] = outcome
        ends = share_interval(outcome.right, read.units)
        yield Value(name, place, outcome.accuracy, n, *ends, floor=majority)
        yield Value(f"{name}_control", place, of_control.accuracy, n, *share_interval(of_control.right, read.units))
        selectivity, low, high = classifiers.paired(outcome.right, of_control.right, read.units)
        yield Value(f"{name}_selectivity", place, selectivity, n, low, high)
        yield Value(f"{name}_memorised", place, of_control.memorised, n)
    yield from _by_text(place, context.pooling, outcomes["linear"], outcomes.get("hidden"), read, fold, main=True)


def _by_text(
    place: Place,
    pooling: Pooling,
    linear: classifiers.Classified,
    hidden: classifiers.Classified | None,
    read: Labelled,
    fold: Ints,
    main: bool,
) -> Iterator[Row]:
    """Yield the accuracy with one pooling, and which texts were classified correctly."""
    y, n = read.y.tolist(), len(read.y)
    majority = float(np.bincount(read.y).max() / n)
    yield ProbePooling(pooling, place, main, linear.accuracy, *share_interval(linear.right, read.units), majority, n)
    predicted = [read.names[code] for code in linear.predicted.tolist()]
    right, also = linear.right.tolist(), [None] * n if hidden is None else hidden.right.tolist()
    for row, code, unit, out, *by in zip(
        read.rows, y, read.units.tolist(), fold.tolist(), right, predicted, also, strict=True
    ):
        yield ProbeText(row + 1, read.names[code], unit + 1, out, pooling, place, *by)


def _overlap(place: Place, x: Floats, read: Labelled, k: int) -> Iterator[Value]:
    """Yield the share of the k nearest that have the class of the text, and what chance would give."""
    from reporter.geometry.neighbours import nearest

    y, n = read.y, len(read.y)
    if n <= 2 * k:
        yield Value("label_overlap", place, None, n, reason=f"at most {2 * k} texts, twice the neighbours")
        return
    # Texts of equal vectors are equally near, so a search among the different vectors leaves no order to chance.
    vectors, which = np.unique(x, axis=0, return_inverse=True)
    which, different = which.reshape(-1), len(vectors)
    neighbours = nearest(vectors, min(k, different - 1), listed=min(2 * k + _SPARE, different - 1)).places
    near = np.concatenate([np.arange(different)[:, None], neighbours.cpu().numpy()], axis=1)[which]
    group, counts = group_of_state(read.units, _GROUPS), np.bincount(y)  # by class, so that each group has all

    def share_among(texts: Bools) -> float:
        texts_at = np.zeros((different, len(counts)))
        np.add.at(texts_at, (which[texts], y[texts]), 1)
        texts_near, same_class = texts_at.sum(axis=1)[near[texts]], texts_at[near[texts], y[texts, None]]
        texts_near[:, 0] -= 1  # the text itself
        same_class[:, 0] -= 1
        counted = np.clip(k - (texts_near.cumsum(axis=1) - texts_near), 0, texts_near)
        return float((same_class * counted / np.maximum(texts_near, 1)).sum() / counted.sum())

    value = share_among(np.ones(n, bool))
    without = np.array([share_among(group != left_out) for left_out in np.unique(group).tolist()])
    chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    yield Value("label_overlap", place, value, n, spread=without, floor=chance)


@dataclass(frozen=True)
class Labelled:
    """Texts with their classes.

    Args:
        texts: each one once.
        y: class of each, a place in ``names``, (n,).
        names: of the classes, each with enough texts.
        max_tokens: where texts are cut; the model's own limit if None.
        rows: place of each in the corpus, or among the words of all classes.
        units: place of the first text of each one's cluster; its own without clusters.
    """

    texts: list[str]
    y: Ints
    names: list[str]
    max_tokens: int | None
    rows: list[int]
    units: Ints


def of_corpus(corpus: Corpus, size: int, fewest: int, context: Context) -> Labelled:
    """Return at most ``size`` distinct texts that have a label, as evenly from the classes as these allow.

    Texts without a token, and classes of fewer than ``fewest`` texts or clusters, are left out.
    """
    texts, codes = corpus.texts, corpus.texts.label_codes
    names = corpus.texts.labels or ()
    rows = {
        name: items.stream(context.seed, "labelled texts", name).permutation(np.flatnonzero(np.asarray(codes) == code))
        for code, name in enumerate(names)
    }
    read: set[bytes] = set()
    chosen: dict[str, dict[str, int]] = {}
    for name, quota in quotas({name: len(class_rows) for name, class_rows in rows.items()}, size).items():
        of_class = items.distinct_texts(corpus, rows[name], quota, context, read)
        chosen[name] = dict(list(of_class.items())[:quota])
    return _joined_classes(chosen, fewest, corpus.max_tokens, texts.clusters)


def of_words(words: Mapping[str, Sequence[str]], size: int, fewest: int, context: Context) -> Labelled:
    """Return at most ``size`` words, as evenly from the classes as these allow; see ``of_corpus``."""
    chosen: dict[str, dict[str, int]] = {}
    readable_words: dict[str, list[str]] = {}
    read: set[bytes] = set()
    for name, class_words in words.items():
        readable_words[name] = [
            class_words[index] for index in items.unseen(items.ids_read(class_words, context), read)
        ]
    place = {word: row for row, word in enumerate(word for class_words in words.values() for word in class_words)}
    for name, quota in quotas({name: len(class_words) for name, class_words in readable_words.items()}, size).items():
        order = items.stream(context.seed, "words", name).permutation(len(readable_words[name]))[:quota]
        chosen[name] = {word: place[word] for word in (readable_words[name][row] for row in np.sort(order).tolist())}
    return _joined_classes(chosen, fewest, None)


def quotas(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """Return how many to take from each class: the same from all, but what a small one lacks the others give."""
    quota, left = {}, size
    for place, name in enumerate(sorted(counts, key=lambda class_name: (counts[class_name], class_name))):
        quota[name] = min(counts[name], left // (len(counts) - place))
        left -= quota[name]
    return {name: quota[name] for name in counts}


def _joined_classes(
    texts_by_class: Mapping[str, Mapping[str, int]], fewest: int, max_tokens: int | None, clusters: Ints | None = None
) -> Labelled:
    def units(texts: Mapping[str, int]) -> list[int]:
        return [row if clusters is None else int(clusters[row]) for row in texts.values()]

    kept = {name: texts for name, texts in texts_by_class.items() if len(set(units(texts))) >= fewest}
    y = np.repeat(np.arange(len(kept)), [len(texts) for texts in kept.values()])
    rows = [row for texts in kept.values() for row in texts.values()]
    of_rows = np.array([unit for texts in kept.values() for unit in units(texts)], dtype=np.int64)
    return Labelled([text for texts in kept.values() for text in texts], y, list(kept), max_tokens, rows, of_rows)
