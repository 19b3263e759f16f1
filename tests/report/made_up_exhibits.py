"""Made-up static embeddings and sentences: an encoder, and a decoder with two checkpoints; hostile strings. Not a test.

Tokens and texts are hostile; names of groups, concepts and corpora cannot be.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"quoted'",
    "back\\slash",
    "שלום",
    "\u202eturned",
    "zero\u200bwidth",
    "\x07bell\x1b",
    "",
    "long" * 125,
)
# name, role, layers, steps of its checkpoints, sites besides the path, positions
MODELS = (
    ("bert", "encoder", 4, (None,), ("final", "attention"), 24),
    ("gpt2", "decoder", 3, (50, 600), (), 0),
)
TOKENS = [*HOSTILE, *(f"token{i}" for i in range(60))]
CLASSES = ("alphabetic", "numeric", "punctuation", "special")
CONCEPTS = ("female-male", "doctor-nurse", "past-present")
GROUPS = ("weather", "greeting")
CLOUDS = ("cats", "ships")


def fill_exhibits(path: Path, study: str) -> None:
    """Write both pages' rows into a database that has the tables."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, role, layers, steps, more, positions in MODELS:
        for step in steps:
            who = {"study": study, "model": name, "checkpoint": "final" if step is None else f"step{step}"}
            who |= {"step": step, "role": role}
            if step != 50:  # of static embeddings the last checkpoint alone
                for table, own in _static(positions).items():
                    rows.setdefault(table, []).extend(who | row for row in own)
            for site, layer in _places(layers, more):
                place = who | {"site": site, "layer": layer, "depth": layer / layers}
                for table, own in _sentences(layer / layers).items():
                    rows.setdefault(table, []).extend(place | row for row in own)
    with duckdb.connect(str(path)) as connection:
        for table, own in rows.items():
            connection.append(table, pd.DataFrame(own), by_name=True)


def _places(layers: int, more: tuple[str, ...]) -> list[tuple[str, int]]:
    places = [("block" if layer else "embedding", layer) for layer in range(layers + 1)]
    places += [("final", layers)] if "final" in more else []
    return places + ([("attention", layer) for layer in range(1, layers + 1)] if "attention" in more else [])


def _static(positions: int) -> dict[str, list[dict[str, Any]]]:
    rng = np.random.default_rng(0)
    of_weights = {"analysis": "vocabulary", "item": "(weights)"}
    tokens, points = [], []
    for i, token in enumerate(TOKENS):
        x, y, z = rng.normal(0, 1, 3).tolist()
        norm = 1 + i / len(TOKENS)
        tokens.append(
            {"token_id": i, "token": token, "class": CLASSES[i % 4], "subword": i % 3 == 0,
             "norm": norm, "mean_cosine": x / 4, "mean_distance": norm, "repeated": False,
             "pc1": x, "pc2": y, "pc3": z}
        )  # fmt: skip
        for name in ("pca of token", "pca", "tsne") if positions else ("pca of token", "tsne of token"):
            flat = name.startswith("tsne")
            points.append(of_weights | {"projection": name, "part": "token", "point": i, "label": token, "x": x,
                                        "y": y, "z": None if flat else z})  # fmt: skip
    ends = []
    for what, measure, low, high in (
        ("token", "norm", "smallest", "largest"), ("token–token", "cosine", "least", "most")
    ):  # fmt: skip
        for end, among, rank in [(e, a, r) for e in (low, high) for a in ("text", "all") for r in range(1, 12)]:
            pair = {"other_id": rank, "other": TOKENS[rank]} if what == "token–token" else {}
            ends.append({"among": among, "what": what, "measure": measure, "end_of_scale": end, "rank": rank,
                         "token_id": rank - 1, "token": TOKENS[rank - 1], "value": 0.9 - rank / 20,
                         "certain": rank != 11} | pair)  # fmt: skip
    facts = [
        {"fact": "positions", "said": "learned" if positions else "none"},
        {"fact": "note 1", "said": "A note on <b>positions</b>."},
        {"fact": "token vectors", "value": float(len(TOKENS)), "said": "8 dimensions"},
        {"fact": "norm of token: mean", "value": 1.5, "said": "n = 70"},
        {"fact": "norm of token: standard deviation", "value": 0.3, "said": "n = 70"},
    ]
    bins = [of_weights | {"measure": measure, "part": part, "low": i / 10, "high": (i + 1) / 10,
                          "count": int(100 * math.exp(-((i - 5) ** 2) / 4))}
            for measure, part in (("norm", "token"), ("cosine", "token–token")) for i in range(10)]  # fmt: skip
    variance = [of_weights | {"part": "token", "components": i, "share": i / 8, "n": 70} for i in range(1, 9)]
    found = {"vocabulary": tokens, "vocabulary_extremes": ends,
             "vocabulary_facts": facts, "projections": points, "histograms": bins,
             "explained_variance": variance}  # fmt: skip
    return found | _positions(positions, of_weights, ends, facts, points) if positions else found


def _positions(count: int, of_weights: Any, ends: Any, facts: Any, points: Any) -> dict[str, list[dict[str, Any]]]:
    at = [(math.cos(i), math.sin(i), i / count) for i in range(count)]
    for i, (x, y, z) in enumerate(at):
        points.append(of_weights | {"projection": "pca", "part": "position", "point": i, "label": str(i), "x": x,
                                    "y": y, "z": z})  # fmt: skip
    ends.extend({"among": "all", "what": "token–position", "measure": "cosine", "end_of_scale": "outlier",
                 "rank": i + 1, "token_id": i, "token": TOKENS[i], "other_id": i, "other": str(i),
                 "value": 0.4 - i / 100} for i in range(5))  # fmt: skip
    facts += [
        {"fact": "outlier threshold", "value": 0.2, "said": "|cosine| of a token and a position"},
        {"fact": "outliers", "value": 5.0, "said": "of 1,680 pairs"},
        {"fact": "outliers by chance", "value": 1.25, "said": None},
    ]
    return {
        "positions": [
            {"position": i, "norm": 1 + (i > 9), "step_length": 0.5 if i else None, "mean_cosine": 0.1,
             "mean_distance": 1.0, "pc1": x, "pc2": y, "pc3": z}
            for i, (x, y, z) in enumerate(at)
        ],
        "position_cosines": [
            {"position_a": i, "position_b": j, "cosine": math.cos(i - j)} for i in range(count) for j in range(count)
        ],
        "position_offsets": [
            {"distance": i, "cosine": math.cos(i), "sd": 0.1, "n": count - i} for i in range(1, count)
        ],
    }  # fmt: skip


def _sentences(depth: float) -> dict[str, list[dict[str, Any]]]:
    rng = np.random.default_rng(int(100 * depth))
    points, bins, variance, numbers = [], [], [], []

    def put(analysis: str, item: str, part: str, count: int, middle: float) -> None:
        for i, (x, y) in enumerate(rng.normal(middle, 0.3, (count, 2)).tolist()):
            label = HOSTILE[i] if i < len(HOSTILE) else f"text {i}"
            points.append({"analysis": analysis, "item": item, "projection": "pca", "part": part, "point": i,
                           "label": label, "x": x, "y": y})  # fmt: skip

    for i, group in enumerate(GROUPS):
        put("groups", "(groups)", group, 12, i * depth)
    for i, concept in enumerate(CONCEPTS):
        put("pairs", "shipped", concept, 10, i - depth)
        points.append({"analysis": "pairs", "item": "shipped", "projection": "pca", "part": f"mean {concept}",
                       "point": 0, "label": f"mean of {concept}", "x": i - depth, "y": 0.3 * i})  # fmt: skip
    for i, corpus in enumerate(CLOUDS):
        put("clouds", "two", corpus, 12, i * depth)
        variance += [{"analysis": "clouds", "item": "two", "part": corpus, "components": k, "share": k / 5, "n": 12}
                     for k in range(1, 6)]  # fmt: skip
    for part in (*CLOUDS, "–".join(CLOUDS)):
        bins += [{"analysis": "clouds", "item": "two", "measure": "cosine", "part": part, "low": k / 8,
                  "high": (k + 1) / 8, "count": 8 - k} for k in range(8)]  # fmt: skip
    groups = [
        {"text_group": group, "control": control, "pooling": "mean", "silhouette": 0.5 * depth - 0.2 * i,
         "within": 1.0, "between": 2.0, "ratio": 0.5, "n": 12}
        for group in GROUPS for i, control in enumerate(("none", "random-characters", "random-words"))
    ]  # fmt: skip
    directions = [
        {"pair_set": "shipped", "concept": concept, "pooling": "mean", "consistency": 0.3 + 0.2 * i * depth,
         "ci_low": 0.2, "ci_high": 0.9, "p": 0.001, "norm": 1.0, "relative_norm": 0.2, "n": 10}
        for i, concept in enumerate(CONCEPTS)
    ]  # fmt: skip
    cosines = [
        {"pair_set": "shipped", "concept_a": a, "concept_b": b, "pooling": "mean", "cosine": c * depth, "p": p,
         "n_a": 10, "n_b": 10}
        for a, b, c, p in (
            (CONCEPTS[0], CONCEPTS[1], -0.64, 0.001), (CONCEPTS[0], CONCEPTS[2], 0.1, 0.04),
            (CONCEPTS[1], CONCEPTS[2], 0.0, 0.9),
        )
    ]  # fmt: skip
    poolings = [
        {"probe": "classes", "pooling": pooling, "main": pooling == "mean", "accuracy": 0.9 - 0.2 * i - 0.1 * depth,
         "ci_low": 0.5, "ci_high": 0.95, "chance": 0.5, "n": 24}
        for i, pooling in enumerate(("mean", "last", "first"))
    ]  # fmt: skip
    for metric, item, names in (
        ("clouds", "two", ("separability",)), ("probes", "classes", ("linear", "linear_control", "linear_selectivity"))
    ):  # fmt: skip
        for k, name in enumerate(names):
            value = 0.9 - 0.3 * k - 0.1 * depth
            numbers.append({"corpus": item, "view": "words", "metric": metric, "statistic": name, "value": value,
                            "ci_low": value - 0.05, "ci_high": value + 0.05, "n": 24})  # fmt: skip
    return {"projections": points, "histograms": bins, "explained_variance": variance, "groups": groups,
            "pair_directions": directions, "direction_cosines": cosines, "layer_metrics": numbers,
            "probe_poolings": poolings}  # fmt: skip
