"""The studies on hub models: what they say without any model, and that they run unchanged on models of those names."""

import io

import pytest
from oracles.tiny_hub import fill, words_of
from studies.conftest import STUDIES, read
from texts.test_hub_dataset import Rows
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.progress import Progress
from reporter.runs.runner import run_studies
from reporter.runs.studies import read_study
from reporter.store import Store
from reporter.study.models import HubModel
from reporter.texts.sources import stored as dataset
from reporter.texts.sources.generated import grammar_texts

NOTHING_TO_READ = {"gpt2-dimension", "gpt2-position", "gpt2-not-first"}
"""Claims about massive activations one by one, of which random weights have none."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The folder of an empty local hub cache; whoever reaches for the network fails."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: pytest.fail("the hub was asked"))
    return tmp_path / "hub"


@pytest.mark.usefixtures("hub")
def test_an_offline_plan_names_each_missing_model_in_one_line(tmp_path):
    study, called = read("luisto-2024").study, ["plan", str(STUDIES / "luisto-2024.yaml"), "--offline", "--out"]
    result = CliRunner().invoke(app, [*called, str(tmp_path / "results")])
    lines = result.stdout.splitlines()
    assert result.exit_code == 1 and "Traceback" not in result.output
    for model in study.models:
        (line,) = [line for line in lines if f"model '{model}': " in line]
        assert "local hub cache" in line and "offline" in line
    assert len(lines) <= len(study.models) + len(study.corpora) + 2


NIGHTLY = ("sinks-and-valleys", "layer-by-layer")
NIGHTLY += ("known/effective-rank", "known/ethayarajh-2019", "known/layer-by-layer")
RUN = ["token-journeys", "known/massive-activations", "known/shortgpt"]
RUN += [pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY]


@pytest.mark.parametrize("name", RUN)
def test_a_study_on_hub_models_runs_on_tiny_ones_of_the_same_names(name, hub, tmp_path, monkeypatch):
    """Each claim is tested, so that the numbers that it names exist; its verdict is about random weights."""
    paragraphs = [" ".join(record.text for record in grammar_texts(9, (6, 9), seed)) for seed in range(24)]
    labels = [f"class {i % 2}" for i in range(len(paragraphs))]
    monkeypatch.setattr(dataset, "_load", lambda spec, *_: Rows({spec.label: labels, spec.column: paragraphs}))
    file = read_study(STUDIES / f"{name}.yaml", ["corpora.sentences.limit=6"] if name == "token-journeys" else [])
    journeys = [text for journey in file.study.sections["journeys"].values() for text in journey.all_texts]
    fill(hub, file.study.models.values(), tmp_path / "built", words_of([*paragraphs, *journeys]))
    outcome = run_studies([file], tmp_path / "results", offline=True, progress=Progress(io.StringIO()))
    assert outcome.failed == 0
    store = Store(tmp_path / "results" / "results.duckdb")
    located = {(row["model"], row["location"]) for row in store.records("FROM models")}
    assert located >= {(name, model.hub) for name, model in file.study.models.items() if isinstance(model, HubModel)}
    claims = store.records("FROM claims")
    assert {row["claim"] for row in claims} == set(file.study.claims)
    failed = {row["claim"]: row["detail"] for row in claims if row["verdict"] == "failed"}
    assert failed.keys() <= NOTHING_TO_READ, failed
