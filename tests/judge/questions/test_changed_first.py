"""A study with a base opens with what changed against it: where damage was planted, and where there is none."""

import contextlib
import io

import numpy as np
import pytest

import reporter

LAYERS, WIDTH, TEXTS, LENGTH = 6, 16, 100, 12
DAMAGED = 3
"""The first layer whose states are moved."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs a study of models and their base.

    The models are the same one again, one that is damaged from a layer on, and that one with noise of two seeds.
    """
    folder, rng = tmp_path_factory.mktemp("changed"), np.random.default_rng(0)
    base = rng.standard_normal((LAYERS, TEXTS * LENGTH, WIDTH)).astype(np.float32)
    base[2, :, 0] *= 6  # a peak that all of them have
    damaged = base.copy()
    damaged[DAMAGED:, :, 0] += 6
    states = {"base": base, "same": base, "damaged": damaged}
    for name in ("seed-1", "seed-2"):
        states[name] = damaged + 0.2 * rng.standard_normal(base.shape).astype(np.float32)
    types, texts = rng.zipf(1.5, TEXTS * LENGTH).clip(max=40), np.repeat(np.arange(TEXTS), LENGTH)
    for name, x in states.items():
        reporter.save_states(folder / f"{name}.safetensors", x, texts, tokens=types, role="decoder")

    def run(**models):
        of_each = {name: {"states": {"c": str(folder / f"{name}.safetensors")}} for name in ("base", *models)}
        study = {
            "study": "-".join(models),
            "models": {name: of_each[name] | models.get(name, {}) for name in of_each},
            "corpora": {"c": {"texts": [f"text {i}" for i in range(TEXTS)]}},
            "metrics": ["anisotropy", "change"],
            "views": ["text tokens"],
        }
        with contextlib.redirect_stderr(io.StringIO()):
            return reporter.run(study, folder / "results")

    return run


def test_what_changed_opens_the_page_and_is_no_finding(run):
    results = run(damaged={"base": "base"})
    (row,) = results.sql("SELECT * FROM change_answers").to_dict("records")
    assert row["changed"] and row["first_layer"] == DAMAGED
    (moved,) = results.sql("SELECT * FROM changed_numbers WHERE number = 'anisotropy.mean_cosine'").to_dict("records")
    assert moved["value"] > 0 and moved["layer"] >= DAMAGED and moved["beyond"] == LAYERS - DAMAGED
    html = results.report.read_text("utf-8")
    assert html.count('id="answer-changed"') == 1 and html.index('id="answer-changed"') < html.index('id="glance"')
    assert html.index('data-figure="change.distance"') < html.index('id="glance"'), "its picture comes first"
    assert not results.findings.to_dict("records")


def test_a_copy_does_not_differ_and_a_change_has_to_exceed_that_of_another_seed(run):
    results = run(
        **{"same": {"base": "base"}, "seed-1": {"base": "base", "twin": "seed-2"}, "seed-2": {"base": "base"}}
    )
    rows = {row["model"]: row for row in results.sql("SELECT * FROM change_answers").to_dict("records")}
    assert rows["same"]["verdict"] == "indistinguishable" and not rows["same"]["changed"]
    assert rows["seed-1"]["noise"] == "seed" and rows["seed-1"]["first_layer"] == DAMAGED
