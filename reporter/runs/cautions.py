"""Says before a run what its texts are too few or unfit for: the plan, the log and ``validate`` show the same lines."""

from collections.abc import Iterator, Mapping

import numpy as np

from reporter.core.numbers import counted
from reporter.geometry.intervals import FEWEST_TEXTS, VERDICT_TEXTS
from reporter.metrics.analysis import analyses
from reporter.study.study import Study
from reporter.texts import Texts


def cautions(study: Study, texts: Mapping[str, Texts]) -> Iterator[str]:
    """Yield what the corpora of a study are too few or unfit for, as far as that shows without a model.

    Args:
        study: the study.
        texts: the corpora that could be read, by name.
    """
    for of in texts.values():
        if study.metrics and study.texts != "fixed" and of.units < VERDICT_TEXTS:
            needs = f"a verdict needs {VERDICT_TEXTS}" + f", an interval {FEWEST_TEXTS}" * (of.units < FEWEST_TEXTS)
            what = counted(of.units, "text" if of.clusters is None else "cluster")
            yield f"corpus '{of.name}' has {what}; {needs}: add texts, or see `texts: fixed`"
        elif of.warning:
            yield of.warning
        if missing := missing_marks(of):
            yield missing
    for analysis in analyses().values():
        for name, item in analysis.items(study).items():
            read = [corpus for corpus in analysis.corpora(item) if corpus in texts]
            if read and (why := analysis.unfit(item, {corpus: texts[corpus] for corpus in read})):
                yield f"{analysis.name} '{name}': {why}"


def missing_marks(texts: Texts) -> str:
    """Return how many texts have no label, and how many no cluster; empty if none is missing."""
    labels = 0 if texts.label_codes is None else int(np.count_nonzero(np.asarray(texts.label_codes) < 0))
    missing = [f"{lacks:,} have no {what}" for what, lacks in (("label", labels), ("cluster", texts.without)) if lacks]
    return f"corpus '{texts.name}': of {len(texts):,} texts " + " and ".join(missing) if missing else ""
