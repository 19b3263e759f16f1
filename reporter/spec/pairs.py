"""Pairs: texts that differ in one concept, to see whether the difference is a direction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo

from reporter.spec.part import AsPath, Complaint, Name, Part, Prose, complaints_of, failure, one_of
from reporter.spec.problems import show


def _two_texts(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(value)
    got = f"a list of {len(value)}" if isinstance(value, list | tuple) else show(value)
    raise failure(Complaint(f"expected two texts, [first, second], got {got}"))


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if len(value) < 2:
            raise failure(Complaint(f"a concept needs at least 2 pairs, got {len(value)}"))
        return tuple(value)
    raise failure(Complaint(f"expected a list of pairs such as [[She left., He left.], …], got {show(value)}"))


TextPair = Annotated[tuple[Prose, Prose], BeforeValidator(_two_texts)]
ConceptPairs = Annotated[tuple[TextPair, ...], BeforeValidator(_as_tuple, json_schema_input_type=list[list[str]])]


class WrittenPairs(Part):
    """Concepts written in the study."""

    concepts: dict[Name, ConceptPairs] = Field(
        min_length=1, description="Pairs of texts by concept; the direction goes from the first to the second."
    )


class PairsFile(Part):
    """Concepts in a YAML file: a mapping from concept to pairs."""

    file: Annotated[Path, AsPath] = Field(description="The file, relative to the study file or absolute.")


class ShippedPairs(Part):
    """The concepts that come with reporter."""

    shipped: Literal["concepts"] = Field(description="'concepts': at least ten concepts of ten pairs each.")


_read_mapping = one_of(
    {"concepts": WrittenPairs, "file": PairsFile, "shipped": ShippedPairs}, "{female-male: [[She left., He left.], …]}"
)


def written_pairs(value: Any) -> WrittenPairs:
    """Return concepts from the mapping that a study or a file of pairs holds.

    Raises:
        ValidationError: it is wrong; 'concepts', which is no key there, is left out of the locations.
    """
    try:
        return WrittenPairs.model_validate({"concepts": value})
    except ValidationError as error:
        raise failure(*(replace(c, location=c.location[1:]) for c in complaints_of(error))) from None


def _read(value: Any, info: ValidationInfo) -> Any:
    if value == "shipped":
        value = {"shipped": "concepts"}
    if isinstance(value, dict) and not ({"file", "shipped"} & value.keys()):
        return written_pairs(value)
    return _read_mapping(value, info)


PairsSpec = Annotated[
    WrittenPairs | PairsFile | ShippedPairs,
    BeforeValidator(_read, json_schema_input_type=Literal["shipped"] | dict[str, list[list[str]]] | PairsFile),
]
"""``shipped``, ``{file: …}``, or pairs of texts by concept."""
