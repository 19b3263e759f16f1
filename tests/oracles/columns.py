"""Undoes the packing of columns, as the pages' script does."""

from typing import Any

import numpy as np


def unpack_column(packed: dict[str, Any]) -> list[Any]:
    """Undo :func:`pack_column`; the page's script does the same."""
    if "plain" in packed:
        return list(packed["plain"])
    codes, runs = packed.get("codes"), packed.get("runs", [])
    return [packed["levels"][code] for code in (np.repeat(runs[::2], runs[1::2]) if codes is None else codes)]
