"""Undoes the packing of columns, as the pages' script does."""

from typing import Any


def unpack_column(packed: dict[str, Any]) -> list[Any]:
    """Undo :func:`pack_column`; the page's script does the same."""
    if "plain" in packed:
        return list(packed["plain"])
    levels = packed["levels"]
    if "codes" in packed:
        return [levels[code] for code in packed["codes"]]
    runs = packed["runs"]
    return [levels[code] for code, count in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]
