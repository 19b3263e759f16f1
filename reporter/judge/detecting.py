"""The smallest differences that the texts of a study can detect, from the errors on errors that are stored.

With plain standard error e, a test at a critical value c detects a difference of δe in 80 % of studies, δ the
noncentrality at which Student's t exceeds c: :func:`reporter.judge.claims.detectable_ratio`. Everything but e is of the
number of texts that is asked for, not of the number that is stored: degrees of freedom, and by how much an interval
allows for skewed texts. The part of an error that is due to texts falls with the square root of their number. Fewer
texts than a verdict needs are never named.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from reporter.core.numbers import counted, short
from reporter.core.places import listed
from reporter.geometry.intervals import (
    FEWEST_TEXTS,
    VERDICT_TEXTS,
    freedom,
    quantile,
    skew_weight,
    tails_of,
    widened_for_skew,
)
from reporter.judge.claims import detectable_ratio, level_of
from reporter.judge.estimates import FEWEST_MODELS
from reporter.judge.facts import Facts, main_statistics
from reporter.judge.judging import find_claim, readings_of
from reporter.judge.numbers import Numbers
from reporter.judge.outcomes import LEVEL, Outcome
from reporter.store import Store
from reporter.study import Study

MOST_TEXTS = 10**9
"""More than that is no advice."""
_WIDTHS = """
SELECT metric || '.' || statistic AS name, [corpus] AS corpora, max(ci_high - ci_low) AS width, '' AS kind
FROM layer_metrics WHERE study = $study AND view = $view AND metric || '.' || statistic IN (SELECT unnest($names))
GROUP BY ALL UNION ALL
SELECT metric || '.' || statistic, [corpus_a, corpus_b], max(ci_high - ci_low), kind
FROM differences WHERE study = $study AND view = $view AND metric || '.' || statistic IN (SELECT unnest($names))
GROUP BY ALL ORDER BY ALL
"""
_KINDS = {"": "two models", "base": "a model and its base, on the same texts", "corpora": "two corpora"}


@dataclass(frozen=True)
class Detectable:
    """The smallest difference that texts can detect.

    Args:
        name: the claim, or the statistic.
        number: what differs.
        level: the one-sided level of its test.
        texts: the part of its standard error that is due to texts, on ``stored`` texts.
        rest: the other part.
        stored: texts, or clusters of texts, that the error is from.
        planned: texts, or clusters, that the study has.
        unit: ``text`` or ``cluster``.
        skew: weight of the large parts in the sum of ``stored`` texts, as :func:`errors_of` takes it; None where parts
            are not known, and all errors are widened alike.
        df: degrees of freedom where the error is over models; None where it is over texts.
    """

    name: str
    number: str
    level: float
    texts: float
    rest: float
    stored: int
    planned: int
    unit: str = "text"
    skew: float | None = None
    df: float | None = None

    @property
    def least(self) -> float:
        """The smallest difference that the planned texts detect."""
        return self.least_of(self.planned)

    def least_of(self, texts: float) -> float:
        """Return the smallest difference that so many texts detect."""
        share = (self.stored / texts) ** 0.5
        wider = widened_for_skew(texts) if self.skew is None else 1.0 + skew_weight(texts) * self.skew * share
        error = float(np.hypot(self.texts * share, self.rest))
        tested = float(np.hypot(self.texts * share * wider, self.rest))
        df = freedom(int(texts)) if self.df is None else self.df
        return detectable_ratio(self.level, df, tested / error if error else 1.0) * error

    def texts_for(self, difference: float) -> float:
        """Return the fewest texts or clusters that detect a difference; infinite where no number of them does."""
        low, high = VERDICT_TEXTS - 1, VERDICT_TEXTS
        while self.least_of(high) > difference:
            low, high = high, 2 * high
            if high > MOST_TEXTS:
                return float("inf")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.least_of(middle) <= difference else (middle, high)
        return float(high)


def detectable(store: Store, study: Study, planned: Mapping[str, int]) -> Iterator[Detectable | str]:
    """Yield the smallest detectable difference of each claim and of each main statistic, or why there is none.

    Args:
        store: numbers of the study, on any number of texts.
        study: the study.
        planned: texts, or clusters, of each corpus that the study has.
    """
    numbers = Numbers(store, study)
    stored, units = numbers.facts.texts, {corpus: row["unit"] for corpus, row in numbers.facts.corpora.items()}
    for name, claim in study.claims.items():
        finding = find_claim(numbers, claim, readings_of(claim, numbers)[0])
        if isinstance(finding, str) or not finding.tested or finding.part is None:
            yield f"claim {name}: {finding if isinstance(finding, str) else finding.why or 'no number has an interval'}"
            continue
        corpora = [corpus for corpus in finding.detail.corpora or stored if corpus in stored and corpus in planned]
        sizes = _sizes(corpora or list(stored), stored, planned)
        yield _of_claim(name, finding, len(study.claims), *sizes, units[(corpora or list(units))[0]])
    widths = store.records(_WIDTHS, {"study": study.study, "view": study.views[0], "names": list(main_statistics())})
    for row in widths:
        corpora = [corpus for corpus in dict.fromkeys(row["corpora"]) if corpus in stored and corpus in planned]
        if row["width"] and corpora:
            count, now = _sizes(corpora, stored, planned)
            error = row["width"] / 2 / quantile(0.975, freedom(max(count, FEWEST_TEXTS)))
            error *= 1 if row["kind"] else 2**0.5
            number = f"{_KINDS[row['kind']]} ({listed(corpora)})"
            yield Detectable(row["name"], number, LEVEL, error, 0.0, count, now, units[corpora[0]])


def _sizes(corpora: list[str], stored: Mapping[str, int], planned: Mapping[str, int]) -> tuple[int, int]:
    """Return the stored and the planned texts of the corpus that gains least."""
    return min(((stored[corpus], planned.get(corpus, stored[corpus])) for corpus in corpora), key=lambda n: n[1] / n[0])


def _of_claim(name: str, finding: Outcome, tested: int, stored: int, planned: int, units: str) -> Detectable:
    assert finding.part is not None
    part, estimates = finding.part, finding.part.estimates
    error, bound = float(np.ravel(estimates.error)[0]), float(np.ravel(part.bound)[0])
    of_texts = error if finding.models < FEWEST_MODELS else 0.0
    if estimates.texts is not None:
        of_texts = float(np.ravel(estimates.texts)[0])
    rest, skew = max(0.0, error**2 - of_texts**2) ** 0.5, None
    if estimates.parts is not None:
        skew = float(np.max([np.ravel(side)[0] for side in tails_of(estimates.parts)]))
    elif of_texts:
        of_texts /= widened_for_skew(stored)
    # Claims are tested on a scale of their own; nearby, a step there is a step on the scale that people read.
    unit = abs(part.shown(bound + error) - part.shown(bound)) / error
    df = estimates.df if finding.models >= FEWEST_MODELS else None
    of = (unit * of_texts, unit * rest, stored, planned, units)
    return Detectable(f"claim {name}", part.name, level_of(part, tested), *of, skew, df)


def lines(store: Store, study: Study, planned: Mapping[str, int], difference: float | None) -> list[str]:
    """Return what texts can detect for people, and how many texts detect ``difference``; nothing without numbers."""
    corpora = Facts(store, study).corpora if store.path.exists() else {}
    units = {corpus: row["unit"] for corpus, row in corpora.items()}
    asked = {corpus for corpus, part in study.corpora.items() if getattr(part, "cluster", None)}
    if asked & units.keys() != {corpus for corpus, unit in units.items() if unit == "cluster"}:
        return []  # the errors are of other units
    rows = list(detectable(store, study, planned)) if units else []
    known = [row for row in rows if isinstance(row, Detectable)]
    if not known:
        return []
    texts = listed(f"{counted(int(row['texts']), row['unit'])} of {corpus}" for corpus, row in corpora.items())
    width = max(len(row.name) for row in known)
    made = [
        f"smallest differences that this study can detect (80 % power, two-sided 5 %, claims corrected for "
        f"their number), from the errors on {texts}:"
    ]
    for row in rows:
        if isinstance(row, str):
            made.append(f"  {row}")
            continue
        made.append(f"  {row.name:<{width}}  {short(row.least, 2):<8}  {row.number}")
        if difference is not None:
            needed = row.texts_for(difference)
            enough = f"about {needed:,.0f} {row.unit}s" if needed < MOST_TEXTS else "more models, whatever the texts"
            made[-1] += f"; {short(difference)} takes {enough}"
    return made
