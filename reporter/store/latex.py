"""Text as LaTeX reads it: nothing in a name or a token can be taken for a command."""

from __future__ import annotations

import re
import unicodedata

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
    "Σ": r"\Sigma",
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
_GREEK = re.compile(r"GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)")
_LIKE_LATIN = {"omicron": "o", "Alpha": "A", "Beta": "B", "Epsilon": "E", "Zeta": "Z", "Eta": "H", "Iota": "I"}
_LIKE_LATIN |= {"Kappa": "K", "Mu": "M", "Nu": "N", "Omicron": "O", "Rho": "P", "Tau": "T", "Chi": "X"}


def latex(text: str) -> str:
    """Return text that LaTeX sets as it stands.

    Greek letters and the signs of formulas become mathematics, so that pdfLaTeX knows them; letters of scripts that it
    does not know (tokens may be Chinese) stay, for LuaLaTeX and XeLaTeX. Apostrophes need ``textcomp``, which
    LaTeX has within since 2020.

    Args:
        text: any text, on one line or several.
    """
    return "".join(_written(letter) for letter in " ".join(text.split()))


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
    if letter in _MATHS:
        return f"${_MATHS[letter]}$"
    if not letter.isprintable():
        return " "
    if greek := _GREEK.fullmatch(unicodedata.name(letter, "")):
        name = greek[2].lower().replace("lamda", "lambda")
        name = name if greek[1] == "SMALL" else name.capitalize()
        return f"${_LIKE_LATIN.get(name) or chr(92) + name}$"
    return letter
