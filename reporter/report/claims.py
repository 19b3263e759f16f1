"""The claims of a study as its page shows them: verdict, our number beside the paper's, and where the verdict flips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Query
from reporter.report.evidence import Evidence, Table, by_model_of, changes_of, evidence_of
from reporter.report.interval_plot import IntervalPlot, interval_plot
from reporter.report.tables import parsed

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = {"supported": "✓", "refuted": "✗", "inconclusive": "?", "failed": "!"}
"""Verdicts in the order of a tally, each with its sign, so that none is told by its colour alone."""

CLAIMS = Query(
    "claims",
    """
SELECT claim, reading, says, source, kind, view, baseline, verdict, value, ci_low, ci_high,
  holds_low, holds_high, holds_outside, paper, p, p_adjusted, detail
FROM claims
WHERE study = $study
ORDER BY number, claim, reading
""",
)

CLAIMS_BY_MODEL = Query(
    "claims by model",
    """
SELECT claim, model, verdict, alone, statistic, value, ci_low, ci_high, claimed, p, p_adjusted
FROM claims_by_model
WHERE study = $study AND reading = 1
ORDER BY claim, model
""",
)


@dataclass(frozen=True)
class Test:
    """A claim tested once: under one view, on the models themselves or on a null baseline of theirs."""

    view: str | None
    baseline: str | None
    verdict: str
    row: Mapping[str, Any]
    detail: Mapping[str, Any]

    @property
    def where(self) -> str:
        """Under what it was tested, in words."""
        return ", ".join(part for part in (self.baseline, self.view) if part) or "as stated"


@dataclass(frozen=True)
class Claim:
    """A claim: its own test decides, the others tell whether the verdict hangs on a view or on training."""

    name: str
    says: str
    source: str | None
    kind: str
    own: Test
    others: tuple[Test, ...]
    plot: IntervalPlot | None
    evidence: Evidence
    by_model: Table | None = None
    said_by_model: str = ""

    @property
    def metrics(self) -> list[str]:
        """The statistics that it is about, by full name, as far as that was recorded."""
        return list(dict.fromkeys(self._named("metrics")))

    @property
    def models(self) -> list[str]:
        """The models that it was tested on."""
        return self._named("models") or self._of_evidence("model")

    @property
    def corpora(self) -> list[str]:
        """The corpora that it was tested on."""
        return self._named("corpora") or self._of_evidence("corpus")

    @property
    def tables(self) -> list[str]:
        """The tables that it asks by SQL."""
        return self._named("tables")

    def _named(self, key: str) -> list[str]:
        found = self.own.detail.get(key)
        return [str(name) for name in found] if isinstance(found, list) else []

    def _of_evidence(self, column: str) -> list[str]:
        rows = self.own.detail.get("evidence")
        found = [row.get(column) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        return list(dict.fromkeys(str(name) for name in found if name))

    @property
    def flips(self) -> list[Test]:
        """Tests on the same models under another view that came out differently."""
        return [test for test in self.others if not test.baseline and test.verdict != self.own.verdict]

    @property
    def turns(self) -> bool:
        """Whether another view makes another number or profile of it, even where the verdict stays."""
        return bool(self.flips) or any(change.get("turned") for change in changes_of(self.own.detail))

    @property
    def shared(self) -> list[Test]:
        """Null baselines of which the claim holds, too, so that it says nothing about what training does."""
        held = self.own.verdict == "supported"
        return [test for test in self.others if held and test.baseline and test.verdict == "supported"]

    def under(self, column: Column) -> Test | None:
        """The test that belongs into a column of the grid."""
        for test in (self.own, *self.others):
            if (test.view, test.baseline) == (column.view, column.baseline):
                return test
        return None


@dataclass(frozen=True)
class Column:
    """A column of the grid: a view, and the null baseline or None for the models themselves."""

    view: str | None
    baseline: str | None


@dataclass(frozen=True)
class Claims:
    """All claims of a study, with the query they come from."""

    all: tuple[Claim, ...]
    sql: str
    frame: pd.DataFrame

    @property
    def about(self) -> list[str]:
        """The statistics that they are about."""
        return list(dict.fromkeys(name for claim in self.all for name in claim.metrics))

    @property
    def tally(self) -> list[tuple[str, str, int]]:
        """Verdicts that occur, each with its sign and how many claims have it."""
        counts = Counter(claim.own.verdict for claim in self.all)
        return [(verdict, VERDICTS[verdict], counts[verdict]) for verdict in VERDICTS if counts[verdict]]

    @property
    def tested(self) -> int | None:
        """How many tests the verdicts are corrected for; None where it is not known."""
        found = [claim.own.detail.get("tested") for claim in self.all]
        return max((number for number in found if isinstance(number, int)), default=None)

    @property
    def columns(self) -> list[Column]:
        """Columns of the grid: the models themselves first; none where every claim was tested once."""
        tests = [test for claim in self.all if claim.others for test in (claim.own, *claim.others)]
        found = dict.fromkeys(Column(test.view, test.baseline) for test in tests)
        return sorted(found, key=lambda column: column.baseline is not None)


def read_claims(
    frame: pd.DataFrame, rows: Sequence[Mapping[str, Any]], sql: str, by_model: Sequence[Mapping[str, Any]] = ()
) -> Claims:
    """Gather rows of the table ``claims`` by claim; the first row of a claim is the claim itself.

    Args:
        frame: what the query returned; it becomes the CSV.
        rows: the same as mappings in which NULL is None.
        sql: the query.
        by_model: rows of the table ``claims_by_model``, likewise.
    """
    groups: dict[str, list[Test]] = {}
    for row in rows:
        verdict = row["verdict"] if row["verdict"] in VERDICTS else "failed"
        test = Test(row["view"], row["baseline"], verdict, row, parsed(row["detail"], dict))
        groups.setdefault(str(row["claim"]), []).append(test)
    claims = []
    for name, tests in groups.items():
        own, row, evidence = tests[0], tests[0].row, evidence_of(tests[0].detail)
        models = [one for one in by_model if one["claim"] == name]
        words = Counter(one["verdict"] for one in models)
        claims.append(
            Claim(
                name=name,
                says=row["says"] or name,
                source=row["source"],
                kind=row["kind"] or "",
                own=own,
                others=tuple(tests[1:]),
                plot=interval_plot(row, evidence.bound),
                evidence=evidence,
                by_model=by_model_of(models),
                said_by_model=", ".join(f"{words[word]} {word}" for word in VERDICTS if words[word]),
            )
        )
    as_in_sql = frame["holds_outside"].map({True: "true", False: "false"})
    return Claims(tuple(claims), sql, frame.assign(holds_outside=as_in_sql))
