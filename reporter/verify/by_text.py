"""Numbers of the states of one text, or of one token type: ``entropy``, ``contextuality``, ``layer_pairs``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from reporter.verify.by_cloud import NONE, mean_cosine
from reporter.verify.reading import Found, Place, Reading
from reporter.verify.tokens import Floats, Mask, key

FEWEST_TEXTS = 20  # below which no two layers are compared


def entropy(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``entropy`` measures: −Σ p log p of each text's centred Gram matrix, and the mean over texts."""
    wanted, of = options["texts"], seen.corpus
    spans = [s for text, s in seen.spans if wanted >= of or key(seen.seed, text) < wanted * 2**64 // of]
    for view, mask in seen.masks.items():
        sizes = np.array([int(mask[span].sum()) for span in spans])
        if (sizes > 0).any():
            yield Found("skipped", view, None, float((sizes[sizes > 0] < 3).mean()))
    for place in seen.places:
        x, width = seen.at(place), seen.widths[place]
        for view, mask in seen.masks.items():
            found = np.array([_entropy(x[span][mask[span]]) for span in spans])
            most = np.log([max(2, min(int(mask[span].sum()) - 1, width)) for span in spans])
            defined = np.isfinite(found)
            if defined.any():
                yield Found("prompt", view, place, float(found[defined].mean()))
                if width > 1:
                    shares = np.minimum(found[defined] / most[defined], 1)
                    yield Found("prompt_normalised", view, place, float(shares.mean()))


def _entropy(x: Floats) -> float:
    if len(x) < 3:
        return NONE
    centred = x - x.mean(axis=0)
    square = centred @ centred.T if len(x) <= x.shape[1] else centred.T @ centred
    values = np.linalg.eigvalsh(square).clip(min=0)
    if values.sum() <= 1e-12 * (x * x).sum():
        return NONE
    p = values[values > 0] / values.sum()
    return max(0.0, float(-(p * np.log(p)).sum()))


def contextuality(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``contextuality`` measures, but for its baseline, which draws at random."""
    occurrences = {view: _occurrences(seen, mask, options) for view, mask in seen.masks.items()}
    for place in seen.places:
        x = seen.at(place)
        for view, mask in seen.masks.items():
            cosine = mean_cosine(x[mask]) if mask.any() else NONE
            within = np.array([_to_mean(x[span][mask[span]]) for _, span in seen.spans])
            if np.isfinite(within).any():
                yield Found("intra_text", view, place, float(np.nanmean(within)))
                yield Found("intra_text_adjusted", view, place, float(np.nanmean(within)) - cosine)
            alike = np.array([mean_cosine(x[rows]) for rows in occurrences[view]])
            if np.isfinite(alike).any():
                yield Found("self_similarity", view, place, float(np.nanmean(alike)))
                yield Found("self_similarity_adjusted", view, place, float(np.nanmean(alike)) - cosine)
            shares = np.array([_first_share(x[rows]) for rows in occurrences[view]])
            if np.isfinite(shares).any():
                yield Found("explained_by_first", view, place, float(np.nanmean(shares)))


def _to_mean(x: Floats) -> float:
    norms = np.linalg.norm(x, axis=1)
    x, norms = x[norms > 0], norms[norms > 0]
    total = x.sum(axis=0)
    length = float(np.linalg.norm(total))
    if len(x) < 2 or length <= 1e-6 * float(np.sqrt((norms**2).sum() * len(x))):
        return NONE
    return float((x @ total / (norms * length)).mean())


def _occurrences(seen: Reading, mask: Mask, options: Mapping[str, Any]) -> list[Any]:
    """Return the rows of each drawn type: those of the smallest hashes, each in another context."""
    often = [token for token, count in seen.type_counts.items() if count >= 5]
    found = []
    for token in sorted(often, key=lambda token: key(seen.seed, token))[: options["types"]]:
        rows = np.flatnonzero(mask & ~seen.kinds.special & (seen.ids == token))
        first = np.unique(seen.contexts[rows], return_index=True)[1][: options["occurrences"]]
        if len(first) >= 5:
            found.append(rows[first])
    return found


def _first_share(x: Floats) -> float:
    squares = np.linalg.svd(x, compute_uv=False) ** 2
    return float(squares[0] / squares.sum()) if squares.sum() else NONE


class Means(NamedTuple):
    """Each text's mean state at each layer of the path under one view.

    Args:
        texts: places in the corpus of the texts that have a token in the view, in the order of their hashes.
        states: for each layer a matrix (texts, width).
    """

    texts: list[int]
    states: list[Floats]


def text_means(seen: Reading, view: str, wanted: int) -> Means:
    """Return the mean states of at most ``wanted`` texts, those with the smallest hashes."""
    mask = seen.masks[view]
    spans = sorted((key(seen.seed, text), text, span) for text, span in seen.spans if mask[span].any())[:wanted]
    states = [np.stack([seen.at(p)[s][mask[s]].mean(axis=0) for _, _, s in spans]) for p in seen.path if spans]
    return Means([text for _, text, _ in spans], states)


def layer_pairs(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``layer_pairs`` measures of two layers of one model."""
    for view in seen.views:
        means = text_means(seen, view, options["texts"])
        yield from compare_means(means, means, view, options)


def compare_means(a: Means, b: Means, view: str, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield debiased linear CKA and shared neighbours of each layer of a with each of b, on the texts of both."""
    both = [text for text in a.texts if text in set(b.texts)]
    if len(both) < FEWEST_TEXTS:
        return
    sides = [[x[[side.texts.index(text) for text in both]] for x in side.states] for side in (a, b)]
    grams = [[_gram(x) for x in side] for side in sides]
    own = [[_hsic(k, k) for k in side] for side in grams]
    near = [[_neighbours(x, options["k"]) for x in side] for side in sides]
    for i, k in enumerate(grams[0]):
        for j, other in enumerate(grams[1]):
            scale = own[0][i] * own[1][j]
            if scale > 0:
                value = float(np.clip(_hsic(k, other) / np.sqrt(scale), -1, 1))
                yield Found("cka", view, Place("block" if i else "embedding", i), value, other=j)
            first, second = near[0][i], near[1][j]
            if first is not None and second is not None:
                shared = [len(x & y) / options["k"] for x, y in zip(first.sets, second.sets, strict=True)]
                slack = (first.ties + second.ties) / options["k"] / len(both)
                place = Place("block" if i else "embedding", i)
                yield Found("knn", view, place, float(np.mean(shared)), slack, other=j)


def _gram(x: Floats) -> Floats:
    """Return the Gram matrix without its diagonal; centring the rows changes no HSIC₁ but what float64 must hold."""
    centred = x - x.mean(axis=0)
    size = np.sqrt((centred**2).sum() / len(x))
    centred = centred / size if size > 0 else centred
    found: Floats = centred @ centred.T
    np.fill_diagonal(found, 0)
    return found


def _hsic(k: Floats, other: Floats) -> float:
    """Return n(n − 3)·HSIC₁ as Song et al. 2012 write it in equation 5."""
    n, one = len(k), np.ones(len(k))
    both = (one @ k @ one) * (one @ other @ one) / ((n - 1) * (n - 2))
    return float((k * other).sum() + both - 2 / (n - 2) * (one @ k) @ (other @ one))


class _Near(NamedTuple):
    sets: list[set[int]]
    ties: int  # neighbours that another text is as far as, but for rounding


def _neighbours(x: Floats, k: int) -> _Near | None:
    """Return the k nearest other rows of each row by cosine; None where a row is zero or there are too few."""
    norms = np.linalg.norm(x, axis=1)
    if k >= len(x) or norms.min() <= 1e-6 * norms.max():
        return None
    units = x / norms[:, None]
    similar = units @ units.T
    np.fill_diagonal(similar, -np.inf)
    order = np.argsort(-similar, axis=1)
    ordered = np.take_along_axis(similar, order, axis=1)
    edge = ordered[:, k - 1 : k]
    close = np.abs(ordered - edge) < 1e-6
    ties = int(sum(min(row[:k].sum(), row[k:].sum()) for row in close))
    return _Near([set(row[:k].tolist()) for row in order], ties)
