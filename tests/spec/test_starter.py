from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel
from spec.conftest import offered

from reporter.core.errors import UsageError
from reporter.spec import load_study
from reporter.spec.models import RecipeModel
from reporter.spec.study import write_metric, write_starter
from reporter.texts.sources.generated import GeneratedCorpus

Catalogue = Mapping[str, type[BaseModel]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "file"), [("study", "study.yaml"), ("my-study.yaml", "my-study.yaml"), ("a.yml", "a.yml")]
)
def test_it_is_a_valid_study_named_like_its_file(catalogue: Catalogue, name: str, file: str) -> None:
    assert write_starter(name) == Path(file)
    assert load_study(Path(file), offered(catalogue)).study.study == Path(file).stem


def test_it_needs_no_hub_and_compares_an_encoder_with_a_decoder(catalogue: Catalogue) -> None:
    study = load_study(write_starter("study"), offered(catalogue)).study
    models = list(study.models.values())
    assert all(isinstance(model, RecipeModel) for model in models)
    assert {model.recipe.architecture for model in models if isinstance(model, RecipeModel)} == {
        "bert",
        "gpt2",
    }
    assert all(isinstance(corpus, GeneratedCorpus) for corpus in study.corpora.values())


def test_what_it_shows_in_comments_is_right_too(catalogue: Catalogue) -> None:
    path = write_starter("study")
    lines = path.read_text().splitlines()
    start = lines.index("models:" + lines[next(i for i, s in enumerate(lines) if s.startswith("models:"))][7:])
    shown = [f"  {line[2:]}" if line.startswith("# ") and index > start else line for index, line in enumerate(lines)]
    path.write_text("\n".join(shown) + "\n")
    study = load_study(path, offered(catalogue)).study
    assert {"bert", "pythia", "mine"} <= set(study.models)
    assert {"notes", "few"} <= set(study.corpora)


def test_a_file_is_never_overwritten() -> None:
    Path("study.yaml").write_text("mine")
    with pytest.raises(UsageError, match="already there"):
        write_starter("study")
    assert Path("study.yaml").read_text() == "mine"


@pytest.mark.parametrize("name", ["My Study", "cache", "../.yaml", "", "ä", "a\nb"])
def test_a_name_that_is_no_id_is_refused_and_nothing_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a study's id"):
        write_starter(name)
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_metric_is_named_like_it_and_replaces_nothing() -> None:
    assert write_metric("far_out", ()) == Path("far_out.py")
    assert 'name="far_out"' in Path("far_out.py").read_text()
    for name, said in {"far_out": "already there", "motion": "reporter metrics motion", "class": "lower-case"}.items():
        with pytest.raises(UsageError, match=said):
            write_metric(name, ("motion",))
