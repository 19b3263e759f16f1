"""Write numbers for people."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def is_null(value: Any) -> bool:
    """Return whether a value is NULL: None, NaN or pandas' NA or NaT."""
    if isinstance(value, float | int | str):
        return bool(value != value)  # almost always
    return value is None or repr(value) in {"<NA>", "NaT"} or bool(value != value)


TINY_P = 1e-12
"""A smaller p is only known to be below it: rounding leaves no more."""


def p_value(p: float, digits: int = 3) -> str:
    """Write a p as :func:`short` does, and a tiny one as ``< 10⁻¹²``."""
    return "< 10⁻¹²" if p < TINY_P else short(p, digits)


def short(value: Any, digits: int = 3) -> str:
    """Write a number with three significant digits, or as asked for; less than 1 is never written as 1.

    ``0.0412``, ``12.3``, ``4,096``, ``1.2 × 10⁻⁵``, ``0.9998``; NULL is ``–``.
    """
    if is_null(value):
        return "–"
    number = float(value)
    if not math.isfinite(number):
        return "∞" if number > 0 else "−∞"
    size = abs(number)
    if size == 0:
        return "0"
    while size < 1 <= float(f"{size:.{digits}g}") and digits < MOST_DIGITS + 1:
        digits += 1
    text = f"{number:,.0f}" if size >= 99.5 else f"{number:.{digits}g}"
    if "e" in text:
        front, power = text.split("e")
        text = f"{front} × 10{str(int(power)).translate(_RAISED)}"
    return text.replace("-", "−", 1) if number < 0 else text


def signed(value: float, low: Any = None, high: Any = None) -> str:
    """Write a difference, a positive one with its sign: ``+0.041``, or with its interval ``+0.04 [0.01, 0.07]``."""
    known = decimals_of(value, low, high) is not None
    return with_sign(value, estimate(value, low, high) if known else short(value, 2))


def with_sign(value: Any, text: str) -> str:
    """Put the sign of a positive number before it as written."""
    return text if is_null(value) or value <= 0 else f"+{text}"


Measured = tuple[Any, Any, Any]
"""A number and the ends of its interval; each may be NULL."""


def estimate(value: Any, low: Any = None, high: Any = None, decimals: int | None = None) -> str:
    """Write a number with its interval, ``0.27 [0.26, 0.28]``: as many decimals as the interval leaves certain.

    Args:
        value: the number.
        low: the lower end of its interval.
        high: the upper end.
        decimals: how many decimals, where the number is compared with others (:func:`estimates`).
    """
    known = decimals_of(value, low, high)
    if decimals is not None and known is not None and abs(value) < 999.5:  # no decimals of thousands for a small one
        known = decimals
    if known is None or known > MOST_DECIMALS:
        if decimals is None or is_null(value) or decimals > MOST_DECIMALS:
            return short(value) if known is None else f"{short(value)} [{short(low)}, {short(high)}]"
        return _fixed(value, decimals)
    return f"{_fixed(value, known)} [{_fixed(low, known)}, {_fixed(high, known)}]"


def decimals_of(value: Any, low: Any, high: Any) -> int | None:
    """Return how many decimals of a number its interval leaves certain; None without an interval."""
    if is_null(value) or is_null(low) or is_null(high) or not high > low:
        return None
    size = max(abs(value), abs(low), abs(high))
    decimals = max(math.ceil(-math.log10(high - low)), 1 - math.floor(math.log10(size)))
    for _ in range(2):  # an end that is not 0 does not read as 0: the interval would seem to touch it
        decimals += any(end != 0 and float(f"{end:.{max(decimals, 0)}f}") == 0 for end in (low, high))
    return decimals


def estimates(numbers: Sequence[Measured]) -> list[str]:
    """Write numbers that readers compare, such as those of a row, with the decimals of the most certain one."""
    known = [decimals for number in numbers if (decimals := decimals_of(*number)) is not None]
    return [estimate(*number, max(known, default=None)) for number in numbers]


def compared(a: Measured, b: Measured, difference: Measured) -> tuple[str, str, str]:
    """Write two numbers and the first minus the second, which is the difference of the numbers as they are written.

    They get one decimal more where that difference would else not be the measured one, rounded.
    """
    known = [decimals for number in (a, b, difference) if (decimals := decimals_of(*number)) is not None]
    decimals = max(known) if known else _decimals_together(a[0], b[0])
    if decimals is None or decimals > MOST_DECIMALS or any(is_null(number[0]) for number in (a, b, difference)):
        return estimate(*a), estimate(*b), estimate(*difference)
    shown = {
        n: round(a[0], max(n, 0)) - round(b[0], max(n, 0))
        for n in range(decimals, min(decimals + 1, MOST_DECIMALS) + 1)
    }
    decimals = next((n for n, gap in shown.items() if _fixed(gap, n) == _fixed(difference[0], n)), decimals)
    return estimate(*a, decimals), estimate(*b, decimals), estimate(shown[decimals], *difference[1:], decimals)


def beside(difference: Measured, a: float, b: float, *more: float) -> list[str]:
    """Write two numbers whose difference stands elsewhere, and more that stand with them, in one precision."""
    texts = compared((a, None, None), (b, None, None), difference)[:2]
    decimals = len(texts[0].partition(".")[2])
    return [*texts, *(estimate(number, decimals=decimals) if decimals else short(number) for number in more)]


def apart(values: Sequence[float]) -> list[str]:
    """Write numbers of a sentence or a row in one precision, with as many digits as distinguish them."""
    return in_one_precision(values, digits_of(values))


def _decimals_together(a: Any, b: Any) -> int | None:
    """Return the decimals of two numbers without intervals: of the finer one, at most four digits of the larger."""
    if is_null(a) or is_null(b) or not max(abs(a), abs(b)) >= 1e-4:
        return None
    decimals = max(len(short(number).partition(".")[2]) for number in (a, b))
    return min(decimals, max(0, 3 - math.floor(math.log10(max(abs(a), abs(b))))))


def _fixed(value: float, decimals: int) -> str:
    return f"{value:z,.{max(decimals, 0)}f}".replace("-", "−")


MOST_DECIMALS = 5
MOST_DIGITS = 4
ROUNDING = 1e-6
"""Of the largest of some numbers: what is smaller than that is 0 but for rounding."""


def digits_of(values: Sequence[float]) -> int:
    """Return how many significant digits distinguish numbers, two at least and four at most.

    Numbers that differ by less than a thousandth of the largest count as equal. What is less than 1 in size is not
    rounded up to it: a correlation of −0.998 is not perfect.
    """
    size = max(map(abs, values), default=0.0)
    clear = sorted(value for value in values if abs(value) > ROUNDING * size)
    pairs = [(a, b) for a, b in pairwise(clear) if b - a > size / 1000]
    for digits in range(2, MOST_DIGITS):
        apart = all(short(a, digits) != short(b, digits) for a, b in pairs)
        if apart and not any(abs(value) < 1 and short(value, digits) in ("1", "−1") for value in clear):
            return digits
    return MOST_DIGITS


def in_one_precision(values: Sequence[float], digits: int = 2, size: float = 0.0) -> list[str]:
    """Write numbers that stand beside each other with as many decimals each: significant digits of the largest.

    Beside hundreds there are none. Whole numbers stay whole, and a number that would read as 0 has its own digits, as
    one below 1 has beside hundreds.
    """
    largest = max([size, *map(abs, values)])
    if not largest >= 1e-4 or all(float(value).is_integer() for value in values):
        return [short(value, digits) for value in values]
    wide = largest >= 99.5
    decimals = 0 if wide else digits - 1 - math.floor(math.log10(largest))
    decimals += largest == 1  # a perfect share has as many as those below it
    while decimals < MOST_DECIMALS and any(
        abs(value) < 1 <= round(abs(value), decimals) for value in (*values, largest) if not wide
    ):
        decimals += 1
    decimals = min(decimals, MOST_DECIMALS)
    own = [value != 0 and (abs(value) < 1 if wide else not round(value, decimals)) for value in values]
    return [short(v, digits) if alone else _fixed(v, decimals) for v, alone in zip(values, own, strict=True)]


def near(value: float, digits: int, size: float, nothing: float = ROUNDING) -> str:
    """Write a number as ``≈ 0`` where it is at most the share ``nothing`` of ``size``, the size of the largest."""
    return "≈ 0" if 0 < abs(value) <= nothing * size else short(value, digits)


def span(values: Sequence[float], digits: int = 0, size: float = 0.0) -> str:
    """Write the smallest and the largest value: ``0.12``, ``0.12–0.31``, ``−0.06 to 0.1``.

    Args:
        values: the values.
        digits: significant digits; 0 for as many as distinguish both ends.
        size: the size of the largest number in their neighbourhood.
    """
    ends = min(values), max(values)
    if ends[0] == ends[1] and not digits:
        return short(ends[0], digits_of(ends))
    largest = max(size, *map(abs, ends))
    low, high = (
        "≈ 0" if 0 < abs(end) <= ROUNDING * largest else text
        for end, text in zip(ends, in_one_precision(ends, digits or digits_of(ends), size), strict=True)
    )
    return joined(low, high)


def joined(low: str, high: str) -> str:
    """Join the ends of a range as written: ``0.12``, ``0.12–0.31``, ``−0.06 to 0.1``."""
    return low if low == high else f"{low} to {high}" if "−" in low + high or "≈" in low + high else f"{low}–{high}"


def whole(value: Any) -> str:
    """Write a whole number with thousands separated; NULL is ``–``."""
    return "–" if is_null(value) else f"{int(value):,}"


def counted(number: Any, noun: str, plural: str = "") -> str:
    """Write how many of something there are: ``1 model``, ``1,024 texts``, ``2 corpora``."""
    return f"{whole(number)} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: Any, rough: bool = False) -> str:
    """Write a duration: ``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 10 min``; a rough one is ``1 s`` or ``3 min``."""
    if is_null(seconds):
        return "–"
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s" if rough else f"{seconds:.{int(seconds < 10)}f} s"
    minutes, rest = divmod(round(seconds / 60) * 60 if rough else round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min" if rough else f"{minutes} min {rest:02d} s"


def size_text(size: int) -> str:
    """Write a number of bytes in powers of 1024: ``1023 B``, ``1.0 KiB``, ``250 MiB``."""
    if size < 1024:
        return f"{size} B"
    power = min(4, (size.bit_length() - 1) // 10)
    value = size / 1024**power
    return f"{value:.{0 if value >= 10 else 1}f} {'KMGT'[power - 1]}iB"
