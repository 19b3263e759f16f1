"""Made-up rows of the tables besides ``layer_metrics``. Not a test: loaded by ``made_up``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd


def places(model: Any, view: str, corpus: str, inner: np.ndarray[Any, Any]) -> tuple[pd.DataFrame, Any]:
    """Every layer of a model's last checkpoint times ``inner``, and the relative depth of each row."""
    name, role, layers, _, steps = model
    layer = np.repeat(np.arange(layers + 1), len(inner))
    frame = pd.DataFrame({"model": name, "role": role, "corpus": corpus, "view": view, "layer": layer})
    frame["checkpoint"] = "final" if steps[-1] is None else f"step{steps[-1]}"
    frame["step"] = pd.array([steps[-1]] * len(frame), dtype="Int64")
    frame["site"] = np.where(layer > 0, "block", "embedding")
    frame["depth"] = layer / layers
    return frame, np.tile(inner, layers + 1)


def spectrum(model: Any, view: str, corpus: str, ranks: int) -> pd.DataFrame:
    frame, rank = places(model, view, corpus, np.arange(1, ranks + 1))
    power = rank ** -(0.6 + frame["depth"])
    share = power / power.groupby(frame["layer"]).transform("sum")
    return frame.assign(metric="spectrum", rank=rank, value=share, n=4000)


def token_types(model: Any, view: str, corpus: str, types: int) -> pd.DataFrame:
    frame, token = places(model, view, corpus, np.arange(types))
    rng = np.random.default_rng(len(model[0]))
    norm = np.exp(rng.normal(1 + frame["depth"], 0.5))
    variance = 9 * norm**-0.7 * np.exp(rng.normal(0, 0.3, len(frame)))
    words = np.char.add("token-", token.astype(str))
    return frame.assign(
        metric="variance",
        token_id=token,
        token=words,
        count=5 + 2000 // (token + 1),
        norm_of_mean=norm,
        variance=variance,
    )


def sinks(models: Any, corpus: str) -> list[dict[str, Any]]:
    """Of each decoder the first token, and a hostile one further on, of which the norm alone told."""
    rows = []
    for name, role, layers, _, steps in models:
        if role == "encoder":
            continue
        last = "final" if steps[-1] is None else f"step{steps[-1]}"
        here = {"model": name, "checkpoint": last, "step": steps[-1], "role": role, "corpus": corpus}
        here |= {"metric": "outliers", "own": True, "layer_first": 1, "layer_last": layers}
        rows.append(here | {"token_id": 7, "token": "the", "position_first": 0, "position_last": 0, "texts": 400,
                            "count": 400, "norm_ratio": 170.0, "dominance": 69.0, "dimension": 47})  # fmt: skip
        rows.append(here | {"token_id": 8, "token": "<script>alert(2)</script>", "position_first": 3,
                            "position_last": 90, "texts": 12, "count": 15, "norm_ratio": 4.0, "dominance": 0.0,
                            "dimension": None})  # fmt: skip
    return rows


def sink_cuts(models: Any, corpus: str) -> list[dict[str, Any]]:
    """At every cut of both rules: the same below 4, and half as much again above."""
    rows = []
    cuts = [("dominance", cut) for cut in (0.25, 0.5, 1.0, 2.0, 4.0)]
    cuts += [("factor", cut) for cut in (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)]
    for name, role, layers, _, steps in models:
        last = "final" if steps[-1] is None else f"step{steps[-1]}"
        for rule, cut in cuts:
            for layer in range(layers + 1):
                for statistic in ("anisotropy.top_variance_share", "anisotropy.mean_cosine"):
                    rows.append({
                        "model": name, "checkpoint": last, "step": steps[-1], "role": role, "corpus": corpus,
                        "metric": "outliers", "rule": rule, "cut": cut, "statistic": statistic,
                        "site": "block" if layer else "embedding", "layer": layer, "depth": layer / layers,
                        "value": 0.1 + 0.05 * layer / layers * (2 if cut > 4 else 1), "n": 2000,
                        "left_out": 0.02 if cut > 4 else 0.03,
                    })  # fmt: skip
    return rows


def layer_pairs(models: Any, view: str, corpus: str) -> list[dict[str, Any]]:
    """Between all models; a model beside itself in one half alone."""
    rows = []
    last = {name: "final" if steps[-1] is None else f"step{steps[-1]}" for name, _, _, _, steps in models}
    for place, (a, _, layers_a, _, _) in enumerate(models):
        for b, _, layers_b, _, _ in models[place:]:
            key = {"corpus": corpus, "view": view, "metric": "layer_pairs", "model_a": a, "checkpoint_a": last[a],
                   "model_b": b, "checkpoint_b": last[b], "n": 500}  # fmt: skip
            for i in range(layers_a + 1):
                for j in range(i if a == b else 0, layers_b + 1):
                    near = math.exp(-4 * abs(i / layers_a - j / layers_b)) if a == b else 0.5 * (i + j) / 20 - 0.05
                    for statistic, value in (("cka", near), ("knn", max(0.0, near) ** 2), ("cka_floor", 0.0)):
                        rows.append(key | {"statistic": statistic, "layer_a": i, "layer_b": j, "value": value,
                                           "ci_low": value - 0.02, "ci_high": value + 0.02})  # fmt: skip
                    for statistic in ("tokens", "last_token") if a == b and i < j else ():
                        value = min(0.5, 0.1 * (j - i) + 0.01 * i)
                        rows.append(key | {"metric": "angular_distance", "statistic": statistic, "layer_a": i,
                                           "layer_b": j, "value": value, "ci_low": value - 0.01,
                                           "ci_high": value + 0.01})  # fmt: skip
    return rows


def differences(models: Any, view: str) -> list[dict[str, Any]]:
    """Between two corpora for every model, and between ``tuned`` and ``bert``."""
    last = {name: "final" if steps[-1] is None else f"step{steps[-1]}" for name, _, _, _, steps in models}
    sides = [("corpora", m, m, "simple", "nested") for m in models]
    named = {m[0]: m for m in models}
    if {"tuned", "bert"} <= named.keys():
        sides += [("base", named["tuned"], named["bert"], corpus, corpus) for corpus in ("nested", "simple")]
    rows = []
    for kind, a, b, corpus_a, corpus_b in sides:
        key = {"kind": kind, "view": view, "metric": "convergence", "model_a": a[0], "checkpoint_a": last[a[0]],
               "corpus_a": corpus_a, "model_b": b[0], "checkpoint_b": last[b[0]], "corpus_b": corpus_b,
               "n": 500}  # fmt: skip
        for statistic in ("similarity", "bound", "rate"):
            for layer in [None] if statistic == "rate" else range(a[2]):
                value = 0.1 * math.sin(3 * (layer or 0) / a[2] + len(a[0])) if kind == "corpora" else 0.04
                place = {"site": None} if layer is None else {"site": "block" if layer else "embedding"}
                rows.append(key | place | {"statistic": statistic, "layer": layer, "value": value,
                            "depth": None if layer is None else layer / a[2],
                            "ci_low": value - 0.03, "ci_high": value + 0.03})  # fmt: skip
    return rows


def correlations(view: str, corpora: Any) -> list[dict[str, Any]]:
    rows = []
    for corpus in corpora:
        for score, n in (("loss.lm", 5), ("sst2", 2)):
            for place, feature in enumerate(("area", "decay", "first", "rate")):
                for method in ("pearson", "spearman"):
                    value = (-0.9 + 0.5 * place) if n > 2 else None
                    spread = {"ci_low": None, "ci_high": None, "p": None}
                    if value is not None:
                        spread = {
                            "ci_low": max(-1, value - 0.4),
                            "ci_high": min(1, value + 0.4),
                            "p": 0.04 + 0.2 * place,
                        }
                    rows.append({"corpus": corpus, "view": view, "metric": "convergence", "feature": feature,
                                 "score": score, "method": method, "value": value, "n": n} | spread)  # fmt: skip
    return rows
