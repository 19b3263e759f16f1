"""Information imbalance by sorting every distance, as Glielmo et al. 2022 define it (equation 1)."""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import rankdata


def imbalance(a, b):
    """Return Δ(A → B) = 2/n · mean rank in B of the nearest neighbour in A."""
    n = len(a)
    in_a, in_b = cdist(a, a), cdist(b, b)
    np.fill_diagonal(in_a, np.inf)
    ranks = []
    for i in range(n):
        others = np.delete(np.arange(n), i)
        of_others = dict(zip(others, rankdata(in_b[i, others]), strict=True))
        ranks.append(of_others[int(np.argmin(in_a[i]))])
    return 2 / n * np.mean(ranks)
