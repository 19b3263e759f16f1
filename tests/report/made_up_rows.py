"""Made-up rows of the tables besides ``layer_metrics``. Not a test: loaded by ``made_up``."""

import math
from itertools import product

import numpy as np
import pandas as pd


def tables(models, views, corpora, types, ranks):
    """Frames by table."""
    of_model = list(product(models, views, corpora))
    frames = {
        "spectra": pd.concat([spectrum(*key, ranks) for key in of_model], ignore_index=True),
        "token_types": pd.concat([token_types(*key, types) for key in of_model], ignore_index=True),
    }
    rows = {
        "layer_pairs": [row for view in views for corpus in corpora for row in layer_pairs(models, view, corpus)],
        "sinks": [row for corpus in corpora for row in sinks(models, corpus)],
        "sink_cuts": [row for corpus in corpora for row in sink_cuts(models, corpus)],
        "differences": [row for view in views for row in differences(models, view)],
        "correlations": [row for view in views for row in correlations(view, corpora)],
    }
    return frames | {name: pd.DataFrame(found) for name, found in rows.items()}


def last(model):
    """The last checkpoint of a model."""
    return "final" if model[4][-1] is None else f"step{model[4][-1]}"


def at_last(model):
    return {"model": model[0], "checkpoint": last(model), "step": model[4][-1], "role": model[1]}


def pair(a, b, view, metric):
    key = {"view": view, "metric": metric, "model_a": a[0], "checkpoint_a": last(a)}
    return key | {"model_b": b[0], "checkpoint_b": last(b), "n": 500}


def with_interval(value, spread):
    return {"value": value, "ci_low": value - spread, "ci_high": value + spread}


def layers_of(model, view, corpus, inner):
    """Every layer of a model's last checkpoint times ``inner``, and ``inner`` for each row."""
    layer = np.repeat(np.arange(model[2] + 1), len(inner))
    frame = pd.DataFrame(at_last(model) | {"corpus": corpus, "view": view, "layer": layer})
    frame = frame.assign(site=np.where(layer > 0, "block", "embedding"), depth=layer / model[2])
    return frame.astype({"step": "Int64"}), np.tile(inner, model[2] + 1)


def spectrum(model, view, corpus, ranks):
    frame, rank = layers_of(model, view, corpus, np.arange(1, ranks + 1))
    power = rank ** -(0.6 + frame["depth"])
    share = power / power.groupby(frame["layer"]).transform("sum")
    return frame.assign(metric="spectrum", rank=rank, value=share, n=4000)


def token_types(model, view, corpus, types):
    frame, token = layers_of(model, view, corpus, np.arange(types))
    rng = np.random.default_rng(len(model[0]))
    norm = np.exp(rng.normal(1 + frame["depth"], 0.5))
    variance = 9 * norm**-0.7 * np.exp(rng.normal(0, 0.3, len(frame)))
    frame = frame.assign(metric="variance", token_id=token, token=np.char.add("token-", token.astype(str)))
    return frame.assign(count=5 + 2000 // (token + 1), norm_of_mean=norm, variance=variance)


def sinks(models, corpus):
    """Of each decoder the first token, and a hostile one further on, of which the norm alone told."""
    for model in (model for model in models if model[1] != "encoder"):
        row = at_last(model) | {"corpus": corpus, "metric": "outliers", "own": True, "layer_first": 1}
        row |= {"layer_last": model[2], "position_first": 0, "position_last": 0, "texts": 400, "count": 400}
        yield row | {"token_id": 7, "token": "the", "norm_ratio": 170.0, "dominance": 69.0, "dimension": 47}
        row |= {"position_first": 3, "position_last": 90, "texts": 12, "count": 15, "norm_ratio": 4.0}
        yield row | {"token_id": 8, "token": "<script>alert(2)</script>", "dominance": 0.0, "dimension": None}


def sink_cuts(models, corpus):
    """At every cut of both rules: the same below 4, and half as much again above."""
    cuts = [("dominance", cut) for cut in (0.25, 0.5, 1.0, 2.0, 4.0)]
    cuts += [("factor", cut) for cut in (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)]
    for model, (rule, cut), name in product(models, cuts, ("top_variance_share", "mean_cosine")):
        for layer in range(model[2] + 1):
            depth = layer / model[2]
            row = at_last(model) | {"corpus": corpus, "metric": "outliers", "rule": rule, "cut": cut, "layer": layer}
            row |= {"statistic": f"anisotropy.{name}", "site": "block" if layer else "embedding", "depth": depth}
            value = 0.1 + 0.05 * depth * (2 if cut > 4 else 1)
            yield row | {"value": value, "n": 2000, "left_out": 0.02 if cut > 4 else 0.03}


def layer_pairs(models, view, corpus):
    """Between all models; a model beside itself in one half alone."""
    for place, a in enumerate(models):
        for b in models[place:]:
            for i, j in product(range(a[2] + 1), range(b[2] + 1)):
                if a == b and j < i:
                    continue
                key = pair(a, b, view, "layer_pairs") | {"corpus": corpus, "layer_a": i, "layer_b": j}
                near = math.exp(-4 * abs(i / a[2] - j / b[2])) if a == b else 0.5 * (i + j) / 20 - 0.05
                for statistic, value in (("cka", near), ("knn", max(0.0, near) ** 2), ("cka_floor", 0.0)):
                    yield key | {"statistic": statistic} | with_interval(value, 0.02)
                key |= {"metric": "angular_distance"} | with_interval(min(0.5, 0.1 * (j - i) + 0.01 * i), 0.01)
                for statistic in ("tokens", "last_token") if a == b and i < j else ():
                    yield key | {"statistic": statistic}


def differences(models, view):
    """Between two corpora for every model, and between ``tuned`` and ``bert``."""
    sides = [("corpora", m, m, "simple", "nested") for m in models]
    named = {m[0]: m for m in models}
    if {"tuned", "bert"} <= named.keys():
        sides += [("base", named["tuned"], named["bert"], corpus, corpus) for corpus in ("nested", "simple")]
    for kind, a, b, corpus_a, corpus_b in sides:
        key = pair(a, b, view, "convergence") | {"kind": kind, "corpus_a": corpus_a, "corpus_b": corpus_b}
        for statistic in ("similarity", "bound", "rate"):
            for layer in [None] if statistic == "rate" else range(a[2]):
                value = 0.1 * math.sin(3 * (layer or 0) / a[2] + len(a[0])) if kind == "corpora" else 0.04
                place = {"site": None, "depth": None}
                if layer is not None:
                    place = {"site": "block" if layer else "embedding", "depth": layer / a[2]}
                yield key | place | {"statistic": statistic, "layer": layer} | with_interval(value, 0.03)


def correlations(view, corpora):
    features = list(enumerate(("area", "decay", "first", "rate")))
    for corpus, (score, n), (place, feature) in product(corpora, (("loss.lm", 5), ("sst2", 2)), features):
        numbers = {"value": None, "ci_low": None, "ci_high": None, "p": None}
        if n > 2:
            value = -0.9 + 0.5 * place
            numbers = {"value": value, "ci_low": max(-1, value - 0.4), "ci_high": min(1, value + 0.4)}
            numbers["p"] = 0.04 + 0.2 * place
        row = {"corpus": corpus, "view": view, "metric": "convergence", "feature": feature, "score": score, "n": n}
        for method in ("pearson", "spearman"):
            yield row | {"method": method} | numbers
