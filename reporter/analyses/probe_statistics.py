"""What a probe says of each layer."""

from reporter.analyses import logistic, perceptron
from reporter.analyses.crossval import STANDARDISED, WILSON_SAID
from reporter.analyses.sources import HEWITT, LUISTO, WILSON
from reporter.metrics.base import Statistic

_FLOOR = "Floor: the share of the most frequent class, what is right if that one is always said."
_CONTROL = (
    "the same classifier, on the same vectors and folds, with a class drawn at random for each distinct text or word, "
    "as often as the classes occur in the sample"
)
_PAIRED = "95 %, mean ± 1.96 standard errors of the difference of right and right on control, text by text"


def _four(name: str, title: str, definition: str, headline: bool) -> tuple[Statistic, ...]:
    return (
        Statistic(
            name,
            f"accuracy of the {title} probe",
            f"share of texts (or words) whose class is told rightly from their pooled vector by {definition}; in "
            "cross-validation: random folds (5 unless the study says otherwise), each class spread evenly over them; "
            f"each text classified once, by the classifier trained on the other folds. Standardised: {STANDARDISED}. "
            "Equal texts count once; classes of fewer texts than folds are left out; the sample takes as many of each "
            f"class as there are, up to the same number. {_FLOOR}",
            (LUISTO, WILSON),
            interval=WILSON_SAID,
            floor=True,
            bounds=(0, 1),
            smallest=0.01,
            headline=headline,
            trap="A class that can be read is not a class that the model uses. Compare layers at one n: with few texts "
            "for each dimension, a wide layer looks poorer than it is.",
        ),
        Statistic(
            f"{name}_control",
            f"accuracy of the {title} probe on random classes",
            f"control task: {_CONTROL}",
            (HEWITT, WILSON),
            interval=WILSON_SAID,
            bounds=(0, 1),
            smallest=0.01,
            trap="Each text stands once, in one fold: nothing that was learned by heart helps, and the number is about "
            "chance for any probe. In the source the same word types are trained on and tested. What a probe can learn "
            f"by heart is {name}_memorised.",
        ),
        Statistic(
            f"{name}_selectivity",
            f"selectivity of the {title} probe",
            f"{name} − {name}_control",
            (HEWITT,),
            interval=_PAIRED,
            bounds=(-1, 1),
            smallest=0.01,
            headline=headline,
            trap="One draw of random classes is behind it: differences below 2/√n are noise. See the control.",
        ),
        Statistic(
            f"{name}_memorised",
            f"random classes that the {title} probe learns by heart",
            "share of its own training texts whose random class (that of the control task) the classifier tells "
            "rightly; mean over folds",
            (HEWITT,),
            bounds=(0, 1),
            smallest=0.01,
            trap="It measures the probe against the number of texts and dimensions, not the model: near 1, the probe "
            "could hold any labelling of its training texts.",
        ),
    )


STATISTICS = (
    *_four("linear", "linear", f"{logistic.SAID}, on standardised vectors", True),
    *_four(
        "hidden",
        "one-hidden-layer",
        f"{perceptron.SAID}; on standardised vectors; 64 hidden units unless the study says otherwise",
        False,
    ),
)
