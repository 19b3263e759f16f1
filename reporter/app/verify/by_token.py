"""Means over tokens: ``convergence``, ``motion``, ``angular_distance``, of a path; ``loss``, of what is predicted."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from reporter.app.verify.reading import CorpusReading, Floats, Ints, Mask, Remeasured, StatePlace, key, over_views

ROUNDING = 2e-6
"""Two cosines of float32 states that differ by less may stand in either order."""


NONE = float("nan")


def mean_cosine(x: Floats, zero: float = 0.0) -> float:
    """Return the mean over rows of the mean cosine with all other rows; rows no longer than ``zero`` are left out."""
    norms = np.linalg.norm(x, axis=1)
    u = x[norms > zero] / norms[norms > zero, None]
    if len(u) < 2:
        return NONE
    rest = u.sum(axis=0) - u
    return float((u * rest).sum(axis=1).mean() / (len(u) - 1))


def cosines(x: Floats, y: Floats) -> Floats:
    """Return the cosine of each row of x with that of y, NaN where one is zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        quotients: Floats = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    return np.clip(quotients, -1, 1)


def mean(values: Floats, mask: Mask) -> float:
    """Return the mean over the tokens of a mask that have a value."""
    kept = values[mask & np.isfinite(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def means(
    reading: CorpusReading, place: StatePlace, quantities: Mapping[str, Floats], other: int | None = None
) -> Iterator[Remeasured]:
    """Yield the mean of each quantity of tokens under every view."""
    for name, values in quantities.items():
        for view, mask in reading.masks.items():
            yield Remeasured(name, view, place, mean(values, mask), other=other)


def convergence(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``convergence`` measures: S(l) and all that is made of it (Lee 2024)."""
    path, target = reading.path, reading.path[-1]
    final = [place for place in reading.places if place.site == "final"]
    if options.get("target") == "final" and final:
        target = final[0]
        if reading.widths[target] != reading.widths[path[-1]]:
            return
    last = reading.at(target)
    to_target = [cosines(reading.at(place), last) for place in path]
    if target == path[-1]:
        to_target[-1] = np.where(np.isfinite(to_target[-1]), 1.0, np.nan)
    for view, mask in reading.masks.items():
        s = np.array([mean(c, mask) for c in to_target])
        if options.get("mean") == "text":
            of_texts = np.array([[mean(c[span], mask[span]) for _, span in reading.spans] for c in to_target])
            s = np.array([mean(values, np.ones(len(values), dtype=bool)) for values in of_texts])
        for (name, layer), value in of_similarity(s).items():
            yield Remeasured(name, view, None if layer is None else path[layer], value)
        for layer, place in enumerate(path):
            rare = mean(to_target[layer], mask & ~reading.frequent)
            often = mean(to_target[layer], mask & reading.frequent)
            yield Remeasured("similarity_rare", view, place, rare)
            yield Remeasured("similarity_frequent", view, place, often)
            yield Remeasured("frequency_gap", view, place, rare - often)
            if reading.units == reading.originals:  # that over clusters is of a bootstrap
                yield Remeasured("frequency_gap_p", view, place, _paired_p(reading, to_target[layer], mask))
        for layer, place in enumerate(path[:-1]):
            drop = (to_target[layer] - to_target[layer + 1])[mask]
            drop = drop[np.isfinite(drop)]
            if len(drop):
                undecided = float((np.abs(drop) < ROUNDING).mean())
                yield Remeasured("violations", view, place, float((drop > 0).mean()), undecided)


def of_similarity(s: Floats) -> dict[tuple[str, int | None], float]:
    """Return S at each layer and the numbers that follow from it, by name and layer (None: of the whole model)."""
    depth = len(s) - 1
    gains = s[1:] - s[:-1]
    bounds = np.array([gains[layer:].min() for layer in range(depth)])
    numbers: dict[tuple[str, int | None], float] = {("similarity", layer): value for layer, value in enumerate(s)}
    for layer in range(depth):
        numbers["gradient", layer], numbers["bound", layer] = gains[layer], bounds[layer]
    numbers |= {("rate", None): gains.mean(), ("area", None): bounds.mean(), ("start", None): bounds[0]}
    if depth > 1:
        numbers["decay", None] = -float(np.polyfit(np.arange(depth) / depth, bounds, 1)[0])
    return numbers


def _paired_p(reading: CorpusReading, values: Floats, mask: Mask) -> float:
    from scipy.stats import t

    rare = np.array([mean(values[s], (mask & ~reading.frequent)[s]) for _, s in reading.spans])
    often = np.array([mean(values[s], (mask & reading.frequent)[s]) for _, s in reading.spans])
    gaps = rare - often
    distinct = len({text.original for text, gap in zip(reading.texts, gaps, strict=True) if np.isfinite(gap)})
    gaps = gaps[np.isfinite(gaps)]
    if distinct < 2 or not gaps.std():
        return float("nan")
    return float(2 * t.sf(abs(gaps.mean()) / (gaps.std() / np.sqrt(distinct - 1)), distinct - 1))


def motion(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``motion`` measures: steps, their length, their turns, and how straight the way is."""
    path = reading.path
    way, turns = np.zeros(len(reading.ids)), np.zeros_like(reading.at(path[0]))
    norms: dict[str, list[float]] = {view: [] for view in reading.masks}
    for layer, place in enumerate(path):
        x = reading.at(place)
        norm = np.linalg.norm(x, axis=1)
        quantities = {"norm": norm}
        if layer + 1 < len(path):
            y = reading.at(path[layer + 1])
            step = np.linalg.norm(y - x, axis=1)
            ratio = np.divide(step, norm, out=np.full(len(norm), np.nan), where=norm > 0)
            quantities |= {"step_length": step, "step_cosine": cosines(x, y), "update_ratio": ratio}
            quantities["block_influence"] = 1 - quantities["step_cosine"]
            way += step
            turns += np.divide(y - x, step[:, None], out=np.zeros_like(x), where=step[:, None] > 0)
            if layer + 2 < len(path):
                quantities["curvature"] = np.arccos(cosines(y - x, reading.at(path[layer + 2]) - y))
        yield from means(reading, place, quantities)
        for view, mask in reading.masks.items():
            norms[view].append(mean(norm, mask))
    distance, turned = np.linalg.norm(reading.at(path[-1]) - reading.at(path[0]), axis=1), np.linalg.norm(turns, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shape = np.where(turned > 0, (len(path) - 1) / turned, np.nan)
        straight = np.where(way > 0, distance / way, np.nan)
    for view, mask in reading.masks.items():
        yield Remeasured("line_shape", view, None, mean(shape, mask))
        yield Remeasured("straightness", view, None, mean(straight, mask))
        after = np.array(norms[view][1:])
        if len(after) > 1 and (after > 0).all():
            slope, _ = np.polyfit(np.arange(len(after)), np.log(after), 1)
            yield Remeasured("growth", view, None, float(np.exp(slope)))


def angular_distance(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``angular_distance`` measures: the mean angle of each two layers, of tokens and of last ones."""
    last: dict[str, Mask] = {}
    for view, mask in reading.masks.items():
        last[view] = np.zeros(len(mask), dtype=bool)
        for _, span in reading.spans:
            last[view][np.flatnonzero(mask[span])[-1:] + span.start] = True
    for index, place in enumerate(reading.path):
        x = reading.at(place)
        for other in range(index + 1, len(reading.path)):
            angles = np.arccos(cosines(x, reading.at(reading.path[other]))) / np.pi
            yield from means(reading, place, {"tokens": angles}, other)
            for view in reading.masks:
                yield Remeasured("last_token", view, place, mean(angles, last[view]), other=other)


# Numbers of one text or one token type: ``entropy``, ``token_path``, ``contextuality``, ``layer_pairs``.


FEWEST_TEXTS = 20  # below which no two layers are compared


def entropy(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``entropy`` measures: −Σ p log p of each text's states in each form, and the means over texts."""
    limit, total = options["texts"], reading.corpus
    spans = [s for text, s in reading.spans if limit >= total or key(reading.seed, text) < limit * 2**64 // total]
    for view, mask in reading.masks.items():
        sizes = np.array([int(mask[span].sum()) for span in spans])
        if (sizes > 0).any():
            yield Remeasured("skipped", view, None, float((sizes[sizes > 0] < 3).mean()))

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[str, float]]:
        texts, d = [x[span][reading.masks[view][span]] for span in spans], reading.widths[place]
        texts = [states for states in texts if _varies(states)]
        if not texts:
            return
        centred, raw, unit = np.array([_entropies(states) for states in texts]).T
        n = np.array([len(states) for states in texts])
        yield "prompt", float(centred.mean())
        yield "prompt_raw", float(raw.mean())
        if d > 1:
            most = np.log(np.maximum(2, np.minimum(n - 1, d)))
            yield "prompt_normalised", float(np.minimum(centred / most, 1).mean())
            yield "prompt_unit", float(np.minimum(unit / np.log(np.minimum(n, d)), 1).mean())

    yield from over_views(reading, numbers)


def _varies(x: Floats) -> bool:
    return len(x) >= 3 and float(((x - x.mean(axis=0)) ** 2).sum()) > 1e-12 * float((x * x).sum())


def _entropies(x: Floats) -> tuple[float, ...]:
    centred = x - x.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    zero = lengths <= 1e-6 * np.linalg.norm(lengths)
    units = np.where(zero, 0, centred / np.where(zero, 1, lengths))
    of_centred, of_raw, of_units = (
        rows @ rows.T if len(x) <= x.shape[1] else rows.T @ rows for rows in (centred, x, units)
    )
    return _entropy(of_centred), _entropy(of_raw), _entropy(of_units.clip(min=0))


def _entropy(products: Floats) -> float:
    values = np.linalg.eigvalsh(products)
    p = values[values > 0] / values[values > 0].sum()
    return max(0.0, float(-(p * np.log(p)).sum()))


def token_path(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``token_path`` measures: the mean over texts of the mean turn from token to token."""
    first: dict[str, float] = {}

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[str, float]]:
        turns = np.array([_turn(x[span], reading.masks[view][span]) for _, span in reading.spans])
        curvature = float(turns[np.isfinite(turns)].mean()) if np.isfinite(turns).any() else NONE
        yield "curvature", curvature
        yield "straightening", first.setdefault(view, curvature) - curvature

    return over_views(reading, numbers)


def _turn(x: Floats, mask: Mask) -> float:
    steps = x[1:] - x[:-1]
    lengths = np.linalg.norm(steps, axis=1)
    inside = mask[:-2] & mask[1:-1] & mask[2:] & (lengths[:-1] > 0) & (lengths[1:] > 0)
    if not inside.any():
        return NONE
    products = (steps[:-1] * steps[1:]).sum(axis=1)[inside] / (lengths[:-1] * lengths[1:])[inside]
    return float(np.arccos(np.clip(products, -1, 1)).mean())


def contextuality(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``contextuality`` measures, but for its baseline, which draws at random."""
    occurrences = {view: _occurrences(reading, mask, options) for view, mask in reading.masks.items()}

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[str, float]]:
        mask = reading.masks[view]
        cosine = mean_cosine(x[mask]) if mask.any() else NONE
        within = [_to_mean(x[span][mask[span]]) for _, span in reading.spans]
        alike = [mean_cosine(x[rows]) for rows in occurrences[view]]
        for name, values in {"intra_text": within, "self_similarity": alike}.items():
            if np.isfinite(values).any():
                yield name, float(np.nanmean(values))
                yield f"{name}_adjusted", float(np.nanmean(values)) - cosine
        shares = [_explained(x[rows]) for rows in occurrences[view]]
        if np.isfinite(shares).any():
            yield "explained_by_first", float(np.nanmean(shares))

    return over_views(reading, numbers)


def _to_mean(x: Floats) -> float:
    norms = np.linalg.norm(x, axis=1)
    x, norms = x[norms > 0], norms[norms > 0]
    total = x.sum(axis=0)
    length = float(np.linalg.norm(total))
    if len(x) < 2 or length <= 1e-6 * float(np.sqrt((norms**2).sum() * len(x))):
        return NONE
    return float((x @ total / (norms * length)).mean())


def _occurrences(reading: CorpusReading, mask: Mask, options: Mapping[str, Any]) -> list[Any]:
    often = [token for token, count in reading.type_counts.items() if count >= 5]
    occurrences = []
    for token in sorted(often, key=lambda token: key(reading.seed, token))[: options["types"]]:
        rows = np.flatnonzero(mask & ~reading.kinds.special & (reading.ids == token))
        first = np.unique(reading.contexts[rows], return_index=True)[1][: options["occurrences"]]
        if len(first) >= 5:
            occurrences.append(rows[first])
    return occurrences


def _explained(x: Floats) -> float:
    square = float((x * x).sum())
    return float(np.linalg.svd(x, compute_uv=False)[0] ** 2) / square if square else NONE


class Means(NamedTuple):
    """Each text's mean state at each layer of the path under one view.

    Args:
        texts: places in the corpus of the texts that have a token in the view, in the order of their hashes.
        states: for each layer a matrix (texts, width).
    """

    texts: list[int]
    states: list[Floats]


def text_means(reading: CorpusReading, view: str, limit: int) -> Means:
    """Return the mean states of at most ``wanted`` texts, with the smallest hashes; repetitions are left out."""
    rows = text_rows(reading, view, limit)
    states = [np.stack([reading.at(p)[tokens].mean(axis=0) for tokens in rows.values()]) for p in reading.path if rows]
    return Means(list(rows), states)


def text_rows(reading: CorpusReading, view: str, limit: int) -> dict[int, Ints]:
    """Return the tokens of at most ``limit`` texts, those with the smallest hashes; repetitions are left out."""
    originals, mask = set(reading.originals.values()), reading.masks[view]
    rows = {text: np.flatnonzero(mask[span]) + span.start for text, span in reading.spans if text in originals}
    drawn = sorted((key(reading.seed, text), text) for text in rows if len(rows[text]))[:limit]
    return {text: rows[text] for _, text in drawn}


def layer_pairs(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``layer_pairs`` measures of two layers of one model."""
    for view in reading.views:
        means = text_means(reading, view, options["texts"])
        yield from compare_means(means, means, view, options)


def compare_means(a: Means, b: Means, view: str, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield debiased linear CKA and shared neighbours of each layer of a with each of b, on the texts of both."""
    both = [text for text in a.texts if text in set(b.texts)]
    if len(both) < FEWEST_TEXTS:
        return
    sides = [[x[[side.texts.index(text) for text in both]] for x in side.states] for side in (a, b)]
    grams = [[_gram(x) for x in side] for side in sides]
    norms = [[_hsic(k, k) for k in side] for side in grams]
    near = [[_neighbours(x, options["k"]) for x in side] for side in sides]
    for i, k in enumerate(grams[0]):
        for j, other in enumerate(grams[1]):
            scale = norms[0][i] * norms[1][j]
            if scale > 0:
                value = float(np.clip(_hsic(k, other) / np.sqrt(scale), -1, 1))
                yield Remeasured("cka", view, StatePlace("block" if i else "embedding", i), value, other=j)
            first, second = near[0][i], near[1][j]
            if first is not None and second is not None:
                shared = [len(x & y) / options["k"] for x, y in zip(first.sets, second.sets, strict=True)]
                slack = (first.ties + second.ties) / options["k"] / len(both)
                place = StatePlace("block" if i else "embedding", i)
                yield Remeasured("knn", view, place, float(np.mean(shared)), slack, other=j)


def _gram(x: Floats) -> Floats:
    centred = x - x.mean(axis=0)
    size = np.sqrt((centred**2).sum() / len(x))
    centred = centred / size if size > 0 else centred
    gram: Floats = centred @ centred.T
    np.fill_diagonal(gram, 0)
    return gram


def _hsic(k: Floats, other: Floats) -> float:
    n, ones = len(k), np.ones(len(k))
    both = (ones @ k @ ones) * (ones @ other @ ones) / ((n - 1) * (n - 2))
    return float((k * other).sum() + both - 2 / (n - 2) * (ones @ k) @ (other @ ones))


class _NearestSets(NamedTuple):
    sets: list[set[int]]
    ties: int  # neighbours that another text is as far as, but for rounding


def _neighbours(x: Floats, k: int) -> _NearestSets | None:
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
    return _NearestSets([set(row[:k].tolist()) for row in order], ties)
