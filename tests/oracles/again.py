"""The paths of ``reporter verify``, which share no code with a run, on states that a test holds in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reporter.app.verify.reading import Kinds, Place, Reading, Rule, Tokenised
from reporter.app.verify.verification import PATHS


class _InMemory(Reading):
    def at(self, place):
        return self.states[place]


def again(metric, states, texts=None, originals=None, final=None, **options):
    """Return {(statistic, layer): number} of a metric, without numbers for pairs of layers; layer None: of the model.

    Args:
        metric: a metric that has a path.
        states: L + 1 matrices (tokens, width).
        texts: the text of each token, ascending; one token a text by default.
        originals: of each text, the first one that says the same; all differ by default.
        final: states after a closing norm.
        options: options of the metric.
    """
    n = len(states[0])
    texts = np.arange(n) if texts is None else np.asarray(texts)
    none, zeros, never = np.zeros(n, dtype=int), np.zeros(n), np.zeros(n, dtype=bool)
    parts = []
    for text in np.unique(texts).tolist():
        size = int((texts == text).sum())
        original = text if originals is None else int(originals[text])
        parts.append(Tokenised(text, [0] * size, np.zeros(size, dtype=bool), False, original))
    reading = _InMemory(Path(), 0, True, len(parts), parts, False, Rule(), ("all",), (), True)
    reading.states = {Place("block" if layer else "embedding", layer): x for layer, x in enumerate(states)}
    if final is not None:
        reading.states[Place("final", len(states) - 1)] = final
    reading.widths.update({place: x.shape[1] for place, x in reading.states.items()})
    reading._kinds.append(Kinds(never, never, never, none, none, zeros, zeros, none - 1))
    return {
        (number.statistic, number.place and number.place.layer): number.value
        for number in PATHS[metric][0](reading, options)
        if number.other is None and (number.place is None or number.place.site != "final")
    }


OF_TYPES = ("similarity_frequent", "similarity_rare", "frequency_gap", "frequency_gap_p")


def convergence(states, target=None, texts=None):
    """Return {(statistic, layer): number} of what needs no token types; the mean is over texts where they are given."""
    options = {"target": "block" if target is None else "final", "mean": "token" if texts is None else "text"}
    numbers = again("convergence", states, texts, final=target, **options)
    return {key: value for key, value in numbers.items() if key[0] not in OF_TYPES}


def anisotropy(states):
    """Return {(statistic, layer): number}; the sample is taken to be everything."""
    return again("anisotropy", states, sample=10**9, batches=1)
