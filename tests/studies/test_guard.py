"""Guards of a model catch a damage and name its block; an undamaged copy passes."""

import json
import re
from pathlib import Path

import pytest
from oracles.damages import damaged
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.store import Store

GUARD = Path(__file__).parents[2] / "studies" / "guard.yaml"
BLOCK = 3
TOYS = """
study: toys
models:
  gpt2: {recipe: {architecture: gpt2, layers: 4, width: 16, heads: 2, train_on: nested, steps: 20, batch: 8}}
  bert: {recipe: {architecture: bert, layers: 4, width: 16, heads: 2, train_on: nested, steps: 20, batch: 8}}
corpora:
  nested: {generate: grammar, texts: 200, words: [8, 30]}
metrics: [motion]
views: [words]
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


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of small trained models by architecture."""
    folder = tmp_path_factory.mktemp("trusted")
    (folder / "toys.yaml").write_text(TOYS, "utf-8")
    call("run", folder / "toys.yaml", "--out", folder / "results")
    paths = folder.glob("results/cache/models/*/step-*")
    return {json.loads((path / "config.json").read_text("utf-8"))["model_type"]: path for path in paths}


@pytest.fixture(scope="module")
def frozen(trusted: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the frozen guard of a trusted decoder."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "trusted").symlink_to(trusted["gpt2"])
    (folder / "plain.yaml").write_text(PLAIN, "utf-8")
    call("run", folder / "plain.yaml", "--offline", "--out", folder / "results")
    guard = call("export", folder / "plain.yaml", "--guard", "--out", folder / "results")
    (folder / "guard.yaml").write_text(guard, "utf-8")
    return folder / "guard.yaml"


def call(*arguments: object, code: int = 0) -> str:
    """Return what a command prints that ends with this code and writes no report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda *_: ())
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.mark.parametrize(("architecture", "damage"), [("gpt2", "nothing"), ("gpt2", "dropped"), ("bert", "swapped")])
def test_the_guard_study_catches_a_damage_and_names_its_block(
    trusted: dict[str, Path], architecture: str, damage: str, tmp_path: Path
) -> None:
    (tmp_path / "trusted").symlink_to(trusted[architecture])
    damaged(trusted[architecture], tmp_path / "candidate", damage, BLOCK)
    study = tmp_path / "guard.yaml"
    study.write_text(GUARD.read_text("utf-8").replace("texts: 200", "texts: 40"), "utf-8")
    out = ["--out", tmp_path / "results"]
    call("run", study, "--strict", "--offline", *out, code=0 if damage == "nothing" else 3)
    answer = call("answer", study, "--only", "changed", *out)
    line = next(line for line in answer.splitlines() if line.startswith("**candidate against trusted, on texts**"))
    if damage == "nothing":
        assert "Verdict: indistinguishable" in line and "The loss is unchanged." in line
    else:
        assert f"states differ from the base: first at layer {BLOCK}," in line.lower()
        assert f"up to layer {BLOCK - 1} states are unchanged" in line
        assert ("1 block fewer than its base. Block 3 of the base is the first" in line) == (damage == "dropped")


@pytest.mark.parametrize("damage", ["nothing", "int8"])
def test_a_frozen_guard_catches_a_damage_and_names_its_block(
    trusted: dict[str, Path], frozen: Path, damage: str, tmp_path: Path
) -> None:
    damaged(trusted["gpt2"], tmp_path / "candidate", damage, BLOCK)
    # A folder of its own: the cache of the first run would answer for an undamaged copy.
    changes = (f"models.m.path={tmp_path / 'candidate'}", "run.batch_tokens=300", "run.threads=1")
    settings = [part for change in changes for part in ("--set", change)]
    code = 0 if damage == "nothing" else 3
    call("run", frozen, "--strict", "--offline", *settings, "--out", tmp_path / "new", code=code)
    store = Store(tmp_path / "new" / "results.duckdb")
    claims = store.records("SELECT claim, verdict, detail FROM claims WHERE study = 'plain-frozen'", {})
    assert len(claims) >= 4
    notes = [note for row in claims for note in json.loads(row["detail"]).get("notes", ())]
    blocks = [int(place[1]) for note in notes if (place := re.search(r"moved is at block (\d+);", note))]
    assert min(blocks, default=None) == (None if damage == "nothing" else BLOCK)
