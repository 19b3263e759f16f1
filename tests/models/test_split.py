"""Models that are spread by accelerate: over main memory and disk here, with the numbers that they have elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from reporter.app.verify.by_model import PlainModel
from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.head import load_head
from reporter.models.load import LoadedModel

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]
IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 9]])


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_numbers_are_those_of_one_device(name: str, family: Family, tmp_path: Path, loaded: Load) -> None:
    pytest.importorskip("accelerate", reason="a split model needs the optional package accelerate")
    plain = loaded(family(name))
    some = {"cpu": "60KiB"}  # a block and a half
    split = loaded(family(name), device_map="auto", max_memory=some, offload_folder=tmp_path / "disk")
    where = set(split.module.hf_device_map.values())
    assert "disk" in where and len(where) > 1, where
    with torch.inference_mode():
        mine, theirs = (m.run(IDS, torch.ones_like(IDS), attention=True, contributions=True) for m in (split, plain))
        assert len(mine.path) == len(theirs.path) == 4
        for a, b in zip([*mine.path, *mine.attention], [*theirs.path, *theirs.attention], strict=True):
            assert torch.equal(a, b)
        assert torch.equal(mine.last, theirs.last)
        assert torch.equal(split.close(mine.path[1]), plain.close(theirs.path[1]))
    assert torch.equal(mine.contributions, theirs.contributions)
    assert torch.equal(split.vocabulary, plain.vocabulary)
    assert split.anatomy == plain.anatomy
    assert split.checkpoint.fingerprint == plain.checkpoint.fingerprint


def test_the_head_and_the_second_path_read_a_split_model(family: Family, tmp_path: Path, loaded: Load) -> None:
    pytest.importorskip("accelerate", reason="a split model needs the optional package accelerate")
    plain = loaded(family("gpt2"))
    split = loaded(family("gpt2"), device_map="auto", max_memory={"cpu": "60KiB"}, offload_folder=tmp_path / "disk")
    states = torch.linspace(-1, 1, 5 * plain.anatomy.width).view(5, -1)
    mine, theirs = (load_head(model.checkpoint, model, True).logits(states) for model in (split, plain))
    torch.testing.assert_close(mine, theirs)
    anatomy = split.anatomy
    own, _ = PlainModel(split.checkpoint, anatomy.layers, anatomy.last_hidden_state, True).states(IDS[0].tolist())
    with torch.inference_mode():
        path = plain.run(IDS, torch.ones_like(IDS)).path
    for a, b in zip(own, path, strict=True):
        torch.testing.assert_close(a, b[0])


def test_without_accelerate(family: Family, found: Callable[..., Checkpoint], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: None)
    with pytest.raises(ReporterError, match=r"device_map needs .* accelerate: pip install 'reporter\[split\]'"):
        found(family("llama"), device_map="auto")


@pytest.mark.parametrize(
    "said", [{"max_memory": {"cpu": "1GiB"}}, {"offload_folder": "x"}, {"device_map": "auto", "adapter": "x"}]
)
def test_keys_that_do_not_go_together(
    said: dict[str, object], found: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"needs `device_map: auto`|cannot be merged into a model that is split"):
        found(tmp_path, **said)


def test_an_offload_folder_that_cannot_be_made(
    tmp_path: Path, family: Family, found: Callable[..., Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reporter.models.resolve.check_installed", lambda *_: None)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ReporterError, match=r"offload folder .* cannot be used: .*file is a file, not a folder"):
            found(family("llama"), device_map="auto", offload_folder=place)
    found(family("llama"), device_map="auto", offload_folder=tmp_path / "new" / "below")
    assert not (tmp_path / "new").exists()
