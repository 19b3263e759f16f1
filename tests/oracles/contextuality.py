"""Similarity of a type's occurrences and of a text's tokens by brute force, pair by pair."""

import numpy as np


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
