"""Made-up studies: encoders and decoders, two corpora, three views, checkpoints, gaps, failures, claims and findings.

``fill`` writes a plain study; ``fill_whole`` one with null baselines, all sites and rows in every table of numbers;
``fill_all`` the studies of the folder that tests of the report and of the browser share. Not a test.
"""

import json
import math
from datetime import datetime
from itertools import product

import duckdb
import numpy as np
import pandas as pd
from report import made_up_rows
from report.made_up_claims import claims, findings
from report.made_up_exhibits import MODELS as EXHIBITED
from report.made_up_exhibits import exhibits
from report.made_up_journeys import MODELS as EXPLORED
from report.made_up_journeys import journeys

from reporter.metrics.base import catalogue
from reporter.store import Store

VIEWS = ("words", "all", "no-sinks")
CORPORA = ("nested", "simple")
HOSTILE, IMAGE = "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"
# name, role, layers, width, steps of its checkpoints (None: a single one)
MODELS = (
    ("bert", "encoder", 6, 96, (0, 50, 200, 600)),
    ("minilm", "encoder", 4, 64, (None,)),
    ("gpt2", "decoder", 6, 96, (0, 50, 200, 600)),
    ("llama", "decoder", 8, 64, (None,)),
)
SMALL = {"models": MODELS[1:2], "corpora": ("nested",), "metrics": ("motion",)}
# as above, with null baselines and a model that was trained further
WHOLE = (("bert", "encoder", 4, 64, (0, 600)), ("bert (random-init)", "encoder", 4, 64, (None,)))
WHOLE += (("gpt2", "decoder", 6, 96, (0, 600)), ("gpt2 (random-init)", "decoder", 6, 96, (None,)))
WHOLE += (("gpt2 (shuffled)", "decoder", 6, 96, (None,)), ("tuned", "encoder", 4, 64, (None,)))
BASES = {"bert (random-init)": ("bert", "random-init"), "gpt2 (random-init)": ("gpt2", "random-init")}
BASES |= {"gpt2 (shuffled)": ("gpt2", "shuffled"), "tuned": ("bert", None)}
OF_ENCODERS = {"norm_placement": "post", "last_hidden_state": "block", "first_token": "[CLS]", "bos": "as-is"}
OF_DECODERS = {"norm_placement": "pre", "last_hidden_state": "final", "first_token": "word", "bos": "as-is"}
FLOORS = {"twonn": 33.0, "twonn_ml": 34.0, "mean_cosine": 0.0}
SPEC = "study: made-up\ntitle: Made up\nmodels:\n  bert: google-bert  # <script>alert(1)</script>\n"


def curve(role, statistic, depth, age, view):
    """A value that looks like the real thing, and differs by everything it may differ by."""
    bulge = math.exp(-((depth - 0.55) ** 2) / 0.05) if role == "decoder" else 0.25 * (1 - depth)
    shapes = {
        "top_variance_share": 0.06 + age * (0.45 if view != "no-sinks" else 0.15) * bulge + 0.02 * len(view) / 8,
        "mean_cosine": 0.2 + 0.6 * age * bulge,
        "similarity": 1 - (1 - depth) * (0.5 + 0.3 * age),
        "twonn": 4 + 6 * age * (1 - depth) + 2 * depth,
        "tradeoff": -0.2 - 0.4 * depth,
        "norm": 10 * (1 + depth * 3),
    }
    if statistic.startswith("gride_"):
        return 4 + 6 * age * (1 - depth) + 1.2 * math.log2(int(statistic[6:]))
    return shapes.get(statistic, 0.1 + 0.05 * math.sin(3 * depth + len(statistic)) * (0.5 + age))


def places(metric, statistic, layers, sites):
    if statistic.per == "model":
        return [(None, None)]
    places = [("block" if i else "embedding", i) for i in range(layers + (statistic.per == "layer"))]
    if sites and statistic.per == "layer" and metric.name in {"anisotropy", "convergence"}:
        places.append(("final", layers))
    if sites and statistic.main:
        places += [("attention", i) for i in range(1, layers + 1)]
    return places


def values(rng, role, layers, width, age, metric, sites):
    rows = []
    for view, statistic in product(VIEWS, metric.statistics):
        for site, layer in places(metric, statistic, layers, sites) if statistic.per != "pair" else ():
            depth = (layer or 0) / layers
            value = curve(role, statistic.name, depth, age, view) + float(rng.normal(0, 0.004))
            if site in {"final", "attention"}:
                value += 0.11  # so that a mixture would be seen
            if metric.name == "intrinsic_dimension" and role == "encoder" and layer == 0:
                value = value if statistic.name == "duplicates" else None
            row = {"view": view, "statistic": statistic.name, "site": site, "layer": layer, "n": 4096 - 12 * len(view)}
            row |= {"depth": None if layer is None else depth, "value": value, "ci_low": None, "ci_high": None}
            rows.append(row)
            if statistic.interval and value is not None:
                spread = 0.02 + 0.01 * depth
                rows[-1] = row | {"ci_low": value - spread, "ci_high": value + spread}
            if statistic.floor and value is not None:
                floor = FLOORS.get(statistic.name, 0.5 / width + 0.02)
                rows.append(row | {"statistic": f"{statistic.name}_floor", "value": floor})
    return rows


def model_rows(study, models, bases):
    """Rows of the table ``models``, one for each checkpoint."""
    for name, role, layers, width, steps in models:
        for place, step in enumerate(steps, 1):
            base, baseline = bases.get(name, (None, None))
            row = {"study": study, "model": name, "checkpoint": "final" if step is None else f"step{step}"}
            row |= {"step": step, "role": role, "layers": layers, "width": width, "family": name, "status": "done"}
            row |= {"source": "path" if step is None else "recipe", "location": "./weights" if step is None else name}
            row |= {"revision": "0123456789abcdef" * 2, "fingerprint": f"fingerprint-of-{name}-{step}"}
            row |= {"base": base, "baseline": baseline, "position": place, "is_last": place == len(steps)}
            row |= {"parameters": 1_234_567, "vocabulary_size": 500, "sink_rule": "a token that is told apart"}
            row |= {"loss": None if step is None else 4.4 - step / 500, "unigram_entropy": step and 4.48}
            row |= {"warning": "training did not get past token frequencies" if step == 0 else "", "self_test": 1.3e-7}
            yield row | (OF_ENCODERS if role == "encoder" else OF_DECODERS)


def fill(path, study="made-up", **more):
    """Write a study into a database; keywords replace the usual models, corpora, metrics, title…"""
    metrics, rng, cells, numbers = catalogue(), np.random.default_rng(0), [], []
    models = list(model_rows(study, more.get("models", MODELS), more.get("bases", {})))
    everywhere = more.get("metrics_of_all_corpora", tuple(metrics))
    for model, corpus, metric in product(models, more.get("corpora", CORPORA), more.get("metrics", tuple(metrics))):
        if corpus != CORPORA[0] and metric not in everywhere:
            continue
        key = {name: model[name] for name in ("study", "model", "checkpoint")} | {"corpus": corpus, "metric": metric}
        step, role, baseline = model["step"], model["role"], model["baseline"]
        age = 1.0 if step is None else min(1.0, step / 600)
        age = 0.5 * age if baseline == "shuffled" else 0.0 if baseline else age
        rows = values(rng, role, model["layers"], model["width"], age, metrics[metric], more.get("sites", False))
        numbers += [key | {"step": step, "role": role} | row for row in rows]
        cells.append(key | cell_row("-".join(key.values()), metric, role))
    store = Store(path)
    title = {"title": "Do decoders bulge in the middle?", "question": "How do encoders and decoders differ?"}
    store.put("studies", ("study",), {"study": study} | title | STUDY | {k: more[k] for k in title if k in more})
    for corpus in more.get("corpora", CORPORA):
        store.put("corpora", ("study", "corpus"), {"study": study, "corpus": corpus} | CORPUS)
    append(path, models=models, cells=cells, layer_metrics=numbers)  # through the store it would take seconds
    return store


def append(path, **tables):
    with duckdb.connect(str(path)) as connection:
        for table, rows in tables.items():
            if len(rows):
                connection.append(table, pd.DataFrame(rows), by_name=True)


def fill_whole(path, study="whole", types=40, ranks=96, **more):
    """Write a study with null baselines, all sites and rows in every table; keywords as for ``fill``."""
    more = {"models": WHOLE, "bases": BASES, "sites": True} | more
    store = fill(path, study, **more)
    tables = made_up_rows.tables(more["models"], VIEWS, more.get("corpora", CORPORA), types, ranks)
    append(path, **{name: frame.assign(study=study) for name, frame in tables.items()})
    return store


def fill_claims(store, study):
    """Give a study claims of every verdict, of which one was tested model by model."""
    store.replace("claims", study, claims(study))
    row = {"claim": "bert-rate", "reading": 1, "view": "words", "alone": "supported", "statistic": "convergence.rate"}
    row |= {"value": 0.08, "ci_low": 0.07, "ci_high": 0.09, "p": 0.001, "p_adjusted": 0.004}
    bounds = {"bert": ("supported", "> 0.06"), "gpt2": ("inconclusive", "> -0.075")}
    by_model = [row | {"model": m, "verdict": word, "claimed": claimed} for m, (word, claimed) in bounds.items()]
    store.replace("claims_by_model", study, by_model)


def fill_findings(store, study):
    """Give a study two findings, of which the second one has no picture."""
    store.put("studies", ["study"], {"study": study, "looked_at": 90})
    store.replace("findings", study, findings())


def fill_texts(store, study, texts):
    """Show texts of the corpus ``nested``: the first two are the first ones, others are drawn."""
    rows = [{"corpus": "nested", "number": n, "drawn": n > 2, "text": text} for n, text in enumerate(texts, 1)]
    rows = [row | {"characters": len(row["text"]) + (row["number"] == 1)} for row in rows]
    store.replace("corpus_texts", study, rows)


def fill_answers(store, study):
    """Say of a decoder that it has two kinds of sinks on each of five corpora."""
    row = {"model": "gpt2", "checkpoint": "step-600", "own": True, "texts": 40, "measured": 40, "count": 40}
    row |= {"position_first": 0, "position_last": 0, "layer_first": 2, "layer_last": 5, "norm_ratio": 12.5}
    first = {"number": 1, "token": None, "types": 9, "dimension": None}
    second = {"number": 2, "token": f"`{HOSTILE}|", "types": 1, "dimension": 7}
    corpora = [{"corpus": f"corpus-{number}"} for number in range(5)]
    store.replace("sink_answers", study, [row | corpus | kind for corpus in corpora for kind in (first, second)])


def fill_others(path, study, title, models, tables):
    """Write a study without corpora, and the rows that ``tables`` makes for the explorers."""
    store = fill(path, study, models=(), corpora=(), title=title)
    rows = list(model_rows(study, [(name, role, layers, 64, steps) for name, role, layers, steps, *_ in models], {}))
    cell = {"corpus": "(weights)", "metric": "vocabulary"} | cell_row("c", "vocabulary", "")
    cells = [cell | {name: row[name] for name in ("study", "model", "checkpoint")} for row in rows]
    own = {name: pd.DataFrame(rows_of_table).assign(study=study) for name, rows_of_table in tables.items()}
    append(path, models=rows, cells=cells, **own)
    return store


def fill_explored(path, study="explored"):
    """Write a study without corpora that has rows for the explorers."""
    return fill_others(path, study, "What becomes of a token?", EXPLORED, journeys())


def fill_exhibited(path, study="exhibited"):
    """Write a study with static embeddings, groups, pairs, clouds and probes."""
    return fill_others(path, study, "Vocabularies and sentences", EXHIBITED, exhibits())


def fill_all(path, **whole):
    """Write ``whole`` with claims, findings, texts, answers; ``explored``, ``exhibited``, and a hostile ``made-up``."""
    fewer = {"models": (*WHOLE[:3], *WHOLE[4:]), "metrics_of_all_corpora": ("anisotropy", "convergence"), "ranks": 24}
    store = fill_whole(path, **fewer | whole)
    fill_claims(store, "whole")
    fill_findings(store, "whole")
    fill_texts(store, "whole", TEXTS)
    fill_answers(store, "whole")
    fill_explored(path)
    fill_exhibited(path)
    models = (*MODELS[:3], (IMAGE, "decoder", 8, 64, (None,)))
    metrics = ("anisotropy", "intrinsic_dimension", "motion", "variance")
    hostile = {"title": f"Hostile {HOSTILE}", "models": models, "metrics": metrics}
    fill(path, metrics_of_all_corpora=("anisotropy",), **hostile)
    fail(store, "made-up", f"OSError: {HOSTILE} is not there: give another path")


CORPUS = {"source": "generated", "location": "grammar", "content_hash": "ab" * 32, "status": "done", "dropped": 0}
CORPUS |= {"texts": 500, "words": 8000, "characters": 40000}
STUDY = {"spec": SPEC, "spec_hash": "cd" * 32, "views": json.dumps(VIEWS), "versions": '{"torch": "2.13.0"}'}
STUDY |= {"started": datetime(2026, 11, 20, 9, 59), "finished": datetime(2026, 11, 20, 10, 1), "seconds": 83.0}
STUDY |= {"cells_run": 80, "cells_cached": 12, "cells_failed": 0}
CELL = {"options": "{}", "inputs": "{}", "status": "done", "why": "new", "device": "cpu", "precision": "float32"}
CELL |= {"texts": 500, "tokens": 9000, "cut_texts": 3, "seconds": 0.4, "forward_seconds": 2.0}
CELL |= {"versions": STUDY["versions"], "finished": datetime(2026, 11, 20, 10, 0)}
TEXTS = (HOSTILE, "{{ 7 * 7 }}{% raw %}", '"><img src=x onerror=alert(1)>', "\u202eبت end </ol>")


def cell_row(fingerprint, metric, role):
    gap = {"statistic": "twonn", "layers": [0], "reason": "more than half are duplicates"}
    has_gaps = metric == "intrinsic_dimension" and role == "encoder"
    reasons = [gap | {"view": view} for view in VIEWS] if has_gaps else []
    return CELL | {"fingerprint": fingerprint, "reasons": json.dumps(reasons)}


def fail(store, study, error):
    """Add a model that failed, and a failed cell of another one."""
    key = {"study": study, "model": "broken", "checkpoint": "final"}
    store.put("models", tuple(key), key | {"status": "failed", "error": error, "position": 1, "is_last": True})
    key = {"study": study, "model": "minilm", "checkpoint": "final", "corpus": CORPORA[0], "metric": "motion"}
    store.commit_cell(key | {"status": "failed", "fingerprint": "x", "error": error, "why": "new"})
