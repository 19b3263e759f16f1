"""LaTeX of a paper: sentences whose formulas are formulas, and its tables."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reporter.charts.formulas import as_plain, pieces
from reporter.charts.picture import Figure
from reporter.charts.styles import ordered
from reporter.core.numbers import Measured, estimate, estimates, is_null, p_value, whole
from reporter.core.places import place as layer_name
from reporter.judge.facts import with_analyses
from reporter.report.citing import in_words, read_passes, span
from reporter.report.contents import Contents
from reporter.report.tables import model_rows, rows_of
from reporter.store.formats import Result, in_maths, latex, write

ONE_COLUMN = 100.0
"""What is up to so many millimetres wide stands in one column of a paper of two."""
PREAMBLE = r"""% \input this file, or copy from it.
% It needs \usepackage{graphicx,booktabs,array}; \cite needs references.bib."""
_ON, _OFF = "\ue000", "\ue001"
"""Around mathematics, until all of it is gathered."""
_NAMES = "arccos|cos|det|exp|ln|log|max|min"
_WORDS = rf"(?:{_NAMES}|map|mean|Var)"
_GLUE = re.compile(rf"[\s\d()/=+,:<>|*!]*(?:\b{_WORDS}\b)?[\s\d()/=+,:<>|*!]*")
_BEFORE = re.compile(rf"(?:\|?(?:\b{_WORDS}[\s(\[|]+)+|\(+(?:\d+/)?|\||[<>]\s?|(?:[<>]\s?)?\b\d+(?:\.\d+)?\s?)$")
_BEHIND = re.compile(r"\s?\d[\d.,]*\d|\s?\d")
_PLUS = re.compile(r"\+\d+")
_CLOSING = re.compile(r"[)\]|]+")
_OPERATORS = ("-", "\\times", "\\leq", "\\geq", "\\neq", "\\approx", "\\cdot", "\\pm", "^")
_ROOT = re.compile(r"\\surd\s*((?:\\sum\s*)?\\?[A-Za-z]+\s*(?:\^\{\w\})?)")
_RAISED = re.compile("[⁻⁰¹²³⁴-⁹]+")
_USUAL = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_BAR = "\u0304"
_INTERVAL = re.compile(r"\[[^\[\]]+, [^\[\]]+\]$")
_LONG_WORD = re.compile(r"[^\s\u200b]{13,}")


def typeset(text: str) -> str:
    """Return a text of prose and formulas as LaTeX."""
    text = _RAISED.sub(lambda power: f"^({power[0].translate(_USUAL)})", text.replace("'", "’"))
    marked = "".join(_marked(kind, part) for kind, part in pieces(text)).replace(_OFF + _ON, "")
    parts = re.split(f"{_ON}(.*?){_OFF}", marked, flags=re.DOTALL)  # prose, mathematics, prose, …
    done = ""
    for place in range(1, len(parts), 2):
        prose, maths = parts[place - 1], parts[place]
        match = _BEFORE.search(prose)
        if match and match[0].strip("(") == "" and not _closes(parts[place:]):
            match = None
        if match and (not match[0].strip()[-1].isdigit() or maths.startswith(_OPERATORS)):
            prose, maths = prose[: match.start()], _named(match[0]) + maths
        behind = parts[place + 1]
        if maths.rstrip().endswith(_OPERATORS) and (match := _BEHIND.match(behind)):
            maths, behind = maths + match[0], behind[match.end() :]
        if match := _PLUS.match(behind):
            maths, behind = maths + match[0], behind[match.end() :]
        if (match := _CLOSING.match(behind)) and (cut := min(_open(maths), match.end())):
            maths, behind = maths + behind[:cut], behind[cut:]
        glued = place + 2 < len(parts) and _GLUE.fullmatch(behind) and ("," not in behind or _open(maths))
        if glued and (not behind.endswith(" (") or _closes(parts[place + 2 :])):
            parts[place + 1], parts[place + 2] = "", f"{maths}{_named(behind)}{parts[place + 2]}"
            parts[place + 1] = prose
            continue
        parts[place + 1] = behind
        done += f"{_prose(prose)}${_tidy(maths)}$"
    return done + _prose(parts[-1])


def _closes(parts: Sequence[str]) -> bool:
    """Return whether a bracket that opens before some parts (mathematics, prose, …) closes within a formula."""
    for place, part in enumerate(parts):
        before, bracket, _ = part.partition(")")
        if place % 2 and not _GLUE.fullmatch(before):
            return False
        if bracket:
            return True
    return False


def _tidy(maths: str) -> str:
    """Return mathematics as people write it: roots as roots, no braces around one letter, no spaces without need."""
    maths = _ROOT.sub(lambda power: rf"\sqrt{{{power[1].strip()}}}", maths)
    maths = re.sub(r"([_^])\{(\w)\}", r"\1\2", " ".join(maths.split()))
    maths = re.sub(r"(\\[A-Za-z]+|\\\|) (?=[_^/(),|=\]}]|$)|(\\\|) |(\\sum) (?![A-Za-z])", r"\1\2\3", maths)
    return re.sub(r"(?:^|(?<=\S))- ", "-", maths.replace(" ^", "^").replace(" _", "_"))


def _open(maths: str) -> int:
    missing = sum(maths.count(sign) for sign in "([") - sum(maths.count(sign) for sign in ")]")
    return max(0, missing + maths.replace(r"\|", "").count("|") % 2)


def _named(text: str) -> str:
    text = re.sub(rf"\b({_NAMES})\b", r"\\\1 ", text)
    return re.sub(r"(?<![\\A-Za-z])(map|mean|Var)\b", r"\\mathrm{\1}", text)


def _marked(kind: str, part: str) -> str:
    if kind == "text":
        return "".join(f"{_ON}{maths} {_OFF}" if (maths := in_maths(letter)) else letter for letter in part)
    if kind == "code":
        return f"`{part}`"
    return f"{_ON}{_formula(kind, part)}{_OFF}"


def _formula(kind: str, part: str) -> str:
    if kind == "variable":
        letter = in_maths(part[0]) or part[0]
        return rf"\bar{{{letter}}}" if part[1:] == _BAR else letter + " " * letter.startswith("\\")
    inner = part if part.isalnum() and len(part) <= 2 else "".join(_inner(*piece) for piece in pieces(part))
    return f"{'_' if kind == 'below' else '^'}{{{inner}}}"


def _inner(kind: str, part: str) -> str:
    if kind == "text":
        words = re.sub(r"[A-Za-z]{2,}", lambda match: rf"\mathrm{{{match[0]}}}", part)
        return "".join(f"{maths} " if (maths := in_maths(letter)) else letter for letter in words)
    return rf"\mathrm{{{latex(part)}}}" if kind == "code" else _formula(kind, part)


def _prose(text: str) -> str:
    parts = re.split(r"`([^`]*)`", text)
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = r"\texttt{" + latex(re.sub("(?<=[._])", "\u200b", part)) + "}"
        else:
            parts[place] = " " * part[:1].isspace() + latex(part) + " " * (part[-1:].isspace() and len(part) > 1)
    return "".join(parts)


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Args:
        name: of its label.
        caption: of prose and formulas.
        columns: the heading of each column, with its share of the width.
        rows: cells of prose and formulas.
    """

    name: str
    caption: str
    columns: Mapping[str, float]
    rows: Sequence[Sequence[str]]

    @property
    def markdown(self) -> str:
        """The same as Markdown."""
        rows = [tuple(map(as_plain, row)) for row in self.rows]
        return f"{as_plain(self.caption)}\n\n{write(Result(tuple(self.columns), rows, len(rows)), 'markdown')}"


def table(shown: PaperTable, width: float) -> str:
    """Return a table environment as wide as the line; cells break into lines."""
    total = sum(shown.columns.values())
    columns = "".join(
        rf">{{\raggedright\arraybackslash}}p{{\dimexpr{share / total:.3f}\linewidth-2\tabcolsep\relax}}"
        for share in shown.columns.values()
    )
    broken = [[_LONG_WORD.sub(_breakable, cell) for cell in cells] for cells in (list(shown.columns), *shown.rows)]
    written = [[_INTERVAL.sub(r"\\mbox{\g<0>}", typeset(cell)) for cell in cells] for cells in broken]
    heading, *rows = (" & ".join(cells) + r" \\[2pt]" for cells in written)
    return environment(
        "table",
        width,
        rf"\setlength{{\belowcaptionskip}}{{4pt}}\caption{{{typeset(shown.caption)}}}",
        rf"\label{{tab:{shown.name}}}",
        r"\footnotesize\setlength{\tabcolsep}{2pt}",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        *(r"\toprule", heading, r"\midrule", *rows, r"\bottomrule"),
        r"\end{tabular}",
    )


def _breakable(word: re.Match[str]) -> str:
    """Return a long word with places where it may break: after signs, and between equal parts of at most 13 letters."""
    parts = re.findall(r"(?:[^\W_]|['’](?=[^\W_]))+[\W_]?|[\W_]", word[0])
    sizes = [math.ceil(len(part) / math.ceil(len(part) / 13)) for part in parts]
    cut = [part[i : i + size] for part, size in zip(parts, sizes, strict=True) for i in range(0, len(part), size)]
    return "\u200b".join(cut)


def environment(name: str, width: float, *lines: str) -> str:
    """Return a float, across both columns of a paper if it is wider than one."""
    name = name if width <= ONE_COLUMN else f"{name}*"
    return "\n".join([rf"\begin{{{name}}}[tp]", *(f"  {line}" for line in (r"\centering", *lines)), rf"\end{{{name}}}"])


# The tables of a paper: models, corpora, claims, findings, and numbers by layer.


NAMES = 1.1
"""Width of the column of names, for one of a column of numbers."""
MOST_MODELS = 6
"""Models whose profiles a paper has room for."""
SHORT = 15
"""Three intervals with fewer letters stand beside each other in a column of a paper, below their numbers."""


def tables_of(contents: Contents) -> dict[str, list[PaperTable]]:
    """Return the tables of a study by the names of their files; none is empty."""
    tables = [made(contents) for made in (_models, _corpora, _claims, _findings)]
    return {table.name: [table] for table in tables if table.rows}


def _models(contents: Contents) -> PaperTable:
    rows = [
        [
            model.name,
            *(str(model.last[name] or "–") for name in ("role", "family")),
            *(whole(model.last[name]) for name in ("layers", "width")),
            in_words(model.last["parameters"]),
        ]
        for model in model_rows(contents.models)
        if model.last["status"] == "done"
    ]
    columns = {"Model": 2.2, "Role": 1.4, "Family": 1.4, "Blocks": 1.2, "Width": 1.2, "Parameters": 2.0}
    return PaperTable("models", "Models.", columns, rows)


def _corpora(contents: Contents) -> PaperTable:
    passes = read_passes(contents)
    rows = []
    for row in contents.corpora:
        if readings := passes.get(row["corpus"]):
            numbers = zip(*((reading.texts, reading.tokens, reading.cut) for reading in readings), strict=True)
            rows.append([str(row["corpus"]), *map(span, numbers)])
    caption = "Corpora as the models read them: texts, tokens of a pass, and texts that were cut at the token limit."
    return PaperTable("corpora", caption, {"Corpus": 2.0, "Texts": 1.0, "Tokens": 1.8, "Texts cut": 1.0}, rows)


def _claims(contents: Contents) -> PaperTable:
    rows = [
        [
            str(row["says"]),
            row["view"] or "–",
            f"{row['verdict']}{_with_p(row['p_adjusted'])}",
            _estimate(row),
        ]
        for row in rows_of(contents.claims.frame)
        if is_null(row["baseline"])
    ]
    caption = "Claims with their 95 % intervals. Verdicts and p-values are corrected for the number of claims (Holm)."
    return PaperTable("claims", caption, {"Claim": 3.4, "Tokens": 1.7, "Verdict": 2.3, "Value": 3.2}, rows)


def _findings(contents: Contents) -> PaperTable:
    rows = [[str(row["says"]), _estimate(row), _p_latex(row["p_adjusted"])] for row in rows_of(contents.findings.frame)]
    caption = "Exploratory findings: each effect with its 95 % interval, and p corrected for all tests."
    return PaperTable("findings", caption, {"Finding": 5.0, "Effect": 2.5, "p": 1.6}, rows)


def profile_tables(figure: Figure, width: float) -> list[PaperTable]:
    """Return the numbers of a profile by layer and model, in the words of a paper; a table for each panel.

    There is none of other kinds of figures, and of more models than a paper has room for.
    """
    chart, tables = figure.drawn.chart, []
    name = figure.drawn.id
    statistic = with_analyses().get(name)
    step = statistic is not None and statistic.per == "step"
    said = " ".join(sentence for sentence in figure.sentences() if sentence.startswith(("Computed", "Checkpoint")))
    for panel, rows in figure.panels() if chart.kind == "profile" else ():
        rows = rows[rows["value"].notna() & rows["layer"].notna() & ~rows["statistic"].str.endswith("_floor")]
        models = ordered(list(map(str, rows["model"].unique())), figure.scene.styles.names)
        own = {model: dict[str, Measured]() for model in models}
        layers: dict[str, None] = {}
        for row in sorted(rows_of(rows), key=lambda row: (row["layer"], row["site"] == "final")):
            layer = layer_name(int(row["layer"]), step).rpartition(" ")[2]
            layer = "final norm" if row["site"] == "final" else layer
            layers[layer] = None
            own[str(row["model"])][layer] = row["value"], row["ci_low"], row["ci_high"]
        texts = {
            model: dict(zip(numbers, estimates(list(numbers.values())), strict=True)) for model, numbers in own.items()
        }
        if layers and len(models) <= MOST_MODELS:
            caption = f"{figure.quantity} with 95 % intervals{f', on {panel.label}' if panel.label else ''}. {said}"
            rows_of_models = [[texts[model].get(layer, "–") for layer in layers] for model in models]
            grid = PaperTable("-".join(filter(None, (name, panel.value))), caption.strip(), {}, rows_of_models)
            tables += split(grid, list(layers), models, width, "Block" if step else "Layer")
    return tables


def split(
    grid: PaperTable, subjects: Sequence[str], models: Sequence[str], width: float, what: str = "Statistic"
) -> list[PaperTable]:
    """Return the parts of a table that fit the width, the longer side down the page; ``grid`` has a row a model."""
    is_tall = len(models) > len(subjects)
    down, across = (models, subjects) if is_tall else (subjects, models)
    rows = grid.rows if is_tall else list(zip(*grid.rows, strict=True))
    longest = max(len(cell.partition("[")[2]) for row in rows for cell in row)
    most = (3 if longest < SHORT else 2) * (1 if width <= ONE_COLUMN else 2)
    step = math.ceil(len(across) / math.ceil(len(across) / most))
    parts = []
    for start in range(0, len(across), step):
        part = slice(start, start + step)
        columns = {"Model" if is_tall else what: NAMES, **dict.fromkeys(across[part], 1.0)}
        label = grid.name if not start else f"{grid.name}-{start // step + 1}"
        cells = [[name, *row[part]] for name, row in zip(down, rows, strict=True)]
        parts.append(PaperTable(label, grid.caption, columns, cells))
    return parts


def _estimate(row: Mapping[str, Any]) -> str:
    return estimate(row["value"], row["ci_low"], row["ci_high"])


def _with_p(p: Any) -> str:
    text = _p_latex(p)
    return "" if is_null(p) else f", p {text}" if text.startswith("<") else f", p = {text}"


def _p_latex(p: Any) -> str:
    return "–" if is_null(p) else re.sub(r"1e-(\d+)", r"10^(−\1)", p_value(p, 2))
