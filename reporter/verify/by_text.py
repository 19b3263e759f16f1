"""Numbers of one text or one token type: ``entropy``, ``token_path``, ``contextuality``, ``layer_pairs``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from reporter.verify.by_cloud import NONE, mean_cosine
from reporter.verify.reading import Found, Place, Reading
from reporter.verify.tokens import Floats, Mask, key

FEWEST_TEXTS = 20  # below which no two layers are compared


def entropy(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``entropy`` measures: −Σ p log p of each text's states in each form, and the means over texts."""
    wanted, of = options["texts"], seen.corpus
    spans = [s for text, s in seen.spans if wanted >= of or key(seen.seed, text) < wanted * 2**64 // of]
    for view, mask in seen.masks.items():
        sizes = np.array([int(mask[span].sum()) for span in spans])
        if (sizes > 0).any():
            yield Found("skipped", view, None, float((sizes[sizes > 0] < 3).mean()))
    for place in seen.places:
        x, d = seen.at(place), seen.widths[place]
        for view, mask in seen.masks.items():
            texts = [x[span][mask[span]] for span in spans]
            found = {text: _entropies(states) for text, states in enumerate(texts) if _varies(states)}
            if not found:
                continue
            centred, raw, unit = np.array(list(found.values())).T
            n = np.array([len(texts[text]) for text in found])
            yield Found("prompt", view, place, float(centred.mean()))
            yield Found("prompt_raw", view, place, float(raw.mean()))
            if d > 1:
                most = np.log(np.maximum(2, np.minimum(n - 1, d)))
                yield Found("prompt_normalised", view, place, float(np.minimum(centred / most, 1).mean()))
                yield Found("prompt_unit", view, place, float(np.minimum(unit / np.log(np.minimum(n, d)), 1).mean()))


def _varies(x: Floats) -> bool:
    return len(x) >= 3 and float(((x - x.mean(axis=0)) ** 2).sum()) > 1e-12 * float((x * x).sum())


def _entropies(x: Floats) -> tuple[float, float, float]:
    """Return the entropy of a text's states about their mean, as they are, and of their directions about the mean."""
    centred = x - x.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    zero = lengths <= 1e-6 * np.linalg.norm(lengths)
    units = np.where(zero, 0, centred / np.where(zero, 1, lengths))
    return _entropy(_products(centred)), _entropy(_products(x)), _entropy(_products(units).clip(min=0))


def _products(x: Floats) -> Floats:
    found: Floats = x @ x.T if len(x) <= x.shape[1] else x.T @ x
    return found


def _entropy(products: Floats) -> float:
    values = np.linalg.eigvalsh(products)
    p = values[values > 0] / values[values > 0].sum()
    return max(0.0, float(-(p * np.log(p)).sum()))


def token_path(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``token_path`` measures: the mean over texts of the mean turn from token to token."""
    first: dict[str, float] = {}
    for place in seen.places:
        x = seen.at(place)
        for view, mask in seen.masks.items():
            turns = np.array([_turn(x[span], mask[span]) for _, span in seen.spans])
            found = float(turns[np.isfinite(turns)].mean()) if np.isfinite(turns).any() else NONE
            yield Found("curvature", view, place, found)
            yield Found("straightening", view, place, first.setdefault(view, found) - found)


def _turn(x: Floats, mask: Mask) -> float:
    """Return the mean angle between the steps to and from a token of a text, where all three are in the view."""
    steps = x[1:] - x[:-1]
    lengths = np.linalg.norm(steps, axis=1)
    inside = mask[:-2] & mask[1:-1] & mask[2:] & (lengths[:-1] > 0) & (lengths[1:] > 0)
    if not inside.any():
        return NONE
    products = (steps[:-1] * steps[1:]).sum(axis=1)[inside] / (lengths[:-1] * lengths[1:])[inside]
    return float(np.arccos(np.clip(products, -1, 1)).mean())


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
            shares = np.array([_explained(x[rows]) for rows in occurrences[view]]).reshape(-1, 3)
            for name, of_types in zip(("", "_published", "_truncated"), shares.T, strict=True):
                if np.isfinite(of_types).any():
                    yield Found(f"explained_by_first{name}", view, place, float(np.nanmean(of_types)))


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


def _explained(x: Floats) -> tuple[float, float, float]:
    """Return σ1²/Σσ² as they are and about the mean, and the share of the variance on the first axis of the former."""
    _, sizes, axes = np.linalg.svd(x, full_matrices=False)
    square = float((x * x).sum())
    if not square:
        return NONE, NONE, NONE
    total = float(x.var(axis=0).sum())
    if total * len(x) <= 1e-12 * square:
        return float(sizes[0] ** 2) / square, NONE, NONE
    about = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    return float(sizes[0] ** 2) / square, float(about[0] ** 2) / (total * len(x)), float((x @ axes[0]).var()) / total


class Means(NamedTuple):
    """Each text's mean state at each layer of the path under one view.

    Args:
        texts: places in the corpus of the texts that have a token in the view, in the order of their hashes.
        states: for each layer a matrix (texts, width).
    """

    texts: list[int]
    states: list[Floats]


def text_means(seen: Reading, view: str, wanted: int) -> Means:
    """Return the mean states of at most ``wanted`` texts, with the smallest hashes; repetitions are left out."""
    mask, own = seen.masks[view], {text.original for text in seen.texts}
    spans = [(key(seen.seed, text), text, span) for text, span in seen.spans if text in own and mask[span].any()]
    spans = sorted(spans)[:wanted]
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
