"""What a study states and what stands out in it, beside its answers: verdicts on claims, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reporter.answers.decision import Answer, Box, Decision, Read, Record

_QUERIES = {
    "claims": "SELECT * FROM claims WHERE study = $study ORDER BY number, reading",
    "findings": "SELECT * FROM findings WHERE study = $study ORDER BY rank",
}


def stated(read: Read, only: Sequence[str]) -> list[Answer]:
    """Return a study's claims and findings as answers, from what its last run stored.

    Args:
        read: runs a query about the study.
        only: which of ``claims`` and ``findings``.
    """
    return [Answer(one, {one.name: read(_QUERIES[one.name])}) for one in STATED if one.name in only]


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


def _claim(row: Record) -> str:
    return str(row["says"]) if row["reading"] == 1 else "the same"


def _tokens(row: Record) -> str:
    return ", ".join(str(part) for part in (row["view"], row["baseline"]) if part)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _ends(row: Record) -> str:
    return "" if row["ci_low"] is None else f"{row['ci_low']:.3g} to {row['ci_high']:.3g}"


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
