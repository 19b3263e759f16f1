"""What another view changes of a claim: the number, the profile behind it, and the verdict."""

from __future__ import annotations

from typing import Any

from reporter.claims.finding import Finding, Seen
from reporter.claims.points import ROUNDING
from reporter.store.schema import Word

MOVED = 0.1
"""A peak that moves by more than this share of the depth, or a point that changes by more than half of the range, makes
another profile."""


def change(own: Finding, word: Word, other: Finding, other_word: Word, view: str) -> dict[str, Any]:
    """Say what a view changes against the claim's own.

    Args:
        own: the finding under the claim's own view.
        word: its verdict, alone.
        other: the finding under the other view.
        other_word: its verdict.
        view: the other view.

    Returns:
        ``view``, ``says`` (a sentence) and ``turned`` (whether the verdict, the sign of the number or the profile is
        another one).
    """
    said = []
    turned = word != other_word
    here, there = own.shown(word), other.shown(other_word)
    if here.value is not None and there.value is not None and here.statistic == there.statistic:
        said.append(f"{here.value:.3g} becomes {there.value:.3g}")
        turned |= here.value * there.value < 0
    pairs = {place: (seen, other.seen[place]) for place, seen in own.seen.items() if place in other.seen}
    if pairs:
        (model, corpus), most = max(pairs.items(), key=lambda item: abs(_largest(*item[1])[0]))
        of = f" of {model} on '{corpus}'" if len(pairs) > 1 else ""
        told, moved = _profile(*most)
        said.append(f"the profile{of} {told}")
        turned |= moved
    said.append(f"the verdict is {other_word} instead of {word}" if word != other_word else f"the verdict stays {word}")
    return {"view": view, "says": f"under the view '{view}': {'; '.join(said)}", "turned": bool(turned)}


def _largest(own: Seen, other: Seen) -> tuple[float, str]:
    """Return the largest change of a point that both profiles have, and what the point is called."""
    there = dict(zip(other.labels, other.values, strict=True))
    mine = zip(own.labels, own.values, strict=True)
    changes = [(there[label] - value, label) for label, value in mine if label in there]
    return max(changes, key=lambda found: abs(found[0]), default=(0.0, ""))


def _profile(own: Seen, other: Seen) -> tuple[str, bool]:
    by, at = _largest(own, other)
    size = max(map(abs, (*own.values, *other.values)), default=0.0)
    if abs(by) <= ROUNDING * size:
        return "stays as it is", False
    told = [f"changes most at {own.what} {at}, by {by:+.3g}"]
    peaks = [max(range(len(seen.values)), key=seen.values.__getitem__) for seen in (own, other)]
    (was, before), (now, after) = ((s.labels[i], s.values[i]) for s, i in zip((own, other), peaks, strict=True))
    to = f"{own.what} {now} ({after:.3g})"
    stays = f"its peak stays at {to}, was {before:.3g}"
    told.append(stays if was == now else f"its peak moves from {own.what} {was} ({before:.3g}) to {to}")
    spread = max(own.values) - min(own.values)
    moved = abs(peaks[0] - peaks[1]) > MOVED * (len(own.values) - 1) and abs(by) > MOVED * spread
    return ", ".join(told), moved or abs(by) > spread / 2
