"""Finding checkpoints: what they are called, what identifies them, and what is said where files are missing."""

import json
import shutil
from pathlib import Path

import pytest
from models.folders import configure, refused

from reporter.models import model_folder


@pytest.fixture
def folder(copy):
    """Return a copy of a small BERT that may be changed."""
    return copy()


def test_a_folder_is_one_checkpoint_that_every_file_that_matters_and_the_precision_identify(found, folder, tmp_path):
    checkpoint = found(Path("copy-of-bert"))  # starts from the study
    expected = {"model": "m", "name": "final", "step": None, "subfolder": None, "source": "path", "path": folder}
    expected |= {"location": "copy-of-bert", "revision": checkpoint.fingerprint, "label": "model 'm'"}
    assert {key: getattr(checkpoint, key) for key in expected} == expected
    prints = [checkpoint.fingerprint, found(folder, dtype="bfloat16").fingerprint]
    for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        with (folder / file).open("ab") as stream:
            stream.write(b" ")
        prints.append(found(folder).fingerprint)
    assert len(set(prints)) == 6
    (folder / "README.md").write_text("hello")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    assert found(folder).fingerprint == prints[-1]
    assert found(shutil.copytree(folder, tmp_path / "elsewhere")).fingerprint == prints[-1]


def test_big_files_are_read_once_but_one_changed_just_now_is_not_remembered(found, folder, tmp_path, monkeypatch):
    before, memo = found(folder).fingerprint, tmp_path / "cache" / "file-hashes.json"
    assert not memo.exists()
    memo.parent.mkdir(exist_ok=True)
    memo.write_text("[1, 2")  # a damaged one is forgotten
    monkeypatch.setattr(model_folder, "_WORTH_REMEMBERING", 0)
    monkeypatch.setattr(model_folder, "_SETTLED", 0)
    assert found(folder).fingerprint == before
    monkeypatch.setattr(model_folder, "sha256", lambda file: pytest.fail("a file was read again"))
    assert found(folder).fingerprint == before
    (folder / "config.json").write_text("{}")
    with pytest.raises(pytest.fail.Exception, match="read again"):
        found(folder)


def test_checkpoints_are_sub_folders_and_a_tokenizer_may_lie_in_the_folder_above(folder, tmp_path, checkpoints):
    root, steps = tmp_path / "run", [{"folder": "a", "step": 10}, "b"]
    for name in ("a", "b"):
        shutil.copytree(folder, root / name)
    configure(root / "b", more=1)
    first, second = checkpoints(root, checkpoints=steps)
    assert (first.name, first.step, first.folder) == ("a", 10, root / "a")
    assert (second.name, second.step, first.label) == ("b", None, "model 'm', checkpoint 'a'")
    assert first.fingerprint != second.fingerprint
    for file in list((root / "a").glob("tokenizer*")):
        file.rename(root / file.name)
    assert checkpoints(root, checkpoints=steps)[0].fingerprint == first.fingerprint
    (root / "tokenizer.json").write_text("{}")
    assert checkpoints(root, checkpoints=steps)[0].fingerprint != first.fingerprint


def test_missing_files_are_named(found, folder, tmp_path):
    (folder / "empty").mkdir()
    shutil.copy(folder / "config.json", folder / "empty")
    assert "empty has no weights" in refused(found, folder, checkpoints=["empty"])
    assert f"there is no folder {tmp_path / 'nowhere'}; check the path" in refused(found, tmp_path / "nowhere")
    assert "is a file; name a folder with config.json" in refused(found, folder / "config.json")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    assert "lacks model-00002-of-00002.safetensors" in refused(found, folder)
    index.write_text("{}")
    assert "no `weight_map`" in refused(found, folder)
    index.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    message = refused(found, folder)
    assert "only pickle weights (pytorch_model.bin)" in message and "`allow_pickle: true`" in message
    assert found(folder, allow_pickle=True).allow_pickle
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in refused(found, folder, allow_pickle=True)
    (folder / "config.json").unlink()
    assert "has no config.json" in refused(found, folder)


def test_a_width_that_is_no_number_is_passed_over(tmp_path):
    for config, width in (({"hidden_size": "wide", "d_model": 32}, 32), ({"hidden_size": None}, None)):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert model_folder.width_of(tmp_path) == width
