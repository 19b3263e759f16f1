"""Lee's definitions, written as sums over tokens. ``states`` is [(n, d)] * (L + 1)."""

from __future__ import annotations

import numpy as np
from oracles.motion import cosine
from scipy import stats


def convergence(states, target=None, texts=None):
    """Return {(statistic, layer): value}.

    Args:
        states: path of the tokens.
        target: what they are compared with; the last of the states by default.
        texts: text of each token, for the mean of text means; the mean over tokens by default.
    """
    last = len(states) - 1
    cosines = [cosine(x, states[last] if target is None else target) for x in states]
    if texts is None:
        similarity = [c.mean() for c in cosines]
    else:
        similarity = [np.mean([c[texts == text].mean() for text in np.unique(texts)]) for c in cosines]
    found = of_similarity(similarity)
    for layer in range(last):
        found["violations", layer] = np.mean(cosines[layer] > cosines[layer + 1])
    return found


def of_similarity(similarity):
    """Return {(statistic, layer): value} of what follows from similarity at each layer."""
    last = len(similarity) - 1
    found = {("similarity", layer): value for layer, value in enumerate(similarity)}
    gradient = [similarity[layer + 1] - similarity[layer] for layer in range(last)]
    bound = [min(gradient[layer:]) for layer in range(last)]
    for layer in range(last):
        found["gradient", layer] = gradient[layer]
        found["bound", layer] = bound[layer]
    found["rate", None] = (similarity[last] - similarity[0]) / last
    found["area", None] = sum(bound) / last
    found["start", None] = bound[0]
    if last > 1:
        found["rate_published", None] = (similarity[last] - similarity[0]) / (last - 1)
        found["decay", None] = -np.polyfit(np.arange(last) / last, bound, 1)[0]
    return found


def paired_p(a, b, originals):
    """Return the two-sided p of a paired t-test in which texts that say the same are one observation of their mean.

    Args:
        a: one number of each text.
        b: the other.
        originals: the first text that says what a text says, of each text.
    """
    distinct = len(np.unique(originals))
    difference = a - b
    t = difference.mean() / np.sqrt(difference.var() / (distinct - 1))
    if distinct == len(a):
        assert np.isclose(2 * stats.t.sf(abs(t), distinct - 1), stats.ttest_rel(a, b).pvalue)
    return 2 * stats.t.sf(abs(t), distinct - 1)


def frequency(tokens, corpus, target=None, originals=None):
    """Return {(statistic, layer): (value, n)} of frequent against rare tokens.

    Args:
        tokens: tokens of the view.
        corpus: all tokens of the corpus, by which types are frequent or rare.
        target: what states are compared with; the last ones by default.
        originals: of each text of the corpus, the first one that says the same; all differ by default.
    """
    types, counts = np.unique(corpus.ids[~corpus.special], return_counts=True)
    every, occurrences = np.unique(corpus.ids, return_counts=True)
    frequent = np.isin(tokens.ids, every[occurrences > np.median(counts)])
    assert set(types) <= set(every)
    found = {}
    for layer, x in enumerate(tokens.states):
        c = cosine(x, tokens.states[-1] if target is None else target)
        found["similarity_frequent", layer] = c[frequent].mean(), frequent.sum()
        found["similarity_rare", layer] = c[~frequent].mean(), (~frequent).sum()
        found["frequency_gap", layer] = c[~frequent].mean() - c[frequent].mean(), min(frequent.sum(), (~frequent).sum())
        pairs, of = [], []
        for text in np.unique(tokens.texts):
            here = tokens.texts == text
            if (here & frequent).any() and (here & ~frequent).any():
                pairs.append((c[here & ~frequent].mean(), c[here & frequent].mean()))
                of.append(text if originals is None else originals[text])
        rare, often = np.transpose(pairs)
        p = None if np.allclose(rare, often, rtol=0, atol=1e-12) else paired_p(rare, often, of)
        found["frequency_gap_p", layer] = p, len(pairs)
    return found
