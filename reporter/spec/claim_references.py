"""What claims speak of must be in the study: models, corpora, views, baselines, sites, scores, metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.spec.claim_parts import ANALYSES, GROUPS, ONE_ITEM, TYPE_COLUMNS
from reporter.spec.offer import Fixed
from reporter.spec.part import Complaint
from reporter.spec.problems import Location, hint

if TYPE_CHECKING:
    from reporter.spec.study import Study

VIEWS = ("words", "all", "no-sinks")
SITES = ("embedding", "block", "final")


@dataclass(frozen=True)
class Known:
    """What a study has that a claim may name.

    Args:
        get: reads a key of a part, validated or as the file says it.
        models: names of its models.
        corpora: names of its corpora.
        views: its views.
        sites: its sites.
        baselines: its null baselines.
        scores: names of outside scores that any model has.
        metrics: names of its metrics; None where that cannot be told.
        items: by analysis (journeys, pairs, …) the names of what it looks at.
    """

    get: Callable[[Any, str], Any]
    models: Collection[str]
    corpora: Collection[str]
    views: Collection[str]
    sites: Collection[str]
    baselines: Collection[str]
    scores: Collection[str]
    metrics: Collection[str] | None
    items: Mapping[str, Collection[str]]

    @classmethod
    def of(cls, study: Any, get: Callable[[Any, str], Any]) -> Known:
        """Return what a ``Study`` has, or what its file says, right or wrong."""

        def names(value: Any, default: Collection[str] = ()) -> Collection[str]:
            return [x for x in value if isinstance(x, str)] if isinstance(value, dict | list | tuple) else default

        models = get(study, "models")
        scores = [get(model, "scores") for model in models.values()] if isinstance(models, dict) else []
        return cls(
            get,
            names(models),
            names(get(study, "corpora")),
            names(get(study, "views"), VIEWS),
            names(get(study, "sites"), SITES),
            names(get(study, "baselines")),
            {name for given in scores for name in names(given)},
            # Whether a metric is listed matters only once it is known that there is such a metric.
            None if isinstance(study, dict) else [choice.name for choice in study.metrics],
            {name: names(get(study, name)) or ([name] if get(study, name) else []) for name in ANALYSES},
        )

    def places(self, measure: Any) -> tuple[Collection[str], str, str]:
        """Return what may stand in the place of the corpus of a statistic, and what that is called."""
        analysis = measure.partition(".")[0] if isinstance(measure, str) else ""
        if analysis in ONE_ITEM:
            return (), f"item of '{analysis}'", "items"
        return (
            (self.items[analysis], analysis, analysis) if analysis in ANALYSES else (self.corpora, "corpus", "corpora")
        )


def claim_contradictions(claims: dict[str, Any], known: Known) -> Iterator[Complaint]:
    """Yield what claims name that the study does not have.

    Args:
        claims: the claims by name, validated or as the file says them.
        known: what the study has.
    """
    for name, claim in claims.items():
        at: Location = ("claims", name)
        get = known.get
        yield from _missing(get(claim, "views"), (*at, "views"), known.views, "view", "views")
        yield from _missing(get(claim, "baselines"), (*at, "baselines"), known.baselines, "baseline", "baselines")
        for key in ("value", "above", "below"):
            yield from _number(get(claim, key), (*at, key), known)
        between = get(claim, "between")
        for index, bound in enumerate(between if isinstance(between, list | tuple) else ()):
            yield from _number(bound, (*at, "between", index), known)
        for key in ("shape", "differ", "relation"):
            if (body := get(claim, key)) is not None:
                yield from _body(body, (*at, key), known)


def fixed_peaks(study: Study, fixed: Fixed) -> Iterator[Complaint]:
    """Yield claims of a peak at an end of the layers where the statistic has its value by definition.

    Options of a metric can free the end, so only what is measured by default is refused here; the rest is refused where
    the claim is tested.

    Args:
        study: the study.
        fixed: what is fixed, as far as it is known.
    """
    plain = {choice.name for choice in study.metrics if not choice.options.model_fields_set}
    for name, claim in study.claims.items():
        shape = getattr(claim, "shape", None)
        if shape is None or shape.at is None or shape.over != "depth" or shape.site not in (None, "block"):
            continue
        for end, value in fixed.get(shape.metric, ()):
            if shape.at == (1 if end == "last" else 0) and shape.metric.partition(".")[0] in plain:
                message = (
                    f"{shape.metric} is {value:g} at the {end} layer by definition, so that a peak there says nothing "
                    "of a model; claim it of another place, or another shape"
                )
                yield Complaint(message, ("claims", name, "shape", "at"))


def _number(value: Any, at: Location, known: Known) -> Iterator[Complaint]:
    metric = known.get(value, "metric")
    if metric is None:  # a plain number, or SQL
        return
    yield from _measured(metric, (*at, "metric"), known)
    yield from _missing(known.get(value, "model"), (*at, "model"), known.models, "model", "models")
    corpus = known.get(value, "corpus")
    places, one, many = known.places(metric)
    yield from _missing(corpus, (*at, "corpus"), places, one, many)
    if corpus is None and len(places) > 1:
        yield Complaint(f"needs the key 'corpus': one of {', '.join(places)}", at, "key")
    yield from _missing(known.get(value, "view"), (*at, "view"), known.views, "view", "views")
    yield from _missing(known.get(value, "site"), (*at, "site"), known.sites, "site", "sites")


def _body(body: Any, at: Location, known: Known) -> Iterator[Complaint]:
    for key in ("metric", "x", "y"):
        yield from _measured(known.get(body, key), (*at, key), known)
    models = [*known.models, *GROUPS]
    yield from _missing(known.get(body, "models"), (*at, "models"), models, "model", "models")
    places, one, many = known.places(known.get(body, "metric") or known.get(body, "x"))
    yield from _missing(known.get(body, "corpus"), (*at, "corpus"), places, one, many)
    yield from _missing(known.get(body, "site"), (*at, "site"), known.sites, "site", "sites")
    sides = {key: known.get(body, key) for key in ("a", "b")}
    for key, side in sides.items():
        if isinstance(side, str | list | tuple):
            listed = [side] if isinstance(side, str) else side
            if any(x in places for x in listed if isinstance(x, str)):
                yield from _missing(side, (*at, key), places, one, many)
            else:
                yield from _missing(side, (*at, key), models, f"model or {one}", "models")
        elif side is not None:
            yield from _missing(known.get(side, "models"), (*at, key, "models"), models, "model", "models")
            yield from _missing(known.get(side, "corpus"), (*at, key, "corpus"), places, one, many)


def _missing(value: Any, at: Location, known: Collection[str], one: str, many: str) -> Iterator[Complaint]:
    listed = isinstance(value, list | tuple)
    for index, name in enumerate(value if listed else [value]):
        if isinstance(name, str) and name not in known:
            ending = hint(name, list(known), f"{many} of this study") or f"; this study has no {many}"
            yield Complaint(f"no {one} '{name}'{ending}", (*at, index) if listed and len(value) > 1 else at)


def _measured(value: Any, at: Location, known: Known) -> Iterator[Complaint]:
    """Complain of a statistic whose metric the study does not ask for, or of a score that no model has."""
    if not isinstance(value, str) or value in TYPE_COLUMNS:
        return
    metric, _, rest = value.partition(".")
    if metric == "scores":
        yield from _missing(rest or None, at, known.scores, "score", "scores")
    elif metric in ANALYSES:
        if not known.items[metric]:
            yield Complaint(f"this study has no '{metric}'", at)
    elif not known.corpora:
        yield Complaint("needs texts; add a corpus under 'corpora'", at)
    elif known.metrics is not None and metric and rest and metric not in known.metrics:
        yield Complaint(f"metric '{metric}' is not measured in this study; list it under 'metrics'", at)
