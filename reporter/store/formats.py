"""Formats of a query's result: a table for eyes, CSV and JSON for programs, Markdown and LaTeX for texts."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Literal

from reporter.core.errors import one_line
from reporter.core.progress import terminal_width

# Text as LaTeX reads it: nothing in a name or a token can be taken for a command.


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",  # BibTeX counts braces, a backslash before them or not
    "}": r"\textbraceright{}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "\u00a0": "~",
    "\u200b": r"\allowbreak{}",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
}
_MATHS = {
    "−": "-",
    "×": r"\times",
    "·": r"\cdot",
    "±": r"\pm",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "→": r"\rightarrow",
    "←": r"\leftarrow",
    "↑": r"\uparrow",
    "↓": r"\downarrow",
    "∞": r"\infty",
    "√": r"\surd",
    "∑": r"\sum",
    "Π": r"\prod",
    "Σ": r"\sum",
    "‖": r"\|",
    "⊥": r"\perp",
    "⟨": r"\langle",
    "⟩": r"\rangle",
    "½": r"\frac{1}{2}",
    "′": "'",
    "⁰": "^0",
    "⁺": "^+",
    "²": "^2",
    "³": "^3",
    "ᵀ": r"^\top",
    "₁": "_1",
    "⌊": r"\lfloor",
    "⌋": r"\rfloor",
    "∩": r"\cap",
    "∪": r"\cup",
    "∝": r"\propto",
    "ℓ": r"\ell",
}
_KNOWN = frozenset("ßæøœłÆØŒŁ§©£¡¿")
_MARKS = frozenset("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327")
"""Accents that every font of LaTeX has."""
_GREEK = re.compile(r"GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)")
_LIKE_LATIN = {"omicron": "o", "Alpha": "A", "Beta": "B", "Epsilon": "E", "Zeta": "Z", "Eta": "H", "Iota": "I"}
_LIKE_LATIN |= {"Kappa": "K", "Mu": "M", "Nu": "N", "Omicron": "O", "Rho": "P", "Tau": "T", "Chi": "X"}


def latex(text: str) -> str:
    """Return text that LaTeX sets as it stands.

    Greek letters and the signs of formulas become mathematics, so that pdfLaTeX knows them. A letter that pdfLaTeX does
    not know (tokens may be Chinese) is set by LuaLaTeX and XeLaTeX; pdfLaTeX sets its code point. Apostrophes need
    ``textcomp``, which LaTeX has within since 2020.

    Args:
        text: any text, on one line or several.
    """
    return "".join(_written(letter) for letter in " ".join(text.split()))


def in_maths(letter: str) -> str:
    """Return a sign of formulas as it stands in mathematics; empty for any other letter."""
    if letter in _MATHS:
        return _MATHS[letter]
    if not (greek := _GREEK.fullmatch(unicodedata.name(letter, ""))):
        return ""
    name = greek[2].lower().replace("lamda", "lambda")
    name = name if greek[1] == "SMALL" else name.capitalize()
    return _LIKE_LATIN.get(name) or f"\\{name}"


def number(text: str) -> str:
    r"""Return a number as mathematics: ``-1.5e-07`` is ``$-1.5 \times 10^{-7}$``.

    Args:
        text: digits with a sign and an exponent, where there are any.
    """
    digits, _, exponent = text.partition("e")
    power = rf" \times 10^{{{int(exponent)}}}" if exponent else ""
    return f"${digits}{power}$" if power or digits.startswith("-") else digits


def _written(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    if maths := in_maths(letter):
        return f"${maths}$"
    if not letter.isprintable():
        return " "
    parts = unicodedata.normalize("NFD", letter)
    if letter in _KNOWN or (ord(letter) < 0x180 and parts[0].isascii() and set(parts[1:]) <= _MARKS):
        return letter
    return rf"\ifdefined\Umathchar {letter}\else\texttt{{U+{ord(letter):04X}}}\fi{{}}"


Format = Literal["table", "csv", "json", "markdown", "latex"]

TABLE_ROWS = 1000
_CELL_CHARACTERS = 60
_NUMBER = r"(?:[-+](?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|-inf)(?:[;\t\r\n]|$)"
CSV_RULES = {
    "formula": rf"(?<![^;\t\r\n])(?=[ \u00a0]*(?!{_NUMBER})[=+\-@＝＋－＠])|^(?=[\t\r])",
    "quoted": r'[,;"\t\r\n]|^[\s\ufeff]|[\s\ufeff]$',
}
"""Regular expressions, for Python and JavaScript: what a spreadsheet takes for a formula, and which fields are quoted.

An apostrophe goes before a formula. Where a comma is the decimal sign, spreadsheets separate fields by a semicolon, and
take what stands behind one for a field of its own, quoted or not. A signed number stays as it is.
"""
_FORMULA, _QUOTED = (re.compile(rule) for rule in CSV_RULES.values())


@dataclass(frozen=True)
class Result:
    """The result of a query.

    Attributes:
        columns: Names of the columns.
        rows: Rows of plain Python values.
        total: How many rows there were; more than ``rows`` holds when the format shows only some.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    total: int


def write(result: Result, form: Format, width: int | None = None) -> str:
    """Writes a result.

    Args:
        result: The result.
        form: ``table``, ``csv``, ``json``, ``markdown`` or ``latex`` (a ``tabular`` for the package booktabs).
        width: Columns that a table has room for; its texts are wrapped. None: a table is as wide as its cells.

    Returns:
        The text, without a line break at its end.
    """
    if form in ("csv", "json"):
        return "".join(pieces(result.columns, [result.rows], form))
    return _table(result, width) if form == "table" else {"markdown": _markdown, "latex": _latex}[form](result)


def indented_table(result: Result) -> str:
    """Return a table that fits the terminal, two spaces to the right, without its number of rows."""
    room = terminal_width()
    *lines, count = write(result, "table", room and room - 2).splitlines()
    lines += [count] if "no room" in count else []
    return "\n".join(f"  {line}".rstrip() for line in lines)


def pieces(
    columns: tuple[str, ...], chunks: Iterable[Sequence[tuple[Any, ...]]], form: Format, width: int | None = None
) -> Iterator[str]:
    """Writes rows as they come; CSV and JSON need no more memory than a chunk takes.

    Args:
        columns: Names of the columns.
        chunks: Rows of plain Python values, some at a time.
        form: As in :func:`write`; a table shows the first ``TABLE_ROWS`` alone.
        width: As in :func:`write`.

    Yields:
        Text, in all without a line break at its end.
    """
    if form == "csv":
        yield csv_line(map(csv_field, columns))
        for rows in chunks:
            yield "".join("\n" + csv_line(map(csv_field, row)) for row in rows)
    elif form == "json":
        names, before = _unique(columns), "[\n  "
        for rows in chunks:
            for row in rows:
                yield before + _json(dict(zip(names, row, strict=True)))
                before = ",\n  "
        yield "[]" if before == "[\n  " else "\n]"
    else:
        kept: list[tuple[Any, ...]] = []
        total = 0
        for rows in chunks:
            total += len(rows)
            kept.extend(rows[: max(0, TABLE_ROWS - len(kept))] if form == "table" else rows)
        yield write(Result(columns, kept, total), form, width)


def _table(result: Result, room: int | None) -> str:
    """Aligned columns; numbers to the right with 6 significant digits, long texts cut, NULL spelled out.

    Where there is too little room, texts are wrapped, and columns at the right that still do not fit are only named.
    """
    body = [[_shown(value) for value in row] for row in result.rows]
    lines, hidden = aligned([one_line(name) for name in result.columns], body, _numeric(result), room)
    count = f"{result.total:,} {'row' if result.total == 1 else 'rows'}"
    if len(result.rows) < result.total:
        count = f"{len(result.rows):,} of {result.total:,} rows; --format csv or json prints all rows"
    if hidden:
        count += f"; no room for {', '.join(hidden)}: name the columns to show, or use --format csv"
    return "\n".join([*lines, f"({count})"])


def aligned(
    head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[bool], room: int | None
) -> tuple[list[str], Sequence[str]]:
    """Return the lines of a table, and the headings of columns at the right for which there is no room.

    Args:
        head: the headings.
        body: the cells of each row.
        right: which columns stand to the right.
        room: columns of the terminal; None for as many as are needed.
    """
    from rich.cells import cell_len  # the width in terminal cells, which wide letters fill two of

    columns = list(zip(head, *body, strict=True))
    widths = [max(map(cell_len, column)) for column in columns] if room is None else _narrowed(columns, right, room)

    def lines(cells: Sequence[str]) -> Iterator[str]:
        wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=False)]
        for parts in zip_longest(*wrapped, fillvalue=""):
            padded = []
            for part, width, to_the_right in zip(parts, widths, right, strict=False):
                blank = " " * (width - cell_len(part))
                padded.append(blank + part if to_the_right else part + blank)
            yield "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return [*lines(head), rule, *(line for row in body for line in lines(row))], head[len(widths) :]


_LONGEST_WORDS = (24, 16, 10)
"""Longer words of a table are broken where there is no room for them: the first of these limits that makes it fit."""


def _narrowed(columns: Sequence[Sequence[str]], right: Sequence[bool], room: int) -> list[int]:
    """Return widths of columns that fit, each column with its heading first.

    Numbers are not broken. Columns at the end that do not fit even with short lines are left out.
    """
    from rich.cells import cell_len

    def least(column: Sequence[str], is_number: bool, longest: int) -> int:
        heading, *cells = column
        whole, wrapped = (cells, [heading]) if is_number else ([], column)
        words = (min(longest, cell_len(word)) for text in wrapped for word in text.split())
        return max([*map(cell_len, whole), *words], default=0)

    def over(of: Sequence[int]) -> int:
        return sum(of) + 2 * (len(of) - 1) - room

    for longest in _LONGEST_WORDS:
        fewest = [least(column, is_number, longest) for column, is_number in zip(columns, right, strict=True)]
        if over(fewest) <= 0:
            break
    while len(fewest) > 1 and over(fewest) > 0:
        fewest.pop()
    widths = [max(map(cell_len, column)) for column, _ in zip(columns, fewest, strict=False)]
    while over(widths) > 0 and (wide := [i for i, width in enumerate(widths) if width > fewest[i]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most a width in cells of a terminal."""
    from rich.cells import cell_len, chop_cells

    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        for part in chop_cells(word, width):
            longer = f"{lines[-1]} {part}".lstrip()
            lines[-1:] = [longer] if cell_len(longer) <= width else [lines[-1], part]
    return lines


def _numeric(result: Result) -> list[bool]:
    return [
        any(_is_number(row[i]) for row in result.rows)
        and all(row[i] is None or _is_number(row[i]) for row in result.rows)
        for i in range(len(result.columns))
    ]


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float | Decimal):
        return f"{value:.6g}"
    text = one_line(_text(value))
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _markdown(result: Result) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = f"|{'|'.join('---:' if right else '---' for right in _numeric(result))}|"
    rows = (line(_literal_text(value) or _in_markdown(_text(value)) for value in row) for row in result.rows)
    return "\n".join([line(map(_in_markdown, result.columns)), rule, *rows])


def _latex(result: Result) -> str:
    """The same for LaTeX, with the rules of booktabs."""

    def line(cells: Iterable[str]) -> str:
        return f"  {' & '.join(cells)} \\\\"

    def cell(value: Any) -> str:
        short = _literal_text(value)
        return latex(_text(value)) if short is None else number(short) if _is_number(value) else short

    def guarded(cells: Iterable[str]) -> Iterable[str]:
        # after \\ or a rule a bracket or a star would be taken for an argument
        return ("{}" + text if text[:1] in ("[", "*", "(") else text for text in cells)

    columns = "".join("r" if right else "l" for right in _numeric(result))
    rows = (line(guarded(map(cell, row))) for row in result.rows)
    head = line(guarded(map(latex, result.columns)))
    rules = rf"\begin{{tabular}}{{{columns}}}", r"  \toprule", r"  \midrule", r"  \bottomrule", r"\end{tabular}"
    return "\n".join([*rules[:2], head, rules[2], *rows, *rules[3:]])


def _literal_text(value: Any) -> str | None:
    if value is None:
        return "--"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return f"{value:.6g}" if math.isfinite(value) else None
    return str(value) if isinstance(value, int) else None


def _in_markdown(text: str) -> str:
    text = one_line(" ".join(text.split()))
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", text)


def csv_line(fields: Iterable[str]) -> str:
    """Join fields to a line of a CSV; a lone empty field would be an empty line, which readers skip."""
    return ",".join(fields) or '""'


def csv_field(value: Any) -> str:
    """Return a value as a field of a CSV, NULL as nothing; a spreadsheet does not run it."""
    if value is None:
        return ""
    value = value.tolist() if hasattr(value, "tolist") else value  # a list of a database is an array in pandas
    text = _text(value)
    if isinstance(value, str | dict | list | tuple):
        text = _FORMULA.sub("'", text)
    return '"' + text.replace('"', '""') + '"' if text == "" or _QUOTED.search(text) else text


def _json(record: dict[str, Any]) -> str:
    """Return a row as JSON; a decimal number keeps all its digits, which a float would lose."""
    exact = {key for key, value in record.items() if isinstance(value, Decimal) and value.is_finite()}
    if not exact:
        return _dumped(plain(record))
    fields = (f"{value:f}" if key in exact else _dumped(plain(value)) for key, value in record.items())
    return "{" + ", ".join(f"{_dumped(key)}: {field}" for key, field in zip(record, fields, strict=True)) + "}"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _unique(columns: Iterable[str]) -> list[str]:
    names: list[str] = []
    for name in columns:
        unique, number = name, 1
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    return names


def plain(value: Any) -> Any:
    """Returns a value that JSON knows; NaN and infinity, which it does not know, become null."""
    if isinstance(value, Decimal):
        return plain(float(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {_text(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _text(value)


def _text(value: Any) -> str:
    """A value as text that loses nothing: floats with all their digits, times as ISO 8601."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return str(value)
