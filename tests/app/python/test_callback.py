"""A training that is watched: every saved checkpoint is measured, and the training is none the worse for it."""

import json
import logging

import pytest

pytest.importorskip("accelerate", reason="the Trainer needs it: pip install 'layer-reporter[train]'")

import torch
from oracles.families import build_family
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator

import reporter
from reporter.app.callback import MeasureCheckpoints, scalars

TEXTS = [f"the cat {word} on the mat" for word in ("sat", "lay", "ran", "was", "is", "saw")]
STUDY = {"study": "watched", "corpora": {"few": {"texts": TEXTS}}, "metrics": ["motion"], "views": ["text tokens"]}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return build_family("gpt2", tmp_path_factory.mktemp("start"))


def train(start, folder, *callbacks, tokenizer=True, keep=None):
    """Train four steps with dropout, saving twice; return a few of the weights that come out."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(start)
    ids = torch.randint(5, 20, (8, 6))
    settings = {"max_steps": 4, "save_steps": 2, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    Trainer(
        model,
        TrainingArguments(str(folder), save_total_limit=keep, **settings),
        train_dataset=[{"input_ids": row, "labels": row} for row in ids],
        data_collator=default_data_collator,
        processing_class=AutoTokenizer.from_pretrained(start) if tokenizer else None,
        callbacks=list(callbacks),
    ).train()
    return [float(weight.detach().double().sum()) for weight in model.parameters()]


def test_each_checkpoint_is_measured_as_a_run_would_and_the_training_is_the_same(start, tmp_path):
    watched = train(start, tmp_path / "watched", MeasureCheckpoints(STUDY, tmp_path / "results"))
    assert watched == train(start, tmp_path / "alone")
    found = reporter.open(tmp_path / "results")
    assert sorted(set(found.layer_metrics["step"])) == [2, 4]
    assert set(found.models["checkpoint"]) == {"checkpoint-2", "checkpoint-4"}
    assert (tmp_path / "results" / "watched" / "index.html").is_file()

    names = [{"folder": f"checkpoint-{step}", "step": step} for step in (2, 4)]
    model = {"path": str(tmp_path / "watched"), "checkpoints": names}
    again = reporter.run(STUDY | {"models": {"trained": model}}, tmp_path / "again")
    key = ["checkpoint", "statistic", "site", "layer"]
    one, two = (r.layer_metrics.sort_values(key)[[*key, "value"]].reset_index(drop=True) for r in (found, again))
    assert one.equals(two)

    means = scalars(found)
    profile = one[(one["checkpoint"] == "checkpoint-4") & one["site"].isin(["embedding", "block"])]
    name = next(name for name in means if name.startswith("few/motion."))
    assert means[name] == pytest.approx(profile.groupby("statistic")["value"].mean()[name.removeprefix("few/motion.")])


def test_checkpoints_that_the_trainer_removes_keep_their_numbers(start, tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text(json.dumps(STUDY | {"models": {}}))
    train(start, tmp_path / "run", MeasureCheckpoints(study, tmp_path / "results"), keep=1)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint-4"]
    assert set(reporter.open(tmp_path / "results").layer_metrics["step"]) == {2, 4}


def test_what_fails_is_said_once_and_the_training_goes_on(start, tmp_path, caplog):
    measuring = MeasureCheckpoints(STUDY | {"metrics": ["none"]}, tmp_path / "results")
    for name, callback, tokenizer, said in (
        ("run", measuring, True, "checkpoint 2 was not measured: "),
        ("bare", MeasureCheckpoints(STUDY, tmp_path / "results"), False, "tokenizer"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "reporter.app.callback"):
            train(start, tmp_path / name, callback, tokenizer=tokenizer)
        (message,) = (line.getMessage() for line in caplog.records if line.name == "reporter.app.callback")
        assert said in message and (tmp_path / name / "checkpoint-4").is_dir()
