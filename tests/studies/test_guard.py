"""Guards of a model catch a damage and name its block; an undamaged copy passes."""

import json
import re

import pytest
from oracles.damages import damaged
from studies.conftest import STUDIES
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.store import Store

BLOCK = 3
TOY = """
study: toy
models:
  toy: {recipe: {architecture: gpt2, layers: 4, width: 16, heads: 2, train_on: texts, steps: 20, batch: 8}}
corpora: {texts: {generate: grammar, texts: 200, words: [8, 30]}}
metrics: [motion]
views: [text tokens]
"""
PLAIN = """
study: plain
models: {m: {path: trusted}}
corpora: {texts: {generate: grammar, texts: 40, words: [8, 30]}}
metrics: [motion, anisotropy, spectrum, convergence, loss]
views: [text tokens]
run: {precision: float32}
"""


@pytest.fixture(scope="module")
def trusted(tmp_path_factory):
    """The folder of a small trained decoder."""
    folder = tmp_path_factory.mktemp("trusted")
    (folder / "toy.yaml").write_text(TOY, "utf-8")
    call("run", folder / "toy.yaml", "--out", folder / "results")
    return next(folder.glob("results/cache/models/*/step-*"))


@pytest.fixture(scope="module")
def frozen(trusted, tmp_path_factory):
    """The frozen guard of it."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "trusted").symlink_to(trusted)
    (folder / "plain.yaml").write_text(PLAIN, "utf-8")
    place = ("--out", folder / "results")
    call("run", folder / "plain.yaml", "--offline", *place)
    (folder / "guard.yaml").write_text(call("export", folder / "plain.yaml", "--guard", *place), "utf-8")
    return folder / "guard.yaml"


def call(*arguments, code=0):
    """Return what a command prints that ends with this code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.mark.parametrize("damage", ["nothing", "dropped", "swapped"])
def test_the_guard_study_catches_a_damage_and_names_its_block(trusted, damage, tmp_path):
    (tmp_path / "trusted").symlink_to(trusted)
    damaged(trusted, tmp_path / "candidate", damage, BLOCK)
    study, out = tmp_path / "guard.yaml", ("--out", tmp_path / "results")
    study.write_text((STUDIES / "guard.yaml").read_text("utf-8").replace("texts: 200", "texts: 40"), "utf-8")
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
def test_a_frozen_guard_catches_a_damage_and_names_its_block(trusted, frozen, damage, tmp_path):
    damaged(trusted, tmp_path / "candidate", damage, BLOCK)
    # A folder of its own: the cache of the first run would answer for an undamaged copy.
    changes = (f"models.m.path={tmp_path / 'candidate'}", "run.batch_tokens=300", "run.threads=1")
    settings = [part for change in changes for part in ("--set", change)] + ["--out", tmp_path / "new"]
    call("run", frozen, "--strict", "--offline", *settings, code=0 if damage == "nothing" else 3)
    claims = Store(tmp_path / "new" / "results.duckdb").records("FROM claims WHERE study = 'plain-frozen'")
    assert len(claims) >= 4
    notes = [note for row in claims for note in json.loads(row["detail"]).get("notes", ())]
    blocks = [int(place[1]) for note in notes if (place := re.search(r"moved is at block (\d+);", note))]
    assert min(blocks, default=None) == (None if damage == "nothing" else BLOCK)
