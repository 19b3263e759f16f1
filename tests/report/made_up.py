"""Made-up studies: two encoders, two decoders, two corpora, three views, checkpoints, gaps and failures.

``fill`` writes a plain study; ``fill_whole`` one with null baselines, all sites and rows in every table of numbers;
``fill_explored`` and ``fill_exhibited`` ones for the explorers.

Not a test: loaded by the fixtures of ``tests/report`` and ``tests/browser``.
"""

from __future__ import annotations

import json
import math
import runpy
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from reporter.metrics.base import Metric, Statistic, catalogue
from reporter.store import Store

VIEWS = ("words", "all", "no-sinks")
CORPORA = ("nested", "simple")
# name, role, layers, width, steps of its checkpoints (None: a single one)
MODELS = (
    ("bert", "encoder", 6, 96, (0, 50, 200, 600)),
    ("minilm", "encoder", 4, 64, (None,)),
    ("gpt2", "decoder", 6, 96, (0, 50, 200, 600)),
    ("llama", "decoder", 8, 64, (None,)),
)
# for fill_whole: what is not in the catalogue of this version
WHOLE = (
    ("bert", "encoder", 4, 64, (0, 600)),
    ("bert (random-init)", "encoder", 4, 64, (None,)),
    ("gpt2", "decoder", 6, 96, (0, 600)),
    ("gpt2 (random-init)", "decoder", 6, 96, (None,)),
    ("gpt2 (shuffled)", "decoder", 6, 96, (None,)),
    ("tuned", "encoder", 4, 64, (None,)),
)
BASES = {
    "bert (random-init)": ("bert", "random-init"),
    "gpt2 (random-init)": ("gpt2", "random-init"),
    "gpt2 (shuffled)": ("gpt2", "shuffled"),
    "tuned": ("bert", None),
}
EXTRA = {
    "intrinsic_dimension": [f"gride_{2**i}" for i in range(7)],
    "layer_pairs": ["cka:pair", "knn:pair"],
    "outliers": ["sink_sensitivity", "sink_share:model"],
    "spectrum": ["effective_rank", "participation_ratio", "stable_rank", "decay"],
    "variance": ["total", "within", "between", "within_share", "between_share", "tradeoff", "coverage:model"],
}
VERSIONS = {"reporter": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0", "python": "3.11.9"}
ROWS = runpy.run_path(str(Path(__file__).with_name("made_up_rows.py")))
CLAIMS = runpy.run_path(str(Path(__file__).with_name("made_up_claims.py")))
JOURNEYS = runpy.run_path(str(Path(__file__).with_name("made_up_journeys.py")))
EXHIBITS = runpy.run_path(str(Path(__file__).with_name("made_up_exhibits.py")))
SPEC = "study: made-up\ntitle: Made up\nmodels:\n  bert: google-bert  # <script>alert(1)</script>\n"


def curve(role: str, statistic: str, depth: float, age: float, view: str) -> float:
    """A value that looks like the real thing, and differs by everything it may differ by."""
    bulge = math.exp(-((depth - 0.55) ** 2) / 0.05) if role == "decoder" else 0.25 * (1 - depth)
    share = 0.06 + age * (0.45 if view != "no-sinks" else 0.15) * bulge + 0.02 * len(view) / 8
    if statistic.startswith("gride_"):
        return 4 + 6 * age * (1 - depth) + 1.2 * math.log2(int(statistic[6:]))
    known = {
        "between_share": 0.9 - 0.7 * depth,
        "within_share": 0.1 + 0.7 * depth,
        "tradeoff": -0.2 - 0.4 * depth,
        "top_variance_share": share,
        "top_variance_share_batch": share * 1.07,
        "mean_cosine": 0.2 + 0.6 * age * bulge,
        "similarity": 1 - (1 - depth) * (0.5 + 0.3 * age),
        "twonn": 4 + 6 * age * (1 - depth) + 2 * depth,
        "twonn_ml": 5 + 5 * age * (1 - depth) + 2 * depth,
        "step_cosine": 0.8 + 0.15 * depth * age,
        "norm": 10 * (1 + depth * 3),
        "step_length": 4 + 3 * depth,
        "curvature": 1.9 - 0.4 * depth,
    }
    return known.get(statistic, 0.1 + 0.05 * math.sin(3 * depth + len(statistic)) * (0.5 + age))


def known_metrics(extra: bool = True) -> dict[str, Metric]:
    """The catalogue, and what EXTRA adds to it."""
    known = dict(catalogue())
    for name, statistics in EXTRA.items() if extra else ():
        old = known.get(name) or Metric(name, name.replace("_", " ").capitalize(), f"Made up {name}.", (), (), len)  # type: ignore[arg-type]
        has = {statistic.name for statistic in old.statistics}
        new = [one.partition(":") for one in statistics if one.partition(":")[0] not in has]
        more = tuple(
            Statistic(
                name,
                name.replace("_", " "),
                f"made up: {name} of the states",
                (),
                per=per or "layer",  # type: ignore[arg-type]
                floor=name.startswith("gride"),
                headline=name == "effective_rank",
            )
            for name, _, per in new
        )
        known[name] = replace(old, statistics=old.statistics + more)
    return dict(sorted(known.items()))


def values(
    rng: np.random.Generator, role: str, layers: int, width: int, age: float, metric: Metric, sites: bool = False
) -> list[dict[str, Any]]:
    rows = []
    for view in VIEWS:
        for statistic in metric.statistics:
            if statistic.per == "pair":
                continue
            places: list[Any] = (
                [(None, None)]
                if statistic.per == "model"
                else [("block" if i else "embedding", i) for i in range(layers + (statistic.per == "layer"))]
            )
            if sites and statistic.per == "layer" and metric.name in {"anisotropy", "convergence"}:
                places += [("final", layers)]
            if sites and statistic.headline:
                places += [("attention", i) for i in range(1, layers + 1)]
            for site, layer in places:
                depth = (layer or 0) / layers
                value: float | None = curve(role, statistic.name, depth, age, view) + float(rng.normal(0, 0.004))
                if (
                    metric.name == "intrinsic_dimension"
                    and layer == 0
                    and role == "encoder"
                    and statistic.name != "duplicates"
                ):
                    value = None
                if site in {"final", "attention"} and value is not None:
                    value += 0.11  # so that a mixture would be seen
                spread = 0.02 + 0.01 * depth
                bounded = bool(statistic.interval) and value is not None
                own = {
                    "view": view,
                    "statistic": statistic.name,
                    "site": site,
                    "layer": layer,
                    "depth": None if layer is None else depth,
                    "n": 4096 - 12 * len(view),
                }
                rows.append(
                    own
                    | {
                        "value": value,
                        "ci_low": value - spread if bounded and value is not None else None,
                        "ci_high": value + spread if bounded and value is not None else None,
                    }
                )
                if statistic.floor and value is not None:
                    floor = {"twonn": 33.0, "twonn_ml": 34.0, "mean_cosine": 0.0}.get(
                        statistic.name, 0.5 / width + 0.02
                    )
                    rows.append(
                        own
                        | {
                            "statistic": f"{statistic.name}_floor",
                            "value": floor,
                            "ci_low": None,
                            "ci_high": None,
                        }
                    )
    return rows


def place_of(step: int | None, steps: Sequence[int | None]) -> dict[str, Any]:
    """Return where a checkpoint stands among those of its model."""
    return {"position": list(steps).index(step) + 1, "is_last": step == steps[-1]}


def fill(path: Path, study: str = "made-up", **more: Any) -> Store:
    """Write a study into a database; keywords replace the usual models, corpora, metrics, title…"""
    corpora, metrics = more.get("corpora", CORPORA), more.get("metrics", tuple(catalogue()))
    known, bases = known_metrics(), more.get("bases", {})
    rng = np.random.default_rng(0)
    models, cells, numbers = [], [], []
    for name, role, layers, width, steps in more.get("models", MODELS):
        for step in steps:
            checkpoint = "final" if step is None else f"step{step}"
            key = {"study": study, "model": name, "checkpoint": checkpoint}
            base, baseline = bases.get(name, (None, None))
            of_base = {"base": base, "baseline": baseline}
            models.append(key | model_row(name, role, layers, width, step) | of_base | place_of(step, steps))
            for corpus in corpora:
                for metric in metrics:
                    age = 1.0 if step is None else min(1.0, step / 600)
                    age = 0.5 * age if baseline == "shuffled" else 0.0 if baseline else age
                    rows = values(rng, role, layers, width, age, known[metric], more.get("sites", False))
                    of_cell = key | {"corpus": corpus, "metric": metric}
                    numbers += [of_cell | {"step": step, "role": role} | row for row in rows]
                    cells.append(of_cell | cell_row("-".join(of_cell.values()), metric, role))
    store = Store(path)
    store.put("studies", ("study",), study_row(study, more))
    for corpus in corpora:
        store.put("corpora", ("study", "corpus"), {"study": study, "corpus": corpus} | CORPUS)
    with duckdb.connect(str(path)) as connection:  # cell by cell through the store would take seconds
        for table, rows in (("models", models), ("cells", cells), ("layer_metrics", numbers)):
            if rows:
                connection.append(table, pd.DataFrame(rows), by_name=True)
    return store


def fill_whole(path: Path, study: str = "whole", types: int = 40, ranks: int = 96, **more: Any) -> Store:
    """Write a study with null baselines, all sites and rows in every table; keywords as for ``fill``."""
    more = {"models": WHOLE, "bases": BASES, "metrics": tuple(known_metrics()), "sites": True} | more
    store = fill(path, study, **more)
    corpora, models = more.get("corpora", CORPORA), more["models"]
    frames = {
        name: pd.concat([make(view, corpus) for view in VIEWS for corpus in corpora], ignore_index=True)
        for name, make in {
            "spectra": lambda view, corpus: pd.concat([ROWS["spectrum"](m, view, corpus, ranks) for m in models]),
            "token_types": lambda view, corpus: pd.concat(
                [ROWS["token_types"](m, view, corpus, types) for m in models]
            ),
            "layer_pairs": lambda view, corpus: pd.DataFrame(ROWS["layer_pairs"](models, view, corpus)),
        }.items()
    }
    frames["sinks"] = pd.DataFrame([row for corpus in corpora for row in ROWS["sinks"](models, corpus)])
    frames["sink_cuts"] = pd.DataFrame([row for corpus in corpora for row in ROWS["sink_cuts"](models, corpus)])
    frames["differences"] = pd.DataFrame([row for view in VIEWS for row in ROWS["differences"](models, view)])
    frames["correlations"] = pd.DataFrame([row for view in VIEWS for row in ROWS["correlations"](view, corpora)])
    with duckdb.connect(str(path)) as connection:
        for table, frame in frames.items():
            connection.append(table, frame.assign(study=study), by_name=True)
    return store


def fill_claims(store: Store, study: str) -> None:
    """Give a study claims of every verdict."""
    store.replace("claims", study, CLAIMS["rows"](study))
    said = {"claim": "bert-rate", "reading": 1, "view": "words", "alone": "supported", "statistic": "convergence.rate"}
    said |= {"value": 0.08, "ci_low": 0.07, "ci_high": 0.09, "p": 0.001, "p_adjusted": 0.004}
    bounds = {"bert": ("supported", "> 0.06"), "gpt2": ("inconclusive", "> -0.075")}
    by_model = [said | {"model": m, "verdict": word, "claimed": claimed} for m, (word, claimed) in bounds.items()]
    store.replace("claims_by_model", study, by_model)


def fill_explored(path: Path, study: str = "explored") -> Store:
    """Write a study without corpora that has rows for the explorers."""
    store = fill(path, study, models=(), corpora=(), title="What becomes of a token?")
    for name, role, layers, checkpoints, *_ in JOURNEYS["MODELS"]:
        for step in checkpoints:
            key = {"study": study, "model": name, "checkpoint": "final" if step is None else f"step{step}"}
            store.put("models", tuple(key), key | model_row(name, role, layers, 64, step) | place_of(step, checkpoints))
    JOURNEYS["fill_journeys"](path, study)
    return store


def fill_exhibited(path: Path, study: str = "exhibited") -> Store:
    """Write a study with static embeddings, groups, pairs, clouds and probes."""
    store = fill(path, study, models=(), corpora=(), title="Vocabularies and sentences")
    for name, role, layers, checkpoints, *_ in EXHIBITS["MODELS"]:
        for step in checkpoints:
            key = {"study": study, "model": name, "checkpoint": "final" if step is None else f"step{step}"}
            store.put("models", tuple(key), key | model_row(name, role, layers, 64, step) | place_of(step, checkpoints))
            cell = key | {"corpus": "(weights)", "metric": "vocabulary"}
            store.put("cells", (*key, "corpus", "metric"), cell | cell_row(f"{name}-{step}", "vocabulary", role))
    EXHIBITS["fill_exhibits"](path, study)
    return store


def model_row(name: str, role: str, layers: int, width: int, step: int | None) -> dict[str, Any]:
    encoder = role == "encoder"
    return {
        "step": step,
        "role": role,
        "source": "path" if step is None else "recipe",
        "location": "./weights" if step is None else name,
        "revision": "0123456789abcdef" * 2,
        "fingerprint": f"fingerprint-of-{name}-{step}",
        "family": name,
        "layers": layers,
        "width": width,
        "parameters": 1_234_567,
        "vocabulary_size": 500,
        "norm_placement": "post" if encoder else "pre",
        "last_hidden_state": "block" if encoder else "final",
        "bos": "as-is",
        "first_token": "[CLS]" if encoder else "word",
        "sink_rule": "a token that is told apart",
        "self_test": 1.3e-7,
        "device": "cpu",
        "precision": "float32",
        "loss": None if step is None else 4.4 - step / 500,
        "unigram_entropy": None if step is None else 4.48,
        "warning": "stayed on the unigram plateau" if step == 0 else "",
        "status": "done",
    }


CORPUS = {
    "source": "generated",
    "location": "grammar",
    "content_hash": "ab" * 32,
    "texts": 500,
    "words": 8000,
    "characters": 40000,
    "dropped": 0,
    "status": "done",
}


def cell_row(fingerprint: str, metric: str, role: str) -> dict[str, Any]:
    gaps = [
        {"statistic": "twonn", "view": view, "layers": [0], "reason": "more than half are duplicates"} for view in VIEWS
    ]
    return {
        "options": "{}",
        "fingerprint": fingerprint,
        "inputs": "{}",
        "status": "done",
        "why": "new",
        "reasons": json.dumps(gaps if metric == "intrinsic_dimension" and role == "encoder" else []),
        "texts": 500,
        "tokens": 9000,
        "ordinary": 8000,
        "special": 900,
        "sinks": 100,
        "cut_texts": 3,
        "short_texts": 1,
        "forward_tokens": 9000,
        "forward_passes": 1,
        "seconds": 0.4,
        "forward_seconds": 2.0,
        "device": "cpu",
        "precision": "float32",
        "versions": json.dumps(VERSIONS),
        "finished": datetime(2026, 11, 20, 10, 0),
    }


def study_row(study: str, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "study": study,
        "title": more.get("title", "Do decoders bulge in the middle?"),
        "question": more.get("question", "How do encoders and decoders differ, layer by layer?"),
        "spec": SPEC,
        "spec_hash": "cd" * 32,
        "views": json.dumps(VIEWS),
        "started": datetime(2026, 11, 20, 9, 59),
        "finished": datetime(2026, 11, 20, 10, 1),
        "seconds": 83.0,
        "cells_run": 80,
        "cells_cached": 12,
        "cells_failed": 0,
        "versions": json.dumps(VERSIONS),
    }


def fail(store: Store, study: str, error: str) -> None:
    """Add a model that failed, and a failed cell of another one."""
    key = {"study": study, "model": "broken", "checkpoint": "final"}
    store.put("models", tuple(key), key | {"status": "failed", "error": error} | place_of(None, (None,)))
    key = {"study": study, "model": "minilm", "checkpoint": "final", "corpus": CORPORA[0], "metric": "motion"}
    store.commit_cell(key | {"status": "failed", "fingerprint": "x", "error": error, "why": "new"})
