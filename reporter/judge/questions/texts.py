"""The texts and tokens behind the numbers: what a probe gets wrong, which partners are missed, which tokens moved.

Every table is bounded, so that a page can show it: the rows that say most come first. The tables of the database have
more: ``probe_texts``, ``partner_texts``, ``moved_texts`` and ``text_influences``.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reporter.core.numbers import apart, short, signed
from reporter.core.places import capital, in_backticks, listed, place, ranges
from reporter.judge.facts import declared
from reporter.judge.questions.question import (
    Answer,
    Box,
    BoxColumn,
    Question,
    Read,
    Record,
    grouped,
    measured,
    numeric,
    table,
)

FAR = 0.5
"""The largest change, as a share of a number, that an influence is trusted to say."""
MOST_ROWS = 200
"""Rows of a table that pages and answers show."""
MOST_BOXES = 8
"""Tables of one kind on the page."""
_OF_LAST = "SEMI JOIN (FROM models WHERE study = $study AND is_last AND baseline IS NULL) USING (model, checkpoint)"


@dataclass(frozen=True)
class Examples:
    """A table of texts or tokens behind an answer.

    Args:
        title: its heading.
        answer: the question that it is behind; empty for averages.
        query: its rows that are shown.
        boxes: says what the rows come to, each box with how much it matters.
    """

    title: str
    answer: str
    query: str
    boxes: Callable[[Sequence[Record]], Iterator[tuple[float, Box]]]


class Section(NamedTuple):
    """The boxes of one table: ``answer`` is the question that they are behind, ``left`` how many more there are."""

    name: str
    title: str
    answer: str
    boxes: tuple[Box, ...]
    left: int


def behind(read: Read, only: Sequence[str] = ()) -> Answer:
    """Return the texts and tokens behind the answers of a study.

    Args:
        read: runs a query about the study.
        only: names of answers; all if empty.
    """
    asked = {name: of for name, of in EXAMPLES.items() if not only or of.answer in only}
    lacks = () if asked else (f"No texts are kept behind these answers; {_with_texts()} have some.",)
    return Answer(TEXTS, {name: read(of.query) for name, of in asked.items()}, lacks)


def questions_with_texts() -> list[str]:
    """Return the names of the questions whose answers have texts behind them."""
    return list(dict.fromkeys(of.answer for of in EXAMPLES.values() if of.answer))


def _with_texts() -> str:
    return listed(f"`{name}`" for name in questions_with_texts())


def sections(tables: Mapping[str, Sequence[Record]], most: int | None = MOST_BOXES) -> list[Section]:
    """Return for each table with rows its name, its title, its first boxes, and how many boxes are left out."""
    every = {name: _by_importance(of.boxes(tables.get(name, ()))) for name, of in EXAMPLES.items()}
    return [
        Section(name, EXAMPLES[name].title, EXAMPLES[name].answer, boxes[:most], len(boxes[most:]) if most else 0)
        for name, boxes in every.items()
        if boxes
    ]


def _by_importance(boxes: Iterable[tuple[float, Box]]) -> tuple[Box, ...]:
    return tuple(box for _, box in sorted(boxes, key=lambda each: -each[0]))


def _boxes(tables: Mapping[str, Sequence[Record]]) -> tuple[Box, ...]:
    return tuple(box for section in sections(tables, None) for box in section.boxes)


def _text(heading: str = "text", name: str = "begins") -> BoxColumn:
    return BoxColumn(heading, lambda row: in_backticks(row[name] or ""))


def _layers(layers: Collection[int]) -> str:
    return ranges(layers, commas=True) if layers else "–"


def _probed(rows: Sequence[Record]) -> Iterator[tuple[float, Box]]:
    for group in grouped(rows, "model", "probe"):
        yield _of_probe([dict(row) | {"found": set(map(int, row["found"]))} for row in group])


def _of_probe(rows: Sequence[Record]) -> tuple[float, Box]:
    first = rows[0]
    best, layers = first["best"], first["layers"]
    other = first["last"] if first["last"] != best else 0

    def swings(row: Record) -> bool:
        return (best in row["found"]) != (other in row["found"])

    gained = sum(swings(row) and best in row["found"] for row in rows)
    lost = sum(swings(row) and other in row["found"] for row in rows)
    always, never = (sum(len(row["found"]) == count for row in rows) for count in (layers, 0))
    says = (
        f"Of {len(rows):,} texts the probe ({first['pooling']} pooling) "
        f"gets {gained:,} right at {place(best)} and wrong at {place(other)}, and "
        f"{lost:,} the other way round. It gets {always:,} right at every layer and {never:,} wrong at every layer."
    )
    shown = [row for row in rows if len(row["found"]) < layers]
    return (gained + lost) / len(rows), _box(
        f"{first['probe']}: {first['model']}",
        says,
        sorted(shown, key=lambda row: (not swings(row), len(row["found"]), row["text"])),
        _text(),
        BoxColumn("class", lambda row: row["label"]),
        BoxColumn(f"says at {place(best)}", lambda row: row["at_best"]),
        BoxColumn(f"at {place(other)}", lambda row: "right" if other in row["found"] else "wrong"),
        BoxColumn("right at layers", lambda row: _layers(row["found"])),
    )


def _missed(rows: Sequence[Record]) -> Iterator[tuple[float, Box]]:
    for group in grouped(rows, "model", "partner_set"):
        yield _graded(group) if group[0]["rank"] is None else _searched(group)


def _graded(rows: Sequence[Record]) -> tuple[float, Box]:
    last, largest = rows[0]["last"], max(abs(row["off"]) for row in rows)
    return largest, _box(
        f"{rows[0]['partner_set']}: {rows[0]['model']}",
        f"Pairs whose cosine at {place(last)} ({rows[0]['pooling']} pooling) has another rank than their score, the "
        "worst first.",
        sorted((row for row in rows if row["layer"] == last), key=lambda row: -abs(row["off"])),
        _text(),
        _text("other text", "partner"),
        numeric("too alike by (ranks, of all)", lambda row: f"{signed(round(100 * row['off']))} %"),
    )


def _searched(rows: Sequence[Record]) -> tuple[float, Box]:
    last, missing = rows[0]["last"], int(rows[0]["missing"])
    at_last = [row for row in rows if row["layer"] == last]
    shown = at_last or [row for row in rows if row["layer"] == rows[-1]["layer"]]
    return missing / rows[0]["n"], _box(
        f"{rows[0]['partner_set']}: {rows[0]['model']}",
        f"{missing:,} of {rows[0]['n']:,} texts do not find their partner at {place(last)} "
        f"({rows[0]['pooling']} pooling).",
        sorted(shown, key=lambda row: -row["rank"]),
        _text(),
        _text("its partner", "partner"),
        _text("nearest instead", "nearest"),
        numeric("rank of the partner", lambda row: f"{row['rank']:,}"),
        BoxColumn("missed at layers", lambda row: _layers([int(layer) for layer in row["missed"]])),
    )


def _moved(rows: Sequence[Record]) -> Iterator[tuple[float, Box]]:
    for group in grouped(rows, "model", "corpus"):
        far = max(group, key=lambda row: row["distance"])
        says = (
            f"The token that is farthest from its state in the base is {in_backticks(far['token'])} at "
            f"{place(far['layer'])}: {short(far['distance'])} times the length of the base's state."
        )
        yield (
            far["distance"],
            _box(
                f"{far['model']} on {far['corpus']}",
                says,
                sorted(group, key=lambda row: (row["rank"] > 3, -row["layer"], row["rank"])),
                numeric("layer", lambda row: row["layer"]),
                BoxColumn("token", lambda row: in_backticks(row["token"])),
                numeric("position", lambda row: f"{row['position']:,}"),
                measured("distance", lambda row: row["distance"]),
                _text(),
            ),
        )


def _without(row: Record) -> str:
    """Return a number without a text. An influence is a slope, which says no number far from the measured one."""
    change = row["value_without"] / row["value"] - 1
    if abs(change) > FAR:
        return "more than 1.5 times as much" if change > 0 else "less than half of it"
    less_or_more = "more" if row["value_without"] > row["value"] else "less"
    return f"about {_sides(row)[1]} ({short(100 * abs(change), 2)} % {less_or_more})"


def _sides(row: Record) -> tuple[str, str]:
    """Return a number with and without a text, in one precision."""
    value, without = apart([row["value"], row["value_without"]])
    return value, without


def _influential(rows: Sequence[Record]) -> Iterator[tuple[float, Box]]:
    titles = {name: statistic.title for name, (_, statistic) in declared().items()}

    def title(row: Record) -> str:
        return titles.get(f"{row['metric']}.{row['statistic']}") or str(row["statistic"])

    for group in grouped(rows, "model", "corpus"):
        first = group[0]
        share = abs(first["value_without"] / first["value"] - 1)
        one, this = ("the cluster of text", "cluster") if first["clustered"] else ("text", "text")
        says = (
            f"{capital(title(first))} at {place(first['layer'])} rests on {one} {first['text']:,} most: it is "
            f"{_sides(first)[0]}, and without this {this} {_without(first)}."
        )
        yield (
            share,
            _box(
                f"{first['model']} on {first['corpus']}",
                says,
                group,
                BoxColumn("statistic", title),
                numeric("layer", lambda row: row["layer"]),
                numeric("value", lambda row: _sides(row)[0]),
                BoxColumn("without the text", _without),
                numeric("number", lambda row: f"{row['text']:,}"),
                _text(),
            ),
        )


def _box(about: str, says: str, rows: Sequence[Record], *columns: BoxColumn) -> Box:
    left = len(rows) - MOST_ROWS
    notes = (f"{left:,} more rows are in the table of the database.",) if left > 0 else ()
    return Box(about, says, **table(rows[:MOST_ROWS], *columns), notes=notes)


EXAMPLES = {
    "probe_texts": Examples(
        "What the probes get right and wrong",
        "layer",
        f"""
WITH places AS (
  SELECT model, checkpoint, probe, pooling, layer, accuracy FROM probe_poolings {_OF_LAST}
  WHERE study = $study AND main AND site IN ('embedding', 'block')
), chosen AS (
  SELECT model, checkpoint, probe, pooling, arg_max(layer, (accuracy, layer)) AS best, max(layer) AS last
  FROM places GROUP BY ALL
)
SELECT model, probe, text, any_value(pooling) AS pooling, any_value(label) AS label,
  any_value(begins) AS begins, any_value(best) AS best,
  any_value(last) AS last, count(*) AS layers, coalesce(list(layer ORDER BY layer) FILTER (linear), []) AS found,
  max(predicted) FILTER (layer = best) AS at_best
FROM probe_texts JOIN chosen USING (model, checkpoint, probe, pooling)
JOIN probe_items USING (study, model, checkpoint, probe, text)
WHERE study = $study AND site IN ('embedding', 'block') GROUP BY model, probe, text ORDER BY model, probe, text
""",
        _probed,
    ),
    "partner_texts": Examples(
        "Which partners are missed",
        "layer",
        f"""
WITH numbers AS (
  SELECT model, checkpoint, partner_set, statistic, layer, n, value, parts::DOUBLE[] AS parts FROM partner_numbers
  WHERE study = $study AND main AND variant = 'raw' AND site IN ('embedding', 'block')
), sets AS (
  SELECT model, checkpoint, partner_set, max(layer) AS last, max(n) AS n,
    arg_max(round(n * (1 - value)), layer) FILTER (statistic = 'recall') AS missing
  FROM numbers GROUP BY ALL
), misses AS (
  SELECT model, checkpoint, partner_set, pair, list(layer ORDER BY layer) AS missed
  FROM (SELECT *, unnest(range(1, n + 1)) AS pair FROM numbers WHERE statistic = 'recall')
  WHERE parts[pair] = 0 GROUP BY ALL
)
SELECT t.*, last, n, missing, coalesce(missed, []) AS missed FROM partner_texts t {_OF_LAST}
JOIN sets USING (model, checkpoint, partner_set)
LEFT JOIN misses USING (model, checkpoint, partner_set, pair)
WHERE study = $study AND site IN ('embedding', 'block') AND pooling <> 'own' ORDER BY model, partner_set, layer, pair
""",
        _missed,
    ),
    "moved_texts": Examples(
        "Which tokens moved",
        "changed",
        f"""
SELECT * FROM moved_texts {_OF_LAST} WHERE study = $study
QUALIFY dense_rank() OVER (PARTITION BY model, corpus ORDER BY view <> 'text tokens', view) = 1
ORDER BY model, corpus, layer, rank
""",
        _moved,
    ),
    "text_influences": Examples(
        "Which texts averages rest on",
        "",
        f"""
SELECT i.*, l.value, c.clusters IS NOT NULL AS clustered FROM text_influences i {_OF_LAST} JOIN layer_metrics l
  USING (study, model, checkpoint, corpus, view, metric, statistic, layer)
LEFT JOIN corpora c USING (study, corpus)
WHERE study = $study AND l.site IN ('embedding', 'block') AND l.value <> 0
QUALIFY row_number() OVER (
  PARTITION BY model, corpus, metric, statistic, text ORDER BY abs(i.value_without / l.value - 1) DESC
) = 1
ORDER BY model, corpus, abs(i.value_without / l.value - 1) DESC
""",
        _influential,
    ),
}
"""What stands behind the numbers, by the table that it is read from."""
TEXTS = Question("texts", "Which texts are behind it?", (), lambda read: iter(()), _boxes)
