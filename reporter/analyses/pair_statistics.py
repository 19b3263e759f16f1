"""What is said of pairs at each layer, over all concepts of a set."""

from reporter.analyses.sources import EFRON, FISHER, LUISTO
from reporter.metrics.base import Statistic

_RANDOM = (
    "Floor: the same on texts of the set paired at random, mean over 100 sets of as many concepts with as many pairs "
    "(each text at most once in a concept)."
)

STATISTICS = (
    Statistic(
        "consistency",
        "consistency of a concept's differences",
        "Of one concept with pairs i = 1…n: δ_i = E(second text) − E(first text), E the pooled vector; the mean over i "
        "of cos(δ_i, Σ_{j≠i} δ_j), each difference with the mean of the others. The number is the mean over the "
        "concepts of the set; those of each concept, with the probability of such a consistency (or a larger one) if "
        "each pair were turned round at random, (k + 1)/10000 from 9,999 turns, are in pair_directions. Pairs whose "
        "two texts have the same vector (‖δ‖ ≤ 1e-5 of the texts' mean norm) are left out, and so is a concept of "
        f"which fewer than two pairs are left. {_RANDOM}",
        (LUISTO, FISHER, EFRON),
        interval="95 % percentile interval of 1000 bootstrap replicates over the pairs of each concept, all copies of "
        "a pair left out of the sum that it is compared with, and moved so that their mean is the value (a replicate "
        "has fewer distinct pairs and reads lower); none for fewer than 5 pairs. It covers 93 to 98 % of "
        "made-up concepts of 10 to 40 pairs, and says nothing of other concepts.",
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        headline=True,
        trap="It grows with the number of pairs, since the mean of more differences is a better guess at the "
        "direction: compare concepts of equal size. A word that all second texts share makes it large at the embedding "
        "already, whatever the model knows; what later layers add to that is theirs.",
    ),
    Statistic(
        "aligned",
        "cosine between concepts, without sign",
        "the mean over every two concepts of |cos(δ̄_a, δ̄_b)|, δ̄ the mean difference of a concept. Each cosine with its "
        "sign is in direction_cosines, with the probability of |mean_i δ_ai · δ̄_b/‖δ̄_b‖| = ‖δ̄_a‖·|cos| at least as "
        "large if the pairs of a were turned round at random, (k + 1)/10000 from 9,999 turns, or the same with a and b "
        "exchanged, whichever is larger; "
        f"n = pairs of concepts. {_RANDOM}",
        (LUISTO, FISHER),
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        headline=True,
        trap="Directions of unrelated concepts have |cosine| above 0 where the states lie in few dimensions: compare "
        "with the floor, not with 0. A small probability says that a cosine is not the chance of these pairs; it may "
        "still be the chance of two directions.",
    ),
    Statistic(
        "relative_norm",
        "length of the mean difference",
        "‖δ̄‖ over the mean norm of the pooled vectors of the concept's 2n texts; the mean over the concepts of the "
        f"set; that of each is in pair_directions. {_RANDOM}",
        (LUISTO,),
        floor=True,
        bounds=(0, 2),
        trap="The norm of a pooled vector is mostly what all texts have in common (see anisotropy): a small share may "
        "still be a clear direction.",
    ),
)
