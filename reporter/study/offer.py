"""The metrics, analyses and claims that a study may name.

The reader of a study passes them in as Pydantic's validation context, since `study` itself has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, SerializeAsAny, ValidationError, ValidationInfo

from reporter.core.errors import hint
from reporter.study.part import Complaint, Name, Part, complaints_of, failure, join, wrong
from reporter.study.problems import Location, show

if TYPE_CHECKING:
    from reporter.study.corpora import CorpusPart

Statistics = Mapping[str, Mapping[str, str]]
"""By metric, the names of its statistics and what each has one number for (``Statistic.per``)."""

Fixed = Mapping[str, tuple[tuple[str, float], ...]]
"""By full name of a statistic, the ends of a profile (``first``, ``last``) whose value is fixed by definition."""


@dataclass(frozen=True)
class Reference:
    """A key whose value names one or several other parts of the study.

    Args:
        key: the key.
        to: what is named there.
        labelled: whether the texts of a corpus that is named must have labels.
        says: the dependency in words, for messages: ``takes its size from corpus``; empty for a key without one.
        several: whether several may be named, or ``all``; a bare list in the place of the part is short for this key.
    """

    key: str
    to: Literal["models", "corpora"]
    labelled: bool = False
    says: str = ""
    several: bool = False

    def named(self, part: Any) -> Iterator[tuple[str, Location]]:
        """Yield each name with its location in the part."""
        bare = self.several and isinstance(part, list)
        value = part if bare else part.get(self.key) if isinstance(part, dict) else getattr(part, self.key, None)
        location: Location = () if bare else (self.key,)
        if isinstance(value, str) and not (self.several and value == "all"):
            yield value, location
        elif isinstance(value, list | tuple):
            yield from ((name, (*location, place)) for place, name in enumerate(value) if isinstance(name, str))


@dataclass(frozen=True)
class Section:
    """The section of a study file that an analysis reads.

    Args:
        item: the type of one item, of which there are any number by name; or, not ``by_name``, of the whole section.
            Its parts derive from ``Part``.
        description: what the key means, for the JSON schema.
        called: what one item and several are called, to count them; None where they are not counted.
        references: what of the study an item names.
        together: empty where each item is looked at by itself and a claim names it in the place of a corpus; else all
            are one, and this stands in the place of the corpus.
        by_name: whether items stand by name under the key.
        example: a short one as YAML, for messages; CORPUS stands for a name of the study.
    """

    item: Any
    description: str
    called: tuple[str, str] | None = None
    references: tuple[Reference, ...] = ()
    together: str = ""
    by_name: bool = True
    example: str = "…"

    @property
    def form(self) -> Any:
        """The type of what stands under the key; its default is an empty mapping, or None."""
        return dict[Name, self.item] if self.by_name else self.item | None  # type: ignore[name-defined]

    def items(self, content: Any) -> Mapping[str, Any]:
        """Return the items of the section by name."""
        if not content:
            return {}
        return {self.together: content} if self.together else dict(content)

    def named(self, to: str, item: Any) -> Iterator[tuple[str, Location]]:
        """Yield the models or corpora that an item names, and where; see :class:`Reference`."""
        for reference in self.references:
            if reference.to == to:
                yield from reference.named(item)

    def parts(self, content: Any) -> Iterator[tuple[Any, Location]]:
        """Yield each part that may name others, and where it stands under the key, whether it is right or not."""
        if not self.by_name:
            yield content, ()
        elif isinstance(content, dict):
            yield from ((part, (name,)) for name, part in content.items())


@dataclass(frozen=True)
class ClaimForm:
    """The form of a kind of claim in a study.

    Args:
        form: derives from :class:`~reporter.study.claims.Claim` and has the kind's key as a field.
        refuses: yields the mistakes of a claim in an otherwise correct study, given the values that are fixed by
            definition and the metrics with default options.
        fits: yields the keys of such a study that a claim cannot be combined with, such as ``texts: fixed``.
    """

    form: Any
    refuses: Callable[[Any, Fixed, Collection[str]], Iterable[Complaint]] = lambda claim, fixed, plain: ()
    fits: Callable[[Any, Any], Iterable[Complaint]] = lambda claim, study: ()


@dataclass(frozen=True)
class Offer:
    """The metrics, analyses, sources and claims that a study may use."""

    metrics: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=dict)
    fixed: Fixed = field(default_factory=dict)
    sources: Mapping[str, type[CorpusPart]] = field(default_factory=dict)
    sections: Mapping[str, Section] = field(default_factory=dict)
    claims: Mapping[str, ClaimForm] = field(default_factory=dict)

    @property
    def of_corpora(self) -> tuple[Reference, ...]:
        """The names that corpora may refer to, from all sources."""
        return tuple(dict.fromkeys(reference for form in self.sources.values() for reference in form.references))


def offer_of(info: ValidationInfo) -> Offer:
    """Return the offer in the validation context; an empty offer where there is none."""
    return info.context if isinstance(info.context, Offer) else Offer()


# Which metrics a study asks for, and with which options.


Catalogue = Mapping[str, type[BaseModel]]
"""By name of a metric, the model of its options."""


class MetricChoice(Part):
    """A metric with its options, defaults filled in.

    Args:
        name: the metric's name.
        options: an instance of that metric's options model.
    """

    name: str
    options: SerializeAsAny[BaseModel]


def read_metrics(value: Any, info: ValidationInfo) -> Any:
    """Turn ``all``, ``none``, or a list of names, ``{name: options}`` and ``all``, into :class:`MetricChoice` values.

    Raises:
        ValidationError: an unknown metric or option, or a metric that is listed twice.
    """
    offer = offer_of(info)
    catalogue = offer.metrics
    if value == "all":
        return _all(catalogue)
    if value == "none":
        return ()
    if not isinstance(value, list | tuple):
        raise wrong(f"expected 'all', 'none' or a list such as [convergence, motion], got {show(value)}")
    if not value:
        raise wrong("must not be empty; remove `metrics` to measure all, or write `metrics: none`")
    chosen: dict[str, MetricChoice] = {}
    complaints: list[Complaint] = []
    for index, item in enumerate(value):
        if item == "all":
            continue
        try:
            choice = _read_choice(item, offer)
        except ValidationError as error:
            complaints += join(complaints_of(error), index)
            continue
        if choice.name in chosen:
            complaints.append(Complaint(f"metric '{choice.name}' is listed twice; remove one of them", (index,)))
        chosen[choice.name] = choice
    if complaints:
        raise failure(*complaints)
    if "all" in value:  # with the options of those that are listed beside it, and with optional ones that are
        everything = {choice.name: choice for choice in _all(catalogue)} | chosen
        return tuple(everything[name] for name in sorted(everything))
    return tuple(chosen.values())


def _all(catalogue: Catalogue) -> tuple[MetricChoice, ...]:
    defaults = {name: options for name, options in catalogue.items() if not getattr(options, "optional", False)}
    return tuple(MetricChoice(name=name, options=options()) for name, options in defaults.items())


def _read_choice(item: Any, offer: Offer) -> MetricChoice:
    if isinstance(item, str):
        return MetricChoice(name=item, options=_options(item, {}, offer, ()))
    if isinstance(item, dict) and len(item) == 1:
        name, options = next(iter(item.items()))
        return MetricChoice(name=name, options=_options(name, options, offer, (name,)))
    got = f"a mapping with {len(item)} keys" if isinstance(item, dict) else show(item)
    raise wrong(f"expected the name of a metric or a mapping {{name: {{option: value}}}}, got {got}")


def _options(name: str, given: Any, offer: Offer, location: tuple[str, ...]) -> BaseModel:
    if section := offer.sections.get(name):
        remedy = f"remove it here and write it beside `metrics:`, such as `{name}: {section.example}`"
        raise wrong(f"'{name}' is an analysis with a section of its own; {remedy}", *location, anchor="key")
    if name not in offer.metrics:
        raise wrong(f"unknown metric '{name}'{hint(name, list(offer.metrics), 'metrics')}", *location, anchor="key")
    model = offer.metrics[name]
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise wrong(f"expected a mapping of options such as {{sample: 512}}, got {show(given)}", *location)
    try:
        # By way of JSON, in which strict means: no guessing, but a list will do for a tuple.
        return model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        raise failure(*join(complaints_of(error, list(model.model_fields)), *location)) from None
