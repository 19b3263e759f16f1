"""A model that is given by files of its states takes part in a study like one that is loaded."""

from pathlib import Path

import numpy as np
import pytest
from app.python.conftest import OWN
from safetensors.torch import load_file, save_file

import reporter
from reporter.runs.planner import plan_study
from reporter.runs.studies import study_of

KEY = ["metric", "statistic", "view", "site", "layer"]


@pytest.fixture(scope="module")
def study(measured, tmp_path_factory):
    """Return a study in which both models stand once more, by their states."""
    folder = tmp_path_factory.mktemp("states")
    for name, given in measured[1].items():
        reporter.save_states(folder / f"{name}.safetensors", **given, names=[f"<{i}>" for i in range(9)])
    given = {f"given-{name}": {"states": {"c": str(folder / f"{name}.safetensors")}} for name in measured[1]}
    given["given-decoder"]["base"] = "decoder"
    area = {"metric": "convergence.area", "corpus": "c"}
    sides = {"value": area | {"model": "given-decoder"}, "above": area | {"model": "given-encoder"}}
    return OWN | {
        "study": "given",
        "models": OWN["models"] | given,
        "corpora": OWN["corpora"] | {"d": {"texts": ["A text of which there are no states."]}},
        "metrics": ["convergence", "contextuality", "layer_pairs", "loss"],
        "baselines": ["shuffled"],
        "groups": {"g": ["Hello.", "Hi."]},
        "claims": {"alike": {"says": "Both decoders are as alike.", **sides}},
    }


@pytest.fixture(scope="module")
def results(measured, study, bare_runs):
    with bare_runs():
        return reporter.run(study, measured[0].folder, only=["given-encoder", "given-decoder", "decoder", "c"])


def test_its_numbers_are_those_of_the_model_it_is_compared_and_claimed_of(measured, results):
    for name in ("encoder", "decoder"):
        model = measured[0].layer_metrics.query("model == @name and metric != 'loss'")
        found = results.layer_metrics.query(f"model == 'given-{name}' and metric in ('convergence', 'contextuality')")
        both = found.merge(model, on=KEY, suffixes=("", "_model"), validate="1:1")
        assert len(both) == len(found) > 60 and set(found["role"]) == {name}
        for number in ("value", "ci_low", "ci_high", "n"):
            mine, theirs = both[number].astype(float), both[f"{number}_model"].astype(float)
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    of_base = "kind == 'base' and model_a == 'given-decoder' and statistic == 'similarity'"
    differences = results.differences.query(of_base)
    assert len(differences) and differences["value"].abs().max() < 1e-5
    pairs = results.layer_pairs.query("model_a == 'decoder' and model_b == 'given-decoder' and statistic == 'cka'")
    assert pairs.query("layer_a == layer_b")["value"].min() > 0.999
    assert set(results.claims["verdict"]) <= {"supported", "refuted", "inconclusive"}


def test_what_needs_the_model_says_so_or_is_left_out(measured, study, results):
    reasons = results.cells.query("metric == 'loss' and model == 'given-decoder'")["reasons"].item()
    assert "not the model" in reasons
    cells = results.cells[results.cells["model"].str.startswith("given")]
    assert set(cells["corpus"]) == {"c"} and "groups" not in set(cells["metric"])
    assert not results.models["model"].str.contains(r"given.*\(shuffled\)").any()
    hints = plan_study(study_of(study), measured[0].folder).hints()
    assert "model given-encoder has saved states only, which leaves out corpus d, groups, shuffled" in hints


def test_a_file_that_changed_is_measured_again(measured, study, results, tmp_path):
    path = Path(study["models"]["given-decoder"]["states"]["c"])
    content = load_file(path)
    other = tmp_path / "other.safetensors"
    save_file(content | {"layer/1": content["layer/1"] + 1}, other, metadata={"role": "decoder"})
    changed = study | {"models": study["models"] | {"given-decoder": {"states": {"c": str(other)}}}}
    plan = plan_study(study_of(changed), measured[0].folder, only=["given-decoder", "c", "convergence"])
    assert {cell.why for cell in plan.cells if not cell.compares} == {"weights changed"}
    plan = plan_study(study_of(study), measured[0].folder, only=["given-decoder", "c", "convergence"])
    assert {cell.state for cell in plan.cells if not cell.compares} == {"cached"}


PROBLEMS = {  # of a file that lacks some tensors, that ends after other texts, that is none, or that is not there
    "text": "lacks the tensor text",
    "layer/0,layer/1,layer/2": "lacks the tensor layer/0",
    "layer/1": "1 is missing",
    "token_ids": "add `role: encoder` or `role: decoder`",
    "more": "text 48 (counted from 0), but corpus 'c' has only 40 texts",
    "plain": "as safetensors",
    "gone": "cannot read",
}


def test_broken_files_and_those_that_are_not_there_fail_and_say_why(study, tmp_path, bare_runs):
    whole = load_file(study["models"]["given-decoder"]["states"]["c"])
    files = {name: tmp_path / f"{number}.safetensors" for number, name in enumerate(PROBLEMS)}
    for name in list(PROBLEMS)[:4]:
        content = {tensor: whole[tensor] for tensor in whole if tensor not in name.split(",")}
        save_file(content, files[name], metadata={} if name == "token_ids" else {"role": "decoder"})
    save_file(whole | {"text": whole["text"] + 9}, files["more"], metadata={"role": "decoder"})
    files["plain"].write_bytes(b"no safetensors at all")
    models = {f"m{number}": {"states": {"c": str(file)}} for number, file in enumerate(files.values())}
    broken = {"study": "broken", "models": models, "metrics": ["anisotropy"], "corpora": OWN["corpora"]}
    with bare_runs():
        done = reporter.run(broken, tmp_path / "results")
    assert set(done.models["status"]) <= {"failed"}
    errors = done.cells.sort_values("model")["error"]
    assert all(problem in error for problem, error in zip(PROBLEMS.values(), errors, strict=True))


def test_states_that_a_study_cannot_use_are_refused(study, tmp_path):
    for states, said in (({"e": "x.safetensors"}, r"\.e: no corpus 'e'"), ("x", ": expected one file for each corpus")):
        with pytest.raises(reporter.SpecError, match=rf"models\.m\.states{said}"):
            reporter.validate(study | {"models": {"m": {"states": states}}, "claims": {}})
    with pytest.raises(reporter.UsageError, match="pass role='encoder' or role='decoder'"):
        reporter.save_states(tmp_path / "x.safetensors", np.ones((2, 4, 3)), [0, 0, 1, 1])
