"""What a study may ask for. The room of the spec knows no metric and no analysis: whoever reads a study hands them on.

It travels as Pydantic's validation context.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationInfo

from reporter.spec.part import Complaint, Name
from reporter.spec.problems import Location

if TYPE_CHECKING:
    from reporter.spec.corpora import CorpusPart

Statistics = Mapping[str, Mapping[str, str]]
"""By metric, the names of its statistics and what each has one number for (``Statistic.per``)."""

Fixed = Mapping[str, tuple[tuple[str, float], ...]]
"""By full name of a statistic, the ends of a profile (``first``, ``last``) whose value is fixed by definition."""


@dataclass(frozen=True)
class Reference:
    """A key of a part of a study under which other parts are named: one, or a list of them.

    Args:
        key: the key.
        to: what is named there.
        labelled: whether the texts of a corpus that is named must have labels.
        says: how a person says that the part waits for what it names, where it does: ``gets the size of corpus``.
        several: whether several may be named, or ``all``; a bare list in the place of the part is short for this key.
    """

    key: str
    to: Literal["models", "corpora"]
    labelled: bool = False
    says: str = ""
    several: bool = False

    def named(self, part: Any) -> Iterator[tuple[str, Location]]:
        """Yield each name, and where it stands in the part.

        Args:
            part: the part, validated or as a file says it, right or wrong.
        """
        bare = self.several and isinstance(part, list)
        value = part if bare else part.get(self.key) if isinstance(part, dict) else getattr(part, self.key, None)
        at: Location = () if bare else (self.key,)
        if isinstance(value, str) and not (self.several and value == "all"):
            yield value, at
        elif isinstance(value, list | tuple):
            yield from ((name, (*at, place)) for place, name in enumerate(value) if isinstance(name, str))


@dataclass(frozen=True)
class Section:
    """What stands under a key of its own in a study file: what an analysis looks at.

    Args:
        item: the type of one item, of which there are any number by name; or, not ``by_name``, of the whole section.
            Its parts derive from ``Part``.
        description: what the key means, for the JSON schema.
        called: what one item and several are called, to count them; None where they are not counted.
        references: what of the study an item names.
        together: empty where each item is looked at by itself and a claim names it in the place of a corpus; else all
            are one, and this stands in the place of the corpus.
        by_name: whether items stand by name under the key.
    """

    item: Any
    description: str
    called: tuple[str, str] | None = None
    references: tuple[Reference, ...] = ()
    together: str = ""
    by_name: bool = True

    @property
    def form(self) -> Any:
        """The type of what stands under the key; its default is an empty mapping, or None."""
        return dict[Name, self.item] if self.by_name else self.item | None  # type: ignore[name-defined]

    def items(self, said: Any) -> Mapping[str, Any]:
        """Return what is looked at, by what stands in the place of a corpus.

        Args:
            said: what a valid study says under the key; None where it has no such key.
        """
        if not said:
            return {}
        return {self.together: said} if self.together else dict(said)

    def named(self, to: str, item: Any) -> Iterator[tuple[str, Location]]:
        """Yield the models or corpora that an item names, and where; see :class:`Reference`."""
        for reference in self.references:
            if reference.to == to:
                yield from reference.named(item)

    def parts(self, said: Any) -> Iterator[tuple[Any, Location]]:
        """Yield each part that may name others, and where it stands under the key, whether it is right or not."""
        if not self.by_name:
            yield said, ()
        elif isinstance(said, dict):
            yield from ((part, (name,)) for name, part in said.items())


def _nothing(claim: Any, fixed: Fixed, plain: Collection[str]) -> Iterator[Complaint]:
    yield from ()


def _always(claim: Any, study: Any) -> Iterator[Complaint]:
    yield from ()


@dataclass(frozen=True)
class ClaimForm:
    """What a kind of claim looks like in a study.

    Args:
        form: derives from :class:`~reporter.spec.claims.Claim` and has the kind's key as a field.
        refuses: yields what is wrong with a claim of a study in which all else is right, given what is fixed by
            definition and the metrics that are measured with their default options alone.
        fits: yields what of such a study a claim does not go with, such as ``texts: fixed``, given the study.
    """

    form: Any
    refuses: Callable[[Any, Fixed, Collection[str]], Iterator[Complaint]] = _nothing
    fits: Callable[[Any, Any], Iterator[Complaint]] = _always


@dataclass(frozen=True)
class Offer:
    """What there is to ask for.

    Args:
        metrics: by name, the model of each metric's options.
        statistics: each metric's and analysis's statistics; without them, claims are not checked for statistics that
            do not exist.
        fixed: where statistics have their value by definition, so that a claim of a peak there says nothing.
        sources: by the key that tells a source of texts, what a study says of a corpus from there.
        sections: by the name of an analysis, which is its key in a study, what stands there.
        claims: by the key that tells a claim's kind, what such a claim looks like.
    """

    metrics: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=dict)
    fixed: Fixed = field(default_factory=dict)
    sources: Mapping[str, type[CorpusPart]] = field(default_factory=dict)
    sections: Mapping[str, Section] = field(default_factory=dict)
    claims: Mapping[str, ClaimForm] = field(default_factory=dict)

    @property
    def of_corpora(self) -> tuple[Reference, ...]:
        """What corpora may name, from whichever source."""
        return tuple(dict.fromkeys(reference for form in self.sources.values() for reference in form.references))


def offer_of(info: ValidationInfo) -> Offer:
    """Return what the study that is being checked may ask for; nothing where nobody said."""
    return info.context if isinstance(info.context, Offer) else Offer()
