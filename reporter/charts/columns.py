"""Packs a frame for a page: column by column, each in the shortest of three forms.

``{"plain": […]}``, ``{"levels": […], "codes": […]}`` or ``{"levels": […], "runs": [code, count, …]}``.
Numbers keep six significant digits: enough for a picture. The CSV beside the page has all of them.
"""

from __future__ import annotations

import json
import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reporter.charts.numbers import is_null

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 6


def pack(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the frame as ``{"rows": count, "columns": {name: packed column}}``, ready for JSON."""
    return {
        "rows": len(frame),
        "columns": {str(name): pack_column(frame[name].tolist()) for name in frame.columns},
    }


def pack_column(values: list[Any]) -> dict[str, Any]:
    """Return one column in the form whose JSON is shortest."""
    tidied = {value: tidy(value) for value in dict.fromkeys(values)}  # most columns say few things many times
    plain = [tidied[value] for value in values]
    levels = list(dict.fromkeys(plain))
    if len(levels) > max(1, len(plain) // 2):
        return {"plain": plain}
    place = {level: code for code, level in enumerate(levels)}
    codes = [place[value] for value in plain]
    runs = [part for code, run in groupby(codes) for part in (code, len(list(run)))]
    forms = ({"plain": plain}, {"levels": levels, "codes": codes}, {"levels": levels, "runs": runs})
    return min(forms, key=lambda form: len(json.dumps(form)))


def tidy(value: Any) -> Any:
    """Return a value that JSON can hold: NULL, NaN and infinity become None, whole floats become integers."""
    if is_null(value) or isinstance(value, str):
        return None if is_null(value) else value
    number = float(value)
    if not math.isfinite(number):
        return None
    if number.is_integer() and abs(number) < 2**53:
        return int(number)
    return float(f"{number:.{DIGITS}g}")
