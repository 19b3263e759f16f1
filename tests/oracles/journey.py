"""Words against the vocabulary, token by token from the definition, for the fake vocabulary of ``fake_model``."""

from __future__ import annotations

import numpy as np
from oracles.closeness import brute_force
from oracles.fake_model import FIRST_WORD


def journey(view, everything, embeddings):
    """Return {(statistic, layer): (mean, n)} of a view of the tokens of a corpus.

    Of the words one third each is none, a function word, a content word; ids that end in 9 go on with the one before.
    """
    ids = {(t, p): i for t, p, i in zip(everything.texts, everything.positions, everything.ids, strict=True)}
    kinds = []
    for text, position, token in zip(view.texts, view.positions, view.ids, strict=True):
        joined = (token % 10 == 9 and position > 0) or ids.get((text, position + 1), 0) % 10 == 9
        kinds.append(0 if joined or token < FIRST_WORD else token % 3)
    found = {}
    for layer, x in enumerate(view.states):
        for kind, name in ((1, "function"), (2, "content")):
            chosen = np.array(kinds) == kind
            against = brute_force(x[chosen], embeddings.astype(float), view.ids[chosen])
            found[f"rank_{name}", layer] = against["rank_cosine"].mean(), chosen.sum()
            found[f"cosine_{name}", layer] = against["cosine"].mean(), chosen.sum()
    return found
