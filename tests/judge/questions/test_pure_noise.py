"""States that are noise at every layer, from a file through a whole run: its findings are none."""

import contextlib
import io

import numpy as np
import pytest

import reporter

LAYERS, WIDTH, TEXTS, LENGTH = 7, 16, 40, 15


def states(seed):
    """Return the same distribution at every layer, (layers, tokens, width), of texts that differ."""
    rng = np.random.default_rng([seed, 5])
    tokens = rng.standard_normal((LAYERS, TEXTS * LENGTH, WIDTH))
    texts = np.repeat(rng.standard_normal((LAYERS, TEXTS, WIDTH)), LENGTH, axis=1)
    return np.sqrt(0.7) * tokens + np.sqrt(0.3) * texts


def findings(x, folder):
    """Return what a study of these states finds, of all metrics under two views."""
    file = folder / "noise.safetensors"
    types = np.random.default_rng(0).zipf(1.5, TEXTS * LENGTH).clip(max=40)
    reporter.save_states(file, x.astype(np.float32), np.repeat(np.arange(TEXTS), LENGTH), tokens=types, role="decoder")
    study = {
        "study": "noise",
        "models": {"noise": {"states": {"c": str(file)}}},
        "corpora": {"c": {"texts": [f"text {i}" for i in range(TEXTS)]}},
        "metrics": ["all"],
        "views": ["text tokens", "without sinks"],
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
        patch.setattr("reporter.runs.runner._report", lambda *_: ())
        results = reporter.run(study, folder / "results")
    assert results.studies["looked_at"].item() > 20
    return list(results.findings["says"])


def test_nothing_is_found_in_noise_and_what_one_layer_has_is_found(tmp_path):
    """The same noise with one axis that is long at layer 3: so the study can find something."""
    x = states(1)
    assert findings(x, tmp_path) == []
    x[3, :, 0] *= 6
    assert any("at layer 3" in says for says in findings(x, tmp_path))
