"""Every observable by name, and how to make an empty one."""

from __future__ import annotations

from collections.abc import Mapping

from reporter.observables.gram import Gram
from reporter.observables.moments import Moments
from reporter.observables.observable import Observable
from reporter.observables.text_sums import TextSums
from reporter.observables.token_sample import Contexts, Tokens

KINDS: Mapping[str, type[Observable]] = {kind.name: kind for kind in (Moments, Gram, TextSums, Tokens, Contexts)}


def empty(name: str, *, layers: int, width: int, seed: int, sample: int) -> Observable:
    """Return an observable that has seen nothing.

    Args:
        name: a key of ``KINDS``.
        layers: blocks L of the model.
        width: dimension d of its states.
        seed: the study's seed.
        sample: tokens that a sample must hold for each stratum.
    """
    kind = KINDS[name]
    if kind is TextSums:
        return TextSums(layers, seed)
    if issubclass(kind, Tokens | Contexts):
        return kind(layers, width, sample, seed)
    return kind(layers, width)  # type: ignore[call-arg]
