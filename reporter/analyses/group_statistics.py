"""What is said of groups of texts at each layer, all groups together."""

from dataclasses import replace

from reporter.analyses.sources import LUISTO, ROUSSEEUW
from reporter.metrics.base import Statistic

_CHARACTERS = (
    "for each text of each group one of as many characters, white space where the text has it and the others drawn "
    "evenly from all characters of the groups' texts"
)
_WORDS = (
    "for each text of each group one of as many words (parts between white space), drawn evenly from the whole words "
    "of the model's vocabulary, one space between two"
)
_ROUNDING = "distances are Euclidean, between pooled vectors; one of at most 1e-5 of their root mean square norm is 0"
_ALL = "The texts are all that the study names, not a sample of more: there is no interval."

SILHOUETTE = Statistic(
    "silhouette",
    "silhouette of the groups",
    "mean over all texts of (b − a)/max(a, b): a the text's mean distance to the other texts of its group, b the "
    f"smallest of its mean distances to the texts of another group (0 where a = b = 0); {_ROUNDING}. scikit-learn's "
    f"silhouette_score. {_ALL}",
    (LUISTO, ROUSSEEUW),
    bounds=(-1, 1),
    smallest=0.01,
    headline=True,
    trap="Texts of one pattern share words, and patterns differ in length: groups come apart without any meaning. What "
    "length alone does is in the controls; shared words show at the embedding.",
)
RATIO = Statistic(
    "ratio",
    "distance within groups over between",
    "within / between",
    (LUISTO,),
    bounds=(0, None),
    headline=True,
    trap="Large groups weigh more: a group of n texts has n·(n − 1)/2 pairs. The table groups has each by itself.",
)

STATISTICS = (
    SILHOUETTE,
    RATIO,
    Statistic(
        "within",
        "distance within groups",
        f"mean distance of two texts of the same group, over all such pairs of all groups; {_ROUNDING}",
        (LUISTO,),
        bounds=(0, None),
        trap="In the model's own units: compare layers and models by the ratio.",
    ),
    Statistic(
        "between",
        "distance between groups",
        f"mean distance of two texts of different groups, over all such pairs; {_ROUNDING}",
        (LUISTO,),
        bounds=(0, None),
        trap="In the model's own units: compare layers and models by the ratio.",
    ),
    *(
        replace(
            of,
            name=f"{of.name}_{control}",
            title=f"{of.title}, random {control}",
            definition=f"the same of a control: {how}; one draw, given by the study's seed",
            headline=False,
            trap="One draw of texts. No structure reads a silhouette of 0 or a little less (the nearest other group is "
            "chosen) and a ratio of 1; more than that is the work of lengths alone.",
        )
        for of in (SILHOUETTE, RATIO)
        for control, how in (("characters", _CHARACTERS), ("words", _WORDS))
    ),
)
