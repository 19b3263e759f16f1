"""A small made-up results folder: two encoders, two decoders, two corpora, three views, gaps and failures."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
SPEC = "study: made-up\ntitle: Made up\nmodels:\n  bert: {recipe: {architecture: bert}}  # <script>alert(1)</script>\n"


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
            places: list[int | None] = [None] if statistic.per == "model" else list(range(layers + (statistic.per == "layer")))
            for layer in places:
                depth = (layer or 0) / layers
                value: float | None = curve(role, statistic.name, depth, age, view) + float(rng.normal(0, 0.004))
                if metric == "intrinsic_dimension" and layer == 0 and role == "encoder" and statistic.name != "duplicates":
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
                    floor = {"twonn": 33.0, "twonn_ml": 34.0, "mean_cosine": 0.0}.get(statistic.name, 0.5 / width + 0.02)
                    rows.append(own | {"statistic": f"{statistic.name}_floor", "value": floor, "ci_low": None, "ci_high": None})
    return rows


def fill(path: Path, study: str = "made-up", title: str | None = "Do decoders bulge in the middle?", **more: Any) -> Store:
    """Write a study into a database; ``models`` and ``corpora`` replace the usual ones."""
    models, corpora = more.get("models", MODELS), more.get("corpora", CORPORA)
    store, rng = Store(path), np.random.default_rng(0)
    versions = {"reporter": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0", "python": "3.11.9"}
    for name, role, layers, width, steps in models:
        for step in steps:
            checkpoint = "final" if step is None else f"step{step}"
            store.put(
                "models",
                ("study", "model", "checkpoint"),
                {
                    "study": study, "model": name, "checkpoint": checkpoint, "step": step, "role": role,
                    "source": "path" if step is None else "recipe", "location": "./weights" if step is None else role,
                    "revision": "0123456789abcdef" * 2, "fingerprint": f"f-{name}-{checkpoint}", "family": name,
                    "layers": layers, "width": width, "parameters": 1_234_567, "vocabulary_size": 500,
                    "norm_placement": "post" if role == "encoder" else "pre",
                    "last_hidden_state": "block" if role == "encoder" else "final", "self_test": 1.3e-7,
                    "device": "cpu", "precision": "float32",
                    "loss": None if step is None else 4.4 - step / 500,
                    "unigram_entropy": None if step is None else 4.48,
                    "warning": "stayed on the unigram plateau" if step == 0 else "", "status": "done",
                },
            )  # fmt: skip
            age = 1.0 if step is None else step / 600
            for corpus in corpora:
                for metric in more.get("metrics", catalogue()):
                    rows = values(rng, role, layers, width, age, metric)
                    for row in rows:
                        row |= {"step": step, "role": role}
                    reasons = []
                    if metric == "intrinsic_dimension" and role == "encoder":
                        reasons = [{"statistic": "twonn", "view": v, "layers": [0], "reason": "more than half are duplicates"} for v in VIEWS]
                    store.commit_cell(
                        {
                            "study": study, "model": name, "checkpoint": checkpoint, "corpus": corpus, "metric": metric,
                            "options": {}, "fingerprint": f"c-{name}-{checkpoint}-{corpus}-{metric}", "inputs": {},
                            "status": "done", "why": "new", "reasons": reasons, "texts": 500, "tokens": 9000, "ordinary": 8000,
                            "special": 900, "sinks": 100, "cut_texts": 3, "short_texts": 1, "forward_tokens": 9000,
                            "forward_passes": 1, "seconds": 0.4, "forward_seconds": 2.0, "device": "cpu",
                            "precision": "float32", "versions": versions, "finished": datetime(2026, 11, 20, 10, 0),
                        },
                        rows,
                    )  # fmt: skip
    for corpus in corpora:
        store.put(
            "corpora",
            ("study", "corpus"),
            {
                "study": study, "corpus": corpus, "source": "generated", "location": "grammar", "content_hash": "ab" * 32,
                "texts": 500, "words": 8000, "characters": 40000, "dropped": 0, "status": "done",
            },
        )  # fmt: skip
    store.put(
        "studies",
        ("study",),
        {
            "study": study, "title": title, "question": more.get("question", "How do encoders and decoders differ, layer by layer?"),
            "spec": SPEC, "spec_hash": "cd" * 32, "views": json.dumps(VIEWS), "started": datetime(2026, 11, 20, 9, 59),
            "finished": datetime(2026, 11, 20, 10, 1), "seconds": 83.0, "cells_run": 80, "cells_cached": 12,
            "cells_failed": 0, "versions": versions,
        },
    )  # fmt: skip
    return store


def fail(store: Store, study: str, error: str) -> None:
    """Add a model that failed, and a failed cell of another one."""
    store.put("models", ("study", "model", "checkpoint"),
              {"study": study, "model": "broken", "checkpoint": "final", "status": "failed", "error": error})  # fmt: skip
    store.commit_cell(
        {"study": study, "model": "minilm", "checkpoint": "final", "corpus": "nested", "metric": "motion", "status": "failed",
         "fingerprint": "x", "error": error, "why": "new"},
    )  # fmt: skip


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with two studies: ``made-up`` is whole, ``torn`` has failures and hostile names."""
    folder = tmp_path_factory.mktemp("results")
    fill(folder / "results.duckdb")
    return folder
