"""Differences between roles, models and corpora, and statistics that correlate with scores of models.

From three independent models of each role on (relatives count as one), the test is over models and speaks of the roles.
With fewer, the sentence describes the models of the study and says so: two models differ in everything, and no interval
over texts tells which difference is due to the role. Then every encoder has to lie on the same side of every decoder.
Numbers that measure different things in both roles, such as their losses, are not compared
(``Statistic.within_role``).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from reporter.core.json_text import stored_json
from reporter.core.numbers import short
from reporter.core.places import capital
from reporter.geometry.statistics import Method, fisher_interval
from reporter.judge.claims import at_equal_size, first_token_differences
from reporter.judge.contrasts import Group, contrast, difference
from reporter.judge.estimates import FEWEST_MODELS, Estimates
from reporter.judge.numbers import Missing
from reporter.judge.outcomes import THESE_MODELS
from reporter.judge.profiles import Profile, means_in_common
from reporter.judge.questions.subjects import (
    ONE_DRAW,
    RANDOM,
    UNKNOWN,
    Observation,
    Subject,
    Subjects,
    Test,
    curve,
    topic,
)
from reporter.store import Store
from reporter.store.schema import Correlation

ROLES = ("encoder", "decoder")
Side = Mapping[str, Sequence[Subject]]
"""Models, each with its subjects: a statistic on one corpus after another."""
ONLY = f"the interval is over texts: {THESE_MODELS}"


def ask_roles(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of whether each statistic's mean over layers and corpora differs between the roles."""
    roles = subjects.numbers.facts.roles
    for full_name, models in _by_statistic(subjects, relatives=True):
        sides = [{m: statistics for m, statistics in models.items() if roles.get(m) == role} for role in ROLES]
        groups = _groups(subjects, sides)
        if subjects.statistics[full_name].within_role or len(groups) < len(ROLES):
            continue
        several = min(len(group.values) for group in groups) >= FEWEST_MODELS
        if several or all(group.numbers.known for group in groups):
            yield partial(_roles_finding, subjects, sides, groups, several)


def ask_models(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of whether two models differ in each mean over layers and corpora, if all have the same role."""
    if all(any(subjects.numbers.facts.roles.get(model) == role for model in subjects.models) for role in ROLES):
        return  # the roles are compared instead
    for full_name, models in _by_statistic(subjects):
        if len(models) > 1 and not subjects.statistics[full_name].within_role:
            yield partial(_models_finding, subjects, models)


def _by_statistic(subjects: Subjects, relatives: bool = False) -> Iterator[tuple[str, Side]]:
    """Yield each statistic of layers or blocks with the models that have it on all of its corpora."""
    by_model: dict[str, dict[str, list[Subject]]] = {}
    for subject in subjects.each("layer", "step", relatives=relatives):
        by_model.setdefault(subject.full_name, {}).setdefault(subject.model, []).append(subject)
    for full_name, models in by_model.items():
        corpora = max(len(statistics) for statistics in models.values())
        yield full_name, {model: statistics for model, statistics in models.items() if len(statistics) == corpora}


def _groups(subjects: Subjects, sides: Sequence[Side], baseline: str = "") -> list[Group]:
    """Return of each side one number for each independent model, over common layers, where all are known."""
    found = [
        {
            m: [p for s in of if (p := s.profile(s.view, s.baseline(baseline) if baseline else ""))]
            for m, of in side.items()
        }
        for side in sides
    ]
    wanted, known = (sum(len(of) for side in many for of in side.values()) for many in (sides, found))
    if not all(sides) or known < wanted:
        return []
    origins = subjects.numbers.facts.origins
    return [group for side in means_in_common(found)[0] if (group := Group.of(origins, side)).known]


def _p(gaps: Sequence[Estimates], least: float, above: bool) -> float:
    """Return the two-sided p-value of "all differences are larger than ``least``"."""
    return 2 * max(float((gap.above(least) if above else gap.below(-least))[0]) for gap in gaps)


def _typical(sides: Sequence[Side], above: bool) -> float:
    """Return how large the difference of two sides is in a typical layer: the effect of their medians over layers.

    A mean over layers may differ because of a single layer. It is 0 if the medians differ the other way round.

    Args:
        sides: the two sides.
        above: whether the first one has the larger mean.
    """
    medians = [float(np.mean([np.median(profile.values) for profile in _profiles([side])])) for side in sides]
    gap = medians[0] - medians[1]
    first = next(iter(sides[0].values()))[0]
    return first.effect(gap, *medians) if (gap > 0) == above else 0.0


def _profiles(sides: Sequence[Side]) -> list[Profile]:
    every = (subject for side in sides for statistics in side.values() for subject in statistics)
    return [profile for subject in every if (profile := subject.profile(subject.view)) is not None]


def _compared(
    subjects: Subjects, sides: Sequence[Side], gap: Estimates, means: Sequence[float], effect: float, **more: Any
) -> Observation:
    """Return an observation about several models, with their curves and notes."""
    first, corpora = _first_subject(sides)
    models = [model for side in sides for model in side]
    curves = [
        curve(model, profile.x, profile.values, number=float(profile.values.mean()) if len(statistics) == 1 else None)
        for side in sides
        for model, statistics in side.items()
        if (profile := statistics[0].profile(statistics[0].view)) is not None
    ]
    return first.observe(
        gap,
        means,
        model=None,
        corpus=corpora[0] if len(subjects.corpora) > 1 and len(corpora) == 1 else None,
        effect=min(first.effect(float(gap.value[0]), *means), effect),
        curves=tuple(curves),
        notes=(*(note for profile in _profiles(sides) for note in profile.notes), *more.pop("notes")),
        read=(models, (first.view,), (first.statistic.name,)),
        **more,
    )


def _first_subject(sides: Sequence[Side]) -> tuple[Subject, list[str]]:
    """Return the first subject, and the corpora that every mean is taken over."""
    statistics = next(iter(sides[0].values()))
    return statistics[0], [subject.corpus for subject in statistics]


def _averaged_over(subject: Subject, corpora: Sequence[str]) -> str:
    return subject.averaged + (" and corpora" if len(corpora) > 1 else subject.on)


def _roles_finding(
    subjects: Subjects, sides: Sequence[Side], groups: Sequence[Group], several: bool, level: float
) -> Observation | None:
    """Compare the means of both roles by Welch's interval over models, text errors added, as claims do.

    With few models of a role the interval is over texts, and every pair of an encoder and a decoder has to differ.
    """
    first, corpora = _first_subject(sides)
    statistic, over = first.statistic, _averaged_over(first, corpora)
    gap, g = difference(groups[0], groups[1])
    least = first.least(*(group.values for group in groups))
    above = bool(gap.value[0] > 0)
    gaps = [gap] if several else [a.minus(b, paired=True) for a, b in product(groups[0].each, groups[1].each)]
    base = _groups(subjects, sides, RANDOM)
    if len(base) == len(ROLES):
        gaps.append(gap.minus(difference(base[0], base[1])[0], paired=True))
    if (p := _p(gaps, least, above)) > level:
        return None
    means = [group.mean for group in groups]
    written = first.beside(gap, *means)
    names = [next(iter(side)) if len(side) == 1 else f"{role}s" for side, role in zip(sides, ROLES, strict=True)]
    notes = [] if len(base) == len(ROLES) else [UNKNOWN]
    if several:
        both = " and ".join(
            f"{m} for {len(group.values)} {role}s" for m, group, role in zip(written, groups, ROLES, strict=True)
        )
        says = f"Encoders and decoders differ in the {statistic.title}: {both}, on average over {over}."
        test = f"Welch's t over independent models; the means differ by more than {short(least, 2)}"
        notes = [*(() if g is None else (f"Hedges' g over models is {short(g, 2)}",)), *notes]
    else:
        both = " and ".join(
            f"{mean} in {f'the {role} {next(iter(side))}' if len(side) == 1 else f'{len(side)} {role}s'}"
            for mean, role, side in zip(written, ROLES, sides, strict=True)
        )
        few = "One model of each role" if [len(group.values) for group in groups] == [1, 1] else "Few models"
        says = f"{capital(first.title)} is {both}, on average over {over}. "
        says += f"{few}: this says nothing about encoders and decoders in general."
        test = f"each encoder differs from each decoder by more than {short(least, 2)}, by an interval over texts"
        if begins := first_token_differences(subjects.numbers, [m for side in sides for m in side], first.view):
            notes = [f"texts begin differently ({begins}), and {first.view} include these first tokens", *notes]
    return _compared(
        subjects,
        sides,
        gap,
        means,
        _typical(sides, above),
        says=says,
        p=min(1.0, p),
        what=f"{statistic.title}, mean over {over}: {' minus '.join(names)}",
        test=test,
        notes=notes,
        fact=f"roles in {topic(first.full_name)}",
    )


def _models_finding(subjects: Subjects, models: Side, level: float) -> Observation | None:
    """Compare the two models that are furthest apart, corrected for all pairs of models."""
    first, corpora = _first_subject([models])
    sides = [{model: statistics} for model, statistics in models.items()]
    groups = _groups(subjects, sides)
    if len(groups) < len(models):
        return None
    least = first.least(*(group.values for group in groups))
    low, *_, high = sorted(groups, key=lambda group: group.mean)
    gap, pairs = difference(high, low)[0], len(groups) * (len(groups) - 1) // 2
    if (p := min(1.0, pairs * _p([gap], least, True))) > level:
        return None
    over, (top, bottom) = _averaged_over(first, corpora), first.beside(gap, high.mean, low.mean)
    if len(groups) == 2:
        means = {high.models[0]: top, low.models[0]: bottom}
        both = " and ".join(f"{means[group.models[0]]} in {group.models[0]}" for group in groups)
        says = f"{capital(first.title)} is {both}, on average over {over}."
    else:
        says = f"{capital(first.title)} ranges from {bottom} in {low.models[0]} to {top} in "
        says += f"{high.models[0]} over {len(groups)} models, on average over {over}."
    return _compared(
        subjects,
        [models],
        gap,
        [low.mean, high.mean],
        _typical([{group.models[0]: models[group.models[0]]} for group in (high, low)], above=True),
        says=says,
        p=p,
        what=f"{first.statistic.title}, mean over {over}: {high.models[0]} minus {low.models[0]}",
        test=f"both models differ by more than {short(least, 2)}, by an interval over texts"
        + f", corrected for {pairs} pairs of models" * (pairs > 1),
        notes=[ONLY],
    )


def ask_corpora(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of whether each mean over layers of a model differs between two corpora.

    Statistics that move with the size of a corpus are compared on corpora of like size only.
    """
    by_model: dict[tuple[str, str], list[Subject]] = {}
    for subject in subjects.each("layer", "step"):
        by_model.setdefault((subject.full_name, subject.model), []).append(subject)
    for (full_name, _), statistics in by_model.items():
        for pair in combinations(statistics, 2):
            try:
                notes = at_equal_size(subjects.numbers, full_name, *([subject.corpus] for subject in pair))
            except Missing:
                continue
            if (profiles := _profiles_of_pair(pair)) is not None:
                yield partial(_corpora_finding, pair, profiles, notes)


def _profiles_of_pair(pair: tuple[Subject, Subject], baseline: str = "") -> tuple[Profile, Profile] | None:
    a = pair[0].tested(baseline=baseline)
    b = a and pair[1].tested(baseline=baseline, like=a)
    return None if a is None or b is None else (a, b)


def _gap_of_pair(pair: tuple[Subject, Subject], profiles: tuple[Profile, Profile]) -> Estimates:
    origins = pair[0].study.numbers.facts.origins
    a, b = (Group.of(origins, {pair[0].model: profile.mean}) for profile in profiles)
    return contrast(a, b, same_texts=False)[0]


def _corpora_finding(
    pair: tuple[Subject, Subject], profiles: tuple[Profile, Profile], notes: list[str], level: float
) -> Observation | None:
    subject, other = pair
    least = subject.least(*(profile.values for profile in profiles))
    gap, base = _gap_of_pair(pair, profiles), _profiles_of_pair(pair, RANDOM)
    above, gaps = bool(gap.value[0] > 0), [gap]
    if base is not None:
        gaps.append(gap.minus(_gap_of_pair(pair, base), paired=True))
    if (p := _p(gaps, least, above)) > level:
        return None
    means = [float(profile.values.mean()) for profile in profiles]
    a, b = subject.corpus, other.corpus
    typical, (here, there) = _typical([{side.corpus: [side]} for side in pair], above), subject.beside(gap, *means)
    return subject.observe(
        gap,
        means,
        says=f"{subject.named} is {here} on {a} and {there} on {b}, on average over {subject.averaged}.",
        corpus=None,
        p=min(1.0, p),
        effect=min(subject.effect(float(gap.value[0]), *means), typical),
        what=f"{subject.statistic.title}, mean over {subject.averaged}: {a} minus {b}",
        test=f"the means on both corpora differ by more than {short(least, 2)}, by intervals over texts",
        curves=tuple(
            curve(side.corpus, profile.x, profile.values, own=side is subject, number=mean)
            for side, profile, mean in zip(pair, profiles, means, strict=True)
        ),
        notes=(*profiles[0].notes, *notes, UNKNOWN if base is None else ONE_DRAW),
        fact=f"{subject.full_name} on {a} {'above' if above else 'below'} {b}",
    )


LOSS = ("loss", "lm")
_FEATURES = """
SELECT l.model, m.role, l.corpus, l.view, l.metric, l.statistic, l.value
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND m.is_last AND m.baseline IS NULL AND m.status = 'done' AND l.layer IS NULL
  AND l.value IS NOT NULL
ORDER BY l.model
"""
_SCORES = "SELECT DISTINCT model, scores FROM models WHERE study = $study AND scores IS NOT NULL AND baseline IS NULL"


def correlate(feature: str, score: str, x: list[float], y: list[float]) -> Iterator[Correlation]:
    """Yield Pearson's and Spearman's correlation of a feature and a score over the same models.

    The interval is that of Fisher's z, none for fewer than four models; p is two-sided.
    """
    n = len(x)
    methods: tuple[Method, Method] = ("pearson", "spearman")
    if n < FEWEST_MODELS or len(set(x)) == 1 or len(set(y)) == 1:
        yield from (Correlation(feature, score, method, None, None, None, None, n) for method in methods)
        return
    from scipy import stats  # takes a second, and most studies have too few models

    for method, function in zip(methods, (stats.pearsonr, stats.spearmanr), strict=True):
        result = function(x, y)
        value = float(result.statistic)
        low, high = fisher_interval(value, n, method)
        yield Correlation(feature, score, method, value, low, high, float(result.pvalue), n)


def write_correlations(store: Store, study: str) -> int:
    """Correlate every number of whole models with every score, replace the stored rows, and return how many there are.

    Scores are those of the study, and the measured loss, which is compared among encoders and among decoders apart.
    """
    features = store.records(_FEATURES, {"study": study})
    given = {row["model"]: stored_json(row["scores"]) for row in store.records(_SCORES, {"study": study})}
    by_feature: dict[Any, dict[str, float]] = defaultdict(dict)
    for row in features:
        if (row["metric"], row["statistic"]) != LOSS:
            by_feature[row["corpus"], row["view"], row["metric"], row["statistic"]][row["model"]] = row["value"]
    rows = [
        correlation.record({"corpus": corpus, "view": view, "metric": metric}, 0)
        for (corpus, view, metric, feature), values in by_feature.items()
        for score, scores in _scores(features, given, corpus, view).items()
        if len(both := [model for model in values if model in scores]) >= 2
        for correlation in correlate(feature, score, [values[m] for m in both], [scores[m] for m in both])
    ]
    store.replace("correlations", study, rows)
    return len(rows)


def _scores(
    features: list[dict[str, Any]], given: Mapping[str, Mapping[str, float]], corpus: str, view: str
) -> dict[str, dict[str, float]]:
    by_score: dict[str, dict[str, float]] = defaultdict(dict)
    for model, scores in given.items():
        for score, value in scores.items():
            by_score[score][model] = value
    for row in features:
        if (row["corpus"], row["view"], row["metric"], row["statistic"]) == (corpus, view, *LOSS):
            by_score[f"loss.lm of {row['role']}s"][row["model"]] = row["value"]
    return by_score
