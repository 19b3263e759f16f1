from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from pydantic import BaseModel
from spec.conftest import offered

from reporter.core.errors import UsageError
from reporter.spec import SpecError, Study, load_studies, load_study
from reporter.spec.load import layers_of, plugins_of
from reporter.spec.study import RunSpec

Load = Callable[[str | bytes], Study]
Catalogue = Mapping[str, type[BaseModel]]
WITH_TEXTS = "study: s\nmodels: {m: gpt2}\ncorpora: {c: {texts: [a]}}\n"


def test_the_smallest_study(load: Load) -> None:
    study = load("study: s\nmodels: {m: gpt2}\n")
    assert (study.title, study.question, study.corpora) == (None, None, {})
    assert study.views == ("words", "all", "no-sinks")
    assert study.run == RunSpec()
    assert [choice.name for choice in study.metrics] == ["anisotropy", "convergence", "intrinsic_dimension"]


def test_all_metrics_by_name(load: Load) -> None:
    assert load(WITH_TEXTS + "metrics: all\n").metrics == load(WITH_TEXTS).metrics


def test_metrics_keep_their_order_and_get_their_options(load: Load) -> None:
    study = load(WITH_TEXTS + "metrics: [convergence, {intrinsic_dimension: {sample: 64, scales: [4]}}, anisotropy:]\n")
    assert [choice.name for choice in study.metrics] == ["convergence", "intrinsic_dimension", "anisotropy"]
    assert study.metrics[1].options.model_dump() == {
        "sample": 64,
        "target": "block",
        "scales": (4,),
        "share": 0.9,
    }


def test_options_survive_serialisation(load: Load) -> None:
    dumped = load(WITH_TEXTS + "metrics: [{intrinsic_dimension: {sample: 64}}]\n").model_dump(mode="json")
    assert dumped["metrics"][0]["options"]["sample"] == 64


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:3"])
def test_devices(load: Load, device: str) -> None:
    assert load(f"study: s\nmodels: {{m: gpt2}}\nrun: {{device: '{device}'}}\n").run.device == device


def test_a_file_remembers_its_text_and_folder(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "study: s\r\nmodels: {m: gpt2}\r\ntitle: é\r\n"
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    monkeypatch.chdir(tmp_path)
    file = load_study(Path("a.yaml"), offered(catalogue))
    assert file.text == text
    assert file.path == Path("a.yaml")
    assert file.folder == tmp_path.resolve()
    assert file.study.title == "é"


def test_what_is_no_file_is_said_without_a_line(tmp_path: Path, catalogue: Catalogue) -> None:
    for path, reason in [(tmp_path / "none.yaml", "there is no such file"), (tmp_path, "is a directory")]:
        with pytest.raises(SpecError) as caught:
            load_study(path, offered(catalogue))
        assert str(caught.value).startswith(f"{path}: {reason}")
        assert isinstance(caught.value, UsageError)


def test_a_file_that_cannot_be_read_and_one_that_never_ends_are_said(tmp_path: Path, catalogue: Catalogue) -> None:
    os.mkfifo(tmp_path / "endless.yaml")
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(SpecError) as caught:
            load_study(path, offered(catalogue))
        assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value).strip()


def test_plugins_are_looked_for_beside_the_study_before_it_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    (tmp_path / "here.py").touch()
    path.write_text("plugins: [here.py, 3]\nmodels: wrong\n")
    assert plugins_of(layers_of(path)) == (tmp_path / "here.py",)
    path.write_text("plugins: [here.py, gone.py]\n")
    with pytest.raises(SpecError, match=r"study.yaml:1:20: plugins.*there is no file 'gone.py'"):
        plugins_of(layers_of(path))
    path.write_text("- plugins\n")
    assert plugins_of(layers_of(path, ["plugins=gone.py"])) == ()


def test_several_studies_are_all_checked_before_any_complaint(tmp_path: Path, catalogue: Catalogue) -> None:
    paths = [tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml")]
    for path, text in zip(paths, ["study: S\nmodels: {m: gpt2}\n", WITH_TEXTS, "study: t\n"], strict=True):
        path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_studies(paths, partial(load_study, offer=offered(catalogue)))
    assert [Path(problem.file).name for problem in caught.value.problems] == ["a.yaml", "c.yaml"]


def test_two_studies_of_one_run_need_two_ids(tmp_path: Path, catalogue: Catalogue) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(WITH_TEXTS)
    two.write_text("# again\n" + WITH_TEXTS)
    with pytest.raises(SpecError) as caught:
        load_studies([one, two], partial(load_study, offer=offered(catalogue)))
    assert str(caught.value) == f"{two}:2:8: study: 's' is the id of {one}, too; every study needs its own"


def test_a_list_whose_only_item_is_wrong_is_not_called_empty_as_well(complain: Callable[[str], list[str]]) -> None:
    (line,) = complain("study: s\nmodels: {m: gpt2}\nviews: [word]\n")
    assert line.startswith("study.yaml:3:9: views[0]: expected 'words'")


def test_shares_of_a_corpus_are_listed_once_and_behind_it(complain: Callable[[str], list[str]]) -> None:
    (line,) = complain(
        "study: s\nmodels: {m: gpt2}\ncorpora: {c: {file: a.csv, label: mood, by: [joy, fear]}, d: {texts: [a b]}}\n"
        "metrics: [anisotropy]\nclaims:\n"
        "  x: {says: y, value: {metric: anisotropy.mean_cosine, model: m, corpus: c.awe, layer: 1}, above: 0}\n"
    )
    assert line.endswith("no corpus 'c.awe'; corpora of this study: c, c.joy, c.fear, d")
