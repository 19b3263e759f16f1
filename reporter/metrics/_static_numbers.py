"""Numbers of a model's static vectors, as rows: tokens, pairs, positions, pictures."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from reporter.core.errors import ReporterError
from reporter.core.table import Row
from reporter.geometry.arrays import BLOCK, TINY, Bools, Floats, Ints, Progress, blocks, silent
from reporter.geometry.clouds import Histogram, Summary
from reporter.geometry.components import Axes, principal_axes
from reporter.geometry.noise import cosine_above
from reporter.geometry.pairs import Measure, TableRows, Tile, Top, Workspace, tiles
from reporter.metrics import vocabulary as tables
from reporter.metrics._items import Explained, HistogramBin, Point
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


def _or_null(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# Position vectors: their cosines, and the period of the helix that they lie on.


LEVEL = 0.01
"""A period is named where noise would look as periodic with at most this probability."""

SMALLEST_SHARE = 0.1
"""Nor is a period named that carries less than this share of the path's power."""

_TURNS = 4  # a path that goes round fewer times has no period to speak of
_DRAWS = 199
_FEWEST = 32  # positions


def period(path: Floats, seed: int) -> tuple[dict[str, float], str]:
    """Return facts about the dominant period of a path, by Fourier transformation, and why it has none or "".

    ``period``: positions in one turn. ``period share``: of the power of the detrended path, what the strongest
    frequency and its two neighbours on either side carry; a helix whose pitch drifts has a small one. ``period turns``:
    how often the path goes round. ``period p``: the probability that noise whose power only falls with frequency has a
    hump as high.

    Each coordinate is clipped eight median absolute deviations from its median, as position 0 often lies apart;
    it loses its straight line, is tapered (Hann) and transformed; the powers of the coordinates are
    added. Smooth paths have most of their power at low frequencies without going round, so a period is a hump:
    the frequency, from four turns on, whose power is the largest multiple of the least power at lower ones. It is
    compared with noise of the same power spectrum made to fall (isotonic regression), and refined by a parabola
    through the logarithms of its power and its neighbours'.
    """
    count = len(path)
    if count < _FEWEST:
        return {}, f"{count} positions are too few"
    middle = np.median(path, axis=0)
    reach = 8 * np.median(np.abs(path - middle), axis=0)
    x = detrended(np.clip(path, middle - reach, middle + reach))
    if not x.any():
        return {}, "the path is a straight line"
    power = powers(x).sum(axis=-1)
    scores = _humps(power)
    best = int(scores.argmax())
    p = float((1 + (_humps(_falling_noise(x, seed)).max(axis=-1) >= scores[best]).sum()) / (1 + _DRAWS))
    best += _TURNS
    share = float(power[max(1, best - 2) : best + 3].sum() / power[1:].sum())
    known = {"period share": share, "period p": p}
    if p > LEVEL:
        return known, "no significant frequency"
    if share < SMALLEST_SHARE:
        return known, f"the significant frequency has only {share:.1%} of the power"
    turns = _refined(power, best)
    return {"period": count / turns, "period turns": turns, **known}, ""


def detrended(path: Floats) -> Floats:
    """Return coordinates without their least-squares straight lines, (…, P, k)."""
    place = np.linspace(-1, 1, path.shape[-2])
    basis = np.linalg.qr(np.stack([np.ones_like(place), place], axis=1))[0]
    x: Floats = path - basis @ (basis.T @ path)
    return np.where(np.abs(x) > 1e-9 * np.abs(path).max(), x, 0)


def powers(x: Floats) -> Floats:
    """Return the power of each coordinate at 0, 1, 2, … turns: (…, P, k) to (…, P // 2 + 1, k)."""
    taper = np.hanning(x.shape[-2] + 2)[1:-1, None]
    return np.asarray(np.abs(np.fft.rfft(x * taper, axis=-2)) ** 2)


def _humps(power: Floats) -> Floats:
    smooth = (power[..., :-2] + power[..., 1:-1] + power[..., 2:]) / 3  # of 1, 2, … turns
    least = np.minimum.accumulate(smooth, axis=-1)
    least = np.maximum(least, 1e-3 * power[..., 1:].mean(axis=-1, keepdims=True))  # a hump of next to nothing is none
    # What is 3 turns lower does not share the power of one frequency, which the taper spreads over its neighbours.
    return np.asarray(power[..., _TURNS:-1] / np.maximum(least[..., : power.shape[-1] - 1 - _TURNS], 1e-300))


def _falling_noise(x: Floats, seed: int) -> Floats:
    from sklearn.isotonic import isotonic_regression

    generator = np.random.default_rng(seed)
    total = np.zeros((_DRAWS, len(x) // 2 + 1))
    for of_coordinate in powers(x).T:
        falling = isotonic_regression(of_coordinate[1:], increasing=False)
        height = np.sqrt(np.concatenate([[0], falling]))
        waves = generator.standard_normal((2, _DRAWS, len(height)))
        noise = np.fft.irfft((waves[0] + 1j * waves[1]) * height, n=len(x), axis=-1)
        # Of that noise, processed like the path.
        drawn = powers(detrended(noise[..., None]))[..., 0]
        total += drawn * (of_coordinate.sum() / max(drawn.mean(axis=0).sum(), 1e-300))
    return total


def _refined(power: Floats, best: int) -> float:
    a, b, c = np.log(np.maximum(power[best - 1 : best + 2], 1e-300))
    bend = a - 2 * b + c
    return float(best + (np.clip((a - c) / (2 * bend), -0.5, 0.5) if bend < 0 else 0))


MOST_CELLS = 96
"""Rows and columns of the picture of cosines."""

_TOGETHER = 2048  # rows whose cosines with all others are held at a time


def positions(table: Tensor, seed: int) -> Iterator[Row]:
    """Yield each position vector, cosines of any two and by offset, and the period of the path of all, (P, d)."""
    x = np.concatenate([block.cpu().numpy() for _, block in blocks(table)])
    axes = principal_axes([table])
    pc = axes.coordinates(table) if axes else np.zeros((len(x), 3))
    norm, mean = np.linalg.norm(x, axis=1), x.mean(axis=0)
    unit = np.divide(x, norm[:, None], out=np.full_like(x, np.nan), where=norm[:, None] > TINY)
    size = float(np.linalg.norm(mean))
    steps = np.concatenate([[np.nan], np.linalg.norm(np.diff(x, axis=0), axis=1)])
    cosines = unit @ mean / size if size > TINY else np.full(len(x), np.nan)
    distances = np.linalg.norm(x - mean, axis=1)
    for row in range(len(x)):
        numbers = float(norm[row]), _or_null(steps[row]), _or_null(cosines[row]), float(distances[row])
        yield tables.PositionVector(row, *numbers, *map(_or_null, pc[row]))
    yield from heat(unit)
    yield from by_offset(unit)
    facts, reason = period(pc, seed) if axes else ({}, "all position vectors are equal")
    remark = reason or "positions per cycle of the path, in the first three principal components"
    yield tables.VocabularyFact("period", facts.pop("period", None), remark)
    yield from (tables.VocabularyFact(name, _or_null(value), None) for name, value in facts.items())


def heat(unit: Floats) -> Iterator[tables.PositionCosine]:
    """Yield the cosines of the first 96 unit vectors, (P, d), without gaps: gaps would show false periods.

    A zero vector has none (NULL).
    """
    for a, row in enumerate(np.clip(unit[:MOST_CELLS] @ unit[:MOST_CELLS].T, -1, 1)):
        for b, cosine in enumerate(row):
            yield tables.PositionCosine(a, b, _or_null(cosine))


def by_offset(unit: Floats) -> list[tables.PositionOffset]:
    """Return mean and standard deviation (1/n) of the cosines at each offset, over all pairs of rows without NaN."""
    count = len(unit)
    nonzero = np.asarray(~np.isnan(unit).any(axis=1))
    vectors = np.where(nonzero[:, None], unit, 0)
    n, total, squares = np.zeros(count), np.zeros(count), np.zeros(count)
    for start in range(0, count, _TOGETHER):
        cosines = vectors[start : start + _TOGETHER] @ vectors[start:].T
        for i, row in enumerate(cosines):
            if nonzero[start + i]:
                more = count - start - i
                n[:more] += nonzero[start + i :]
                total[:more] += row[i:]
                squares[:more] += row[i:] ** 2
    offsets = [offset for offset in range(1, count) if n[offset]]
    means = {offset: total[offset] / n[offset] for offset in offsets}
    return [
        tables.PositionOffset(
            offset,
            float(np.clip(means[offset], -1, 1)),
            float(np.sqrt(max(0.0, squares[offset] / n[offset] - means[offset] ** 2))),
            int(n[offset]),
        )
        for offset in offsets
    ]


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


def explained(part: str, axes: Axes) -> Iterator[Explained]:
    """Yield the share of the variance that the first 1, 2, … components explain."""
    shares = np.minimum(1.0, np.cumsum(axes.eigenvalues / axes.eigenvalues.sum()))
    for components, share in enumerate(shares[:MOST_COMPONENTS].tolist(), 1):
        yield Explained(part, None, components, share, axes.n)


# Norms and pairs: how they are distributed, and which are at the ends.

End = Literal["most", "least"]

Among = Literal["all", "text"]
"""Every token, or those that are text: not special, not unused, not single bytes, and with a name. Tokens that were
never trained are so much alike that among all of them no others are seen."""

Shown = Sequence[str | None]
"""How each token reads."""

MOST_OUTLIERS = 100  # token–position pairs that are listed


def distribution(measure: str, part: str, summary: Summary) -> Iterator[Row]:
    """Yield mean, standard deviation and bins of a distribution.

    Distances of pairs are √(‖x‖² + ‖y‖² − 2⟨x, y⟩) in float32, which tells nothing below 1/1000 of the norms.
    """
    for fact, value in (("mean", summary.mean), ("standard deviation", summary.sd)):
        yield tables.VocabularyFact(f"{measure} of {part}: {fact}", value, f"n = {summary.n:,}")
    edges = summary.edges.tolist()
    for low, high, count in zip(edges[:-1], edges[1:], summary.counts.tolist(), strict=True):
        yield HistogramBin(measure, part, None, low, high, count)


def norms_of_kind(kind: Kind, norms: Floats) -> Iterator[Row]:
    """Yield the distribution of norms, in float64 before they are counted; those of zero rows are left out."""
    kept = norms[norms > 0]
    histogram = Histogram(0, float(kept.max()))
    histogram.take(torch.from_numpy(kept).float(), Workspace(torch.device("cpu")))
    yield from distribution("norm", kind, histogram.summary())


def pairs_of(
    part: str,
    a: TableRows,
    b: TableRows | None = None,
    also: Sequence[PairExtremes | OutlierPairs] = (),
    progress: Progress = silent,
) -> Iterator[Row]:
    """Yield the distributions of all pairs within ``a``, or of ``a`` with ``b``; one walk feeds ``also``, too."""
    if len(a) < 2 if b is None else not (len(a) and len(b)):
        return
    longest, longest_other = (float(rows.norms.max()) for rows in (a, a if b is None else b))
    histograms: dict[Measure, Histogram] = {
        "cosine": Histogram(-1, 1),
        "distance": Histogram(0, longest + longest_other),
        "dot": Histogram(-longest * longest_other, longest * longest_other),  # Cauchy and Schwarz
    }
    for tile in tiles(a, b, f"{part} pairs", progress):
        for consumer in also:
            consumer.take(tile)
        for measure, histogram in histograms.items():
            histogram.take(tile.values(measure), tile.workspace)
    for measure, histogram in histograms.items():
        yield from distribution(measure, part, histogram.summary())


class PairExtremes:
    """Takes in the tiles of tokens, and keeps the k pairs at both ends of each measure.

    The first ``candidates`` rows take part; ``among`` says what these are.
    """

    def __init__(self, k: int, candidates: int, among: Among = "all") -> None:
        self._among: Among = among
        self._tops: dict[tuple[Measure, End], Top] = {
            (measure, end): Top(measure, (end == "most") == (measure != "distance"), k, candidates, candidates)
            for measure in ("cosine", "distance", "dot")
            for end in ("most", "least")
        }

    def take(self, tile: Tile) -> None:
        """Take in one tile."""
        for top in self._tops.values():
            top.take(tile)

    def pairs(self, rows: TableRows, shown: Shown) -> Iterator[tables.VocabularyExtreme]:
        """Yield the pairs of the rows that were taken in; of distances the smallest are the most similar."""
        for (measure, end), top in self._tops.items():
            best = top.best(rows, rows)
            ids = np.sort(np.stack([rows.ids(best.rows), rows.ids(best.columns)], axis=1), axis=1)
            for rank, ((a, b), value) in enumerate(zip(ids.tolist(), best.values, strict=True), 1):
                yield tables.VocabularyExtreme(
                    *(self._among, "token–token", measure, end, rank, a, shown[a], b, shown[b]),
                    *(float(value), best.certain),
                )


class OutlierPairs:
    """Takes in the tiles of tokens with positions, and keeps those whose |cosine| is above a threshold."""

    def __init__(self, threshold: float, tokens: int, positions: int, most: int = MOST_OUTLIERS) -> None:
        self._threshold, self._pairs, self._count = threshold, tokens * positions, 0
        self._top = Top("cosine", True, most, tokens, positions, absolute=True)

    def take(self, tile: Tile) -> None:
        """Take in one tile."""
        self._top.take(tile)
        cosines = tile.matrix("cosine")
        if float(cosines.abs().max()) > self._threshold:
            self._count += int((cosines.abs() > self._threshold).sum())

    def rows(self, tokens: TableRows, positions: TableRows, shown: Shown) -> Iterator[Row]:
        """Yield the pairs with the largest |cosine|, how many are above the threshold, and how many by chance."""
        best = self._top.best(tokens, positions)
        ids = zip(tokens.ids(best.rows).tolist(), positions.ids(best.columns).tolist(), strict=True)
        for rank, ((token, position), value) in enumerate(zip(ids, best.values.tolist(), strict=True), 1):
            if abs(value) > self._threshold:
                yield tables.VocabularyExtreme(
                    *("all", "token–position", "cosine", "outlier", rank, token, shown[token]),
                    *(position, str(position), value, None),
                )
        chance = self._pairs * cosine_above(self._threshold, tokens.table.shape[1])
        yield tables.VocabularyFact("outlier threshold", self._threshold, "|cosine| of a token and a position")
        yield tables.VocabularyFact("outliers", float(self._count), f"of {self._pairs:,} pairs")
        yield tables.VocabularyFact("outliers by chance", chance, "if the directions of one side were random")


def ranked(
    measures: Mapping[str, Floats], usable: Ints, k: int, among: Among, shown: Shown
) -> Iterator[tables.VocabularyExtreme]:
    """Yield the k tokens at both ends of each measure, (V,), out of the ids that take part."""
    for name, values in measures.items():
        order = usable[np.argsort(values[usable], kind="stable")]
        for end, ids in (("smallest", order[:k]), ("largest", order[::-1][:k])):
            for rank, i in enumerate(ids.tolist(), 1):
                yield tables.VocabularyExtreme(
                    *(among, "token", name, end, rank, i, shown[i]), *(None, None, float(values[i]), None)
                )


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
            yield from explained(" and ".join(kinds), principal)
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
                *(float(norm[row]), _or_null(cosines[row]), float(distances[row]), bool(copies[row])),
                *map(_or_null, pc[row]),
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
