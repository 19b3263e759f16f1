"""Made-up static embeddings and sentences: an encoder, and a decoder with two checkpoints; hostile texts; no test."""

import math
from collections import defaultdict
from itertools import product

import numpy as np
from report.made_up_journeys import HOSTILE as TOKENS_OF_JOURNEYS
from report.made_up_journeys import places_of

HOSTILE = (*TOKENS_OF_JOURNEYS, "<img src=x onerror=alert(2)>")
# name, role, layers, steps of its checkpoints, sites besides the path, positions
MODELS = (("bert", "encoder", 4, (None,), ("final", "attention"), 24), ("gpt2", "decoder", 3, (50, 600), (), 0))
TOKENS = [*HOSTILE, *(f"token{i}" for i in range(60))]
CLASSES = ("alphabetic", "numeric", "punctuation", "special")
CONCEPTS = ("female-male", "doctor-nurse", "past-present")
GROUPS, CLOUDS = ("weather", "greeting"), ("cats", "ships")
OF_WEIGHTS = {"analysis": "vocabulary", "item": "(weights)"}
OF_CLOUDS = {"analysis": "clouds", "item": "two"}


def exhibits():
    """Rows of both pages, by table."""
    rows = defaultdict(list)
    for name, role, layers, steps, more, positions in MODELS:
        for step in steps:
            who = {"model": name, "checkpoint": "final" if step is None else f"step{step}", "step": step, "role": role}
            # of the last checkpoint alone
            found = [] if step == 50 else [(who, *own) for own in static_rows(positions)]
            for site, layer, depth in places_of(layers, more):
                at = who | {"site": site, "layer": layer, "depth": depth}
                found += [(at, *own) for own in sentence_rows(depth)]
            for key, table, own in found:
                rows[table].append(key | own)
    return rows


def static_rows(positions):
    """Tables and rows of the vectors of tokens, and of positions where there are any."""
    rng = np.random.default_rng(0)
    projections = ("pca of token", "pca", "tsne") if positions else ("pca of token", "tsne of token")
    for i, token in enumerate(TOKENS):
        x, y, z = rng.normal(0, 1, 3).tolist()
        norm = 1 + i / len(TOKENS)
        row = {"token_id": i, "token": token, "class": CLASSES[i % 4], "subword": i % 3 == 0, "norm": norm}
        row |= {"mean_cosine": x / 4, "mean_distance": norm, "repeated": False, "pc1": x, "pc2": y, "pc3": z}
        yield "vocabulary", row
        for name in projections:
            point = {"projection": name, "part": "token", "point": i, "label": token, "x": x, "y": y}
            yield "projections", OF_WEIGHTS | point | {"z": None if name.startswith("tsne") else z}
    for end, among, rank in product(("smallest", "largest", "least", "most"), ("text", "all"), range(1, 12)):
        row = {"among": among, "what": "token", "measure": "norm", "end_of_scale": end, "rank": rank}
        if end in ("least", "most"):
            row |= {"what": "token–token", "measure": "cosine", "other_id": rank, "other": TOKENS[rank]}
        row |= {"token_id": rank - 1, "token": TOKENS[rank - 1], "value": 0.9 - rank / 20, "certain": rank != 11}
        yield "vocabulary_extremes", row
    facts = [("positions", None, "learned" if positions else "none"), ("note 1", None, "A note on <b>positions</b>.")]
    facts += [("token vectors", float(len(TOKENS)), "8 dimensions"), ("norm of token: mean", 1.5, "n = 70")]
    facts += [("norm of token: standard deviation", 0.3, "n = 70")]
    for (measure, part), i in product((("norm", "token"), ("cosine", "token–token")), range(10)):
        own = {"measure": measure, "part": part, "low": i / 10, "high": (i + 1) / 10}
        yield "histograms", OF_WEIGHTS | own | {"count": int(100 * math.exp(-((i - 5) ** 2) / 4))}
    for i in range(1, 9):
        yield "explained_variance", OF_WEIGHTS | {"part": "token", "components": i, "share": i / 8, "n": 70}
    if positions:
        yield from position_rows(positions)
        facts += [("outlier threshold", 0.2, "|cosine| of a token and a position"), ("outliers", 5.0, "of 1,680 pairs")]
        facts += [("outliers by chance", 1.25, None)]
    for fact, value, words in facts:
        yield "vocabulary_facts", {"fact": fact, "value": value, "said": words}


def position_rows(count):
    for i in range(count):
        x, y, z = math.cos(i), math.sin(i), i / count
        point = {"projection": "pca", "part": "position", "point": i, "label": str(i), "x": x, "y": y, "z": z}
        yield "projections", OF_WEIGHTS | point
        row = {"position": i, "norm": 1 + (i > 9), "step_length": 0.5 if i else None, "mean_cosine": 0.1}
        yield "positions", row | {"mean_distance": 1.0, "pc1": x, "pc2": y, "pc3": z}
        for j in range(count):
            yield "position_cosines", {"position_a": i, "position_b": j, "cosine": math.cos(i - j)}
        if i:
            yield "position_offsets", {"distance": i, "cosine": math.cos(i), "sd": 0.1, "n": count - i}
    outlier = {"among": "all", "what": "token–position", "measure": "cosine", "end_of_scale": "outlier"}
    for i in range(5):
        row = {"rank": i + 1, "token_id": i, "token": TOKENS[i], "other_id": i, "other": str(i), "value": 0.4 - i / 100}
        yield "vocabulary_extremes", outlier | row


def sentence_rows(depth):
    """Tables and rows of groups, pairs, clouds and probes at one place of a model."""
    rng = np.random.default_rng(int(100 * depth))
    clouds = [("groups", "(groups)", part, 12, i * depth) for i, part in enumerate(GROUPS)]
    clouds += [("pairs", "shipped", part, 10, i - depth) for i, part in enumerate(CONCEPTS)]
    clouds += [("clouds", "two", part, 12, i * depth) for i, part in enumerate(CLOUDS)]
    for analysis, item, part, count, middle in clouds:
        row = {"analysis": analysis, "item": item, "projection": "pca"}
        for i, (x, y) in enumerate(rng.normal(middle, 0.3, (count, 2)).tolist()):
            label = HOSTILE[i] if i < len(HOSTILE) else f"text {i}"
            yield "projections", row | {"part": part, "point": i, "label": label, "x": x, "y": y}
        if analysis == "pairs":
            mean = {"part": f"mean {part}", "point": 0, "label": f"mean of {part}", "x": middle, "y": 0.3 * middle}
            yield "projections", row | mean
    for part, k in product(CLOUDS, range(1, 6)):
        yield "explained_variance", OF_CLOUDS | {"part": part, "components": k, "share": k / 5, "n": 12}
    for part, k in product((*CLOUDS, "–".join(CLOUDS)), range(8)):
        own = {"measure": "cosine", "part": part, "low": k / 8, "high": (k + 1) / 8, "count": 8 - k}
        yield "histograms", OF_CLOUDS | own
    for group, (i, control) in product(GROUPS, enumerate(("none", "random-characters", "random-words"))):
        row = {"text_group": group, "control": control, "pooling": "mean", "silhouette": 0.5 * depth - 0.2 * i}
        yield "groups", row | {"within": 1.0, "between": 2.0, "ratio": 0.5, "n": 12}
    for i, concept in enumerate(CONCEPTS):
        row = {"pair_set": "shipped", "concept": concept, "pooling": "mean", "consistency": 0.3 + 0.2 * i * depth}
        row |= {"ci_low": 0.2, "ci_high": 0.9, "p": 0.001, "norm": 1.0, "relative_norm": 0.2, "n": 10}
        yield "pair_directions", row
    for a, b, cosine, p in ((0, 1, -0.64, 0.001), (0, 2, 0.1, 0.04), (1, 2, 0.0, 0.9)):
        row = {"pair_set": "shipped", "concept_a": CONCEPTS[a], "concept_b": CONCEPTS[b], "pooling": "mean"}
        yield "direction_cosines", row | {"cosine": cosine * depth, "p": p, "n_a": 10, "n_b": 10}
    for i, pooling in enumerate(("mean", "last", "first")):
        row = {"probe": "classes", "pooling": pooling, "main": i == 0, "accuracy": 0.9 - 0.2 * i - 0.1 * depth}
        yield "probe_poolings", row | {"ci_low": 0.5, "ci_high": 0.95, "chance": 0.5, "n": 24}
    statistics = [("clouds", "two", "separability", 0.9), ("probes", "classes", "linear", 0.9)]
    statistics += [("probes", "classes", "linear_control", 0.6), ("probes", "classes", "linear_selectivity", 0.3)]
    for metric, item, name, high in statistics:
        value = high - 0.1 * depth
        row = {"corpus": item, "view": "words", "metric": metric, "statistic": name, "value": value, "n": 24}
        yield "layer_metrics", row | {"ci_low": value - 0.05, "ci_high": value + 0.05}
