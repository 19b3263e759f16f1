"""Studies that take seconds, run once through the front door, and the states of their models."""

import contextlib

import numpy as np
import pytest

import reporter

MODEL = {"recipe": {"architecture": "gpt2", "layers": 2, "width": 16, "heads": 2, "train_on": "c", "steps": 0}}
STUDY = {
    "study": "look",
    "models": {"small": MODEL},
    "corpora": {"c": {"generate": "grammar", "texts": 260, "words": [5, 12]}},
    "metrics": ["anisotropy"],
}
SHARE = {"metric": "anisotropy.top_variance_share", "model": "small", "layer": "last"}
STUDY["claims"] = {"uneven": {"says": "More than <none> of it.", "value": SHARE, "above": 0.0}}

BERT = {"recipe": MODEL["recipe"] | {"architecture": "bert"}}
OWN = {
    "study": "own",
    "models": {"decoder": MODEL, "encoder": BERT},
    "corpora": {"c": {"generate": "grammar", "texts": 40, "words": [5, 12]}},
    "metrics": ["convergence", "contextuality", "intrinsic_dimension", "outliers", "variance", "layer_pairs"],
    "views": ["no-sinks"],
    "run": {"precision": "float32"},
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder in which ``results`` holds what :data:`STUDY` left."""
    place = tmp_path_factory.mktemp("door")
    with contextlib.chdir(place):
        reporter.run(STUDY)
    return place


@pytest.fixture
def here(folder, monkeypatch):
    """Go to that folder."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def measured(tmp_path_factory, bare_runs):
    """Return a run's results, and the arguments of ``measure`` for the states of each of its models."""
    import torch

    from reporter.models.load import load
    from reporter.runs.planner import plan_study
    from reporter.runs.studies import study_of
    from reporter.texts.tokens import Shard, tokenise

    out = tmp_path_factory.mktemp("own")
    with bare_runs():
        results = reporter.run(OWN, out)
    plan = plan_study(study_of(OWN), out)
    texts = plan.texts["c"]
    states = {}
    for name, (checkpoint,) in plan.checkpoints.items():
        model = load(checkpoint, "cpu", offline=True)
        tokens = tokenise(texts, Shard(0, 0, len(texts)), model.tokenizer, 256)
        with torch.inference_mode():
            runs = [model.run(torch.tensor(t.ids)[None], torch.ones(1, len(t), dtype=torch.int64)) for t in tokens]
        states[name] = {
            "states": [torch.cat([run.path[layer][0] for run in runs]) for layer in range(3)],
            "texts": np.concatenate([np.full(len(t), t.index) for t in tokens]),
            "tokens": np.concatenate([t.ids for t in tokens]),
            "special": np.concatenate([t.special for t in tokens]),
            "final": None if runs[0].final is None else torch.cat([run.final[0] for run in runs]),
        }
    return results, states
