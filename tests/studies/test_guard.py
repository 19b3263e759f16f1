"""The study that guards a model: every damage is caught and its block named, an unharmed model passes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from oracles.damages import damaged
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.progress import Progress
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.store import Store

GUARD = Path(__file__).parents[2] / "studies" / "guard.yaml"
BLOCK = 3
POCKET = """
study: pocket
models:
  m: {recipe: {architecture: ARCHITECTURE, layers: 4, width: 32, heads: 2, train_on: nested, steps: 30, batch: 8}}
corpora:
  nested: {generate: grammar, texts: 200, words: [8, 30]}
metrics: [motion]
views: [words]
run: {precision: float32}
"""

PLAIN = """
study: plain
models: {m: {path: trusted}}
corpora:
  texts: {generate: grammar, texts: 40, words: [8, 30]}
metrics: [motion, anisotropy, spectrum, convergence, loss]
views: [words]
run: {precision: float32}
"""


@pytest.fixture(scope="module", params=["gpt2", "bert"])
def trusted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small trained model."""
    folder = tmp_path_factory.mktemp("trusted")
    study = folder / "pocket.yaml"
    study.write_text(POCKET.replace("ARCHITECTURE", request.param), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda *_: ())  # only the model is wanted
        file = load_study(study, offer())
        assert run_studies([file], folder / "results", progress=Progress(io.StringIO())).failed == 0
    return next(folder.glob("results/cache/models/*/step-*"))


@pytest.mark.parametrize("damage", ["nothing", "rounded", "noised", "dropped", "swapped", "noised by a fifth"])
def test_every_damage_is_caught_and_its_block_named(
    trusted: Path, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())
    (tmp_path / "trusted").symlink_to(trusted)
    damaged(trusted, tmp_path / "candidate", damage, BLOCK)
    study = tmp_path / "guard.yaml"
    study.write_text(GUARD.read_text("utf-8").replace("texts: 200", "texts: 40"), "utf-8")
    out = ["--out", str(tmp_path / "results")]
    ran = CliRunner().invoke(app, ["run", str(study), "--strict", "--offline", *out])
    assert ran.exit_code == (0 if damage == "nothing" else 3), ran.output
    said = CliRunner().invoke(app, ["answer", str(study), "--only", "changed", *out])
    assert said.exit_code == 0, said.output
    line = next(line for line in said.output.splitlines() if line.startswith("**candidate against trusted, on texts**"))
    if damage == "nothing":
        assert "Nothing beyond noise" in line and "The loss is the same." in line
    else:
        assert f"from layer {BLOCK} on states differ" in line.lower()  # "A small change: from …" where it is one
        assert f"up to layer {BLOCK - 1} they are the same" in line
        assert ("It has 1 block fewer, and block 3 of the base is the first" in line) == (damage == "dropped")


@pytest.mark.parametrize("damage", ["nothing", "rounded", "noised", "dropped", "swapped", "int8", "noised by a fifth"])
def test_a_frozen_guard_catches_every_damage_and_names_its_block(
    trusted: Path, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())
    (tmp_path / "trusted").symlink_to(trusted)
    damaged(trusted, tmp_path / "candidate", damage, BLOCK)
    study, guard = tmp_path / "plain.yaml", tmp_path / "guard.yaml"
    study.write_text(PLAIN, "utf-8")
    out = ["--out", str(tmp_path / "results")]
    ran = CliRunner().invoke(app, ["run", str(study), "--offline", *out])
    assert ran.exit_code == 0, ran.output
    frozen = CliRunner().invoke(app, ["export", str(study), "--guard", *out])
    assert frozen.exit_code == 0, frozen.output
    guard.write_text(frozen.stdout, "utf-8")
    fresh = ["--out", str(tmp_path / "fresh")]  # the cache of the first run would answer for an unharmed copy
    other = [
        "--set",
        f"models.m.path={tmp_path / 'candidate'}",
        "--set",
        "run.batch_tokens=300",
        "--set",
        "run.threads=1",
    ]
    ran = CliRunner().invoke(app, ["run", str(guard), "--strict", "--offline", *other, *fresh])
    assert ran.exit_code == (0 if damage == "nothing" else 3), ran.output
    store = Store(tmp_path / "fresh" / "results.duckdb")
    found = store.records("SELECT claim, verdict, detail FROM claims WHERE study = 'plain-frozen'", {})
    assert len(found) >= 4
    notes = [note for row in found for note in json.loads(row["detail"]).get("notes", ())]
    named = [int(place[1]) for note in notes if (place := re.match(r"moved first at block (\d+);", note))]
    assert min(named, default=None) == (None if damage == "nothing" else BLOCK)
