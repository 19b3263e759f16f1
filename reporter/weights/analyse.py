"""Everything that can be said of a model's static vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np
from torch import Tensor

from reporter.errors import ReporterError
from reporter.geometry.arrays import TINY, Floats, Ints, Progress, silent
from reporter.geometry.components import Axes, principal_axes
from reporter.geometry.pairs import Consumer, pairs_between, pairs_within
from reporter.geometry.rows import Rows
from reporter.weights import positions
from reporter.weights import vocabulary as words
from reporter.weights.distributions import Distribution, PairHistograms, between, gathered, of_norms, within
from reporter.weights.extremes import Among, OutlierPairs, Outliers, PairExtremes, RankedToken, TokenPair, ranked
from reporter.weights.kinds import Kind, StaticVectors, static_vectors
from reporter.weights.projections import Method, Projected, Spectrum, of_components, of_neighbours, sample, spectrum
from reporter.weights.rows import VocabularyShare
from reporter.weights.tables import Repeats, mean, norms, repeats
from reporter.weights.token_classes import NO_TEXT, classify

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel


@dataclass(frozen=True)
class StaticOptions:
    """What to look at.

    Args:
        extremes: how many tokens and pairs at each end; 0 leaves the extremes out, which need all pairs.
        outliers: how many token–position pairs are listed.
        outlier_threshold: from which |cosine| on.
        points: how many tokens a picture shows, besides all positions and types.
        methods: pictures besides PCA: ``tsne``, ``umap``.
        seed: of samples, maps and noise.
    """

    extremes: int = 20
    outliers: int = 100
    outlier_threshold: float = 0.2
    points: int = 2000
    methods: tuple[Method, ...] = ("tsne",)
    seed: int = 0


@dataclass(frozen=True)
class StaticReport:
    """What was found.

    Args:
        vectors: the tables, and how the model knows positions.
        vocabulary: each token.
        shares: of which sorts the vocabulary consists.
        zero: ids of tokens whose vector is zero; they take part in no pair, no mean and no extremes.
        repeats: tokens with equal vectors. Of each group only the first takes part in the extremes.
        distributions: of norms and pairs.
        pairs: the most and the least similar ones.
        ranked: tokens at the ends of norm, distance from and cosine to the mean.
        outliers: tokens and positions that point the same way; None without comparable positions.
        spectra: explained variance, of each kind and of all together, zero vectors being vectors like others.
        points: pictures.
        positions: each position, cosines by offset, period, changes; None without position vectors.
        reasons: what could not be computed, and why.
    """

    vectors: StaticVectors
    vocabulary: words.Vocabulary
    shares: tuple[VocabularyShare, ...]
    zero: tuple[int, ...]
    repeats: Repeats
    distributions: tuple[Distribution, ...]
    pairs: tuple[TokenPair, ...]
    ranked: tuple[RankedToken, ...]
    outliers: Outliers | None
    spectra: tuple[Spectrum, ...]
    points: tuple[Projected, ...]
    positions: positions.PositionReport | None
    reasons: dict[str, str] = field(default_factory=dict)


def analyse(model: LoadedModel, options: StaticOptions | None = None, progress: Progress = silent) -> StaticReport:
    """Look at a model's static vectors: V² / 2 products of d numbers, and memory that does not grow with V².

    Args:
        model: a loaded model; its tables are read where they are.
        options: what to look at.
        progress: told what is being done, how much is done and how much there is.

    Raises:
        ReporterError: if its tables cannot be found, or hold numbers that are not finite.
    """
    return report(static_vectors(model), options or StaticOptions(), progress)


def report(vectors: StaticVectors, options: StaticOptions, progress: Progress = silent) -> StaticReport:
    """Look at static vectors; see ``analyse``."""
    try:
        sizes = {kind: norms(table) for kind, table in vectors.kinds.items()}
    except ReporterError as error:
        raise ReporterError(f"model '{vectors.model}': {error}") from error
    return _Work(vectors, options, progress, sizes).report()


class _Work:
    """One analysis, with what its parts share."""

    def __init__(
        self, vectors: StaticVectors, options: StaticOptions, progress: Progress, sizes: dict[Kind, Floats]
    ) -> None:
        self.vectors, self.options, self.progress, self.sizes = vectors, options, progress, sizes
        self.tables: dict[Kind, Tensor] = vectors.kinds
        self.repeats = repeats(vectors.tokens)
        self.reasons: dict[str, str] = {}
        usable = {kind: np.flatnonzero(found > TINY) for kind, found in sizes.items()}
        self.described = classify(vectors.strings, vectors.special)
        text = np.array([token.kind not in NO_TEXT for token in self.described])[usable["token"]]
        once = self.repeats.first[usable["token"]] == usable["token"]
        # Text comes first and repetitions last, so that the extremes can leave the others out.
        self.among: dict[Among, int] = {"all": int(once.sum()), "text": int((once & text).sum())}
        usable["token"] = usable["token"][np.lexsort((~text, ~once))]
        self.rows = {kind: Rows(table, usable[kind], sizes[kind][usable[kind]]) for kind, table in self.tables.items()}

    def report(self) -> StaticReport:
        axes = self._axes()
        middle = mean(self.vectors.tokens, self.sizes["token"] > TINY)
        table = words.describe(
            self.vectors, self.described, self.sizes["token"], middle, axes.get(("token",)), self.repeats
        )
        distributions, pairs = self._pairs()
        outliers = self._outliers()
        ends = [
            end
            for among, count in self.among.items()
            for end in ranked(
                *(table.norm, table.mean_cosine, table.mean_distance),
                *(np.sort(self.rows["token"].ids(np.arange(count))), self.options.extremes, among),
            )
        ]
        where = self.vectors.positions
        return StaticReport(
            self.vectors,
            table,
            tuple(words.shares(self.described)),
            tuple(np.flatnonzero(self.sizes["token"] <= TINY).tolist()),
            self.repeats,
            tuple(distributions),
            tuple(pairs),
            tuple(ends),
            outliers,
            tuple(spectrum(kinds, found) for kinds, found in axes.items()),
            tuple(self._points(axes)),
            positions.describe(where, self.options.seed) if where is not None else None,
            self.reasons,
        )

    def _joint(self) -> tuple[Kind, ...]:
        """Return the kinds that live in the space of the tokens."""
        return tuple(kind for kind in self.tables if self.vectors.comparable("token", kind))

    def _axes(self) -> dict[tuple[Kind, ...], Axes]:
        sets: list[tuple[Kind, ...]] = [(kind,) for kind in self.tables]
        if len(self._joint()) > 1:
            sets.append(self._joint())
        found = {}
        for kinds in sets:
            name = " and ".join(kinds)
            axes = principal_axes([self.tables[kind] for kind in kinds], f"{name} components", self.progress)
            if axes is None:
                self.reasons[f"components of {name}"] = "these vectors do not vary"
            else:
                found[kinds] = axes
        return found

    def _pairs(self) -> tuple[list[Distribution], list[TokenPair]]:
        found = [of_norms(kind, sizes) for kind, sizes in self.sizes.items() if (sizes > 0).any()]
        tokens, n = self.rows["token"], len(self.rows["token"])
        k = self.options.extremes
        extremes = [PairExtremes(k, count, among) for among, count in self.among.items() if k and n > 1]
        pairs: list[TokenPair] = []
        if extremes:
            histograms = PairHistograms(tokens.norms, tokens.norms)
            consumers: list[Consumer] = [*extremes, histograms]  # one walk feeds all
            pairs_within(tokens, consumers, what="token–token pairs", progress=self.progress)
            pairs = [pair for ends in extremes for pair in ends.pairs(tokens)]
            found += gathered(histograms, ("token", "token"), (n, n))
        else:
            found += within("token", tokens, self.progress)
        for kind in self.tables.keys() - {"token"}:
            found += within(kind, self.rows[kind], self.progress)
        for a, b in combinations(self.tables, 2):
            if self.vectors.comparable(a, b):
                found += between((a, b), self.rows[a], self.rows[b], self.progress)
            else:
                self.reasons[f"{a}–{b} pairs"] = "these vectors have different dimensions"
        return found, pairs

    def _outliers(self) -> Outliers | None:
        if "position" not in self._joint() or not len(self.rows["token"]) or not len(self.rows["position"]):
            return None
        tokens, places = self.rows["token"], self.rows["position"]
        consumer = OutlierPairs(self.options.outlier_threshold, self.options.outliers, len(tokens), len(places))
        pairs_between(tokens, places, [consumer], what="token–position outliers", progress=self.progress)
        return consumer.outliers(tokens, places)

    def _points(self, axes: dict[tuple[Kind, ...], Axes]) -> list[Projected]:
        size, seed = self.options.points, self.options.seed
        chosen: dict[Kind, Ints] = {
            kind: sample(len(table), size, seed) if kind == "token" else np.arange(len(table))
            for kind, table in self.tables.items()
        }
        found = [point for kinds, a in axes.items() for point in of_components(kinds, a, self.tables, chosen)]
        for method in self.options.methods:
            if method != "pca":
                found += self._map(method, chosen)
        return found

    def _map(self, method: Literal["tsne", "umap"], chosen: dict[Kind, Ints]) -> list[Projected]:
        """Return one picture; one that cannot be made leaves the rest alone."""
        self.progress(method, 0, 1)
        try:
            return of_neighbours(method, self._joint(), self.tables, chosen, self.options.seed)
        except ReporterError as error:
            self.reasons[method] = str(error)
            return []
