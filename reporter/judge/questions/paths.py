"""The question where the tokens of a trajectory go: how long each is nearest to its own vocabulary vector."""

from collections.abc import Iterator, Mapping, Sequence

from reporter.core.numbers import counted
from reporter.core.places import in_backticks, listed, place
from reporter.core.table import Row
from reporter.judge.questions.question import Advice, Box, BoxColumn, Question, Read, Record, grouped, numeric, table
from reporter.store.answers import JourneyAnswer

MOST_ROWS = 12
NEAREST = 3
"""Vocabulary entries that are named for a token at the last layer."""
_STEPS = """
SELECT j.model, j.checkpoint, j.journey, j.text, j.position, j.token, j.layer, j.rank_cosine
FROM journeys j JOIN models m USING (study, model, checkpoint)
WHERE j.study = $study AND m.is_last AND j.followed AND NOT j.special AND j.site IN ('embedding', 'block')
  AND j.positions = 'without' AND j.rank_cosine IS NOT NULL
ORDER BY j.model, j.journey, j.text, j.position, j.layer
"""
_NEAREST = f"""
SELECT model, journey, text, position, layer, neighbour FROM neighbours
WHERE study = $study AND measure = 'cosine' AND positions = 'without' AND site IN ('embedding', 'block')
  AND place <= {NEAREST}
ORDER BY model, journey, text, position, layer, place
"""
_TOKEN = ("model", "journey", "text", "position")


def _path_rows(read: Read) -> Iterator[Row | Advice]:
    steps = read(_STEPS)
    if not steps:
        yield Advice("no token was followed: add `journeys: {mine: {texts: [SENTENCE]}}`", runs=True)
        return
    nearest: dict[tuple[object, ...], list[str]] = {}
    for row in read(_NEAREST):
        nearest.setdefault((*(row[name] for name in _TOKEN), row["layer"]), []).append(str(row["neighbour"]))
    for path in grouped(steps, *_TOKEN, "token"):
        last = path[-1]
        left = next((row["layer"] for row in path if row["rank_cosine"] > 0), None)
        yield JourneyAnswer.of(
            last,
            layers=last["layer"],
            left=left,
            rank=last["rank_cosine"],
            nearest=" ".join(nearest.get((*(last[name] for name in _TOKEN), last["layer"]), [])),
        )


def _path_boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    return [_path_box(rows) for rows in grouped(tables["journey_answers"], "model", "journey")]


def _path_box(rows: Sequence[Record]) -> Box:
    gone = [row for row in rows if row["rank"] > 0]
    last = place(rows[0]["layers"])
    if gone:
        farthest = max(gone, key=lambda row: row["rank"])
        says = (
            f"At {last}, {counted(len(rows) - len(gone), 'token')} of {len(rows)} are nearest to their own vocabulary "
            f"vector. {in_backticks(farthest['token'])} is farthest from it: {farthest['rank']:,} other entries are "
            f"nearer, first of all {listed(map(in_backticks, farthest['nearest'].split()))}."
        )
    else:
        says = f"All {len(rows)} tokens stay nearest to their own vocabulary vector up to {last}."
    shown = sorted(rows, key=lambda row: -row["rank"])[:MOST_ROWS]
    return Box(
        about=f"{rows[0]['model']}, {rows[0]['journey']}",
        says=says,
        **table(
            shown,
            numeric("text", lambda row: row["text"] + 1),
            BoxColumn("token", lambda row: in_backticks(row["token"])),
            BoxColumn("leaves its own vector at", lambda row: "–" if row["left"] is None else place(row["left"])),
            numeric("entries nearer at the end", lambda row: f"{row['rank']:,}"),
            BoxColumn("nearest at the end", lambda row: ", ".join(map(in_backticks, row["nearest"].split()))),
        ),
        notes=(
            "These are single tokens, not a sample: there is no interval.",
            *([f"The table journey_answers has {len(rows) - MOST_ROWS} more."] if len(rows) > MOST_ROWS else []),
        ),
    )


PATHS = Question("journeys", "Where do tokens go?", (JourneyAnswer,), _path_rows, _path_boxes)
