"""How text of declarations is written in Markdown, as pages of the site have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
_ROLE = re.compile(r":(?:class|mod|func|meth|attr):`~?([^`]+)`")
_SPECIAL = re.compile(r"([\\*_<>\[\]#~])")


def prose(text: str) -> str:
    """Return text on one line, of which nothing is Markdown but code between backticks."""
    parts = _CODE.split(" ".join(_ROLE.sub(r"`\1`", text).split()))
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def facts(said: Mapping[str, str]) -> str:
    """Return a list of facts, each under what it is; those that are empty are left out."""
    return "\n".join(f"**{prose(label)}**\n: {fact}\n" for label, fact in said.items() if fact)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are Markdown.

    Args:
        head: the names of its columns.
        rows: as many cells each.
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Return text as code in a line."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
