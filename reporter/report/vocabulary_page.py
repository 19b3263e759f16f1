"""What the page of static embeddings shows besides its charts: how positions are known, and where the rest is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Query, Read
from reporter.charts.numbers import is_null, short, whole
from reporter.charts.styles import Styles
from reporter.store.schema import find_table

if TYPE_CHECKING:
    import pandas as pd

    from reporter.report.chart_page import Chosen, Who

FACTS = Query(
    "vocabulary_facts",
    """
SELECT model, checkpoint, fact, value, said FROM vocabulary_facts
WHERE study = $study ORDER BY model, checkpoint
""",
)

VOCABULARY = Query(
    "vocabulary",
    """
SELECT token_id, token, class, subword, script, norm, mean_cosine, mean_distance, repeated
FROM vocabulary
WHERE study = $study AND model = $model
ORDER BY norm DESC
LIMIT 100
""",
)
"""What the page offers for the rest of the vocabulary."""

COUNT = Query("vocabulary_count", "SELECT count(*) AS n FROM vocabulary WHERE study = $study")

PLAIN = {
    "learned": "It adds a learned vector for each position to the tokens' vectors.",
    "sinusoidal": "It adds fixed sines and cosines to the tokens' vectors.",
    "rotary": "It has no position vectors: positions are rotary, queries and keys are turned inside attention.",
    "relative": "It has no position vectors: attention knows how far apart two tokens are.",
    "alibi": "It has no position vectors: attention falls with distance (ALiBi).",
    "none": "It has no positions at all: the order of earlier tokens changes nothing in block 1.",
    "unrecognised": "Order matters to it, but how it knows positions was not found out.",
}
"""What kinds of positions are, said plainly; other kinds say themselves."""
_SPREAD = re.compile(r"(.+) of (.+): (mean|standard deviation)")
_HIDDEN = ("positions", "outlier", "note ", "missing: ", "change ", "period")


def besides(read: Read, study: str, who: Sequence[Chosen], styles: Styles) -> dict[str, Any]:
    """Return what the template shows besides charts.

    Args:
        read: runs a query.
        study: id of the study.
        who: the models and checkpoints of the page.
        styles: how its models are drawn.
    """
    facts = read(FACTS.fill(study=study))
    return {
        "known": known(facts, [one.key for one in who]),
        "styles": styles.models,
        "rows": whole(int(read(COUNT.fill(study=study))["n"].iloc[0])),
        "sql": VOCABULARY.fill(study=study, model=who[0].model),
        "columns": [column for column in find_table("vocabulary").columns if column.field],
    }


def known(frame: pd.DataFrame, who: Sequence[Who]) -> list[dict[str, Any]]:
    """Return what is known of each model's vectors: how it knows positions, notes, facts.

    Args:
        frame: rows of the query ``vocabulary_facts``.
        who: the models and checkpoints of the page.
    """
    found = []
    for model, checkpoint in who:
        own = frame[(frame["model"] == model) & (frame["checkpoint"] == checkpoint)]
        columns = (own[name].tolist() for name in ("fact", "value", "said"))
        rows: dict[str, tuple[Any, Any]] = {
            str(fact): (value, said) for fact, value, said in zip(*columns, strict=True)
        }
        kind = str(rows.get("positions", (None, "unrecognised"))[1])
        plain = [(fact, value, said) for fact, (value, said) in rows.items() if _is_plain(fact)]
        found.append(
            {
                "model": model,
                "plain": PLAIN.get(kind, kind),
                "notes": [said for fact, (_, said) in rows.items() if fact.startswith("note ")],
                "lacks": [(fact[9:], said) for fact, (_, said) in rows.items() if fact.startswith("missing: ")],
                "rows": [(fact, whole(value), "" if is_null(said) else said) for fact, value, said in plain],
                "outliers": _outliers(rows),
                "period": _period(rows),
                **_spreads(rows),
            }
        )
    return found


def _is_plain(fact: str) -> bool:
    return not _SPREAD.fullmatch(fact) and not fact.startswith(_HIDDEN)


def _outliers(rows: Mapping[str, tuple[Any, Any]]) -> str:
    if "outliers" not in rows:
        return ""
    (count, said), chance = rows["outliers"], rows.get("outliers by chance", (None, None))[0]
    threshold = short(rows.get("outlier threshold", (None, None))[0], 2)
    return (
        f"{whole(count)} {said} of a token and a position have |cosine| > {threshold}; by chance, if one side's "
        f"directions were random, {short(chance)} would."
    )


def _period(rows: Mapping[str, tuple[Any, Any]]) -> str:
    if "period" not in rows:
        return ""
    (positions, said), p = rows["period"], rows.get("period p", (None, None))[0]
    if is_null(positions):
        return f"No period: {said}."
    turns, share = (rows.get(f"period {name}", (None, None))[0] for name in ("turns", "share"))
    return (
        f"One turn of the path takes {short(positions)} positions: {short(turns)} turns in all, which hold "
        f"{short(100 * share)} % of its variance (p = {short(p, 2)})."
    )


def _spreads(rows: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Means and standard deviations as a table: kinds and pairs of kinds down, measures across."""
    found: dict[str, dict[str, Any]] = {}
    for fact, (value, said) in rows.items():
        if match := _SPREAD.fullmatch(fact):
            measure, part, what = match.groups()
            row = found.setdefault(part, {"n": str(said).removeprefix("n = ")})
            row.setdefault(measure, {})["mean" if what == "mean" else "sd"] = value
    measures = [name for name in ("norm", "cosine", "distance", "dot") if any(name in row for row in found.values())]
    return {"spreads": found, "measures": measures}
