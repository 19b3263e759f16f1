"""Partners: pairs of texts, of a table or both halves of each text. Do cosines follow scores, or find the partner?"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from reporter.charts import SENTENCES, Chapter, Chart, Pick, choices
from reporter.core.errors import ReporterError
from reporter.core.places import POOLINGS
from reporter.core.table import HIGH, LOW, Comparable, OfModel, Row, at_place, column, of_cell
from reporter.core.threads import spread
from reporter.geometry.arrays import Floats
from reporter.geometry.clouds import ROUNDING
from reporter.geometry.components import largest_components
from reporter.geometry.intervals import error_over_texts, interval, student_interval
from reporter.geometry.statistics import correlation, ranks
from reporter.metrics._classifiers import all_the_same
from reporter.metrics._items import ALL_MODELS, ModelNames, drawn_texts, evenly, ids_read, unseen
from reporter.metrics.analysis import POOLED, Context, Corpus, analysis
from reporter.metrics.base import Statistic, Value, beginning, undefined
from reporter.metrics.probes import accuracies
from reporter.study.offer import Reference, Section
from reporter.study.part import AsPath, Name, Part, Text, one_of, wrong
from reporter.texts.excerpts import EXCERPT, begins

if TYPE_CHECKING:
    import pandas as pd

    from reporter.metrics._items import EncodedText
    from reporter.models.places import Place
    from reporter.models.sentence import SentencePipeline
    from reporter.texts import Texts

FEWEST = 20
MOST_WRONG = 100
"""Pairs of a layer that ``partner_texts`` has."""
DIGITS = 6  # of the distance of unit vectors: those that are equal but for rounding in float32 are equally near
OWN = "own"
"""The pooling of a sentence encoder's own pipeline, see :mod:`reporter.models.sentence`."""
SHORTEST = 40
"""Characters of a text that is halved: some eight words, or a sentence of Chinese."""
# How vectors are treated, and how many principal axes are removed.
VARIANTS = {"raw": 0, "centred": 0, "without 1 axis": 1, "without 3 axes": 3}


def _which_number(frame: pd.DataFrame) -> Pick:
    """Return the selector of a set of pairs and its number, by the title of the number."""
    titles = {statistic.name: statistic.title for statistic in STATISTICS}
    pairs = {part: part.rpartition(", ") for part in choices(frame, "part", "Pairs").choices}
    return Pick("part", "Pairs", {part: f"{name}: {titles[number]}" for part, (name, _, number) in pairs.items()})


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
    accuracies("method", "accuracy", "floor", title=None),
    naming="{part}",
    lead="Colour: vectors as they are, centred, or without their first axes. Dotted: chance level.",
    picks=lambda frame, scene: [_which_number(frame), choices(frame, "pooling", "Pooling")],
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
    table: Text | None = Field(None, description="Table in a .duckdb file; default: the only one.")
    sample: int = Field(500, ge=FEWEST, le=5000, description="Maximum number of pairs, spread evenly over the table.")
    models: ModelNames = ALL_MODELS

    @model_validator(mode="after")
    def _sides_differ(self) -> PartnersFile:
        if self.partner == self.column:
            raise wrong("is the column of the texts; name the column of their partners", "partner")
        return self


class TextHalves(Part):
    """Texts whose first half is to find their second half among all: no labels are needed."""

    halves: Name = Field(description="A corpus of this study.")
    sample: int = Field(500, ge=FEWEST, le=5000, description="Maximum number of texts, drawn at random.")
    models: ModelNames = ALL_MODELS


PartnersSpec = Annotated[
    PartnersFile | TextHalves,
    BeforeValidator(
        one_of({"file": PartnersFile, "halves": TextHalves}, "{halves: CORPUS}"),
        json_schema_input_type=PartnersFile | TextHalves,
    ),
]
"""A mapping with the key ``file`` or the key ``halves``."""


class WrittenPartners(Part):
    """The pairs of a table: text, partner and, for graded pairs, score."""

    pairs: tuple[tuple[str, str, float | None], ...]


_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d\d?)?", re.IGNORECASE)


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and math.isfinite(float(text))


def _resolve(spec: PartnersFile | TextHalves, folder: Path) -> WrittenPartners | TextHalves:
    if isinstance(spec, TextHalves):
        return spec
    from reporter.texts.sources import SourceContext
    from reporter.texts.sources.stored import FileCorpus, file

    columns = FileCorpus(file=spec.file, column=spec.column, label=spec.partner, cluster=spec.score, table=spec.table)
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
        text, partner, score = (row.text or "").strip(), row.label or "", (row.cluster or "") if spec.score else "0"
        earlier = min(
            first.setdefault(x, number) for x in ([(text, partner)] if spec.score else [(0, text), (1, partner)])
        )
        faults = {
            "lacks a text": not text or not partner,
            f"has the score '{score:.40}', which is no number": not _is_number(score),
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


def halves_of(text: str) -> tuple[str, str] | None:
    """Return both halves of a text, cut at the white space nearest to its middle; None for a short text.

    Text without white space in its middle half, such as Chinese, is cut in the middle.
    """
    text = text.strip()
    if len(text) < SHORTEST:
        return None
    middle = len(text) // 2
    gaps = [match.start() for match in re.finditer(r"\s+", text) if abs(match.start() - middle) <= len(text) // 4]
    cut = min(gaps, key=lambda gap: abs(gap - middle), default=middle)
    return text[:cut].strip(), text[cut:].strip()


def _few_halves(count: int, of: Texts, corpus: str) -> str:
    what = f"different texts of corpus '{corpus}'"
    if of.clusters is not None:
        what = f"clusters of corpus '{corpus}' have a text that"
    return f"only {count} {what} can be halved, and {FEWEST} are needed: a text needs {SHORTEST} characters"


def _unfit(item: Any, texts: Mapping[str, Texts]) -> str:
    if not isinstance(item, TextHalves):
        return ""
    of = texts[item.halves]
    units = range(len(of)) if of.clusters is None else of.clusters.tolist()
    count = len({unit for unit, text in zip(units, of, strict=True) if halves_of(text)})
    return _few_halves(count, of, item.halves) if count < FEWEST else ""


def halved(item: TextHalves, corpus: Corpus, context: Context) -> list[tuple[str, str]]:
    """Return the halves of at most ``sample`` texts of a corpus, of a cluster of texts one.

    No half comes twice, as the model reads it.
    """
    texts, units = drawn_texts(corpus, len(corpus.texts), context)
    halves = [(unit, pair) for text, unit in zip(texts, units.tolist(), strict=True) if (pair := halves_of(text))]
    short, first_of_unit = len(texts) - len(halves), unseen({row: unit for row, (unit, _) in enumerate(halves)}, set())
    pairs = [halves[row][1] for row in first_of_unit]
    pairs = [pairs[row] for row in different(pairs, context, corpus.max_tokens)][: item.sample]
    if short:
        context.warnings.append(
            f"{short:,} of {len(texts):,} texts have fewer than {SHORTEST} characters and were not halved"
        )
    return pairs


def different(pairs: Sequence[tuple[str, str]], context: Context, max_tokens: int | None) -> list[int]:
    """Return the places of pairs of which the model reads neither side in an earlier pair, in the same place."""
    sides = [ids_read(side, context, max_tokens) for side in zip(*pairs, strict=True)]
    earlier: tuple[set[bytes], ...] = (set(), set())
    places = []
    for row in range(len(pairs)):
        read = [side.get(row) for side in sides]
        if None not in read and not any(ids in ids_before for ids, ids_before in zip(read, earlier, strict=True)):
            places.append(row)
            for ids, ids_before in zip(read, earlier, strict=True):
                ids_before.add(ids)  # type: ignore[arg-type]
    return places


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
    """A number of pairs of texts at one layer, with one pooling and one treatment of the vectors.

    'raw' vectors are as the model gives them. 'centred' ones lack the mean of all texts and partners together, one mean
    for both sides; 'without 1 axis' and 'without 3 axes' also lack the first principal axes of these centred vectors.
    With `pooling: auto` there are the poolings mean, last and first.
    """

    compared = (Comparable(("value",), "partner_set", "", True, _NAMED, among="WHERE NOT main OR variant <> 'raw'"),)

    partner_set = of_cell("name of the pairs in the study", part="corpus")
    statistic: str = column("'spearman' where the table has scores, else 'recall', 'mrr' and 'mexa'", key=True)
    variant: str = column("treatment: 'raw', 'centred', 'without 1 axis' or 'without 3 axes'", key=True)
    pooling: str = column(f"{POOLED}; 'own': what a sentence encoder itself returns", key=True)
    place: Place = at_place()
    main: bool = column("whether it is the study's pooling, or with `pooling: auto` the default of the model's role")
    value: float = column("the number")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    chance: float = column("chance level: its mean over random pairings")
    n: int = column("pairs", "BIGINT")
    parts: list[float] | None = column(
        "JSON list for 'raw' and 'centred': the part of each pair in the number, which is their mean"
    )
    halves: bool = column("whether the pairs are the two halves of each text of a corpus")


class PartnerText(OfModel, table="partner_texts", metric="partners"):
    """A pair whose cosine is wrong at one layer, of vectors as the model gives them: the worst ones come first.

    Of partners to find: a text that another partner is nearer to. Of pairs with scores: a pair whose cosine has another
    rank than its score.
    """

    partner_set = PartnerNumber.partner_set
    pooling: str = column(f"{POOLED}; 'own': what a sentence encoder itself returns", key=True)
    place: Place = at_place()
    pair: int = column("number of the pair as the model reads them, from 1", key=True)
    rank: int | None = column("rank of the partner among all by cosine, 1 = nearest; NULL for pairs with scores")
    off: float | None = column(
        "rank of the cosine minus the rank of the score, over the number of pairs: above 0 the model takes the texts "
        "for more alike than people do; NULL for partners to find"
    )
    begins: str = beginning("the text")
    partner: str = beginning("its partner")
    nearest: str | None = column(f"the first {EXCERPT} characters of the partner that is nearer", default=None)


@analysis(
    title="Pairs of texts",
    summary="Do cosines of pairs of texts follow human scores? Is a text's partner, such as a translation, nearest?",
    question="similarity",
    statistics=STATISTICS,
    cost="a forward pass over the pairs; per layer, pooling and treatment the cosines of all pairs",
    tables=(PartnerNumber, PartnerText),
    charts=(BY_LAYER,),
    section=Section(
        PartnersSpec,
        "Pairs of texts by a short name: a table with human scores of similarity or with partners to find, or the two "
        "halves of each text of a corpus.",
        ("set of pairs", "sets of pairs"),
        (Reference("halves", "corpora"), Reference("models", "models", several=True)),
        example="{search: {halves: CORPUS}}",
    ),
    version=4,
    resolve=_resolve,
    unfit=_unfit,
    pooled=True,
    baselines=True,
)
def partners(item: WrittenPartners | TextHalves, context: Context) -> Iterator[Row]:
    """Yield what cosines of the pairs say at each place, by pooling and treatment of the vectors."""
    from reporter.metrics._items import pooled_by

    poolings = [context.pooling, *(p for p in POOLINGS if context.auto and p != context.pooling)]
    max_tokens = None
    if isinstance(item, TextHalves):
        corpus = context.corpora[item.halves]
        pairs, max_tokens = halved(item, corpus, context), corpus.max_tokens
        if len(pairs) < FEWEST:
            for place in context.layout.places:
                yield from undefined(STATISTICS, place, 0, _few_halves(len(pairs), corpus.texts, item.halves))
            return
        rows: list[tuple[str, str, float | None]] = [(*pair, None) for pair in pairs]
    else:
        rows = list(item.pairs)
        if rows[0][2] is None:  # whose partner is searched among all: of two that are read alike, none is found
            kept = different([(text, partner) for text, partner, _ in rows], context, None)
            if len(kept) < min(FEWEST, len(rows)):
                raise ReporterError(f"this model reads only {len(kept)} different pairs; {FEWEST} are needed")
            if len(kept) < len(rows):
                context.warnings.append(
                    f"{len(rows) - len(kept):,} of {len(rows):,} pairs repeat a text of an earlier pair, as this model "
                    "reads them, and were left out"
                )
            rows = [rows[row] for row in kept]
    texts, partner_texts, scores = map(list, zip(*rows, strict=True))
    both, places, halves = [*texts, *partner_texts], context.layout.places, isinstance(item, TextHalves)
    own = OwnVectors.of(context, max_tokens)
    vectors = pooled_by(both, context, poolings, max_tokens, also=None if own is None else own.take)
    of_pipeline = None if own is None else own.of_texts(both)
    graded_by = None if scores[0] is None else np.array(scores)
    finished = count(1)

    def at(place: Place) -> list[Row]:
        of_place: dict[str, Any] = {pooling: vectors[pooling][place] for pooling in poolings}
        if own is not None and place == own.last:
            of_place[OWN] = of_pipeline
        found: list[Row] = []
        for pooling, measured in of_place.items():
            x, main = measured.astype(np.float64), pooling == context.pooling
            found += _measured(place, pooling, x, graded_by, main, halves)
            if main or pooling == OWN:
                found += _wrong(place, pooling, x, graded_by, texts, partner_texts)
        context.tell("layers", next(finished), len(places))
        return found

    for of_place in spread(at, places):
        yield from of_place


@dataclass(frozen=True)
class OwnVectors:
    """What a sentence encoder itself returns for texts.

    Args:
        context: of the analysis.
        pipeline: what the encoder does after its last block.
        limit: the most tokens that it reads of a text.
        last: the place of its last hidden state.
        of_text: the vector of each text so far, (d,) in float64, by what the tokenizer gets.
    """

    context: Context
    pipeline: SentencePipeline
    limit: int
    last: Place
    of_text: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, max_tokens: int | None) -> OwnVectors | None:
        """Return them for a sentence encoder, None for another model."""
        from reporter.models.places import Place
        from reporter.models.sentence import read_pipeline

        model = context.model
        try:
            pipeline = read_pipeline(model.checkpoint.folder)
        except ReporterError as error:
            context.warnings.append(str(error))
            return None
        if pipeline is None:
            return None
        limit = min(limit for limit in (pipeline.reading.max_tokens, max_tokens, sys.maxsize) if limit)
        return cls(context, pipeline, limit, Place(model.anatomy.last_hidden_state, model.anatomy.layers))

    @cached_property
    def prompt_tokens(self) -> int:
        """How many tokens its prompt has."""
        from reporter.metrics._items import encode

        prompt = self.pipeline.reading.prompt
        read = encode([self.pipeline.reading.given("")], self.context) if prompt.strip() else ()
        return sum(len(text.ids) - int(text.special[-1]) for text in read)

    def take(self, text: str, encoded: EncodedText) -> None:
        """Take the vector of a text from its states, if the encoder itself would read it just so."""
        if self.pipeline.reading.given(text) == text and len(encoded.ids) <= self.limit:
            self.of_text[text] = self.pipeline.vector(encoded.states[self.last], self.prompt_tokens)

    def of_texts(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of some texts, (texts, d); what was not taken goes through the model."""
        from reporter.metrics._items import encode

        given = [self.pipeline.reading.given(text) for text in texts]
        if unread := [text for text in dict.fromkeys(given) if text not in self.of_text]:
            for encoded in encode(unread, self.context, self.limit):
                vector = self.pipeline.vector(encoded.states[self.last], self.prompt_tokens)
                self.of_text[unread[encoded.index]] = vector
        return np.stack([self.of_text[text] for text in given])


def _measured(place: Place, pooling: str, x: Floats, scores: Floats | None, main: bool, halves: bool) -> Iterator[Row]:
    missing, n = {statistic.name for statistic in STATISTICS}, len(x) // 2
    same = all_the_same(x)
    axes = None if same else largest_components(x - x.mean(axis=0), max(VARIANTS.values()))
    for variant in VARIANTS if not same else ():
        y = treated(x, variant, axes)
        for number in searched(y[:n], y[n:]) if scores is None else graded(y[:n], y[n:], scores):
            name, value, ends, chance, of_pairs = number
            kept = None if VARIANTS[variant] else of_pairs.tolist()
            yield PartnerNumber(name, variant, pooling, place, main, value, ends[0], ends[1], chance, n, kept, halves)
            if variant == "raw" and main:
                missing.remove(name)
                yield Value(name, place, value, n, *ends, floor=chance)
    for name in sorted(missing) if main else ():
        other = (name == "spearman") == (scores is None)
        reason = "all texts have the same vector here, or all pairs the same cosine"
        yield Value(name, place, None, 0, reason="a table has either scores or partners to find" if other else reason)


def _wrong(
    place: Place, pooling: str, x: Floats, scores: Floats | None, texts: list[str], partner_texts: list[str]
) -> Iterator[PartnerText]:
    """Yield the pairs that are most wrong at a place, at most ``MOST_WRONG``."""
    if all_the_same(x):
        return
    n, y = len(texts), treated(x, "raw")

    def row(i: int, rank: int | None, off: float | None, nearest: str | None = None) -> PartnerText:
        text, partner = begins(texts[i]), begins(partner_texts[i])
        return PartnerText(pooling, place, i + 1, rank, off, text, partner, nearest)

    if scores is not None:
        off = (ranks(-_distances((y[:n] * y[n:]).sum(axis=1))) - ranks(scores)) / n
        for i in np.argsort(-np.abs(off), kind="stable")[:MOST_WRONG].tolist():
            if off[i]:
                yield row(i, None, float(off[i]))
        return
    cosines = -_distances(y[:n] @ y[n:].T)
    ranked = (cosines >= cosines.diagonal()[:, None]).sum(axis=1)
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    for i in np.argsort(-ranked, kind="stable")[:MOST_WRONG].tolist():
        if ranked[i] > 1:
            yield row(i, int(ranked[i]), None, begins(partner_texts[nearest[i]]))


def treated(x: Floats, variant: str, axes: tuple[Floats, Floats] | None = None) -> Floats:
    """Return vectors as they are, centred, or without their first axes; each of length 1, or 0 for rounding.

    Args:
        x: the vectors, (n, d).
        variant: a key of ``VARIANTS``.
        axes: the first axes of the centred vectors, eigenvalues and coordinates, where they are known.
    """
    y, k = x if variant == "raw" else x - x.mean(axis=0), VARIANTS[variant]
    if k:
        values, along = largest_components(y, k) if axes is None else (axes[0][:k], axes[1][:, :k])
        y = y - np.divide(along, values, out=np.zeros_like(along), where=values > 1e-9 * values[0]) @ (along.T @ y)
    norms, scale = np.linalg.norm(y, axis=1, keepdims=True), np.linalg.norm(x, axis=1).mean()
    return np.asarray(np.divide(y, norms, out=np.zeros_like(y), where=norms > ROUNDING * scale))


def graded(a: Floats, b: Floats, scores: Floats) -> Iterator[tuple[Any, ...]]:
    """Yield the Spearman correlation of the cosines of pairs with their scores; nothing if all cosines are equal.

    A number comes with its interval, its chance level, and the part of each pair in it, (n,).
    """
    cosines, n = -_distances((a * b).sum(axis=1)), len(scores)
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
    cosines, n = -_distances(a @ b.T), len(a)
    ranked = (cosines >= cosines.diagonal()[:, None]).sum(axis=1)
    mutual = _nearest(cosines) & _nearest(cosines.T).T
    numbers: dict[str, tuple[Any, float]] = {
        "recall": (ranked == 1, 1 / n),
        "mrr": (1 / ranked, float((1 / np.arange(1, n + 1)).mean())),
        "mexa": (mutual.diagonal(), float(mutual.mean())),
    }
    for name, (of_pairs, chance) in numbers.items():
        value = float(of_pairs.mean())
        _, low, high = student_interval(np.append(of_pairs, (0, 0.5, 0.5, 1)))
        yield name, value, (max(0.0, min(low, value)), min(1.0, max(high, value))), chance, of_pairs * 1.0


def _distances(cosines: Floats) -> Floats:
    """Return the distances of unit vectors with these cosines, without what is rounding in float32.

    They order pairs as cosines do. In a narrow cone cosines differ by less than float32 rounds 1, and distances do not.
    """
    return np.asarray(np.round(np.sqrt(np.maximum(0.0, 2.0 - 2.0 * cosines)), DIGITS))


def _nearest(cosines: Floats) -> Any:
    """Return True where a cosine is the only largest one of its row."""
    largest = cosines == cosines.max(axis=1, keepdims=True)
    return largest & (largest.sum(axis=1, keepdims=True) == 1)
