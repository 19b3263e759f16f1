"""Made-up studies: two encoders, two decoders, two corpora, three views, checkpoints, gaps and failures.

Not a test: loaded by the fixtures of ``tests/report`` and ``tests/browser``.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from reporter.metrics.registry import catalogue
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
VERSIONS = {"reporter": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0", "python": "3.11.9"}
SPEC = "study: made-up\ntitle: Made up\nmodels:\n  bert: google-bert  # <script>alert(1)</script>\n"


def curve(role: str, statistic: str, depth: float, age: float, view: str) -> float:
    """A value that looks like the real thing, and differs by everything it may differ by."""
    bulge = math.exp(-((depth - 0.55) ** 2) / 0.05) if role == "decoder" else 0.25 * (1 - depth)
    share = 0.06 + age * (0.45 if view != "no-sinks" else 0.15) * bulge + 0.02 * len(view) / 8
    known = {
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


def values(
    rng: np.random.Generator, role: str, layers: int, width: int, age: float, metric: str
) -> list[dict[str, Any]]:
    rows = []
    for view in VIEWS:
        for statistic in catalogue()[metric].statistics:
            places: list[int | None] = (
                [None] if statistic.per == "model" else list(range(layers + (statistic.per == "layer")))
            )
            for layer in places:
                depth = (layer or 0) / layers
                value: float | None = curve(role, statistic.name, depth, age, view) + float(rng.normal(0, 0.004))
                if (
                    metric == "intrinsic_dimension"
                    and layer == 0
                    and role == "encoder"
                    and statistic.name != "duplicates"
                ):
                    value = None
                spread = 0.02 + 0.01 * depth
                bounded = bool(statistic.interval) and value is not None
                own = {
                    "view": view,
                    "statistic": statistic.name,
                    "site": None if layer is None else "block" if layer else "embedding",
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


def fill(path: Path, study: str = "made-up", **more: Any) -> Store:
    """Write a study into a database; keywords replace the usual models, corpora, metrics, title…"""
    corpora, metrics = more.get("corpora", CORPORA), more.get("metrics", tuple(catalogue()))
    rng = np.random.default_rng(0)
    models, cells, numbers = [], [], []
    for name, role, layers, width, steps in more.get("models", MODELS):
        for step in steps:
            checkpoint = "final" if step is None else f"step{step}"
            key = {"study": study, "model": name, "checkpoint": checkpoint}
            models.append(key | model_row(name, role, layers, width, step))
            for corpus in corpora:
                for metric in metrics:
                    rows = values(rng, role, layers, width, 1.0 if step is None else min(1.0, step / 600), metric)
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
    store.put("models", tuple(key), key | {"status": "failed", "error": error})
    key = {"study": study, "model": "minilm", "checkpoint": "final", "corpus": CORPORA[0], "metric": "motion"}
    store.commit_cell(key | {"status": "failed", "fingerprint": "x", "error": error, "why": "new"})
