"""Formulas in plain text, set as print sets them: variables italic, indices low, exponents high, names as code.

Definitions are written so that they can be read in a terminal: ``cos(h_l, h_{l+1})``, ``λ1/Σλ``, ``x^(m−1)``. What is a
formula in them follows from a few habits, of which :func:`pieces` knows these: letters that stand alone and small Greek
letters are variables; ``_`` behind a variable begins an index, ``^`` an exponent; a variable's digits are its index;
words joined by ``_`` and what stands between backticks are names.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import NamedTuple

IN_DEFINITION, IN_INTERVAL, IN_GROWTH = 40, 20, 15
"""Words of a definition, an interval and an effect of the corpus size that pages show; a click shows the rest."""

_GOES_ON = re.compile(r"\. [a-z]{2}")  # "et al. show" is one sentence, "of layer l. h is" two
_ASCII = "A-Za-z0-9_"
_OVER = "[\u0300-\u036f]?"  # a bar or a hat
_VARIABLE = f"(?:[A-Za-zα-ωℓ]{_OVER})"
# The name of a group begins with the kind of its piece.
_FORMULA = re.compile(
    "|".join(
        [
            r"``?(?P<code>[^`]+)``?",
            # h_l, h_{l+1}, a_ij, Σ_j, mean_i: after one letter, or a word for what is done over the index
            rf"(?<![{_ASCII}.])(?P<variable_base>mean|min|max|sum|[ΣΠ]|{_VARIABLE})_"
            rf"(?:\{{(?P<below_braced>[^{{}}]+)\}}|(?P<below_index>[A-Za-z0-9]{{1,2}}(?![{_ASCII}])))",
            # (Σu)_j, ‖Y‖_*: after what brackets enclose
            rf"(?<=[)‖])_(?:\{{(?P<below_enclosed>[^{{}}]+)\}}|(?P<below_behind>[A-Za-z0-9*])(?![{_ASCII}]))",
            rf"(?<![{_ASCII}])(?P<code_name>[A-Za-z][A-Za-z0-9]*(?:[_.][A-Za-z0-9]+)*_[A-Za-z0-9]+(?:\.[A-Za-z0-9_]+)*)",
            r"\^(?:\{(?P<above_braced>[^{}]+)\}|\((?P<above_power>[^()]+)\)|(?P<above_raised>[-−+]?[A-Za-z0-9α-ω]+))",
            rf"(?<![{_ASCII}])(?P<variable_numbered>[α-ωrvx])(?P<below_number>[0-9]{{1,3}})(?![{_ASCII}])",
            rf"(?P<variable_greek>[α-ωℓ]{_OVER})",
            r"(?P<variable_turned>(?<![A-Za-z])[A-Z]{2}(?=ᵀ))",
            # no initial, unit ("5 s"), abbreviation ("e.g."), possessive or part of a compound ("t-test")
            rf"(?<![{_ASCII}.'’-])(?<![0-9] )(?P<variable_letter>[A-Za-z]{_OVER})"
            rf"(?![{_ASCII}'’]|\.[A-Za-z]|[-‑][A-Za-z])",
            # and no end of a hash
            r"(?<=[0-9])(?<![A-Za-z][0-9])(?<![A-Za-z][0-9]{2})(?P<variable_times>[dn])(?![A-Za-z0-9_-])",
        ]
    )
)
# the article: "a" before a word, unless that word cannot follow an article
_ARTICLE = re.compile(
    r"\s+(?!(?:and|are|as|exchanged|for|in|is|of|the|to|was|were|what)\b)"
    r"[`(\[\u201c\u2018\"]*[^\W\d_]{2,}|\s+[a-zA-Z]-"
)


class Piece(NamedTuple):
    """A part of a text: ``kind`` is ``text``, ``code``, ``variable``, ``below`` or ``above`` (set as text again)."""

    kind: str
    text: str


def pieces(text: str) -> Iterator[Piece]:
    """Take a text apart: what is prose, and what is set as a formula or as code. Nothing of it gets lost but marks."""
    done = 0
    for match in _FORMULA.finditer(text):
        parts = [Piece(name.partition("_")[0], part) for name, part in match.groupdict().items() if part is not None]
        if match["variable_letter"] is not None and _is_word(text, match):
            continue
        if (match["variable_base"] is not None and len(match["variable_base"]) > 2) or match["variable_base"] in (
            "Σ",
            "Π",
        ):
            parts[0] = Piece("text", match["variable_base"])
        if match.start() > done:
            yield Piece("text", text[done : match.start()])
        yield from parts
        done = match.end()
    if done < len(text):
        yield Piece("text", text[done:])


def folded(text: str, most: int = IN_DEFINITION) -> tuple[str, str]:
    """Return the first sentences or clauses of a text, at most ``most`` words, and the rest.

    A first clause that is longer is not cut. The rest is empty where the whole text is short enough.
    """
    if len(text.split()) <= most:
        return text, ""
    cut = depth = 0
    for position, sign in enumerate(text[:-1]):
        depth += (sign in "([{") - (sign in ")]}")
        ends = sign == ";" or (sign == "." and not _GOES_ON.match(text, position))
        if depth == 0 and ends and text[position + 1] == " ":
            if cut and len(text[: position + 1].split()) > most:
                break
            cut = position + 1
    return (text[:cut].rstrip(";"), text[cut:].strip()) if cut else (text, "")


def as_html(text: str) -> str:
    """Return a text as HTML, everything in it escaped, with ``<var>``, ``<sub>``, ``<sup>`` and ``<code>``."""
    return "".join(
        escape(part) if kind == "text" else f"<{_TAGS[kind]}>{_script_html(kind, part)}</{_TAGS[kind]}>"
        for kind, part in pieces(text)
    )


def as_plain(text: str) -> str:
    """Return a text for where nothing but letters can be set: no backticks, indices and exponents in small letters.

    What Unicode has no small letters for stays as it was written.
    """
    return "".join(_small(kind, part) if kind in _SMALL else part for kind, part in pieces(text))


def _small(kind: str, part: str) -> str:
    letters, mark = _SMALL[kind]
    bare = part.replace(" ", "").replace("-", "−")
    if all(letter in letters for letter in bare):
        return "".join(letters[letter] for letter in bare)
    return f"{mark}{part if len(part) == 1 else f'({part})'}"


def _script_html(kind: str, part: str) -> str:
    if kind not in ("below", "above"):
        return escape(part)
    # two indices in a row, ij or i1
    return "".join(map(as_html, part)) if part.isalnum() and len(part) == 2 else as_html(part)


_TAGS = {"code": "code", "variable": "var", "below": "sub", "above": "sup"}


def _letters(usual: str, small: str) -> dict[str, str]:
    return dict(zip(usual, small, strict=True))


_SMALL: dict[str, tuple[Mapping[str, str], str]] = {
    "below": (_letters("0123456789+−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ"), "_"),
    "above": (
        _letters("0123456789+−=()abcdefghijklmnoprstuvwxyzαβ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵅᵝ"),
        "^",
    ),
}


def _is_word(text: str, match: re.Match[str]) -> bool:
    return match["variable_letter"] == "I" or (
        match["variable_letter"] in "aA" and _ARTICLE.match(text, match.end()) is not None
    )
