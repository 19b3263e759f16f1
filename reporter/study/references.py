"""Checks across a study: recipes and analyses name corpora, corpora models; metrics need texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from reporter.core.places import TOKEN_SETS
from reporter.study.claims import GROUPS, TYPE_COLUMNS, WITH_BASE, Claim, Refers
from reporter.study.corpora import NullBaseline
from reporter.study.offer import Offer, Reference, Section
from reporter.study.part import Anchor, Complaint, Part, join
from reporter.study.problems import Location
from reporter.study.recipes import circle, circular, get, no_such, origin_of, shares_of, with_shares_of, wrong_origin

if TYPE_CHECKING:
    from reporter.study.study import Study

# Claims may only name models, corpora, token sets, baselines, sites, scores and metrics of the study.


SITES = ("embedding", "block", "final")


@dataclass(frozen=True)
class KnownNames:
    """The names that a claim may use: models, corpora, statistics."""

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
    def of(cls, study: Any, sections: Mapping[str, Section]) -> KnownNames:
        """Return the names in a ``Study``, or in a mapping that was not validated."""

        def names(value: Any, default: Collection[str] = ()) -> Collection[str]:
            return [x for x in value if isinstance(x, str)] if isinstance(value, dict | list | tuple) else default

        models = _mapping(study, "models")
        return cls(
            names(models),
            [name for name, entry in models.items() if get(entry, "base") or origin_of(entry)],
            names(with_shares_of(_mapping(study, "corpora"))),
            names(get(study, "views"), TOKEN_SETS),
            names(get(study, "sites"), SITES),
            names(get(study, "baselines")),
            {name for model in models.values() for name in names(get(model, "scores"))},
            # Whether a metric is listed matters only once it is known that there is such a metric.
            None if isinstance(study, dict) else [choice.name for choice in study.metrics],
            {name: names(get(study, name)) or ([name] if get(study, name) else []) for name in sections},
            frozenset(name for name, section in sections.items() if section.together),
        )

    def places(self, measure: Any) -> tuple[Collection[str], str, str]:
        """Return the values that the key ``corpus`` of a statistic may have, and their name in singular and plural."""
        analysis = measure.partition(".")[0] if isinstance(measure, str) else ""
        if analysis in self.together:
            return (), f"item of '{analysis}'", "items"
        if analysis in self.items:
            return self.items[analysis], analysis, analysis
        return self.corpora, "corpus", "corpora"


def refused_claims(study: Study, offer: Offer) -> Iterator[Complaint]:
    """Yield the mistakes that the kinds of claims find in an otherwise correct study.

    Options of a metric can change values that are fixed by definition, so only metrics with default options are passed.
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
    """Return the SQL queries of a claim, for its number and its bounds."""
    return [named.value for named in _named(type(claim), claim) if named.how.to == "query"]


@dataclass(frozen=True)
class _Named:
    """A field that names parts of the study, and the statistic beside it."""

    how: Refers
    value: Any
    at: Location
    statistic: Any


def _named(form: type[Part], content: Any, location: Location = (), statistic: Any = None) -> Iterator[_Named]:
    """Yield what a form names, itself and in its parts, whether the rest of it is right or not."""
    references = []
    for name, field in form.model_fields.items():
        key = field.alias or name
        value = content.get(key) if isinstance(content, dict) else getattr(content, name, None)
        if value is not None:
            marks = list(_marks(field.annotation))
            references.append((key, value, [*(mark for mark in field.metadata if isinstance(mark, Refers)), *marks]))
    statistics = [value for _, value, marks in references if Refers("statistic") in marks]
    statistic = statistics[0] if statistics else statistic
    for key, value, marks in references:
        for mark in marks:
            if isinstance(mark, Refers):
                yield _Named(mark, value, (*location, key), statistic)
                continue
            several = isinstance(value, list | tuple)
            for index, part in enumerate(value if several else [value]):
                if isinstance(part, dict | mark):
                    yield from _named(mark, part, (*location, key, index) if several else (*location, key), statistic)
    if not statistics:
        return
    for name, field in form.model_fields.items():  # required keys that are missing
        if Refers("corpus", needed=True) in field.metadata and name not in {key for key, *_ in references}:
            yield _Named(Refers("corpus", needed=True), None, location, statistic)


def _marks(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, Refers) or (isinstance(annotation, type) and issubclass(annotation, Part)):
        yield annotation
    for inner in get_args(annotation):
        yield from _marks(inner)


def _complaints(named: _Named, catalog: KnownNames) -> Iterator[Complaint]:
    value, location = named.value, named.at
    models = [*catalog.models, *GROUPS]
    places, single, many = catalog.places(named.statistic)
    match named.how.to:
        case "statistic":
            yield from _measured(value, location, catalog)
        case "query":
            yield from _queried(value, location, catalog.models)
        case "model" | "view" | "site" | "baseline" as noun:
            yield from _missing(value, location, getattr(catalog, f"{noun}s"), noun, f"{noun}s")
        case "models":
            yield from _missing(value, location, models, "model", "models")
            if WITH_BASE in (value if isinstance(value, list | tuple) else [value]) and not catalog.based:
                yield Complaint(f"'{WITH_BASE}' needs a model with a base; add `base: NAME` to a model", location)
        case "corpus" if value is None:
            if len(places) > 1:
                yield Complaint(f"missing key; add `corpus: NAME` with one of {', '.join(places)}", location, "key")
        case "corpus" if str(named.statistic).partition(".")[0] in catalog.together:
            yield Complaint(f"'{named.statistic}' is not measured on a corpus; remove `corpus`", location, "key")
        case "corpus":
            yield from _missing(value, location, places, single, many)
        case "either" if isinstance(value, str | list | tuple):
            listed = [value] if isinstance(value, str) else value
            if any(x in places for x in listed if isinstance(x, str)):
                yield from _missing(value, location, places, single, many)
            else:
                yield from _missing(value, location, [*models, *places], f"model or {single}", f"models and {many}")


def _missing(value: Any, location: Location, names: Collection[str], noun: str, many: str) -> Iterator[Complaint]:
    listed = isinstance(value, list | tuple)
    for index, name in enumerate(value if listed else [value]):
        if isinstance(name, str) and name not in names:
            yield Complaint(
                no_such(noun, name, names, many), (*location, index) if listed and len(value) > 1 else location
            )


_TEXT = r"'((?:[^']|'')*)'"
_EQUAL, _ONE_OF, _LIKE = (
    re.compile(rf'\bmodel(?:_[ab])?"?\s*{comparison}', re.IGNORECASE)
    for comparison in (rf"==?\s*{_TEXT}", rf"in\s*\(\s*({_TEXT}(?:\s*,\s*{_TEXT})*)\s*\)", rf"like\s*{_TEXT}")
)
"""``model = 'bert'``, ``a.model IN ('bert', 'gpt2')``, ``model_a LIKE 'pythia%'``; neither ``<>`` nor ``NOT LIKE``."""

_BASELINES = tuple(f" ({kind})" for kind in get_args(NullBaseline))


def _queried(value: Any, location: Location, models: Collection[str]) -> Iterator[Complaint]:
    """Complain of a query that asks for models which the study does not have."""
    query = value if isinstance(value, str) else ""
    named = [match[1] for match in _EQUAL.finditer(query)]
    named += [name for match in _ONE_OF.finditer(query) for name in re.findall(_TEXT, match[1])]
    for both in dict.fromkeys(named):
        for name in both.replace("''", "'").split(" | "):  # the two sides of a comparison
            base = next((name.removesuffix(kind) for kind in _BASELINES if name.endswith(kind)), name)
            yield from _missing(base, location, models, "model", "models")
    names = [name + kind for name in models for kind in ("", *_BASELINES)]
    for pattern in dict.fromkeys(match[1].replace("''", "'") for match in _LIKE.finditer(query)):
        like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
        if not any(re.fullmatch(like, name, re.DOTALL) for name in names):
            yield Complaint(f"no model matches '{pattern}'; models of this study: {', '.join(models)}", location)


def _measured(value: Any, location: Location, catalog: KnownNames) -> Iterator[Complaint]:
    """Complain of a statistic that the study does not measure, or of a score that no model has."""
    if not isinstance(value, str) or value in TYPE_COLUMNS:
        return
    metric, _, rest = value.partition(".")
    if metric == "scores":
        yield from _missing(rest or None, location, catalog.scores, "score", "scores")
    elif metric in catalog.items:
        if not catalog.items[metric]:
            yield Complaint(f"'{metric}' is not measured in this study; add the key `{metric}`", location)
    elif not catalog.corpora:
        yield Complaint("needs texts; add a corpus under `corpora`", location)
    elif catalog.metrics is not None and metric and rest and metric not in catalog.metrics:
        yield Complaint(f"metric '{metric}' is not measured in this study; add it to `metrics`", location)


def _twins(study: Any, keys: Iterable[str]) -> Iterator[Complaint]:
    """Yield names that differ in case alone: many disks would take the files of both for one."""
    for key in keys:
        first: dict[str, str] = {}
        for name in _mapping(study, key):
            if (other := first.setdefault(str(name).casefold(), name)) != name:
                yield Complaint(f"differs from '{other}' in case alone; rename one of them", (key, name), "key")


def contradictions(study: Any, offer: Offer) -> list[Complaint]:
    """Yield complaints about references to missing entries, and about recipes and corpora that need each other."""
    models, corpora = _mapping(study, "models"), _mapping(study, "corpora")
    shares, corpora = shares_of(corpora), with_shares_of(corpora)
    complaints = list(_twins(study, ("models", "corpora", "claims", *offer.sections)))

    def check(
        name: str, reference: Reference, location: Location, anchor: Anchor = "value", plain: bool = False
    ) -> bool:
        """Complain of a model or corpus that is missing or of the wrong kind; return whether it exists."""
        noun, entries = ("model", models) if reference.to == "models" else ("corpus", corpora)
        message = ""
        if name not in entries:
            message = no_such(noun, name, entries, reference.to)
        elif reference.labelled and not get(entries[name], "label"):
            message = f"corpus '{name}' has no labels; add `label: COLUMN` to it"
        elif plain and noun == "corpus" and get(entries[name], "chat"):
            message = f"corpus '{name}' is a chat, which only metrics can read; name a corpus without `chat`"
        if message:
            complaints.append(Complaint(message, location, anchor))
        return name in entries

    for name, model in models.items():
        corpus = get(get(model, "recipe"), "train_on")
        if isinstance(corpus, str):
            check(corpus, Reference("train_on", "corpora"), ("models", name, "recipe", "train_on"), plain=True)
        if problem := wrong_origin(name, models):
            complaints.append(Complaint(problem, ("models", name, "recipe", "from")))
        for read in _mapping(model, "states"):
            check(read, Reference("states", "corpora"), ("models", name, "states", read), "key")
        for kin in ("base", "twin"):
            other = get(model, kin)
            if not isinstance(other, str) or other == origin_of(model):
                continue
            if other == name:
                complaints.append(
                    Complaint(f"a model cannot be its own {kin}; name another model", ("models", name, kin))
                )
            else:
                check(other, Reference(kin, "models"), ("models", name, kin))
    for name, corpus in corpora.items():
        for reference in offer.of_corpora:
            for other, inside in () if isinstance(corpus, list) else reference.named(corpus):
                location = ("corpora", shares.get(name, name), *inside)
                with_this_alone = corpora | {name: {reference.key: other}}
                if check(other, reference, location) and (
                    way := circle(("corpus", name), models, with_this_alone, offer.of_corpora)
                ):
                    complaints.append(Complaint(circular(way), location))
    for key, section in offer.sections.items():
        for item, place in section.parts(get(study, key)):
            for reference in section.references:
                for name, inside in reference.named(item):
                    check(name, reference, (key, *place, *inside), plain=True)
    states_metrics = "metrics" in (study if isinstance(study, dict) else study.model_fields_set)
    if states_metrics and get(study, "metrics") not in ("none", ()) and not get(study, "corpora"):
        complaints.append(Complaint("metrics need texts; add a corpus under `corpora`", ("metrics",), "key"))
    catalog = KnownNames.of(study, offer.sections)
    for name, claim in _mapping(study, "claims").items():
        of_key = [kind.form for key, kind in offer.claims.items() if isinstance(claim, dict) and key in claim]
        for form in [type(claim)] if isinstance(claim, Claim) else of_key or [Claim]:
            for named in _named(form, claim, ("claims", name)):
                complaints += _complaints(named, catalog)
    return list(dict.fromkeys(complaints))  # a share says what its corpus says


def _mapping(value: Any, key: str) -> dict[str, Any]:
    entry = get(value, key)
    return entry if isinstance(entry, dict) else {}
