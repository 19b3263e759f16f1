"""Groups: texts that mean the same, as a list or as a pattern such as ``{Hello|Hi} there``."""

from __future__ import annotations

import re
from itertools import product
from typing import Annotated, Any

from pydantic import BeforeValidator

from reporter.spec.part import Complaint, Prose, failure
from reporter.spec.problems import show

MOST_TEXTS = 5000  # of one group: silhouettes need all distances


def expand(pattern: str) -> tuple[str, ...]:
    """Return all texts of a pattern: each ``{a|b|c}`` stands for one of its parts, which may be empty.

    Texts come in the order of the parts, the last one changing fastest; repeated texts come once.

    Raises:
        ValueError: a brace that nothing opens or closes, braces inside braces, or more than ``MOST_TEXTS`` texts.
    """
    pieces = re.split(r"\{([^{}]*)\}", pattern)
    if any("{" in piece or "}" in piece for piece in pieces[::2]):
        raise ValueError("its braces do not match; write {a|b}, without braces inside braces")
    choices = [piece.split("|") if place % 2 else [piece] for place, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_TEXTS:
        raise ValueError(f"stands for {count:,} texts; at most {MOST_TEXTS:,} are possible")
    return tuple(dict.fromkeys("".join(parts) for parts in product(*choices)))


def _read(value: Any) -> Any:
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        try:
            texts = expand(value)
        except ValueError as problem:
            raise failure(Complaint(str(problem))) from None
    elif isinstance(value, list):
        texts = tuple(value)
    else:
        raise failure(
            Complaint(f"expected a pattern such as '{{Hello|Hi}} there' or a list of texts, got {show(value)}")
        )
    if len(texts) < 2 or len(texts) > MOST_TEXTS:
        raise failure(Complaint(f"a group needs 2 to {MOST_TEXTS:,} texts, got {len(texts)}"))
    return texts


GroupSpec = Annotated[tuple[Prose, ...], BeforeValidator(_read, json_schema_input_type=str | list[str])]
"""The texts of a group, patterns expanded."""
