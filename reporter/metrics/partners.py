"""Partners: pairs of texts in a table. Does their cosine follow human scores, and is a text's partner its nearest?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from reporter.charts import SENTENCES, Chapter, Chart, choices
from reporter.core.errors import ReporterError
from reporter.core.places import POOLINGS, Pooling
from reporter.core.table import HIGH, LOW, Comparable, OfModel, Row, at_place, column, of_cell
from reporter.geometry.arrays import Floats
from reporter.geometry.clouds import ROUNDING
from reporter.geometry.components import largest_components
from reporter.geometry.intervals import error_over_texts, interval, student_interval
from reporter.geometry.statistics import correlation, ranks
from reporter.metrics._classifiers import all_the_same
from reporter.metrics._items import evenly
from reporter.metrics.analysis import POOLED, Context, analysis
from reporter.metrics.base import Statistic, Value, with_floor
from reporter.metrics.probes import accuracies
from reporter.spec.offer import Section
from reporter.spec.part import AsPath, Part, Text

if TYPE_CHECKING:
    from reporter.models.places import Place

FEWEST = 20
DIGITS = 6  # of a cosine: vectors that are equal but for rounding in float32 have equal cosines
# How vectors are treated, and how many principal axes are removed.
VARIANTS = {"raw": 0, "centred": 0, "without 1 axis": 1, "without 3 axes": 3}

BY_LAYER = Chart(
    "sentences.partners",
    "Scores and partners by layer",
    """
SELECT * EXCLUDE (variant, parts) REPLACE (if(kind = 'accuracy', value, chance) AS value), variant AS method,
  partner_set || ', ' || statistic AS part
FROM partner_numbers CROSS JOIN (VALUES ('accuracy'), ('floor')) AS kinds(kind)
WHERE study = $study AND site IN ('embedding', 'block')
ORDER BY model, checkpoint, partner_set, statistic DESC, main DESC, pooling, substr(method, 9), method DESC, kind, layer
""",
    accuracies("method", "accuracy", "floor", title="number"),
    lead="Colour: vectors as they are, centred, or without their first axes. Dotted: chance level.",
    picks=lambda frame, scene: [choices(frame, "part", "Pairs"), choices(frame, "pooling", "Pooling")],
    chapter=Chapter(SENTENCES, "partners", "Pairs", "Do cosines of pairs follow human scores, or find the partner?", 5),
    key="method",
    statistics=("*",),
)


class PartnersFile(Part):
    """A table with a pair of texts in each row, and, for graded pairs, how similar people judge them."""

    file: Annotated[Path, AsPath] = Field(description="The table, relative to the study file or absolute.")
    column: Text = Field(description="Column with the texts.")
    partner: Text = Field(description="Column with the partner of each text, such as its translation.")
    score: Text | None = Field(None, description="Column with human scores; without it, partners are searched.")
    sample: int = Field(500, ge=FEWEST, le=5000, description="Maximum number of pairs, spread evenly over the table.")


class WrittenPartners(Part):
    """The pairs of a table: text, partner and, for graded pairs, score."""

    pairs: tuple[tuple[str, str, float | None], ...]


_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d\d?)?", re.IGNORECASE)


def _resolve(spec: PartnersFile, folder: Path) -> WrittenPartners:
    from reporter.texts.sources import SourceContext
    from reporter.texts.sources.stored import FileCorpus, file

    columns = FileCorpus(file=spec.file, column=spec.column, label=spec.partner, cluster=spec.score)
    pairs, first = [], dict[Any, int]()
    try:
        rows = list(file(columns, SourceContext(folder)).read())
    except ReporterError as error:
        says = str(error)
        for key, meant, name in (("label", "partner", spec.partner), ("cluster", "score", spec.score)):
            for form in (f"`{key}`", f"{key} '{name}'", f"{key} column '{name}'"):
                says = says.replace(form, form.replace(key, meant, 1))
        raise ReporterError(says) from error
    for number, row in enumerate(rows, 1):
        text, partner, score = row.text or "", row.label or "", (row.cluster or "") if spec.score else "0"
        earlier = min(
            first.setdefault(x, number) for x in ([(text, partner)] if spec.score else [(0, text), (1, partner)])
        )
        faults = {
            "lacks a text": not text.strip() or not partner.strip(),
            f"has the score '{score}', which is no number": not _NUMBER.fullmatch(score),
            f"repeats a text of pair {earlier}": earlier < number,
        }
        for problem in (fault for fault, holds in faults.items() if holds):
            raise ReporterError(f"{spec.file}: pair {number} {problem}; correct the row or remove it")
        pairs.append((text, partner, float(score) if spec.score else None))
    if len(pairs) < FEWEST:
        raise ReporterError(f"{spec.file} has {len(pairs)} pairs; at least {FEWEST} are needed")
    if spec.score and len({score for *_, score in pairs}) < 2:
        raise ReporterError(f"{spec.file}: all scores in '{spec.score}' are equal; name another column as `score`")
    return WrittenPartners(pairs=tuple(pairs[row] for row in evenly(len(pairs), spec.sample)))


_number = partial(Statistic, floor=True, noise="chance")
_share = partial(
    _number,
    bounds=(0, 1),
    interval="95 % CI over pairs (Student's t, with 0, ½, ½, 1 added). Simulated coverage: 92 to 99 % (20–200 pairs).",
)
STATISTICS = (
    _number(
        "spearman",
        "correlation of cosines with human scores",
        "Spearman correlation of the cosine of both pooled vectors with the human score, over pairs. Ties share their "
        "mean rank. Chance level: 0.",
        ("muennighoff2023mteb", "mu2018all", "efron1979bootstrap"),
        bounds=(-1, 1),
        interval="95 % CI over pairs (jackknife, Fisher's z). Simulated coverage: 93 to 97 % (20–100 pairs).",
        plainly="How well cosines rank pairs of texts as people do.",
        trap="Shared words alone reach a high correlation in many graded sets: compare with the embedding.",
    ),
    _share(
        "recall",
        "share of texts whose partner is nearest",
        "Share of texts whose partner has the largest cosine of all n (recall@1). A tie is a miss. Chance level: 1/n.",
        ("artetxe2019massively",),
        plainly="How often a text finds its partner among all partners.",
        trap="Falls with the number of pairs: compare tables of equal size only.",
    ),
    _share(
        "mrr",
        "mean reciprocal rank of the partner",
        "Mean of 1/rank of a text's partner by cosine among all n; ties rank before it. Chance level: (1 + … + 1/n)/n.",
        ("voorhees1999trec",),
        trap="Depends on n as recall does; a partner in second place counts one half.",
    ),
    _share(
        "mexa",
        "share of pairs that are mutual nearest neighbours",
        "Share of pairs whose cosine exceeds all others of its text and of its partner (MEXA). A tie is a miss. Chance "
        "level: mutual nearest neighbours among all n² pairs, over n²; that is the mean over random pairings.",
        ("kargaran2025mexa",),
        trap="Shows that both sides lie together, not that the model can use a second language.",
    ),
)


_NAMED = "statistic || ', ' || variant || ', pooling ' || pooling"


class PartnerNumber(OfModel, table="partner_numbers", metric="partners"):
    """A number of a table of pairs at one layer, with one pooling and one treatment of the vectors.

    'raw' vectors are as the model gives them. 'centred' ones lack the mean of all texts and partners together, one mean
    for both sides; 'without 1 axis' and 'without 3 axes' also lack the first principal axes of these centred vectors.
    With `pooling: auto` there are the poolings mean, last and first.
    """

    compared = (Comparable(("value",), "partner_set", "", True, _NAMED, among="WHERE NOT main OR variant <> 'raw'"),)

    partner_set = of_cell("name of the table of pairs in the study", part="corpus")
    statistic: str = column("'spearman' where the table has scores, else 'recall', 'mrr' and 'mexa'", key=True)
    variant: str = column("treatment: 'raw', 'centred', 'without 1 axis' or 'without 3 axes'", key=True)
    pooling: str = column(POOLED, key=True)
    place: Place = at_place()
    main: bool = column("whether it is the study's pooling, or with `pooling: auto` the default of the model's role")
    value: float = column("the number")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    chance: float = column("chance level: its mean over random pairings")
    n: int = column("pairs", "BIGINT")
    parts: list[float] | None = column("JSON list for 'raw': the part of each pair in the number, which is their mean")


@analysis(
    title="Pairs of texts",
    summary="Do cosines of pairs of texts follow human scores? Is a text's partner, such as a translation, nearest?",
    question="similarity",
    statistics=STATISTICS,
    cost="a forward pass over the pairs; per layer, pooling and treatment the cosines of all pairs",
    tables=(PartnerNumber,),
    charts=(BY_LAYER,),
    section=Section(
        PartnersFile,
        "Tables of pairs of texts, with human scores of similarity or with partners to find, by a short name.",
        ("table of pairs", "tables of pairs"),
    ),
    resolve=_resolve,
    pooled=True,
    baselines=True,
)
def partners(item: WrittenPartners, context: Context) -> Iterator[Row]:
    """Yield what cosines of the pairs say at each place, by pooling and treatment of the vectors."""
    from reporter.metrics._items import pooled_by

    poolings = [context.pooling, *(p for p in POOLINGS if context.auto and p != context.pooling)]
    texts, others, scores = zip(*item.pairs, strict=True)
    vectors, places = pooled_by([*texts, *others], context, poolings), context.layout.places
    for done, place in enumerate(places, 1):
        for pooling in poolings:
            x, main = vectors[pooling][place].astype(np.float64), pooling == context.pooling
            yield from _measured(place, pooling, x, None if scores[0] is None else np.array(scores), main)
        context.tell("layers", done, len(places))


def _measured(place: Place, pooling: Pooling, x: Floats, scores: Floats | None, main: bool) -> Iterator[Row]:
    missing, n = {statistic.name for statistic in STATISTICS}, len(x) // 2
    for variant in VARIANTS if not all_the_same(x) else ():
        y = treated(x, variant)
        for number in searched(y[:n], y[n:]) if scores is None else graded(y[:n], y[n:], scores):
            name, value, ends, chance, of_pairs = number
            kept = of_pairs.tolist() if variant == "raw" else None
            yield PartnerNumber(name, variant, pooling, place, main, value, ends[0], ends[1], chance, n, kept)
            if kept and main:
                missing.remove(name)
                yield from with_floor(Value(name, place, value, n, *ends), chance)
    for name in sorted(missing) if main else ():
        other = (name == "spearman") == (scores is None)
        reason = "all texts have the same vector here, or all pairs the same cosine"
        yield Value(name, place, None, 0, reason="a table has either scores or partners to find" if other else reason)


def treated(x: Floats, variant: str) -> Floats:
    """Return vectors as they are, centred, or without their first axes; each of length 1, or 0 for rounding."""
    y, k = x if variant == "raw" else x - x.mean(axis=0), VARIANTS[variant]
    if k:
        values, along = largest_components(y, k)
        y = y - np.divide(along, values, out=np.zeros_like(along), where=values > 1e-9 * values[0]) @ (along.T @ y)
    norms, scale = np.linalg.norm(y, axis=1, keepdims=True), np.linalg.norm(x, axis=1).mean()
    return np.asarray(np.divide(y, norms, out=np.zeros_like(y), where=norms > ROUNDING * scale))


def graded(a: Floats, b: Floats, scores: Floats) -> Iterator[tuple[Any, ...]]:
    """Yield the Spearman correlation of the cosines of pairs with their scores; nothing if all cosines are equal.

    A number comes with its interval, its chance level, and the part of each pair in it, (n,).
    """
    cosines, n = np.round((a * b).sum(axis=1), DIGITS), len(scores)
    r = correlation(cosines, scores, "spearman")
    if r is not None:
        u, v = (  # in row i the ranks of all but pair i, from their mean n/2
            (1 - np.eye(n)) * (ranks(x) - (x > x[:, None]) - (x == x[:, None]) / 2 - n / 2) for x in (cosines, scores)
        )
        influence = (1 - n) * (u * v).sum(axis=1) / np.sqrt(np.maximum((u**2).sum(axis=1) * (v**2).sum(axis=1), 1e-9))
        influence -= influence.mean()
        ends = interval(r, error_over_texts(influence, np.arange(n), n, n), "fisher", (-1.0, 1.0))
        yield "spearman", r, ends, 0.0, r + influence


def searched(a: Floats, b: Floats) -> Iterator[tuple[Any, ...]]:
    """Yield how often texts find their partners among all partners; ties count as misses."""
    cosines, n = np.round(a @ b.T, DIGITS), len(a)
    ranked = (cosines >= cosines.diagonal()[:, None]).sum(axis=1)
    mutual = _nearest(cosines) & _nearest(cosines.T).T
    found: dict[str, tuple[Any, float]] = {
        "recall": (ranked == 1, 1 / n),
        "mrr": (1 / ranked, float((1 / np.arange(1, n + 1)).mean())),
        "mexa": (mutual.diagonal(), float(mutual.mean())),
    }
    for name, (of_pairs, chance) in found.items():
        value = float(of_pairs.mean())
        _, low, high = student_interval(np.append(of_pairs, (0, 0.5, 0.5, 1)))
        yield name, value, (max(0.0, min(low, value)), min(1.0, max(high, value))), chance, of_pairs * 1.0


def _nearest(cosines: Floats) -> Any:
    """Return True where a cosine is the only largest one of its row."""
    largest = cosines == cosines.max(axis=1, keepdims=True)
    return largest & (largest.sum(axis=1, keepdims=True) == 1)
