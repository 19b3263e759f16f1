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
def measure(trained, tmp_path):
    """Return a function that measures these checkpoints, whose folders are those of the training in this order."""
    folders, tokenizer = trained

    def run(names, copies=None, only=(), **more):
        for name, folder in (copies or dict(zip(names, folders, strict=True))).items():
            shutil.copytree(folder, tmp_path / "m" / name, dirs_exist_ok=True)
            shutil.copytree(tokenizer, tmp_path / "m" / name, dirs_exist_ok=True)
        models = {"m": {"path": str(tmp_path / "m"), "checkpoints": list(names)}}
        study = {"study": "s", "models": models, "corpora": {"c": CORPUS}, "metrics": ["loss"], **more}
        results = reporter.run(study, out=tmp_path / "out", only=only)
        places = results.models.sort_values("position")[["checkpoint", "is_last"]]
        return results, places.values.tolist()

    return run


def last_of(names):
    return [[name, name == names[-1]] for name in names]


@pytest.mark.answers
def test_everything_reads_the_checkpoint_that_is_listed_last(measure):
    names = ("step1", "step512", "main")
    results, places = measure(
        names,
        metrics=["loss", "anisotropy"],
        skip={"s": {"corpus": "c", "blocks": [1], "texts": 10}},
        claims={"c": {"says": "So.", "value": {"metric": "loss.lm", "model": "m", "corpus": "c"}, "above": 0}},
    )
    assert places == last_of(names)
    loss = results.layer_metrics.query("statistic == 'lm'").set_index("checkpoint")["value"]
    assert results.claims["value"].tolist() == [pytest.approx(loss[names[-1]])] != [pytest.approx(loss[names[1]])]
    assert set(results.sql("SELECT checkpoint FROM profiles")["checkpoint"]) == {names[-1]}
    assert set(results.block_answers["checkpoint"]) == {names[-1]}


def test_known_steps_are_in_the_order_of_training_and_other_names_in_that_of_the_study(measure, trained):
    assert measure(("step10", "step9", "step2"))[1] == last_of(("step2", "step9", "step10"))
    copies = dict(zip("abc", trained[0], strict=True))
    for names in ("ab", "cba"):  # one is added to the study
        assert measure(names, copies)[1] == last_of(names)


def test_a_checkpoint_that_training_deleted_is_not_the_last_any_more(measure, trained):
    for name, folder in (("step10", trained[0][1]), ("step9", trained[0][2])):  # the later one has the smaller number
        _, places = measure([name], {name: folder}, only=["m"])
    assert places == [["step10", False], ["step9", True]]
