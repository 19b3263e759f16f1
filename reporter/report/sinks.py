"""What a study's page says of sinks: which tokens they are, and whether the cut that finds them decides anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Query
from reporter.charts.numbers import short

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
MOST_ROWS = 24
"""Rows on the page; the CSV has them all."""
MATTERS = 0.05
"""How far the share of the first principal component may move with the cut before the page says so."""

SINKS = Query(
    "sinks",
    """
SELECT * EXCLUDE (study, metric, role) FROM sinks WHERE study = $study
ORDER BY texts DESC, "count" DESC, model, checkpoint, corpus, token_id, position_first
""",
)
CUT_MATTERS = Query(
    "cut_matters",
    """
SELECT model, corpus, max(value) AS value, arg_max(layer, value) AS layer
FROM layer_metrics
WHERE study = $study AND metric = 'outliers' AND statistic = 'sink_sensitivity' AND site IN ('embedding', 'block')
GROUP BY ALL ORDER BY value DESC NULLS LAST, model, corpus
""",
)


@dataclass(frozen=True)
class SinksOfStudy:
    """The section on sinks.

    Args:
        rule: which tokens are sinks, in words.
        said: whether the cut decides anything.
        all: every row of the table ``sinks``.
    """

    rule: str
    said: str
    all: Sequence[Row]

    @property
    def rows(self) -> Sequence[Row]:
        """Those that the page shows."""
        return self.all[:MOST_ROWS]

    @property
    def more(self) -> int:
        """How many it does not show."""
        return len(self.all) - len(self.rows)


def read_sinks(
    read: Callable[[str], pd.DataFrame], rows_of: Callable[[pd.DataFrame], list[Row]], study: str, models: Sequence[Row]
) -> SinksOfStudy | None:
    """Read the section; None where no model has a sink.

    Args:
        read: runs a query.
        rows_of: turns a frame into rows.
        study: id of the study.
        models: rows of the table ``models``.
    """
    found = rows_of(read(SINKS.fill(study=study)))
    if not found:
        return None
    rules = dict.fromkeys(str(row["sink_rule"]) for row in models if row.get("sink_rule"))
    return SinksOfStudy("; or ".join(rules), _said(rows_of(read(CUT_MATTERS.fill(study=study)))), found)


def _said(rows: Sequence[Mapping[str, Any]]) -> str:
    known = [row for row in rows if row["value"] is not None]
    if not known:
        return ""
    worst = known[0]
    largest = f"by up to {short(worst['value'], 2)} ({worst['model']} on {worst['corpus']}, layer {worst['layer']})"
    moved = "the share of the first principal component without sinks moves"
    if worst["value"] <= MATTERS:
        return f"The cut decides little: with cuts from a quarter to four times as high, {moved} {largest}."
    several = sum(row["value"] > MATTERS for row in known)
    more = f"; by more than {MATTERS:g} in {several} of {len(known)} pairs of model and corpus" if several > 1 else ""
    return (
        f"The cut matters: with cuts from a quarter to four times as high, {moved} {largest}{more}; "
        "see the chart of numbers without sinks, cut elsewhere."
    )
