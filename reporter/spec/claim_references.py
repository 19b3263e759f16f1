"""What claims speak of must be in the study: models, corpora, views, baselines, sites, scores, metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from reporter.errors import hint
from reporter.spec.claims import GROUPS, TYPE_COLUMNS, WITH_BASE, Claim, Refers
from reporter.spec.offer import Offer, Section
from reporter.spec.part import Complaint, Part, join
from reporter.spec.problems import Location
from reporter.spec.reading import NullBaseline
from reporter.spec.waiting import origin_of, with_shares_of

if TYPE_CHECKING:
    from reporter.spec.study import Study

VIEWS = ("words", "all", "no-sinks")
SITES = ("embedding", "block", "final")


@dataclass(frozen=True)
class Known:
    """What a study has that a claim may name.

    Args:
        models: names of its models.
        based: those that have a base.
        corpora: names of its corpora.
        views: its views.
        sites: its sites.
        baselines: its null baselines.
        scores: names of outside scores that any model has.
        metrics: names of its metrics; None where that cannot be told.
        items: by analysis (journeys, pairs, …) the names of what it looks at.
        together: those that look at all their items together, so that a claim need not name one.
    """

    models: Collection[str]
    based: Collection[str]
    corpora: Collection[str]
    views: Collection[str]
    sites: Collection[str]
    baselines: Collection[str]
    scores: Collection[str]
    metrics: Collection[str] | None
    items: Mapping[str, Collection[str]]
    together: Collection[str]

    @classmethod
    def of(cls, study: Any, get: Callable[[Any, str], Any], sections: Mapping[str, Section]) -> Known:
        """Return what a ``Study`` has, or what its file says, right or wrong."""

        def names(value: Any, default: Collection[str] = ()) -> Collection[str]:
            return [x for x in value if isinstance(x, str)] if isinstance(value, dict | list | tuple) else default

        models, corpora = get(study, "models"), get(study, "corpora")
        scores = [get(model, "scores") for model in models.values()] if isinstance(models, dict) else []
        return cls(
            names(models),
            [name for name, one in models.items() if get(one, "base") or origin_of(one)]
            if isinstance(models, dict)
            else (),
            names(with_shares_of(corpora)) if isinstance(corpora, dict) else names(corpora),
            names(get(study, "views"), VIEWS),
            names(get(study, "sites"), SITES),
            names(get(study, "baselines")),
            {name for given in scores for name in names(given)},
            # Whether a metric is listed matters only once it is known that there is such a metric.
            None if isinstance(study, dict) else [choice.name for choice in study.metrics],
            {name: names(get(study, name)) or ([name] if get(study, name) else []) for name in sections},
            frozenset(name for name, section in sections.items() if section.together),
        )

    def places(self, measure: Any) -> tuple[Collection[str], str, str]:
        """Return what may stand in the place of the corpus of a statistic, and what that is called."""
        analysis = measure.partition(".")[0] if isinstance(measure, str) else ""
        if analysis in self.together:
            return (), f"item of '{analysis}'", "items"
        return (
            (self.items[analysis], analysis, analysis)
            if analysis in self.items
            else (self.corpora, "corpus", "corpora")
        )


def claim_contradictions(claims: Mapping[str, Any], known: Known, offer: Offer) -> Iterator[Complaint]:
    """Yield what claims name that the study does not have.

    Args:
        claims: the claims by name, validated or as the file says them.
        known: what the study has.
        offer: what claims may look like.
    """
    for name, claim in claims.items():
        of_key = [kind.form for key, kind in offer.claims.items() if isinstance(claim, dict) and key in claim]
        for form in [type(claim)] if isinstance(claim, Claim) else of_key or [Claim]:
            for named in _named(form, claim, ("claims", name)):
                yield from _complaints(named, known)


def refused_claims(study: Study, offer: Offer) -> Iterator[Complaint]:
    """Yield what the kinds of claims refuse of a study in which all else is right.

    Options of a metric can free what is fixed by definition, so only what is measured by default is told to them.

    Args:
        study: the study.
        offer: what claims may look like, and what is fixed.
    """
    plain = {choice.name for choice in study.metrics if not choice.options.model_fields_set}
    for name, claim in study.claims.items():
        for kind in offer.claims.values():
            if type(claim) is kind.form:
                yield from join(kind.refuses(claim, offer.fixed, plain), "claims", name)
                yield from join(kind.fits(claim, study), "claims", name)


def statistics_of(claim: Claim) -> list[str]:
    """Return the statistics that a claim names, as ``metric.statistic``."""
    measured = [named.value for named in _named(type(claim), claim) if named.how.to == "statistic"]
    return [value for value in measured if value not in TYPE_COLUMNS and not value.startswith("scores.")]


def queries_of(claim: Claim) -> list[str]:
    """Return the queries that a claim asks, of its number and of its bounds."""
    return [named.value for named in _named(type(claim), claim) if named.how.to == "query"]


@dataclass(frozen=True)
class _Named:
    """What stands in a field that names parts of the study, and the statistic that stands beside it."""

    how: Refers
    value: Any
    at: Location
    statistic: Any


def _named(form: type[Part], said: Any, at: Location = (), statistic: Any = None) -> Iterator[_Named]:
    """Yield what a form names, itself and in its parts, whether the rest of it is right or not."""
    found = []
    for name, field in form.model_fields.items():
        key = field.alias or name
        value = said.get(key) if isinstance(said, dict) else getattr(said, name, None)
        if value is not None:
            marks = list(_marks(field.annotation))
            found.append((key, value, [*(mark for mark in field.metadata if isinstance(mark, Refers)), *marks]))
    own = [value for _, value, marks in found if Refers("statistic") in marks]
    statistic = own[0] if own else statistic
    for key, value, marks in found:
        for mark in marks:
            if isinstance(mark, Refers):
                yield _Named(mark, value, (*at, key), statistic)
                continue
            several = isinstance(value, list | tuple)
            for index, part in enumerate(value if several else [value]):
                if isinstance(part, dict | mark):
                    yield from _named(mark, part, (*at, key, index) if several else (*at, key), statistic)
    if not own:
        return
    for name, field in form.model_fields.items():  # what must be said and is not
        if Refers("corpus", needed=True) in field.metadata and name not in {key for key, *_ in found}:
            yield _Named(Refers("corpus", needed=True), None, at, statistic)


def _marks(annotation: Any) -> Iterator[Any]:
    """Yield the marks and the parts of a study that a type is made of."""
    if isinstance(annotation, Refers) or (isinstance(annotation, type) and issubclass(annotation, Part)):
        yield annotation
    for inner in get_args(annotation):
        yield from _marks(inner)


def _complaints(named: _Named, known: Known) -> Iterator[Complaint]:
    value, at = named.value, named.at
    models = [*known.models, *GROUPS]
    places, one, many = known.places(named.statistic)
    match named.how.to:
        case "statistic":
            yield from _measured(value, at, known)
        case "model":
            yield from _missing(value, at, known.models, "model", "models")
        case "models":
            yield from _missing(value, at, models, "model", "models")
            if WITH_BASE in (value if isinstance(value, list | tuple) else [value]) and not known.based:
                yield Complaint(f"'{WITH_BASE}': no model of this study has a base; add `base: NAME` to one", at)
        case "corpus" if value is None:
            if len(places) > 1:
                yield Complaint(f"needs the key 'corpus': one of {', '.join(places)}", at, "key")
        case "corpus":
            yield from _missing(value, at, places, one, many)
        case "view":
            yield from _missing(value, at, known.views, "view", "views")
        case "site":
            yield from _missing(value, at, known.sites, "site", "sites")
        case "query":
            yield from _queried(value, at, known.models)
        case "baseline":
            yield from _missing(value, at, known.baselines, "baseline", "baselines")
        case "either" if isinstance(value, str | list | tuple):
            listed = [value] if isinstance(value, str) else value
            if any(x in places for x in listed if isinstance(x, str)):
                yield from _missing(value, at, places, one, many)
            else:
                yield from _missing(value, at, [*models, *places], f"model or {one}", f"models and {many}")


def _missing(value: Any, at: Location, known: Collection[str], one: str, many: str) -> Iterator[Complaint]:
    listed = isinstance(value, list | tuple)
    for index, name in enumerate(value if listed else [value]):
        if isinstance(name, str) and name not in known:
            ending = hint(name, list(known), f"{many} of this study") or f"; this study has no {many}"
            yield Complaint(f"no {one} '{name}'{ending}", (*at, index) if listed and len(value) > 1 else at)


_TEXT = r"'((?:[^']|'')*)'"
_EQUAL, _ONE_OF, _LIKE = (
    re.compile(rf'\bmodel(?:_[ab])?"?\s*{said}', re.IGNORECASE)
    for said in (rf"==?\s*{_TEXT}", rf"in\s*\(\s*({_TEXT}(?:\s*,\s*{_TEXT})*)\s*\)", rf"like\s*{_TEXT}")
)
"""``model = 'bert'``, ``a.model IN ('bert', 'gpt2')``, ``model_a LIKE 'pythia%'``; neither ``<>`` nor ``NOT LIKE``."""

_BASELINES = tuple(f" ({kind})" for kind in get_args(NullBaseline))


def _queried(value: Any, at: Location, models: Collection[str]) -> Iterator[Complaint]:
    """Complain of a query that asks for models which the study does not have."""
    query = value if isinstance(value, str) else ""
    named = [found[1] for found in _EQUAL.finditer(query)]
    named += [name for found in _ONE_OF.finditer(query) for name in re.findall(_TEXT, found[1])]
    for both in dict.fromkeys(named):
        for name in both.replace("''", "'").split(" | "):  # the two sides of a comparison
            base = next((name.removesuffix(kind) for kind in _BASELINES if name.endswith(kind)), name)
            yield from _missing(base, at, models, "model", "models")
    there = [name + kind for name in models for kind in ("", *_BASELINES)]
    for pattern in dict.fromkeys(found[1].replace("''", "'") for found in _LIKE.finditer(query)):
        like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
        if not any(re.fullmatch(like, name, re.DOTALL) for name in there):
            yield Complaint(f"no model is like '{pattern}'; models of this study: {', '.join(models)}", at)


def _measured(value: Any, at: Location, known: Known) -> Iterator[Complaint]:
    """Complain of a statistic whose metric the study does not ask for, or of a score that no model has."""
    if not isinstance(value, str) or value in TYPE_COLUMNS:
        return
    metric, _, rest = value.partition(".")
    if metric == "scores":
        yield from _missing(rest or None, at, known.scores, "score", "scores")
    elif metric in known.items:
        if not known.items[metric]:
            yield Complaint(f"this study has no '{metric}'", at)
    elif not known.corpora:
        yield Complaint("needs texts; add a corpus under 'corpora'", at)
    elif known.metrics is not None and metric and rest and metric not in known.metrics:
        yield Complaint(f"metric '{metric}' is not measured in this study; list it under 'metrics'", at)
