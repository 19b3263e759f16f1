"""Pairs of texts, read one by one and compared in plain NumPy: the table ``partner_numbers``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from reporter.app.verify.reading import Floats, Found, Place, tokenised

if TYPE_CHECKING:
    from reporter.app.verify.by_model import PlainModel

AXES = {"raw": None, "centred": 0, "without 1 axis": 1, "without 3 axes": 3}
_DIGITS = 6  # cosines that agree so far are a tie
_NEAR = 1e-5  # float32 may swap cosines that are so near


def partners(
    model: PlainModel, pairs: Sequence[tuple[str, str, float | None]], poolings: Sequence[str], limit: int
) -> Iterator[Found]:
    """Yield each number with its chance level; its view is the treatment and the pooling."""
    texts, others, scores = zip(*pairs, strict=True)
    vectors: dict[tuple[str, Place], list[Floats]] = {}
    for text in tokenised([*texts, *others], model.tokenizer, limit):
        path, final = model.states(text.ids)
        own = np.arange(len(text.ids)) if text.special.all() else np.flatnonzero(~text.special)
        rows = {"mean": own, "last": own[-1:], "first": np.array([0])}
        states = {Place("block" if layer else "embedding", layer): h for layer, h in enumerate(path)}
        states |= {Place("final", model.layers): final} if final is not None else {}
        for place, h in states.items():
            for pooling in poolings:
                vectors.setdefault((pooling, place), []).append(h.double().numpy()[rows[pooling]].mean(axis=0))
    for (pooling, place), of_texts in vectors.items():
        x, n = np.array(of_texts), len(texts)
        if np.allclose(x, x[0], rtol=0, atol=1e-6 * np.abs(x).max()):
            continue
        for variant, axes in AXES.items():
            y = x if axes is None else x - x.mean(axis=0)
            if axes:
                along = np.linalg.svd(y, full_matrices=False)[2][:axes]
                y = y - y @ along.T @ along
            y = y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-30)
            cosines = y[:n] @ y[n:].T
            numbers = _searched(cosines) if scores[0] is None else _graded(cosines.diagonal(), np.array(scores))
            for name, value, slack in numbers:
                yield Found(name, f"{variant}, pooling {pooling}", place, value, slack)


def _graded(cosines: Floats, scores: Floats) -> Iterator[tuple[str, float, float]]:
    n, near = len(scores), int((np.diff(np.sort(cosines)) < _NEAR).sum())
    ranks = rankdata(np.round(cosines, _DIGITS)), rankdata(scores)
    if np.ptp(ranks[0]):
        yield "spearman", float(np.corrcoef(*ranks)[0, 1]), 12 * near / (n * (n * n - 1))
        yield "spearman_floor", 0.0, 0.0


def _searched(cosines: Floats) -> Iterator[tuple[str, float, float]]:
    n, c = len(cosines), np.round(cosines, _DIGITS)
    ranks, mutual, near, chance = [], 0, 0, 0
    for i in range(n):
        others = np.arange(n) != i
        ranks.append(1 + int((c[i, others] >= c[i, i]).sum()))
        mutual += bool((c[i, others] < c[i, i]).all() and (c[others, i] < c[i, i]).all())
        rivals = np.concatenate([cosines[i, others], cosines[others, i]])
        near += bool((np.abs(rivals - cosines[i, i]) < _NEAR).any())
        for j in range(n):
            chance += bool((np.delete(c[i], j) < c[i, j]).all() and (np.delete(c[:, j], i) < c[i, j]).all())
    harmonic = float(np.mean([1 / rank for rank in range(1, n + 1)]))
    for name, value, floor in (
        ("recall", ranks.count(1) / n, 1 / n),
        ("mrr", float(np.mean([1 / rank for rank in ranks])), harmonic),
        ("mexa", mutual / n, chance / n**2),
    ):
        yield name, value, near / n
        yield f"{name}_floor", floor, near / n
