"""Similarity of a type's occurrences and of a text's tokens by brute force, pair by pair."""

from __future__ import annotations

import numpy as np

from reporter.forward.batch import mix, prefix_keys


def key(context, decoder, seed=0):
    """Return the 64-bit key that orders contexts; that equal contexts share it is tested elsewhere."""
    ids = np.array([context if decoder else context[0]])
    last = prefix_keys(ids, seed)[0, -1:]
    return int(last[0] if decoder else mix(last ^ mix(np.array([context[1]], dtype=np.uint64)))[0])


def mean_pair_cosine(x):
    """Return the mean cosine over all pairs i < j."""
    found = [
        x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) for i in range(len(x)) for j in range(i + 1, len(x))
    ]
    return np.mean(found)


def explained(x):
    """Return σ1²/Σσ² by the singular values."""
    squares = np.linalg.svd(x, compute_uv=False) ** 2
    return squares[0] / squares.sum()


def explained_about_mean(x):
    """Return scikit-learn's ratios: of PCA, and of TruncatedSVD with the exact solver."""
    from sklearn.decomposition import PCA, TruncatedSVD

    if np.ptp(x, axis=0).max() < 1e-5:  # equal but for rounding
        return np.nan, np.nan
    truncated = TruncatedSVD(n_components=1, algorithm="arpack", tol=1e-12, random_state=0)
    # its solver needs fewer components than columns; a column of zeros changes nothing
    truncated.fit(np.concatenate([x, np.zeros((len(x), 1))], axis=1))
    return PCA(n_components=1).fit(x).explained_variance_ratio_[0], truncated.explained_variance_ratio_[0]


def occurrences(tokens, corpus, decoder, most=12):
    """Return where the chosen occurrences of each type lie in a view."""
    known, counts = np.unique(corpus.ids[~corpus.special], return_counts=True)
    found = {}
    for token in known[counts >= 5]:
        first = {}
        for row in np.flatnonzero((tokens.ids == token) & ~tokens.special):
            first.setdefault(key(tokens.contexts[row], decoder), row)
        if len(first) >= 5:
            found[int(token)] = [first[k] for k in sorted(first)[:most]]
    return found


def contextuality(tokens, corpus, decoder):
    """Return {(statistic, layer): (value, n)} of a view's tokens."""
    rows = list(occurrences(tokens, corpus, decoder).values())
    texts = [np.flatnonzero(tokens.texts == text) for text in np.unique(tokens.texts)]
    texts = [of_text for of_text in texts if len(of_text) > 1]
    found = {}
    for layer, x in enumerate(tokens.states):
        units = x / np.linalg.norm(x, axis=1, keepdims=True)
        total, n = units.sum(axis=0), len(units)
        mean = (total @ total - n) / (n * (n - 1))
        similarity = np.mean([mean_pair_cosine(x[of_type]) for of_type in rows])
        means = [units[of_text] @ x[of_text].mean(axis=0) for of_text in texts]
        lengths = [np.linalg.norm(x[of_text].mean(axis=0)) for of_text in texts]
        intra = np.mean([(cosine / length).mean() for cosine, length in zip(means, lengths, strict=True)])
        found["self_similarity", layer] = (similarity, len(rows))
        found["self_similarity_adjusted", layer] = (similarity - mean, len(rows))
        found["explained_by_first", layer] = (np.mean([explained(x[of_type]) for of_type in rows]), len(rows))
        about = np.array([explained_about_mean(x[of_type]) for of_type in rows])
        varying = np.isfinite(about[:, 0])
        for statistic, column in (("explained_by_first_published", 0), ("explained_by_first_truncated", 1)):
            mean_of = about[varying, column].mean() if varying.any() else None
            found[statistic, layer] = (mean_of, int(varying.sum()))
        found["intra_text", layer] = (intra, len(texts))
        found["intra_text_adjusted", layer] = (intra - mean, len(texts))
    return found
