"""Hidden states of one's own: what a run measures of a model is measured of its states, alone or in a study."""

import numpy as np
import pytest
import torch
from app.python.conftest import MODEL
from safetensors.torch import load_file, save_file

import reporter
from reporter.models.load import load
from reporter.runs.planner import plan_study
from reporter.runs.studies import study_of
from reporter.texts.tokens import Shard, tokenise

KEY, NUMBERS = ["metric", "statistic", "view", "site", "layer"], ("value", "ci_low", "ci_high", "n", "depth")
OWN = {"models": {"decoder": MODEL, "encoder": {"recipe": MODEL["recipe"] | {"architecture": "bert"}}}}
OWN |= {"metrics": ["convergence", "contextuality", "intrinsic_dimension", "outliers", "variance", "layer_pairs"]}
OWN |= {"study": "own", "corpora": {"c": {"generate": "grammar", "texts": 40, "words": [5, 12]}}}
OWN |= {"views": ["without sinks"], "run": {"precision": "float32"}}


@pytest.fixture(scope="module")
def measured(tmp_path_factory, bare_runs):
    """Return a run's results, and the arguments of ``measure`` for the states of each of its models."""
    out = tmp_path_factory.mktemp("own")
    with bare_runs():
        results = reporter.run(OWN, out)
    plan = plan_study(study_of(OWN), out)
    states = {}
    for name, (checkpoint,) in plan.checkpoints.items():
        model = load(checkpoint, "cpu", offline=True)
        tokens = tokenise(plan.texts["c"], Shard(0, 0, 40), model.tokenizer, 256)
        with torch.inference_mode():
            runs = [model.run(torch.tensor(t.ids)[None], torch.ones(1, len(t), dtype=torch.int64)) for t in tokens]
        states[name] = {
            "states": [torch.cat([run.path[layer][0] for run in runs]) for layer in range(3)],
            "texts": np.repeat([t.index for t in tokens], [len(t) for t in tokens]),
            "tokens": np.concatenate([t.ids for t in tokens]),
            "special": np.concatenate([t.special for t in tokens]),
            "final": None if runs[0].final is None else torch.cat([run.final[0] for run in runs]),
        }
    return results, states


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_it_measures_what_a_run_measures(measured, name):
    results, states = measured
    found = reporter.measure(**states[name], metrics=OWN["metrics"], view="without sinks")
    run = results.layer_metrics.query("model == @name")
    both = run.merge(
        found.layer_metrics,
        on=[part for part in KEY if part != "view"],
        suffixes=("_run", ""),
        how="outer",
        validate="1:1",
    )
    assert len(both) == len(run) == len(found.layer_metrics) > 150
    # 16 bits may round a state the other way that differs in its last float32 digit.
    mine, theirs = (both[[f"{number}{end}" for number in NUMBERS]].to_numpy(float) for end in ("", "_run"))
    np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=2e-5)
    assert (both["by_definition"] == both["by_definition_run"]).all()
    few = both["reason"].str.startswith("no interval with fewer than", na=False)
    assert both.loc[few, ["ci_low", "ci_high"]].isna().all(axis=None) and 0 < few.sum() < len(both) / 3
    assert ((both["value"].isna() | both["by_definition"] | few) == both["reason"].notna()).all()
    assert {"layer_pairs", "token_types"} <= set(dir(found))


def test_what_cannot_be_measured_has_a_reason():
    x = np.random.default_rng(0).standard_normal((3, 60, 8)).cumsum(0)
    assert "value" in reporter.measure(x, ["change"]).layer_metrics, "no row, as it only compares; and no texts"
    found = reporter.measure(x, ["loss", "journey", "variance", "anisotropy"], texts=np.arange(60) // 6).layer_metrics
    why = found[found["value"].isna()].groupby("metric")["reason"].unique()
    assert all("not the model" in reason for metric in ("loss", "journey") for reason in why[metric])
    assert all("no token ids" in reason for reason in why["variance"]) and "anisotropy" not in why
    assert set(found.loc[found["metric"] == "anisotropy", "layer"]) == {0, 1, 2}
    x = np.random.default_rng(0).standard_normal((2, 300, 4))
    found = reporter.measure(x, ["intrinsic_dimension"], texts=np.arange(300) // 3).layer_metrics
    assert set(found.query("statistic == 'duplicates'")["value"]) == {0}, "without token ids nothing is a duplicate"
    assert 3 < found.query("statistic == 'twonn' and layer == 1")["value"].item() < 5


def test_a_mistake_is_said():
    x = np.zeros((9, 3))
    for wrong, said in (
        ({"states": x}, "got the shape"),
        ({"states": {1: x, 2: x}}, "0 is missing"),
        ({"states": [x]}, "at least two layers"),
        ({"states": [x, np.zeros((8, 3))]}, "layer 1 has the shape"),
        ({"states": np.zeros((2, 9, 3), dtype=int)}, "of floats, got int64"),
        ({"states": np.full((2, 9, 3), np.nan)}, "layer 0 are not finite, first at token 0"),
        ({"final": np.diag([1.0] * 8 + [np.inf])}, "final are not finite, first at token 8"),
        ({"states": np.ma.array(np.ones((2, 9, 3)), mask=np.eye(9)[:, :3] * np.ones((2, 1, 1)))}, "masked values"),
        ({"states": [np.ones((9, 3)), np.ma.masked_all((9, 3))]}, "masked values"),
        ({"states": [torch.ones(9, 3), torch.ones(9, 3, device="meta")]}, "layer 1 is a meta tensor"),
        ({"states": torch.nested.nested_tensor([torch.ones(9, 3)] * 2, layout=torch.jagged)}, "a nested tensor"),
        ({"states": (x for x in np.ones((2, 9, 3)))}, "got generator"),
        ({"texts": np.ma.array(np.arange(9), mask=np.arange(9) == 4)}, "texts has masked values"),
        ({"states": np.full((2, 9, 3), 1e17)}, "too large"),
        ({"states": np.full((2, 9, 3), 1e-17)}, "too small"),
        ({"states": np.full((2, 9, 3), "a")}, "must hold floats"),
        ({"texts": [0, 1]}, "each of the 9 tokens"),
        ({"texts": np.arange(9)[::-1]}, "must be ascending"),
        ({"texts": [[0], [1, 2]]}, "texts is not an array"),
        ({"tokens": np.full(9, -1)}, "not be negative"),
        ({"role": "both"}, "'encoder' or 'decoder'"),
        ({"role": np.array(["encoder", "decoder"])}, "'encoder' or 'decoder'"),
        ({"role": 10**5000}, "a number beyond float64"),
        ({"metrics": ["anisotropi"]}, "did you mean 'anisotropy'"),
        ({"metrics": [{"anisotropy": {"sampl": 64}}]}, "did you mean 'sample'"),
        ({"metrics": [{"anisotropy": {"sample": np.float32(64)}}]}, "sample: expected a whole number"),
        ({"metrics": [{"anisotropy": {"sample": {64}}}]}, "may hold only text, numbers, lists and mappings: not set"),
        ({"metrics": [{1: None}]}, "unknown metric '1'"),
        ({"metrics": (name for name in ["anisotropy"])}, "not generator"),
        ({"metrics": "none"}, "measures nothing"),
        ({"view": "with special tokens words"}, "view: expected"),
        ({"seed": 2**32}, "less than 4294967296"),
    ):
        with pytest.raises(reporter.ReporterError, match=said):
            reporter.measure(**{"states": np.ones((2, 9, 3)), "metrics": ["anisotropy"]} | wrong)


def test_any_array_of_the_same_numbers_measures_the_same(recwarn):
    x = np.random.default_rng(0).standard_normal((2, 40, 4)).astype("float32")
    whole, locked = torch.from_numpy(x), np.broadcast_to(x, x.shape)
    forms = [locked, x.astype(">f8"), x.astype(np.longdouble), x[..., ::-1][..., ::-1], whole.to_sparse(), list(x)]
    forms.append(dict(enumerate(x)))
    asked = {"texts": np.arange(40) // 4, "seed": np.int64(3), "metrics": np.array(["anisotropy", "spectrum"])}
    first = reporter.measure(x, **asked).layer_metrics
    assert all(reporter.measure(form, **asked).layer_metrics.equals(first) for form in forms)
    assert len(reporter.measure(whole.to(torch.float8_e4m3fn), **asked).layer_metrics) == len(first)
    assert not recwarn.list


def test_only_files_of_states_are_replaced(tmp_path):
    states, texts = np.random.default_rng(0).standard_normal((3, 12, 4)), np.repeat([0, 1, 2], 4)
    for _ in range(2):
        reporter.save_states(tmp_path / "mine", states, texts, role="encoder")
    (tmp_path / "thesis").write_text("years")
    (tmp_path / "link").symlink_to("thesis")
    for name, message in (("thesis", "exists, and it is not a file that this command wrote"), ("link", "is a link")):
        with pytest.raises(reporter.UsageError, match=message):
            reporter.save_states(tmp_path / name, states, texts, role="encoder")
    assert (tmp_path / "thesis").read_text() == "years"


def test_numbers_of_numpy_are_options_like_those_of_python():
    x, counts = np.random.default_rng(0).standard_normal((2, 40, 4)), (np.int64(64), np.array(64), 64)
    one, two, three = (reporter.measure(x, [{"anisotropy": {"sample": count}}]).layer_metrics for count in counts)
    assert one.equals(two) and two.equals(three)
    corpus = {"generate": "grammar", "texts": np.uint16(40), "words": np.array([5, 12])}
    metrics = [{"anisotropy": {"sample": np.int64(64)}}]
    file = reporter.validate({"study": "numpy", "models": {"m": MODEL}, "corpora": {"c": corpus}, "metrics": metrics})
    assert file.study.metrics[0].options.sample == 64 and file.study.corpora["c"].words == (5, 12)


@pytest.mark.parametrize("wrong", [3, None, True, 10**5000, ["a", 3], b"a", np.array([1, 2]), object()], ids=type)
def test_other_calls_refuse_wrong_types(wrong, tmp_path):
    x, given = np.ones((2, 4, 3)), ([0, 0, 1, 1],)
    for call in (
        lambda: reporter.run(wrong),
        lambda: reporter.run({"study": "s"}, only=wrong),
        lambda: reporter.run({"study": "s"}, wrong),
        lambda: reporter.validate(wrong),
        lambda: reporter.open(wrong),
        lambda: reporter.Results(tmp_path, wrong),
        lambda: reporter.Results(wrong, ["s"]),
        lambda: reporter.Results(tmp_path, ["s"]).sql(wrong),
        lambda: reporter.Results(tmp_path, ["s"]).table(wrong),
        lambda: reporter.Results(tmp_path, ["s"]).table("claims", wrong),
        lambda: reporter.save_states(wrong, x, *given, role="encoder"),
        lambda: reporter.save_states(tmp_path / "x", x, *given, role="encoder", names=[3] if wrong is None else wrong),
        lambda: reporter.save_states(tmp_path / "x", x, *given, role=wrong),
    ):
        with pytest.raises(reporter.UsageError):
            call()


def test_ids_of_a_database_and_names_are_texts_and_tokens_and_extreme_states_have_every_number():
    x = np.random.default_rng(0).standard_normal((2, 40, 4))
    texts, tokens = np.arange(40) // 4, np.arange(40) % 5
    given = (texts, tokens), (texts + 10**12, tokens + 10**12), (texts + 10**12, [f"t{token}" for token in tokens])
    found = (reporter.measure(x, ["anisotropy", "variance"], texts=a, tokens=b).layer_metrics for a, b in given)
    small, *others = (frame.drop(columns="reason") for frame in found)
    assert all(small.equals(other) for other in others)
    for scale in (1e-15, 1e15):
        found = reporter.measure(x * scale, ["linearity", "spectrum"], texts=texts).layer_metrics
        assert found["value"].notna().any() and (found["value"].notna() | found["reason"].notna()).all()


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
    more = {"study": "given", "models": OWN["models"] | given, "baselines": ["shuffled"], "groups": {"g": ["a", "b"]}}
    more |= {"corpora": OWN["corpora"] | {"d": {"texts": ["A text of which there are no states."]}}}
    more |= {"claims": {"alike": {"says": "Both decoders are as alike.", **sides}}}
    return OWN | more | {"metrics": ["convergence", "contextuality", "layer_pairs", "loss"]}


def test_its_numbers_are_those_of_the_model_until_its_file_changes(measured, study, bare_runs, tmp_path):
    with bare_runs():
        results = reporter.run(study, measured[0].folder, only=["given-encoder", "given-decoder", "decoder", "c"])
    for name in ("encoder", "decoder"):
        model = measured[0].layer_metrics.query("model == @name and metric != 'loss'")
        found = results.layer_metrics.query(f"model == 'given-{name}' and metric in ('convergence', 'contextuality')")
        both = found.merge(model, on=KEY, suffixes=("", "_model"), validate="1:1")
        assert len(both) == len(found) > 50 and set(found["role"]) == {name}
        mine, theirs = (both[[f"{number}{end}" for number in NUMBERS]].to_numpy(float) for end in ("", "_model"))
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    of_base = "kind == 'base' and model_a == 'given-decoder' and statistic == 'similarity'"
    differences = results.differences.query(of_base)
    assert len(differences) and differences["value"].abs().max() < 1e-5
    pairs = results.layer_pairs.query("model_a == 'decoder' and model_b == 'given-decoder' and statistic == 'cka'")
    assert pairs.query("layer_a == layer_b")["value"].min() > 0.999
    assert set(results.claims["verdict"]) <= {"supported", "refuted", "inconclusive"}
    reasons = results.cells.query("metric == 'loss' and model == 'given-decoder'")["reasons"].item()
    assert "not the model" in reasons, "what needs the model says so, or is left out"
    cells = results.cells[results.cells["model"].str.startswith("given")]
    assert set(cells["corpus"]) == {"c"} and "groups" not in set(cells["metric"])
    assert not results.models["model"].str.contains(r"given.*\(shuffled\)").any()
    hints = plan_study(study_of(study), measured[0].folder).hints()
    assert "model given-encoder has saved states only, which leaves out corpus d, groups, shuffled" in hints

    content, other = load_file(study["models"]["given-decoder"]["states"]["c"]), tmp_path / "other.safetensors"
    save_file(content | {"layer/1": content["layer/1"] + 1}, other, metadata={"role": "decoder"})
    changed = study | {"models": study["models"] | {"given-decoder": {"states": {"c": str(other)}}}}
    for asked, state, why in ((changed, "run", "weights changed"), (study, "cached", "")):
        plan = plan_study(study_of(asked), measured[0].folder, only=["given-decoder", "c", "convergence"])
        assert {(cell.state, cell.why) for cell in plan.cells if not cell.compares} == {(state, why)}


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
