"""What is said of corpora as clouds of points at each layer."""

from reporter.analyses import logistic
from reporter.analyses.crossval import STANDARDISED, WILSON_SAID
from reporter.analyses.sources import LUISTO, WILSON
from reporter.metrics.base import Statistic

FOLDS = 5

_SAMPLE = (
    "The texts are the first of each corpus (500 unless the study says otherwise) in a random order that the study's "
    "seed gives, equal ones once."
)

STATISTICS = (
    Statistic(
        "separability",
        "accuracy of telling the corpora apart",
        f"share of texts whose corpus is told rightly from their pooled vector by {logistic.SAID}, on standardised "
        f"vectors, in cross-validation: {FOLDS} random folds, each corpus spread evenly over them; each text is "
        f"classified once, by the classifier trained on the other folds. Standardised: {STANDARDISED}. {_SAMPLE} "
        "Floor: the share of the largest corpus in the sample, what is right if that one is always said.",
        (LUISTO, WILSON),
        interval=WILSON_SAID,
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        headline=True,
        trap="Near 1 for any two corpora of different length, layout or names: it says that they differ, not in what. "
        "With few texts for each dimension it is a lower bound.",
    ),
    Statistic(
        "centroid_distance",
        "distance of the centres over distance within",
        "‖μ_a − μ_b‖ / ((w_a + w_b)/2), μ the mean vector of a corpus and w the mean Euclidean distance of two of its "
        f"texts; the mean over every two corpora. {_SAMPLE}",
        (LUISTO,),
        bounds=(0, None),
        trap="Samples of n texts each from one and the same corpus read about 1/√n, not 0.",
    ),
    Statistic(
        "overlap",
        "neighbours from other corpora",
        "the share of other corpora among a text's 10 nearest texts of the whole sample (Euclidean), over their share "
        "among all other texts; mean over texts: 1 where the corpora are mixed, 0 where no text has a near one of "
        "another corpus. Texts as far as the tenth count in part; distances of at most 1e-5 of the root mean square "
        f"norm are 0. {_SAMPLE}",
        (LUISTO,),
        interval="95 %, mean ± 1.96 standard errors over texts; a little too narrow, since neighbours share neighbours",
        bounds=(0, None),
        headline=True,
        trap="Hubs, texts that are near to very many, weigh much in many dimensions.",
    ),
)
