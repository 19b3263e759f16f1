"""A study with a base opens with what changed against it: where damage was planted, and where there is none."""

import contextlib
import io
import re

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
            "views": ["words"],
        }
        with contextlib.redirect_stderr(io.StringIO()):
            return reporter.run(study, folder / "results")

    return run


def test_what_changed_comes_first_on_the_page_and_the_base_has_no_finding(run):
    results = run(damaged={"base": "base"})
    rows = results.findings.to_dict("records")
    first = rows[0]
    assert (first["kind"], first["layer_first"]) == ("base", DAMAGED)
    assert f"from layer {DAMAGED} on" in first["says"] and first["ci_low"] < first["value"] < first["ci_high"]
    moved = {row["statistic"]: row for row in rows if row["kind"] == "base-numbers"}["mean_cosine"]
    assert moved["value"] > 0 and moved["layer_first"] == DAMAGED and moved["p_adjusted"] <= 0.05
    assert {row["model"] for row in rows} == {"damaged"}
    html = results.report.read_text("utf-8")
    assert html.count('id="answer-changed"') == 1 and html.index('id="answer-changed"') < html.index('id="glance"')
    claims = results.report.with_name("claims.html").read_text("utf-8")
    (first_item,) = re.findall(r'<li class="finding" id="finding-1">.*?</h3>', claims, re.DOTALL)
    assert first["says"].partition(",")[0] in first_item


def test_a_copy_does_not_differ_and_a_change_has_to_exceed_that_of_another_seed(run):
    results = run(
        **{"same": {"base": "base"}, "seed-1": {"base": "base", "twin": "seed-2"}, "seed-2": {"base": "base"}}
    )
    rows = {row["model"]: row for row in results.findings.to_dict("records") if row["kind"] == "base"}
    assert "same does not differ from its base" in rows["same"]["says"]
    row = rows["seed-1"]
    assert "does not differ" not in row["says"] and "a different seed would explain" in row["says"]
    assert row["layer_first"] == DAMAGED and 0 < row["p_adjusted"] <= 0.05
