"""Clouds: the texts of two or more corpora as points. Do they lie apart, and of what shape are they?

Points: the projection ``pca`` holds at most 300 texts of each corpus on components of all texts together; a corpus is
a part. Histograms: a corpus, or two (``a–b``), is a part; all parts of a measure at a place have the same bins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations, count
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

from reporter.charts import SENTENCES, Chapter, Chart, Pick, choices, variants
from reporter.charts.curves import counts, explained, heights
from reporter.charts.layout import titled
from reporter.charts.parts import AXES
from reporter.charts.profile import beside, by_depth
from reporter.charts.styles import Styles
from reporter.core.errors import ReporterError
from reporter.core.table import Row
from reporter.core.threads import spread
from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.clouds import counted, overlap, spreads
from reporter.geometry.components import components
from reporter.geometry.intervals import of_units, share_interval, student_interval
from reporter.metrics import _classifiers as classifiers
from reporter.metrics._items import Explained, HistogramBin, Point, drawn_texts, explained_rows, points, stream
from reporter.metrics.analysis import Context, analysis, texts_share
from reporter.metrics.base import Share, Size, Value, undefined
from reporter.study.offer import Reference, Section
from reporter.study.part import AsTuple, Name, Part, wrong
from reporter.study.problems import show

if TYPE_CHECKING:
    import pandas as pd

    from reporter.models.places import Place
    from reporter.texts import Texts

# The charts of clouds: texts by layer, how well corpora are told apart, distributions, explained variance.


CHAPTER = Chapter(SENTENCES, "clouds", "Corpora", "At which layers do the texts of two or more corpora differ?", 3)


def _item(frame: pd.DataFrame, column: str = "item") -> Pick:
    return choices(frame, column, "Comparison")


def separability(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw how well corpora are distinguished, as high as the picture next to it."""
    return by_depth(frame, styles).properties(height=400)


_chart = partial(Chart, chapter=CHAPTER, by_layer=True, half=True)
CLOUD_POINTS = _chart(
    "sentences.cloud-points",
    "Texts of the corpora by layer",
    """
SELECT model, checkpoint, item, projection, site, layer, part AS corpus, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'clouds'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, item, projection, site, layer ORDER BY hash(point), part)
  <= 2000
ORDER BY model, checkpoint, item, projection, site, layer, part, point
""",
    "points",
    lead="One point per text, coloured by corpus.",
    columns=("part", "label", "x", "y"),
    picks=lambda frame, scene: [_item(frame), choices(frame, "projection", "Picture", ("pca",))],
    options={"colour": ["corpus"], "order": True, "tell": ["corpus"], "axisNames": AXES, "height": 400},
)

# Of a model with several checkpoints the last one is drawn beside other models.
SEPARABILITY = beside(
    "sentences.separability",
    "How well corpora are distinguished",
    "metric = 'clouds' AND site IN ('embedding', 'block')",
    CHAPTER,
    picks=lambda frame, scene: [_item(frame, "corpus"), titled(frame, scene)],
    draw=separability,
)

CLOUD_HISTOGRAMS = _chart(
    "sentences.cloud-histograms",
    "Distributions by layer",
    """
SELECT model, checkpoint, item, measure, part, site, layer, low, high, count,
  count / max(count) OVER (PARTITION BY model, checkpoint, item, measure, part, site, layer) AS height,
  CAST(sum(count) OVER (PARTITION BY model, checkpoint, item, measure, part, site, layer) AS BIGINT) AS n
FROM histograms
WHERE study = $study AND analysis = 'clouds'
ORDER BY model, checkpoint, item, measure, site, layer, part, low
""",
    {"height": heights, "count": counts},
    lead="Norms of texts; cosine, distance and dot product of pairs within and between corpora.",
    columns=("measure", "part", "count"),
    picks=lambda frame, scene: [
        _item(frame),
        choices(frame, "measure", "Measure", ("cosine", "norm", "distance", "dot")),
        variants(height="shape (peak = 1)", count="count (logarithmic)"),
    ],
    key="part",
)

CLOUD_EXPLAINED = _chart(
    "sentences.cloud-explained",
    "Explained variance by layer",
    """
SELECT model, checkpoint, item, part, site, layer, components, share, n
FROM explained_variance
WHERE study = $study AND analysis = 'clouds'
ORDER BY model, checkpoint, item, site, layer, part, components
""",
    explained,
    lead="How many directions a corpus uses. Dashed: 50 % and 90 %.",
    columns=("part", "components", "share", "n"),
    picks=lambda frame, scene: [_item(frame)],
    key="part",
)

MOST_COMPONENTS = 50  # of the curves of explained variance


class CloudSpec(Part):
    """Two or more corpora to compare."""

    corpora: Annotated[tuple[Name, ...], AsTuple] = Field(description="Two or more corpora of this study.")
    sample: int = Field(500, ge=10, le=5000, description="Texts per corpus, drawn at random.")


def _cloud(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = {"corpora": list(value)}
    if isinstance(value, dict) and isinstance(value.get("corpora"), list):
        corpora = value["corpora"]
        if len(corpora) < 2:
            raise wrong(f"needs two or more corpora, got {show(corpora)}")
        for place, name in enumerate(corpora):
            if name in corpora[:place]:
                raise wrong(f"'{name}' is listed twice", "corpora", place)
    return value


Cloud = Annotated[CloudSpec, BeforeValidator(_cloud, json_schema_input_type=list[str] | CloudSpec)]
"""A list of corpora, or a mapping with more to say."""

FOLDS = 5

_SAMPLE = "The study's seed draws the texts of each corpus at random (500 by default). Equal texts count once."

STATISTICS = (
    Share(
        "separability",
        "accuracy of classifying texts by corpus",
        "Share of texts whose corpus a linear classifier predicts correctly from their pooled vector, in "
        f"cross-validation. There are {FOLDS} random folds, with each corpus spread evenly over them. Each text is "
        "classified once, by the classifier trained on the other folds. Chance level: the share of the largest corpus "
        f"in the sample, the accuracy of always predicting it. {_SAMPLE} {classifiers.LOGISTIC} "
        f"{classifiers.STANDARDISED}",
        ("luisto2024toybox", "wilson1927probable"),
        short="accuracy",
        interval=classifiers.WILSON,
        floor=True,
        noise="chance",
        main=True,
        plainly="How often a linear classifier recognises the corpus of a text.",
        trap="Near 1 for any corpora of different length, layout or names. With few texts per dimension it is a lower "
        "bound.",
    ),
    Size(
        "centroid_distance",
        "distance of corpus means over distance within",
        "‖μ_a − μ_b‖ / ((w_a + w_b)/2), with μ the mean vector of a corpus and w the mean Euclidean distance of two of "
        f"its texts. The number is the mean over all pairs of corpora. {_SAMPLE}",
        ("luisto2024toybox",),
        short="distance over distance within",
        trap="Two samples of n texts from the same corpus have about 1/√n, not 0.",
    ),
    Size(
        "overlap",
        "neighbours from other corpora",
        "Mean over texts of the share of other corpora among a text's 10 nearest texts, divided by their share among "
        "all other texts. 1: the corpora are mixed; 0: no text has a near one of another corpus. Distances are "
        "Euclidean, in the whole sample. Texts as far as the tenth count in part, and distances up to 1e-5 of the "
        f"root mean square norm are 0. {_SAMPLE}",
        ("luisto2024toybox",),
        short="share of neighbours",
        interval="95 % CI over texts (mean ± t standard errors). Slightly too narrow, since neighbours share "
        "neighbours.",
        main=True,
        plainly="How mixed the corpora are among nearest texts (1: mixed, 0: separate).",
        trap="In many dimensions, hubs dominate: texts that are near to very many others.",
    ),
)


def _few_texts(corpus: str, what: str) -> str:
    return f"corpus '{corpus}' has fewer than {FOLDS} different {what}"


def _unfit(_item: Any, texts: Mapping[str, Texts]) -> str:
    few = [name for name, of in texts.items() if of.units < FOLDS]
    return _few_texts(few[0], "texts" if texts[few[0]].clusters is None else "clusters of texts") if few else ""


@analysis(
    title="Corpus comparison",
    summary="How the texts of two or more corpora differ: norms of their vectors, distances between them, and how "
    "well a linear classifier predicts the corpus.",
    question="similarity",
    statistics=STATISTICS,
    version=5,
    cost="a forward pass over the samples; all distances and five classifiers per layer",
    tables=(HistogramBin, Explained, Point),
    charts=(CLOUD_POINTS, SEPARABILITY, CLOUD_HISTOGRAMS, CLOUD_EXPLAINED),
    section=Section(
        Cloud,
        "Lists of corpora to compare, by a short name.",
        ("corpus comparison", "corpus comparisons"),
        (Reference("corpora", "corpora", several=True),),
        example="{both: [CORPUS, OTHER]}",
    ),
    unfit=_unfit,
    pooled=True,
    baselines=True,
)
def clouds(item: CloudSpec, context: Context) -> Iterator[Row]:
    """Yield how the corpora lie to each other at each place, and pictures of them."""
    from reporter.metrics._items import pooled, same_token

    texts, vectors, units = {}, {}, {}
    for name in item.corpora:
        corpus = context.corpora[name]
        texts[name], units[name] = drawn_texts(corpus, item.sample, context)
        if not texts[name]:
            raise ReporterError(f"the tokenizer finds no token in any text of corpus '{name}'")
        vectors[name] = pooled(texts[name], context, corpus.max_tokens, name)
        if (token := same_token(texts[name], context, corpus.max_tokens)) is not None:
            drawn = f"texts of corpus '{name}' that are drawn as a cloud"
            warning = texts_share(drawn, show(token), context.pooling)
            context.warnings.append(f"{warning}; set `pooling: mean` in the study to read all tokens")
    places = context.layout.places
    done = count(1)

    def at(place: Place) -> list[Value]:
        clouds = {name: by_place[place] for name, by_place in vectors.items()}
        values = list(_values(place, clouds, units, context.seed))
        context.tell("layers", next(done), len(places))
        return values

    for place, values in zip(places, spread(at, places), strict=True):
        clouds = {name: by_place[place] for name, by_place in vectors.items()}
        yield from values
        for histogram in counted(clouds):
            for low, high, many in zip(histogram.edges, histogram.edges[1:], histogram.counts, strict=False):
                yield HistogramBin(histogram.measure, histogram.part, place, float(low), float(high), int(many))
        for name, x in clouds.items():
            yield from _explained(place, name, x)
        yield from points(place, clouds, texts)


def _explained(place: Place, name: str, x: Floats) -> Iterator[Explained]:
    shares = np.zeros(0) if classifiers.all_the_same(x) else components(x, MOST_COMPONENTS).shares
    yield from explained_rows(name, place, shares, len(x))


def _values(place: Place, clouds: Mapping[str, Floats], units: Mapping[str, Ints], seed: int) -> Iterator[Value]:
    x = np.concatenate(list(clouds.values()))
    y = np.repeat(np.arange(len(clouds)), [len(cloud) for cloud in clouds.values()])
    few = [name for name, of_texts in units.items() if len(np.unique(of_texts)) < FOLDS]
    what = "clusters of texts" if few and len(clouds[few[0]]) >= FOLDS else "texts"
    reason = _few_texts(few[0], what) if few else ""
    if not reason and classifiers.all_the_same(x):
        reason = "all texts have the same vector here"
    if reason:
        yield from undefined(STATISTICS, place, 0, reason)
        return
    n = len(x)
    unit = y * n + np.concatenate(list(units.values()))
    fold = classifiers.stratified(y, FOLDS, stream(seed, "folds"), unit)
    outcome = classifiers.cross_validated(x, y, fold, classifiers.linear)
    ends, majority = share_interval(outcome.right, unit), float(np.bincount(y).max() / n)
    yield Value("separability", place, outcome.accuracy, n, *ends, floor=majority)
    yield _centroids(place, clouds, x, y)
    mixed, low, high = student_interval(of_units(overlap(x, y), unit))
    yield Value("overlap", place, mixed, n, max(0.0, low), high)


def _centroids(place: Place, clouds: Mapping[str, Floats], x: Floats, y: Any) -> Value:
    within = [group.within for group in spreads(x, y)[1:]]
    means = [cloud.mean(axis=0) for cloud in clouds.values()]
    ratios = []
    for a, b in combinations(range(len(means)), 2):
        if within[a] + within[b] == 0:
            why = "all texts of a corpus have the same vector here"
            return Value("centroid_distance", place, None, 0, reason=why)
        ratios.append(float(np.linalg.norm(means[a] - means[b])) / ((within[a] + within[b]) / 2))
    return Value("centroid_distance", place, float(np.mean(ratios)), len(x))
