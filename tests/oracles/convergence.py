"""Similarity to the last layer of frequent and rare tokens, with counts and the test of their difference."""

from __future__ import annotations

import numpy as np
from scipy import stats

from reporter.app.verify.by_token import cosines


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
        c = cosines(x, tokens.states[-1] if target is None else target)
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
