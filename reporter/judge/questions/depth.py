"""The question how deep a language model works: when its prediction is near the output, and when it stays the same."""

from collections.abc import Iterator, Mapping, Sequence

from reporter.core.numbers import estimate, short
from reporter.core.places import in_backticks
from reporter.core.table import VIEWS, Row
from reporter.judge.questions.question import Advice, Box, BoxColumn, Question, Read, Record, grouped, numeric, table
from reporter.metrics.lens import NEAR
from reporter.store.answers import DepthAnswer

MEANINGS = {
    "lens.exit": "share of the depth after which the most likely token stays the same",
    "lens.depth": f"first layer from which the divergence from the output stays below {NEAR:g} nat",
    "contributions.turn": "block after which updates amplify the stream",
}
_NUMBERS = f"""
SELECT model, checkpoint, corpus, view, layers AS blocks, concat(metric, '.', statistic) AS number, value,
  ci_low, ci_high, n
FROM layer_metrics JOIN models USING (study, model, checkpoint)
WHERE study = $study AND baseline IS NULL AND is_last AND layer IS NULL AND value IS NOT NULL
AND number IN ({", ".join(f"'{name}'" for name in MEANINGS)}) ORDER BY model, corpus, {VIEWS}, number DESC
"""


def _rows(read: Read) -> Iterator[Row | Advice]:
    known = [rows for rows in grouped(read(_NUMBERS), "model", "corpus") if rows[0]["number"] == "lens.exit"]
    if not known:
        yield Advice("no layer was read: add `metrics: [lens, contributions]`", runs=True)
    yield from (DepthAnswer.of(row) for rows in known for row in rows if row["view"] == rows[0]["view"])


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    by_model = grouped(tables["depth_answers"], "model", "corpus")
    return [_box({row["number"]: row for row in rows}) for rows in by_model]


def _box(rows: Mapping[str, Record]) -> Box:
    stays = rows["lens.exit"]
    says = f"The most likely token stays the same after {_estimate(stays)} of the depth on average"
    if "lens.depth" in rows:
        near, within = rows["lens.depth"], f"within {NEAR:g} nat of the output"
        says += (
            f", and the lens stays {within} from layer {_estimate(near)} of {near['blocks']} on"
            if near["value"] < near["blocks"]  # at the last layer it is the output
            else f", and the lens stays {within} at the last layer alone"
        )
    return Box(
        about=f"{stays['model']} on {stays['corpus']}",
        says=f"{says}.",
        **table(
            [rows[name] for name in MEANINGS if name in rows],
            BoxColumn("number", lambda row: in_backticks(row["number"])),
            numeric("value", _estimate),
            BoxColumn("meaning", lambda row: MEANINGS[row["number"]]),
        ),
        notes=("The head was trained for the last layer. A lens tuned for each layer mostly finds smaller depths.",),
    )


def _estimate(row: Record) -> str:
    value, low, high = (row[name] for name in ("value", "ci_low", "ci_high"))
    if row["number"] != "lens.exit":
        return short(value) + (f" [{short(low)}, {short(high)}]" if low is not None and low < high else "")
    return estimate(*(None if end is None else 100 * end for end in (value, low, high))) + " %"


DEPTH = Question("depth", "How deep does the model work?", (DepthAnswer,), _rows, _boxes)
