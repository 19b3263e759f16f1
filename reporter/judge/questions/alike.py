"""The question how alike two models are: their most similar layers, against what permuted texts give."""

from collections.abc import Iterator, Mapping, Sequence

from reporter.core.numbers import counted, estimate, p_value
from reporter.core.table import VIEWS, Row
from reporter.geometry.statistics import LEVEL
from reporter.judge.questions.question import (
    Advice,
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
from reporter.store.answers import AlikeAnswer

MEANINGS = {"cka": "all distances (CKA)", "knn": "shared neighbours"}
_PAIRS = f"""
SELECT p.* FROM model_pairs p
JOIN models a ON (a.study, a.model, a.checkpoint) = (p.study, p.model_a, p.checkpoint_a)
JOIN models b ON (b.study, b.model, b.checkpoint) = (p.study, p.model_b, p.checkpoint_b)
WHERE p.study = $study AND a.is_last AND b.is_last AND a.baseline IS NULL AND b.baseline IS NULL
QUALIFY dense_rank() OVER (PARTITION BY model_a, model_b, corpus ORDER BY {VIEWS}) = 1
ORDER BY model_a, model_b, corpus, statistic
"""


def _rows(read: Read) -> Iterator[Row | Advice]:
    known = read(_PAIRS)
    if not known:
        yield Advice("no two models were compared: add `layer_pairs` to `metrics` of a study of two models or more")
        return
    from scipy.stats import false_discovery_control

    corrected = false_discovery_control([row["p"] for row in known]).tolist()
    for row, p in zip(known, corrected, strict=True):
        yield AlikeAnswer.of(row, p_searched=p, searched=len(known))


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    return [_box(rows) for rows in grouped(tables["alike_answers"], "model_a", "model_b", "corpus")]


def _box(rows: Sequence[Record]) -> Box:
    first = rows[0]
    a, b = first["model_a"], first["model_b"]
    layers = f"Layer {first['layer_a']} of {a} and layer {first['layer_b']} of {b}"
    similarity = estimate(first["calibrated"], first["ci_low"], first["ci_high"])
    is_sure = first["p_searched"] <= LEVEL
    chance = f"Chance {'does not explain' if is_sure else 'may explain'} this similarity"
    return Box(
        about=f"{a} and {b} on {first['corpus']}",
        says=f"{layers} are the most similar by {MEANINGS[first['statistic']]}: calibrated {similarity} (0: chance, 1: "
        f"same). {chance}: p {p_value(first['p_searched'])}, corrected for {first['pairs']:,} pairs of layers and for "
        f"{counted(first['searched'], 'comparison')} of models, texts and statistics (false discovery rate).",
        **table(
            rows,
            BoxColumn("similarity", lambda row: MEANINGS[row["statistic"]]),
            BoxColumn("most similar layers", lambda row: f"{row['layer_a']} and {row['layer_b']}"),
            numeric("calibrated", lambda row: estimate(row["calibrated"], row["ci_low"], row["ci_high"])),
            measured("raw", lambda row: row["value"]),
            measured("threshold of chance", lambda row: row["threshold"]),
            numeric("p, corrected for layers", lambda row: p_value(row["p"])),
            numeric("and for all comparisons", lambda row: p_value(row["p_searched"])),
        ),
        notes=("Two models with random weights are alike too, since both read the same words.",),
    )


ALIKE = Question("alike", "How alike are two models?", (AlikeAnswer,), _rows, _boxes)
