"""What a kind of claim is, and where kinds are found.

They are the modules of ``kinds``, what installed packages bring (entry point ``reporter.claims``), files that a study
names under ``plugins``, and cells of a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reporter.claims.finding import Finding
from reporter.errors import ReporterError
from reporter.registry import Registry
from reporter.spec.claims import Claim
from reporter.spec.offer import ClaimForm, Fixed
from reporter.spec.part import Complaint

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec import Study

Form = TypeVar("Form", bound=Claim)
Test = Callable[["Numbers", Form, str, str | None], Finding]
"""Tests a claim on the study's numbers, under a view, on the models or on a null baseline of them.

Raises :class:`~reporter.claims.numbers.Missing` where numbers are missing: the claim is 'failed', with that reason.
"""


def _never(claim: Any, numbers: Numbers) -> bool:
    return False


def _under_views(claim: Any) -> bool:
    return True


def _nothing(claim: Any, fixed: Fixed, plain: Collection[str]) -> Iterator[Complaint]:
    yield from ()


def _possible(study: Study, claim: Any, words: Mapping[str, int]) -> str:
    return ""


@dataclass(frozen=True)
class ClaimKind:
    """A kind of claim.

    Args:
        name: the key in a study that tells it, and what ``claims.kind`` says.
        form: what such a claim looks like there; it has a field of that name.
        test: what it is tested by.
        place: where it stands where kinds are listed.
        under_views: whether a claim is tested under a view; it is not where it says itself what it reads.
        compares_roles: whether a claim compares encoders with decoders; then it is read without sinks.
        refuses: yields what is wrong with a claim where all else in its study is right; see
            :class:`~reporter.spec.offer.ClaimForm`.
        foresees: why a claim cannot be tested as it stands, given how many words the corpora have; empty where it can.
    """

    name: str
    form: type[Claim]
    test: Test[Any]
    place: int = 100
    under_views: Callable[[Any], bool] = _under_views
    compares_roles: Callable[[Any, Numbers], bool] = _never
    refuses: Callable[[Any, Fixed, Collection[str]], Iterator[Complaint]] = _nothing
    foresees: Callable[[Study, Any, Mapping[str, int]], str] = _possible


CLAIM_KINDS: Registry[ClaimKind] = Registry("kind of claim", "claims", "reporter.claims.kinds")


def claim_kind(name: str, form: type[Form], **hooks: Any) -> Callable[[Test[Form]], Test[Form]]:
    """Register the decorated function as the test of a kind of claim.

    Args:
        name: see :class:`ClaimKind`.
        form: likewise.
        hooks: likewise, the others.

    Raises:
        ReporterError: the form has no field of that name, or another module has a kind of that name.
    """
    if name not in form.model_fields:
        raise ReporterError(f"{form.__name__} has no field {name!r}, the key that tells such a claim in a study")

    def register(test: Test[Form]) -> Test[Form]:
        CLAIM_KINDS.add(name, ClaimKind(name, form, test, **hooks), test)
        return test

    return register


def claim_forms(plugins: Collection[Any] | None = None) -> dict[str, ClaimForm]:
    """Return what claims may look like, by the key that tells their kind.

    Args:
        plugins: of the kinds that plugins bring, those of these files alone; those of all if left out.
    """
    kinds = sorted(CLAIM_KINDS.all(plugins).values(), key=lambda kind: (kind.place, kind.name))
    return {kind.name: ClaimForm(kind.form, kind.refuses) for kind in kinds}


def kind_of(claim: Claim) -> ClaimKind:
    """Return the kind of a claim.

    Raises:
        ReporterError: whoever brought it is gone.
    """
    for kind in CLAIM_KINDS.all().values():
        if type(claim) is kind.form:
            return kind
    raise ReporterError(f"nothing is known of claims like {type(claim).__name__}; read the study again")


def foreseen(study: Study, words: Mapping[str, int]) -> Iterator[str]:
    """Yield which claims of a study cannot be tested as they stand, before anything is measured.

    Args:
        study: the study.
        words: words of each of its corpora, as far as they are known.
    """
    for name, claim in study.claims.items():
        if why := kind_of(claim).foresees(study, claim, words):
            yield f"claim {name} cannot be tested as it stands: {why}"
