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
from report.made_up_claims import CLAIMS_BY_MODEL, FINDINGS, claims
from report.made_up_exhibits import EXHIBITS, TOKENS
from report.made_up_journeys import JOURNEYS, PLACES, tokens
from report.made_up_rows import TABLES

from reporter.metrics.base import catalogue
from reporter.store import Store

VIEWS = ("text tokens", "with special tokens", "without sinks")
CORPORA = ("nested", "simple")
KEY = ("study", "model", "checkpoint")
HOSTILE, IMAGE = "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"
# name, role, layers, width, steps of its checkpoints (None: a single one)
MODELS = (("bert", "encoder", 6, 96, (0, 50, 200, 600)), ("minilm", "encoder", 4, 64, (None,)))
MODELS += (("gpt2", "decoder", 6, 96, (0, 50, 200, 600)), ("llama", "decoder", 8, 64, (None,)))
SMALL = {"models": MODELS[1:2], "corpora": ("nested",), "metrics": ("motion",)}
# as above, with null baselines and a model that was trained further
WHOLE = (("bert", "encoder", 4, 64, (0, 600)), ("bert (random-init)", "encoder", 4, 64, (None,)))
WHOLE += (("gpt2", "decoder", 6, 96, (0, 600)), ("gpt2 (random-init)", "decoder", 6, 96, (None,)))
WHOLE += (("gpt2 (shuffled)", "decoder", 6, 96, (None,)), ("tuned", "encoder", 4, 64, (None,)))
BASES = {"bert (random-init)": ("bert", "random-init"), "gpt2 (random-init)": ("gpt2", "random-init")}
BASES |= {"gpt2 (shuffled)": ("gpt2", "shuffled"), "tuned": ("bert", None)}
OF_ENCODERS = {"norm_placement": "post", "last_hidden_state": "block", "first_token": "[CLS]", "bos": "as-is"}
OF_DECODERS = {"norm_placement": "pre", "last_hidden_state": "final", "first_token": "word", "bos": "as-is"}
CORPUS = {"source": "generated", "location": "grammar", "content_hash": "ab" * 32, "status": "done", "dropped": 0}
CORPUS |= {"texts": 500, "words": 8000, "characters": 40000}
STUDY = {"title": "Do decoders bulge in the middle?", "question": "How do encoders and decoders differ?"}
STUDY |= {"spec": f"study: made-up\ntitle: Made up\nmodels:\n  bert: google-bert  # {HOSTILE}\n"}
STUDY |= {"spec_hash": "cd" * 32, "views": json.dumps(VIEWS), "versions": '{"torch": "2.13.0"}', "seconds": 83.0}
STUDY |= {"started": datetime(2026, 11, 20, 9, 59), "finished": datetime(2026, 11, 20, 10, 1)}
STUDY |= {"cells_run": 80, "cells_cached": 12, "cells_failed": 0}
CELL = {"options": "{}", "inputs": "{}", "status": "done", "why": "new", "device": "cpu", "precision": "float32"}
CELL |= {"texts": 500, "tokens": 9000, "cut_texts": 3, "seconds": 0.4, "forward_seconds": 2.0, "reasons": "[]"}
CELL |= {"versions": STUDY["versions"], "finished": datetime(2026, 11, 20, 10, 0)}
DUPLICATES = {"statistic": "twonn", "layers": [0], "reason": "more than half are duplicates"}
GAPS = json.dumps([DUPLICATES | {"view": view} for view in VIEWS])
TEXTS = (HOSTILE, "{{ 7 * 7 }}{% raw %}", '"><img src=x onerror=alert(1)>', "\u202eبت end </ol>")


def curve(role, statistic, depth, age, view):
    """A value that differs by everything it may differ by; it bulges in the middle of decoders."""
    if statistic.startswith("gride_"):
        return 4 + 6 * age * (1 - depth) + 1.2 * math.log2(int(statistic[6:]))
    if statistic not in ("top_variance_share", "mean_cosine"):
        return 0.1 + 0.05 * math.sin(3 * depth + len(statistic)) * (0.5 + age)
    bulge = math.exp(-((depth - 0.55) ** 2) / 0.05) if role == "decoder" else 0.25 * (1 - depth)
    return 0.06 + age * (0.45 if view != "without sinks" else 0.15) * bulge + len(view) / 400


def places(metric, statistic, layers, sites):
    if statistic.per == "model":
        return [(None, None)]
    places = [("block" if i else "embedding", i) for i in range(layers + (statistic.per == "layer"))]
    if sites and statistic.per == "layer" and metric.name in {"anisotropy", "convergence"}:
        places.append(("final", layers))
    if sites and statistic.main:
        places += [("attention", i) for i in range(1, layers + 1)]
    return places


def values(rng, model, metric, sites):
    """Rows of ``layer_metrics`` of a model; ids of an encoder's embedding are too often the same for a dimension."""
    step, role, layers = model["step"], model["role"], model["layers"]
    age = {"shuffled": 0.5, "random-init": 0.0, None: 1.0 if step is None else step / 600}[model["baseline"]]
    for view, statistic in product(VIEWS, (statistic for statistic in metric.statistics if statistic.per != "pair")):
        for site, layer in places(metric, statistic, layers, sites):
            depth = (layer or 0) / layers
            value = curve(role, statistic.name, depth, age, view) + float(rng.normal(0, 0.004))
            value += 0.11 * (site in ("final", "attention"))  # so that a mixture would be seen
            row = {"step": step, "role": role, "view": view, "statistic": statistic.name, "site": site, "layer": layer}
            row |= {"depth": None if layer is None else depth, "n": 4096 - 12 * len(view), "value": value}
            if metric.name == "intrinsic_dimension" and role == "encoder" and layer == 0:
                yield row if statistic.name == "duplicates" else row | {"value": None}
                continue
            spread = 0.02 + 0.01 * depth
            yield row | ({"ci_low": value - spread, "ci_high": value + spread} if statistic.interval else {})
            if statistic.floor:
                floor = 0.0 if statistic.name == "mean_cosine" else 0.5 / model["width"] + 0.02
                yield row | {"statistic": f"{statistic.name}_floor", "value": floor}


def model_rows(study, models):
    """Rows of the table ``models``, one for each checkpoint."""
    for name, role, layers, width, steps in models:
        for place, step in enumerate(steps, 1):
            base, baseline = BASES.get(name, (None, None))
            row = {"study": study, "model": name, "checkpoint": "final" if step is None else f"step{step}"}
            row |= {"step": step, "role": role, "layers": layers, "width": width, "family": name, "status": "done"}
            row |= {"source": "path" if step is None else "recipe"}
            row |= {"location": f"./{name}" if step is None else name}
            row |= {"revision": "0123456789abcdef" * 2, "fingerprint": f"fingerprint-of-{name}-{step}"}
            row |= {"base": base, "baseline": baseline, "position": place, "is_last": place == len(steps)}
            row |= {"parameters": 1_234_567, "vocabulary_size": 500, "sink_rule": "a token that is told apart"}
            row |= {"loss": None if step is None else 4.4 - step / 500, "unigram_entropy": step and 4.48}
            row |= {"warning": "training did not get past token frequencies" if step == 0 else "", "self_test": 1.3e-7}
            yield row | (OF_ENCODERS if role == "encoder" else OF_DECODERS)


def fill(path, study="made-up", models=MODELS, corpora=CORPORA, metrics=None, everywhere=None, sites=False, **own):
    """Write a study into a database: metrics that are ``everywhere`` on each corpus, others on the first; ``own``
    columns of the table ``studies``."""
    known, rng, cells, numbers = catalogue(), np.random.default_rng(0), [], []
    metrics, models = metrics or tuple(known), list(model_rows(study, models))
    for model, corpus, name in product(models, corpora, metrics):
        if corpus == CORPORA[0] or everywhere is None or name in everywhere:
            key = {column: model[column] for column in KEY} | {"corpus": corpus, "metric": name}
            numbers += [key | row for row in values(rng, model, known[name], sites)]
            reasons = GAPS if name == "intrinsic_dimension" and model["role"] == "encoder" else "[]"
            cells.append(key | CELL | {"fingerprint": "-".join(key.values()), "reasons": reasons})
    store = Store(path)
    store.put("studies", ("study",), {"study": study} | STUDY | own)
    for corpus in corpora:
        store.put("corpora", ("study", "corpus"), {"study": study, "corpus": corpus} | CORPUS)
    append(path, models=models, cells=cells, layer_metrics=numbers)  # through the store it would take seconds
    return store


def append(path, **tables):
    with duckdb.connect(str(path)) as connection:
        for table, rows in tables.items():
            if len(rows):
                connection.append(table, pd.DataFrame(rows), by_name=True)


def fill_whole(path, types=40, ranks=96, **more):
    """Write a study with null baselines, all sites and rows in every table; keywords as for ``fill``."""
    store = fill(path, "whole", **{"models": WHOLE, "sites": True} | more)
    with duckdb.connect(str(path)) as connection:
        connection.execute(TABLES.format(types=types, ranks=ranks))
    return store


def fill_texts(store, study, texts):
    """Show texts of the corpus ``nested``: the first two are the first ones, others are drawn."""
    rows = [{"corpus": "nested", "number": n, "drawn": n > 2, "text": text} for n, text in enumerate(texts, 1)]
    cut = [row | {"characters": len(row["text"]) + (not n)} for n, row in enumerate(rows)]
    store.replace("corpus_texts", study, cut)


def answers():
    """A decoder has two kinds of sinks on each of five corpora."""
    row = {"model": "gpt2", "checkpoint": "step-600", "own": True, "texts": 40, "measured": 40, "count": 40}
    row |= {"position_first": 0, "position_last": 0, "layer_first": 2, "layer_last": 5, "norm_ratio": 12.5}
    first = {"number": 1, "token": None, "types": 9, "dimension": None}
    second = {"number": 2, "token": f"`{HOSTILE}|", "types": 1, "dimension": 7}
    return [row | kind | {"corpus": f"corpus-{number}"} for number in range(5) for kind in (first, second)]


def fill_explorers(path, study):
    """Write ``explored``, for the page of journeys, or ``exhibited``, for those of vocabularies and of sentences."""
    layers, rows, sql = ((6, 4), tokens(), JOURNEYS) if study == "explored" else ((4, 3), TOKENS, EXHIBITS)
    models = (("bert", "encoder", layers[0], 64, (None,)), ("gpt2", "decoder", layers[1], 64, (50, 600)))
    fill(path, study, models=models, corpora=(), title=f"{study} <b>")
    cell = CELL | {"corpus": "(weights)", "metric": "vocabulary", "fingerprint": "c"}
    append(path, cells=[cell | {column: row[column] for column in KEY} for row in model_rows(study, models)])
    with duckdb.connect(str(path)) as connection:
        connection.register("tokens", pd.DataFrame(rows))
        connection.execute(PLACES.format(study=study) + sql)


def fill_all(path, **whole):
    """Write ``whole`` with claims, findings, texts, answers; ``explored``, ``exhibited``, and a hostile ``made-up``."""
    fewer = {"models": (*WHOLE[:3], *WHOLE[4:]), "everywhere": ("anisotropy", "convergence"), "ranks": 24}
    store = fill_whole(path, looked_at=90, **fewer | whole)
    rows = {"claims": claims(), "claims_by_model": CLAIMS_BY_MODEL, "findings": FINDINGS, "sink_answers": answers()}
    for table, rows_of_table in rows.items():
        store.replace(table, "whole", rows_of_table)
    fill_texts(store, "whole", TEXTS)
    fill_explorers(path, "explored")
    fill_explorers(path, "exhibited")
    models = (*MODELS[:3], (IMAGE, "decoder", 8, 64, (None,)))
    metrics = ("anisotropy", "intrinsic_dimension", "motion", "variance")
    fill(path, title=f"Hostile {HOSTILE}", models=models, metrics=metrics, everywhere=("anisotropy",))
    failed = {"study": "made-up", "checkpoint": "final", "status": "failed"}
    failed |= {"error": f"OSError: {HOSTILE} is not there: give another path"}
    store.put("models", KEY, failed | {"model": "broken", "position": 1, "is_last": True})
    cell = {"model": "minilm", "corpus": CORPORA[0], "metric": "motion", "fingerprint": "x", "why": "new"}
    store.commit_cell(failed | cell)
