"""The last checkpoint is the last that the study lists, whatever it is called, for everything that reads only one."""

import shutil

import pytest

import reporter

RECIPE = {"architecture": "gpt2", "layers": 2, "width": 32, "heads": 2, "train_on": "c", "steps": 6}
CORPUS = {"generate": "grammar", "texts": 30, "words": [5, 12], "seed": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return folders of three checkpoints of one training, the untrained one first."""
    out = tmp_path_factory.mktemp("trained")
    models = {"m": {"recipe": RECIPE | {"checkpoints": [0, 3, 6]}}}
    reporter.run({"study": "s", "models": models, "corpora": {"c": CORPUS}, "metrics": ["loss"]}, out=out)
    (folder,) = (out / "cache" / "models").iterdir()
    return [folder / f"step-{step:06d}" for step in (0, 3, 6)], folder / "tokenizer"


@pytest.fixture
def measured(trained, tmp_path):
    """Return a function that measures these checkpoints under other names."""
    folders, tokenizer = trained

    def measure(*names):
        for name, folder in zip(names, folders, strict=True):
            shutil.copytree(folder, tmp_path / "m" / name)
            shutil.copytree(tokenizer, tmp_path / "m" / name, dirs_exist_ok=True)
        study = {
            "study": "s",
            "models": {"m": {"path": str(tmp_path / "m"), "checkpoints": list(names)}},
            "corpora": {"c": CORPUS},
            "metrics": ["loss", "anisotropy"],
            "skip": {"s": {"corpus": "c", "blocks": [1], "texts": 10}},
            "claims": {"c": {"says": "So.", "value": {"metric": "loss.lm", "model": "m", "corpus": "c"}, "above": 0}},
        }
        return reporter.run(study, out=tmp_path / "out")

    return measure


@pytest.mark.answers
@pytest.mark.parametrize(
    "names",
    [("step1", "step512", "main"), ("release-2025", "v3", "a")],
)
def test_everything_reads_the_checkpoint_that_is_listed_last(measured, names):
    results = measured(*names)
    assert results.models.sort_values("position")["checkpoint"].tolist() == list(names)
    assert results.models.query("is_last")["checkpoint"].tolist() == [names[-1]]
    loss = results.layer_metrics.query("statistic == 'lm'").set_index("checkpoint")["value"]
    assert results.claims["value"].tolist() == [pytest.approx(loss[names[-1]])] != [pytest.approx(loss[names[1]])]
    assert set(results.sql("SELECT checkpoint FROM profiles")["checkpoint"]) == {names[-1]}
    assert set(results.block_answers["checkpoint"]) == {names[-1]}


def test_checkpoints_whose_steps_are_known_are_in_the_order_of_training(measured):
    results = measured("step10", "step9", "step2")
    assert results.models.query("is_last")["checkpoint"].tolist() == ["step10"]


def test_the_order_follows_the_study_when_a_checkpoint_is_added(trained, tmp_path):
    folders, tokenizer = trained
    for name, folder in zip(("a", "b", "c"), folders, strict=True):
        shutil.copytree(folder, tmp_path / "m" / name)
        shutil.copytree(tokenizer, tmp_path / "m" / name, dirs_exist_ok=True)
    study = {"study": "s", "corpora": {"c": CORPUS}, "metrics": ["loss"]}
    for names in (["a", "b"], ["a", "b", "c"], ["c", "b", "a"]):
        models = {"m": {"path": str(tmp_path / "m"), "checkpoints": names}}
        results = reporter.run(study | {"models": models}, out=tmp_path / "out")
        assert results.models.sort_values("position")["checkpoint"].tolist() == names
        assert results.models.query("is_last")["checkpoint"].tolist() == names[-1:]


def test_a_checkpoint_that_training_deleted_is_not_the_last_any_more(trained, tmp_path):
    folders, tokenizer = trained
    study = {"study": "s", "corpora": {"c": CORPUS}, "metrics": ["loss"]}
    for name, folder in zip(("step10", "step9"), folders[1:], strict=True):  # the later one has the smaller number
        shutil.copytree(folder, tmp_path / "m" / name)
        shutil.copytree(tokenizer, tmp_path / "m" / name, dirs_exist_ok=True)
        models = {"m": {"path": str(tmp_path / "m"), "checkpoints": [name]}}
        results = reporter.run(study | {"models": models}, out=tmp_path / "out", only=["m"])
    places = results.models.sort_values("position")[["checkpoint", "position", "is_last"]]
    assert places.values.tolist() == [["step10", 1, False], ["step9", 2, True]]
