"""Finding checkpoints: what they are called, what identifies them, and what is said where files are missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reporter.core.errors import ReporterError
from reporter.models import model_folder
from reporter.models.checkpoint import Checkpoint
from reporter.models.resolve import resolve
from reporter.spec.models import CheckpointSpec, PathModel

Family = Callable[[str], Path]
Found = Callable[..., Checkpoint]


@pytest.fixture
def copy(family: Family, tmp_path: Path) -> Path:
    """Return a copy of a small BERT that may be changed."""
    return Path(shutil.copytree(family("bert"), tmp_path / "copy"))


def refused(found: Found, folder: Path, **options: Any) -> str:
    with pytest.raises(ReporterError) as caught:
        found(folder, **options)
    message = str(caught.value)
    assert message.startswith("model 'm': ")
    assert "\n" not in message
    return message


def test_a_folder_is_one_checkpoint_called_final(found: Found, copy: Path) -> None:
    checkpoint = found(copy)
    assert (checkpoint.model, checkpoint.name, checkpoint.step) == ("m", "final", None)
    assert (checkpoint.source, checkpoint.path, checkpoint.subfolder) == ("path", copy, None)
    assert checkpoint.revision == checkpoint.fingerprint
    assert checkpoint.label == "model 'm'"


def test_paths_start_from_the_study(copy: Path, tmp_path: Path) -> None:
    spec = PathModel(path=Path("copy"))
    (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: None, offline=True)
    assert checkpoint.folder == copy
    assert checkpoint.location == "copy"


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
def test_every_file_that_matters_changes_the_fingerprint(found: Found, copy: Path, file: str) -> None:
    before = found(copy).fingerprint
    with (copy / file).open("ab") as stream:
        stream.write(b" ")
    assert found(copy).fingerprint != before


def test_what_does_not_matter_does_not(found: Found, copy: Path, tmp_path: Path) -> None:
    before = found(copy).fingerprint
    (copy / "README.md").write_text("hello")
    (copy / "pytorch_model.bin").write_bytes(b"pickle")
    assert found(copy).fingerprint == before
    assert found(Path(shutil.copytree(copy, tmp_path / "elsewhere"))).fingerprint == before


def test_how_it_is_loaded_is_part_of_the_fingerprint(found: Found, copy: Path) -> None:
    assert found(copy).fingerprint != found(copy, dtype="bfloat16").fingerprint


def test_big_files_are_read_once(found: Found, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "_WORTH_REMEMBERING", 0)
    monkeypatch.setattr(model_folder, "_SETTLED", 0)
    before = found(copy).fingerprint

    def fail(*args: object) -> None:
        raise AssertionError("a file was read again")

    monkeypatch.setattr("reporter.models.model_folder.sha256", fail)
    assert found(copy).fingerprint == before
    (copy / "config.json").write_text("{}")
    with pytest.raises(AssertionError, match="read again"):
        found(copy)


def test_a_file_changed_just_now_is_not_remembered(found: Found, copy: Path, tmp_path: Path) -> None:
    found(copy)
    assert not (tmp_path / "cache" / "file-hashes.json").exists()


def test_a_damaged_memo_is_forgotten(found: Found, copy: Path, tmp_path: Path) -> None:
    before = found(copy).fingerprint
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "file-hashes.json").write_text("[1, 2")
    assert found(copy).fingerprint == before


def test_checkpoints_are_sub_folders(copy: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    for name in ("ckpt-10", "ckpt-20"):
        shutil.copytree(copy, root / name)
    with (root / "ckpt-20" / "config.json").open("a") as stream:
        stream.write(" ")
    spec = PathModel(path=root, checkpoints=(CheckpointSpec(name="ckpt-10", step=10), CheckpointSpec(name="ckpt-20")))
    first, second = resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: None, offline=True)
    assert (first.name, first.step, first.folder) == ("ckpt-10", 10, root / "ckpt-10")
    assert (second.name, second.step) == ("ckpt-20", None)
    assert first.fingerprint != second.fingerprint
    assert first.label == "model 'm', checkpoint 'ckpt-10'"


def test_a_sub_folder_without_tokenizer_has_that_of_the_folder_above(copy: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(copy, root / "a")
    for file in list((root / "a").glob("tokenizer*")):
        file.rename(root / file.name)
    spec = PathModel(path=root, checkpoints=(CheckpointSpec(name="a"),))
    (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: None, offline=True)
    assert checkpoint.name == "a"
    (root / "tokenizer.json").write_text("{}")
    (other,) = resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: None, offline=True)
    assert other.fingerprint != checkpoint.fingerprint


def test_a_checkpoint_without_weights_is_named(copy: Path, tmp_path: Path) -> None:
    (copy / "empty").mkdir()
    shutil.copyfile(copy / "config.json", copy / "empty" / "config.json")
    spec = PathModel(path=copy, checkpoints=(CheckpointSpec(name="empty"),))
    with pytest.raises(ReporterError, match=r"model 'm': .*empty has no weights: neither model.safetensors nor"):
        resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: None, offline=True)


def test_no_folder(found: Found, tmp_path: Path) -> None:
    assert f"the folder {tmp_path / 'nowhere'} is not there" in refused(found, tmp_path / "nowhere")


def test_a_file_in_place_of_a_folder(found: Found, copy: Path) -> None:
    assert "is a file, not a folder" in refused(found, copy / "config.json")


def test_no_configuration(found: Found, copy: Path) -> None:
    (copy / "config.json").unlink()
    assert "has no config.json" in refused(found, copy)


def test_no_tokenizer(found: Found, copy: Path) -> None:
    for file in copy.glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in refused(found, copy)


def test_pickle_must_be_allowed_by_name(found: Found, copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(b"pickle")
    message = refused(found, copy)
    assert "pickle only (pytorch_model.bin)" in message
    assert "`allow_pickle: true`" in message
    assert found(copy, allow_pickle=True).allow_pickle


def test_an_index_names_its_shards(found: Found, copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "lacks model-00002-of-00002.safetensors" in refused(found, copy)
    (copy / "model.safetensors.index.json").write_text("{}")
    assert "no `weight_map`" in refused(found, copy)


def test_resolving_imports_neither_torch_nor_transformers(copy: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from reporter.models.resolve import resolve; from reporter.models.words import whole_words\n"
        "from reporter.spec.models import PathModel\n"
        f"spec = PathModel(path=Path({str(copy)!r}))\n"
        f"found = resolve('m', spec, Path('/'), Path({str(tmp_path)!r}), None, offline=True)\n"
        "assert 'cat' in whole_words(found[0])\n"
        "print({'torch', 'transformers', 'huggingface_hub', 'tokenizers'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
