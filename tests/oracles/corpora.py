"""Corpora in memory, with the face of those on disk."""

import numpy as np

from reporter.metrics.analysis import Corpus


class Labelled(list):
    """Texts with labels, None for a text without one, and clusters."""

    def __init__(self, texts, labels=None, clusters=None):
        super().__init__(texts)
        self.clusters = None if clusters is None else np.array([list(clusters).index(one) for one in clusters])
        self.labels = None if labels is None else tuple(dict.fromkeys(label for label in labels if label is not None))
        self.label_codes = None
        if self.labels is not None:
            self.label_codes = np.array([-1 if one is None else self.labels.index(one) for one in labels], np.int32)


def corpus(texts, labels=None, max_tokens=64, clusters=None):
    """Return what an analysis gets of a corpus."""
    return Corpus(Labelled(texts, labels, clusters), max_tokens)
