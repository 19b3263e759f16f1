"""What a study states and what stands out in it, beside its answers: verdicts on claims, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reporter.answers.decision import Answer, Box, Decision, Read, Record
from reporter.charts.numbers import short

_QUERIES = {
    "claims": "SELECT * FROM claims WHERE study = $study ORDER BY number, reading",
    "claims_by_model": "SELECT b.* FROM claims_by_model b JOIN claims c USING (study, claim, reading) "
    "WHERE study = $study AND reading = 1 ORDER BY c.number, b.model",
    "findings": "SELECT * FROM findings WHERE study = $study ORDER BY rank",
}
_MORE = {"claims": ("claims_by_model",)}


def stated(read: Read, only: Sequence[str]) -> list[Answer]:
    """Return a study's claims and findings as answers, from what its last run stored.

    Args:
        read: runs a query about the study.
        only: which of ``claims`` and ``findings``.
    """
    return [
        Answer(one, {name: read(_QUERIES[name]) for name in (one.name, *_MORE.get(one.name, ()))})
        for one in STATED
        if one.name in only
    ]


def _claims(tables: Mapping[str, Sequence[Record]]) -> Iterator[Box]:
    rows = tables["claims"]
    verdicts = [row["verdict"] for row in rows if row["reading"] == 1]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
    columns = (("claim", False), ("tokens", False), ("verdict", False), ("number", True), ("95 %", True))
    yield Box(
        "Verdicts",
        f"{counts}, corrected for the number of claims.",
        columns=columns,
        rows=tuple((_claim(row), _tokens(row), row["verdict"], _number(row["value"]), _ends(row)) for row in rows),
    )

    if by_model := tables.get("claims_by_model"):
        says = {row["claim"]: row["says"] for row in rows}
        columns = (("claim", False), ("model", False), ("verdict", False), ("number", True), ("95 %", True))
        yield Box(
            "Model by model",
            "what each model says by itself, corrected for all models of all claims.",
            columns=columns,
            rows=tuple(
                (says[row["claim"]], row["model"], row["verdict"], _number(row["value"]), _ends(row))
                for row in by_model
            ),
        )


def _claim(row: Record) -> str:
    return str(row["says"]) if row["reading"] == 1 else "the same"


def _tokens(row: Record) -> str:
    return ", ".join(str(part) for part in (row["view"], row["baseline"]) if part)


def _number(value: float | None) -> str:
    return "" if value is None else short(value)


def _ends(row: Record) -> str:
    return "" if row["ci_low"] is None else f"{short(row['ci_low'])} to {short(row['ci_high'])}"


def _findings(tables: Mapping[str, Sequence[Record]]) -> Iterator[Box]:
    rows = tables["findings"]
    yield Box(
        "Exploratory",
        f"nobody claimed it beforehand; corrected for the {rows[0]['looked_at']:,} questions that were asked.",
        notes=tuple(f"{row['says']} (Difference {_number(row['value'])}, 95 %: {_ends(row)}.)" for row in rows),
    )


STATED = (
    Decision("claims", "What does it claim?", (), lambda read: iter(()), lambda tables: tuple(_claims(tables))),
    Decision("findings", "What stands out?", (), lambda read: iter(()), lambda tables: tuple(_findings(tables))),
)
