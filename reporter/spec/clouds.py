"""Clouds: corpora compared as point clouds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from reporter.spec.part import AsTuple, Complaint, Name, Part, failure
from reporter.spec.problems import show


class CloudSpec(Part):
    """Two or more corpora whose texts become points."""

    corpora: Annotated[tuple[Name, ...], AsTuple] = Field(description="Two or more corpora of this study.")
    sample: int = Field(500, ge=10, le=5000, description="Texts of each corpus; the first so many in a random order.")


def _read(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = {"corpora": list(value)}
    if isinstance(value, dict) and isinstance(value.get("corpora"), list):
        corpora = value["corpora"]
        if len(corpora) < 2:
            raise failure(Complaint(f"needs two or more corpora, got {show(corpora)}"))
        for place, name in enumerate(corpora):
            if name in corpora[:place]:
                raise failure(Complaint(f"'{name}' is listed twice", ("corpora", place)))
    return value


Cloud = Annotated[CloudSpec, BeforeValidator(_read, json_schema_input_type=list[str] | CloudSpec)]
"""A list of corpora, or a mapping with more to say."""
