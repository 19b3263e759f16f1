"""The analysis of a model's static vectors: what all of its parts share, tokens and pictures."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from reporter.core.errors import ReporterError
from reporter.core.table import Row
from reporter.geometry.arrays import BLOCK, TINY, Bools, Floats, Ints, Progress, blocks, silent
from reporter.geometry.components import Axes, principal_axes
from reporter.geometry.pairs import TableRows
from reporter.metrics import vocabulary as tables
from reporter.metrics._items import Point, explained_rows, number_or_null
from reporter.metrics._static_pairs import Among, OutlierPairs, PairExtremes, norms_of_kind, pairs_of, ranked
from reporter.metrics._static_positions import positions
from reporter.metrics._static_vectors import NO_TEXT, Kind, StaticVectors, classify

if TYPE_CHECKING:
    from reporter.metrics.vocabulary import VocabularyOptions


# A table of vectors, read block by block: norms, means, and rows that are equal.


def norms(table: Tensor) -> Floats:
    """Return the Euclidean norm of each row, in float64.

    Raises:
        ReporterError: if a row is not finite.
    """
    lengths = _joined([block.norm(dim=1) for _, block in blocks(table)])
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise ReporterError(f"{len(bad)} of its vectors are not finite, the first in row {bad[0]}")
    return lengths


def mean(table: Tensor, keep: Bools) -> Floats:
    """Return the mean of the rows to keep, (d,), in float64."""
    total = np.zeros(table.shape[1])
    for start, block in blocks(table):
        chosen = torch.from_numpy(keep[start : start + len(block)]).to(block.device)
        total += block[chosen].sum(dim=0).cpu().numpy()
    return total / max(1, int(keep.sum()))


def to_point(table: Tensor, point: Floats) -> tuple[Floats, Floats]:
    """Return each row's cosine to a point and its distance from it, in float64; cosines of zero rows are NaN."""
    cosines, distances = [], []
    for _, block in blocks(table):
        p = torch.from_numpy(point).to(block.device)
        size = block.norm(dim=1) * p.norm()
        cosines.append(torch.where(size > TINY * p.norm(), block @ p / size, torch.nan))
        distances.append((block - p).norm(dim=1))
    return _joined(cosines), _joined(distances)


def first_equal(table: Tensor) -> Ints:
    """Return for each row the first row equal to it to the last bit, by a hash of 128 bits of each, (rows,)."""
    first_row: dict[bytes, int] = {}
    first = np.empty(len(table), dtype=np.int64)
    for start in range(0, len(table), BLOCK):
        block = table[start : start + BLOCK].detach().float().cpu().numpy() + np.float32(0)  # −0 becomes 0
        for i, row in enumerate(block):
            digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
            first[start + i] = first_row.setdefault(digest, start + i)
    return first


def _joined(parts: list[Tensor]) -> Floats:
    return np.concatenate([part.cpu().numpy() for part in parts]) if parts else np.zeros(0)


# Pictures in two or three dimensions: principal components and t-SNE.

MOST_COMPONENTS = 512  # of the curves of explained variance that are kept
_FEWEST_MAPPED = 5  # points of which a map of neighbours can be made
_MAPPED_COMPONENTS = 50  # principal components that a map of neighbours is made of, as its authors do


def sampled_rows(count: int, size: int, seed: int) -> Ints:
    """Return ``size`` of ``count`` rows drawn evenly without replacement, in their order; all where they are fewer."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False))


def of_neighbours(x: Floats, seed: int) -> Floats:
    """Return vectors in a map of two dimensions that keeps neighbours together, (n, d) to (n, 2).

    t-SNE (van der Maaten & Hinton 2008) of the first 50 principal components, with a perplexity of 30, or a third of
    the points where these are few.

    Raises:
        ReporterError: if there are too few points.
    """
    if len(x) < _FEWEST_MAPPED:
        raise ReporterError(f"{len(x)} vectors are too few for t-SNE; leave out `tsne`")
    from sklearn.manifold import TSNE

    x = x - x.mean(axis=0)
    if min(x.shape) > _MAPPED_COMPONENTS:
        # Maps start from these coordinates, and the sign of an axis is enough for another map: the signs are the SVD's.
        u, s, _ = np.linalg.svd(x, full_matrices=False)
        x = u[:, :_MAPPED_COMPONENTS] * s[:_MAPPED_COMPONENTS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about each other
        # Started from the first two components, a map keeps the large picture, too (Kobak & Berens 2019).
        tsne = TSNE(perplexity=min(30.0, (len(x) - 1) / 3), init="pca", random_state=seed, n_jobs=1)
        return np.asarray(tsne.fit_transform(x))


def analyse(vectors: StaticVectors, item: VocabularyOptions, seed: int, progress: Progress = silent) -> Iterator[Row]:
    """Yield all rows of a model's static vectors: V² / 2 products of d numbers; memory does not grow with V².

    Raises:
        ReporterError: if a vector holds numbers that are not finite.
    """
    yield from _Work(vectors, item, seed, progress).rows()


class _Work:
    """One analysis, with what its parts share."""

    def __init__(self, vectors: StaticVectors, item: VocabularyOptions, seed: int, progress: Progress) -> None:
        self.vectors, self.item, self.seed, self.progress = vectors, item, seed, progress
        self.tables: dict[Kind, Tensor] = vectors.kinds
        self.missing: dict[str, str] = {}
        try:
            self.sizes = sizes = {kind: norms(table) for kind, table in self.tables.items()}
        except ReporterError as error:
            raise ReporterError(f"model '{vectors.model}': {error}") from error
        usable = {kind: np.flatnonzero(norm > TINY) for kind, norm in sizes.items()}
        self.described = classify(vectors.strings, vectors.special, vectors.added)
        self.first = first_equal(vectors.tokens)
        text = np.array([token.kind not in NO_TEXT for token in self.described])[usable["token"]]
        once = self.first[usable["token"]] == usable["token"]
        # Text comes first and repetitions last, so that the extremes can leave the others out.
        self.among: dict[Among, int] = {"all": int(once.sum()), "text": int((once & text).sum())}
        usable["token"] = usable["token"][np.lexsort((~text, ~once))]
        self.usable = {
            kind: TableRows(table, usable[kind], sizes[kind][usable[kind]]) for kind, table in self.tables.items()
        }
        self.joint = tuple(kind for kind in self.tables if vectors.comparable("token", kind))

    def rows(self) -> Iterator[Row]:
        axes = self._axes()
        yield from self._tokens(axes.get(("token",)))
        yield tables.VocabularyFact("positions", None, self.vectors.position_kind)
        for number, note in enumerate(self.vectors.notes, 1):
            yield tables.VocabularyFact(f"note {number}", None, note)
        for kind, table in self.tables.items():
            yield tables.VocabularyFact(f"{kind} vectors", float(len(table)), f"{table.shape[1]} dimensions")
        yield tables.VocabularyFact("zero vectors", float((self.sizes["token"] <= TINY).sum()), None)
        yield from self._pairs()
        for kinds, principal in axes.items():
            shares = principal.eigenvalues / principal.eigenvalues.sum()
            yield from explained_rows(" and ".join(kinds), None, shares[:MOST_COMPONENTS], principal.n)
        yield from self._pictures(axes)
        if self.vectors.positions is not None:
            yield from positions(self.vectors.positions, self.seed)
        for what, why in self.missing.items():
            yield tables.VocabularyFact(f"missing: {what}", None, why)

    def _axes(self) -> dict[tuple[Kind, ...], Axes]:
        sets: list[tuple[Kind, ...]] = [(kind,) for kind in self.tables]
        if len(self.joint) > 1:
            sets.append(self.joint)
        axes_of = {}
        for kinds in sets:
            name = " and ".join(kinds)
            axes = principal_axes([self.tables[kind] for kind in kinds], f"{name} components", self.progress)
            if axes is None:
                self.missing[f"components of {name}"] = "these vectors do not vary"
            else:
                axes_of[kinds] = axes
        return axes_of

    def _tokens(self, axes: Axes | None) -> Iterator[Row]:
        """Yield each token, and those at both ends of its norm and of its cosine to and distance from the mean."""
        tokens, norm = self.vectors.tokens, self.sizes["token"]
        middle = mean(tokens, norm > TINY)
        cosines, distances = to_point(tokens, middle)
        if np.linalg.norm(middle) <= TINY:
            cosines = np.full(len(tokens), np.nan)
        copies = np.bincount(self.first, minlength=len(tokens))[self.first] > 1
        pc = axes.coordinates(tokens) if axes else np.zeros((len(tokens), 3))
        for row, token in enumerate(self.described):
            yield tables.VocabularyToken(
                *(row, self.vectors.shown[row], token.kind, token.subword),
                *(float(norm[row]), number_or_null(cosines[row]), float(distances[row]), bool(copies[row])),
                *map(number_or_null, pc[row]),
            )
        measures = {"mean_distance": distances, "mean_cosine": cosines, "norm": norm}
        for among, count in self.among.items():
            ids = np.sort(self.usable["token"].ids(np.arange(count)))
            yield from ranked(measures, ids, self.item.extremes, among, self.vectors.shown)

    def _pairs(self) -> Iterator[Row]:
        """Yield the distributions of norms and pairs, the most and the least similar pairs, and the outliers."""
        shown, progress, k = self.vectors.shown, self.progress, self.item.extremes
        for kind, norm in self.sizes.items():
            if (norm > 0).any():
                yield from norms_of_kind(kind, norm)
        tokens = self.usable["token"]
        extremes = [PairExtremes(k, count, among) for among, count in self.among.items() if k and len(tokens) > 1]
        yield from pairs_of("token–token", tokens, None, extremes, progress)
        for ends in extremes:
            yield from ends.pairs(tokens, shown)
        for kind in self.tables.keys() - {"token"}:
            yield from pairs_of(f"{kind}–{kind}", self.usable[kind], None, (), progress)
        for a, b in combinations(self.tables, 2):
            if not self.vectors.comparable(a, b):
                self.missing[f"{a}–{b} pairs"] = "these vectors have different dimensions"
                continue
            x, y = self.usable[a], self.usable[b]
            along = (
                [OutlierPairs(self.item.outlier_threshold, len(x), len(y))] if (a, b) == ("token", "position") else []
            )
            yield from pairs_of(f"{a}–{b}", x, y, along, progress)
            for outliers in along if len(x) and len(y) else ():
                yield from outliers.rows(x, y, shown)

    def _pictures(self, axes: Mapping[tuple[Kind, ...], Axes]) -> Iterator[Point]:
        """Yield the principal components of each kind and of all kinds together, and the maps that are asked for."""
        chosen: dict[Kind, Ints] = {
            kind: sampled_rows(len(table), self.item.points, self.seed) if kind == "token" else np.arange(len(table))
            for kind, table in self.tables.items()
        }
        tables = {
            kind: self.tables[kind][torch.from_numpy(rows).to(self.tables[kind].device)]
            for kind, rows in chosen.items()
        }
        for kinds, principal in axes.items():
            scores = np.concatenate([principal.coordinates(tables[kind]) for kind in kinds])
            yield from self._points("pca" if len(kinds) > 1 else f"pca of {kinds[0]}", kinds, chosen, scores)
        joint = np.concatenate([block.cpu().numpy() for kind in self.joint for _, block in blocks(tables[kind])])
        for method in self.item.maps:
            self.progress(method, 0, 1)
            try:
                scores = of_neighbours(joint, self.seed)
            except ReporterError as error:
                self.missing[method] = str(error)
                continue
            name = method if len(self.joint) > 1 else f"{method} of {self.joint[0]}"
            yield from self._points(name, self.joint, chosen, scores)

    def _points(self, name: str, kinds: Sequence[Kind], chosen: Mapping[Kind, Ints], scores: Floats) -> Iterator[Point]:
        places = [(kind, row) for kind in kinds for row in chosen[kind].tolist()]
        for (kind, row), coordinates in zip(places, scores.tolist(), strict=True):
            yield Point(name, None, kind, row, self.vectors.shown[row] if kind == "token" else str(row), *coordinates)
