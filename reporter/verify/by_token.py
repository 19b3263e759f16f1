"""Means over tokens: ``convergence``, ``motion``, ``angular_distance``, of a path; ``loss``, of what is predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from reporter.verify.reading import Found, Reading
from reporter.verify.tokens import Floats, Mask, key

ROUNDING = 2e-6
"""Two cosines of float32 states that differ by less may stand in either order."""


def cosines(x: Floats, y: Floats) -> Floats:
    """Return the cosine of each row of x with that of y, NaN where one is zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    return np.clip(found, -1, 1)


def mean(values: Floats, mask: Mask) -> float:
    """Return the mean over the tokens of a mask that have a value."""
    kept = values[mask & np.isfinite(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def convergence(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``convergence`` measures: S(l) and all that is made of it (Lee 2024)."""
    path, target = seen.path, seen.path[-1]
    final = [place for place in seen.places if place.site == "final"]
    if options.get("target") == "final" and final:
        target = final[0]
        if seen.widths[target] != seen.widths[path[-1]]:
            return
    last = seen.at(target)
    to_target = [cosines(seen.at(place), last) for place in path]
    if target == path[-1]:
        to_target[-1] = np.where(np.isfinite(to_target[-1]), 1.0, np.nan)
    depth = len(path) - 1
    for view, mask in seen.masks.items():
        over_texts = options.get("mean") == "text"
        s = np.array([_text_mean(seen, c, mask) if over_texts else mean(c, mask) for c in to_target])
        gains = s[1:] - s[:-1]
        bounds = np.array([gains[layer:].min() for layer in range(depth)])
        for layer, place in enumerate(path):
            yield Found("similarity", view, place, s[layer])
            rare, often = mean(to_target[layer], mask & ~seen.frequent), mean(to_target[layer], mask & seen.frequent)
            yield Found("similarity_rare", view, place, rare)
            yield Found("similarity_frequent", view, place, often)
            yield Found("frequency_gap", view, place, rare - often)
            yield Found("frequency_gap_p", view, place, _paired_p(seen, to_target[layer], mask))
            if layer == depth:
                continue
            yield Found("gradient", view, place, gains[layer])
            yield Found("bound", view, place, bounds[layer])
            drop = (to_target[layer] - to_target[layer + 1])[mask]
            drop = drop[np.isfinite(drop)]
            if len(drop):
                undecided = float((np.abs(drop) < ROUNDING).mean())
                yield Found("violations", view, place, float((drop > 0).mean()), undecided)
        yield Found("rate", view, None, gains.mean())
        yield Found("area", view, None, bounds.mean())
        yield Found("start", view, None, bounds[0])
        if depth > 1:
            yield Found("rate_published", view, None, (s[-1] - s[0]) / (depth - 1))
            yield Found("decay", view, None, -float(np.polyfit(np.arange(depth) / depth, bounds, 1)[0]))


def _text_mean(seen: Reading, values: Floats, mask: Mask) -> float:
    means = np.array([mean(values[span], mask[span]) for _, span in seen.spans])
    return mean(means, np.ones(len(means), dtype=bool))


def _paired_p(seen: Reading, values: Floats, mask: Mask) -> float:
    """Return the p of a paired t-test over texts, with the degrees of freedom and the error of distinct texts."""
    from scipy.stats import t

    rare = np.array([mean(values[s], (mask & ~seen.frequent)[s]) for _, s in seen.spans])
    often = np.array([mean(values[s], (mask & seen.frequent)[s]) for _, s in seen.spans])
    gaps = rare - often
    distinct = len({text.original for text, gap in zip(seen.texts, gaps, strict=True) if np.isfinite(gap)})
    gaps = gaps[np.isfinite(gaps)]
    if distinct < 2 or not gaps.std():
        return float("nan")
    return float(2 * t.sf(abs(gaps.mean()) / (gaps.std(ddof=1) / np.sqrt(distinct)), distinct - 1))


def motion(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``motion`` measures: steps, their length, their turns, and how straight the way is."""
    path = seen.path
    way, turns = np.zeros(len(seen.ids)), np.zeros_like(seen.at(path[0]))
    norms: dict[str, list[float]] = {view: [] for view in seen.masks}
    for layer, place in enumerate(path):
        x = seen.at(place)
        norm = np.linalg.norm(x, axis=1)
        found = {"norm": norm}
        if layer + 1 < len(path):
            y = seen.at(path[layer + 1])
            step = np.linalg.norm(y - x, axis=1)
            ratio = np.divide(step, norm, out=np.full(len(norm), np.nan), where=norm > 0)
            found |= {"step_length": step, "step_cosine": cosines(x, y), "update_ratio": ratio}
            found["block_influence"] = 1 - found["step_cosine"]
            way += step
            turns += np.divide(y - x, step[:, None], out=np.zeros_like(x), where=step[:, None] > 0)
            if layer + 2 < len(path):
                found["curvature"] = np.arccos(cosines(y - x, seen.at(path[layer + 2]) - y))
        for name, values in found.items():
            for view, mask in seen.masks.items():
                yield Found(name, view, place, mean(values, mask))
        for view, mask in seen.masks.items():
            norms[view].append(mean(norm, mask))
    distance, turned = np.linalg.norm(seen.at(path[-1]) - seen.at(path[0]), axis=1), np.linalg.norm(turns, axis=1)
    nowhere = np.full(len(way), np.nan)
    for view, mask in seen.masks.items():
        shape = np.divide(len(path) - 1, turned, out=nowhere.copy(), where=turned > 0)
        yield Found("line_shape", view, None, mean(shape, mask))
        yield Found("straightness", view, None, mean(np.divide(distance, way, out=nowhere.copy(), where=way > 0), mask))
        after = np.array(norms[view][1:])
        if len(after) > 1 and (after > 0).all():
            yield Found("growth", view, None, float(np.exp(np.polyfit(np.arange(len(after)), np.log(after), 1)[0])))


def angular_distance(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``angular_distance`` measures: the mean angle of each two layers, of tokens and of last ones."""
    last: dict[str, Mask] = {}
    for view, mask in seen.masks.items():
        last[view] = np.zeros(len(mask), dtype=bool)
        for _, span in seen.spans:
            last[view][np.flatnonzero(mask[span])[-1:] + span.start] = True
    for at, place in enumerate(seen.path):
        x = seen.at(place)
        for other in range(at + 1, len(seen.path)):
            angles = np.arccos(cosines(x, seen.at(seen.path[other]))) / np.pi
            for view, mask in seen.masks.items():
                yield Found("tokens", view, place, mean(angles, mask), other=other)
                yield Found("last_token", view, place, mean(angles, last[view]), other=other)


MASKED = 0.15  # of the own tokens of a text, hidden from a masked language model


def loss(seen: Reading, model: Any, mask_id: int | None, views: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the mean of −log p over the tokens that the model predicts.

    Args:
        seen: tokens and views.
        model: the whole language model.
        mask_id: the mask token of a masked language model.
        views: which tokens each view holds.
    """
    found = []
    for text in seen.texts:
        ids, own = np.array(text.ids), ~text.special
        if seen.causal:
            predicted = own.copy()
            predicted[0] = False
            asked, at = ids, np.flatnonzero(predicted) - 1
        else:
            hidden = [key(seen.seed, text.index, place) < int(MASKED * 2.0**64) for place in range(len(ids))]
            assert mask_id is not None  # without one a run stores no loss
            predicted = own & np.array(hidden)
            asked, at = np.where(predicted, mask_id, ids), np.flatnonzero(predicted)
        losses = np.full(len(ids), np.nan)
        if len(at):
            x = torch.from_numpy(asked.astype(np.int64))[None]
            with torch.inference_mode():
                logits = model(input_ids=x, attention_mask=torch.ones_like(x)).logits[0].double().numpy()[at]
            top = logits.max(axis=1)
            log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
            losses[predicted] = log_sum - logits[np.arange(len(at)), ids[predicted]]
        found.append(losses)
    everything = np.concatenate(found)
    for view, mask in views.items():
        yield Found("lm", view, None, mean(everything, mask))
