"""The question where the tokens of a trajectory go: how long each is nearest to its own vocabulary vector.

An answer begins with the tokens that the study asks for, under ``follow`` or by the name of the trajectory. Where two
of them are compared, their cosine comes first.
"""

from collections.abc import Iterator, Mapping, Sequence

from reporter.core.numbers import counted, short
from reporter.core.places import EMBEDDING, in_backticks, listed, place, ranges
from reporter.core.table import Row
from reporter.judge.questions.question import Advice, Box, BoxColumn, Question, Read, Record, grouped, numeric, table
from reporter.store.answers import JourneyAnswer, JourneyPairAnswer

MOST_ROWS = 12
NEAREST = 3
"""Vocabulary entries that are named for a token at the last layer."""
MOST_NAMED = 3
"""The most tokens that have a sentence each."""
_STEPS = """
WITH tokens AS (
  SELECT *, lower(regexp_replace(token, '^##|[␣ ]', '', 'g')) = lower(journey) AS named,
    bool_and(followed OR special) OVER (PARTITION BY model, checkpoint, journey) AS every
  FROM journeys WHERE study = $study
)
SELECT j.model, j.checkpoint, j.journey, j.text, j.position, j.token, j.layer, j.rank_cosine,
  NOT every OR named OR NOT bool_or(named) OVER (PARTITION BY model, checkpoint, journey) AS asked
FROM tokens j JOIN models m USING (study, model, checkpoint)
WHERE m.is_last AND j.followed AND NOT j.special AND j.site IN ('embedding', 'block')
  AND j.positions = 'without' AND j.rank_cosine IS NOT NULL
ORDER BY j.model, j.journey, j.text, j.position, j.layer
"""
_PAIRS = """
SELECT model, checkpoint, journey, text_a, position_a, token_a, text_b, position_b, token_b, max(layer) AS layers,
  arg_min(cosine, layer) AS first, arg_max(cosine, layer) AS last, arg_max(mean_cosine, layer) AS any_two
FROM journey_pairs JOIN models USING (study, model, checkpoint)
WHERE study = $study AND is_last AND site IN ('embedding', 'block') AND cosine IS NOT NULL
GROUP BY ALL ORDER BY ALL
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
    yield from (JourneyPairAnswer.of(pair) for pair in read(_PAIRS))


def _path_boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    pairs = {(rows[0]["model"], rows[0]["journey"]): rows for rows in grouped(_pairs(tables), "model", "journey")}
    by_journey = grouped(tables["journey_answers"], "model", "journey")
    return [_path_box(rows, pairs.get((rows[0]["model"], rows[0]["journey"]), ())) for rows in by_journey]


def _pairs(tables: Mapping[str, Sequence[Record]]) -> list[Record]:
    """Return the pairs of tokens that the study asks for, the least alike at the last layer first."""
    names = ("model", "journey", "text", "position")
    asked = {tuple(row[name] for name in names) for row in tables["journey_answers"] if row["asked"]}
    pairs = [
        pair
        for pair in tables.get("journey_pair_answers", ())
        if all((pair["model"], pair["journey"], pair[f"text_{x}"], pair[f"position_{x}"]) in asked for x in "ab")
    ]
    return sorted(pairs, key=lambda pair: (pair["token_a"] != pair["token_b"], pair["last"]))


def _path_box(rows: Sequence[Record], pairs: Sequence[Record]) -> Box:
    asked = [row for row in rows if row["asked"]]
    few, is_all = len(asked) <= MOST_NAMED, len(asked) == len(rows)
    sentences = [_alike(pairs[0])] if pairs else []
    sentences += map(_way, grouped(asked, "token", "left", "rank", "nearest")) if few else []
    sentences += [] if few and is_all else [_of_all(rows)]
    shown = sorted(rows, key=lambda row: (not row["asked"], -row["rank"]))[:MOST_ROWS]
    more = [
        f"The table {name} has {count - most} more."
        for name, count, most in (("journey_answers", len(rows), MOST_ROWS), ("journey_pair_answers", len(pairs), 1))
        if count > most
    ]
    return Box(
        about=f"{rows[0]['model']}, {rows[0]['journey']}",
        says=" ".join(sentences),
        **table(
            shown,
            numeric("text", lambda row: row["text"]),
            BoxColumn("token", lambda row: in_backticks(row["token"])),
            BoxColumn("leaves its own vector at", lambda row: "–" if row["left"] is None else place(row["left"])),
            numeric("entries nearer at the end", lambda row: f"{row['rank']:,}"),
            BoxColumn("nearest at the end", lambda row: ", ".join(map(in_backticks, row["nearest"].split()))),
        ),
        notes=("These are single tokens, not a sample: there is no interval.", *more),
    )


def _alike(pair: Record) -> str:
    """Return how alike two tokens begin and end."""
    tokens = [f"{in_backticks(pair[f'token_{x}'])} of text {pair[f'text_{x}']}" for x in "ab"]
    beside = "" if pair["any_two"] is None else f", where any two tokens have {short(pair['any_two'], 2)} on average"
    return (
        f"{listed(tokens)} have a cosine of {short(pair['first'], 2)} at {EMBEDDING} and {short(pair['last'], 2)} at "
        f"{place(pair['layers'])}{beside}."
    )


def _way(rows: Sequence[Record]) -> str:
    """Return how long a token of one or more texts is nearest to its own vocabulary vector, and what comes next."""
    row, texts = rows[0], [row["text"] for row in rows]
    token = f"{in_backticks(row['token'])} of text{'s' * (len(set(texts)) > 1)} {ranges(texts)}"
    last = place(row["layers"])
    if row["rank"]:
        return f"{token} leaves its own vocabulary vector at {place(row['left'])}; at {last}, {_nearer(row)}."
    near = [name for name in row["nearest"].split() if name != row["token"].strip()]
    then = f", followed by {listed(map(in_backticks, near))}" if near else ""
    if row["left"] is not None:
        says = f"{token} leaves its own vocabulary vector at {place(row['left'])} and is nearest to it again at {last}"
    else:
        says = f"{token} stays nearest to its own vocabulary vector up to {last}"
    return f"{says}{then}."


def _of_all(rows: Sequence[Record]) -> str:
    gone, last = [row for row in rows if row["rank"] > 0], place(rows[0]["layers"])
    if not gone:
        return f"All {len(rows)} tokens stay nearest to their own vocabulary vector up to {last}."
    farthest = max(gone, key=lambda row: row["rank"])
    return (
        f"At {last}, {counted(len(rows) - len(gone), 'token')} of {len(rows)} are nearest to their own vocabulary "
        f"vector. {in_backticks(farthest['token'])} of text {farthest['text']} is farthest from its own: "
        f"{_nearer(farthest)}."
    )


def _nearer(row: Record) -> str:
    """Return how many entries are nearer to a token than its own, and the nearest of them."""
    says = counted(row["rank"], "other entry is nearer", "other entries are nearer")
    names = listed(map(in_backticks, row["nearest"].split()[: row["rank"]]))
    return f"{says}{', first of all' if row['rank'] > NEAREST else ':'} {names}" if names else says


PATHS = Question("journeys", "Where do tokens go?", (JourneyAnswer, JourneyPairAnswer), _path_rows, _path_boxes)
