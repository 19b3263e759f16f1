"""Models that are spread by accelerate: over main memory and disk here, with the numbers that they have elsewhere."""

import pytest
import torch

from reporter.app.verify.by_model import PlainModel
from reporter.core.errors import ReporterError
from reporter.models.head import load_head

IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 9]])
MASK = torch.ones_like(IDS)


@pytest.fixture
def split(family, tmp_path, loaded):
    """Return a function that loads a family in main memory and on disk, a block and a half in memory."""
    pytest.importorskip("accelerate", reason="a split model needs the optional package accelerate")
    how = {"device_map": "auto", "max_memory": {"cpu": "60KiB"}, "offload_folder": tmp_path / "disk"}
    return lambda name: loaded(family(name), **how)


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_numbers_are_those_of_one_device(name, family, split, loaded):
    plain, parts = loaded(family(name)), split(name)
    where = set(parts.module.hf_device_map.values())
    assert "disk" in where and len(where) > 1, where
    with torch.inference_mode():
        mine, theirs = (m.run(IDS, MASK, attention=True, contributions=True) for m in (parts, plain))
        closed = [m.close(run.path[1]) for m, run in ((parts, mine), (plain, theirs))]
    assert len(mine.path) == len(theirs.path) == 4
    pairs = [(*run.path, *run.attention, run.last, run.contributions) for run in (mine, theirs)]
    for a, b in [*zip(*pairs, strict=True), closed, (parts.vocabulary, plain.vocabulary)]:
        assert torch.equal(a, b)
    assert parts.anatomy == plain.anatomy
    assert parts.checkpoint.fingerprint == plain.checkpoint.fingerprint


def test_the_head_and_the_second_path_read_a_split_model(family, split, loaded):
    plain, parts = loaded(family("gpt2")), split("gpt2")
    states = torch.linspace(-1, 1, 5 * plain.anatomy.width).view(5, -1)
    torch.testing.assert_close(*(load_head(model.checkpoint, model, True).logits(states) for model in (parts, plain)))
    anatomy = parts.anatomy
    own, _ = PlainModel(parts.checkpoint, anatomy.layers, anatomy.last_hidden_state, True).states(IDS[0].tolist())
    with torch.inference_mode():
        path = plain.run(IDS, MASK).path
    for a, b in zip(own, path, strict=True):
        torch.testing.assert_close(a, b[0])


def test_a_missing_accelerate_is_named(family, found, monkeypatch):
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: None)
    with pytest.raises(
        ReporterError, match=r"device_map needs .* accelerate; install it with: pip install 'layer-reporter\[split\]'"
    ):
        found(family("llama"), device_map="auto")


def test_an_offload_folder_that_cannot_be_made_is_refused(tmp_path, family, found, monkeypatch):
    monkeypatch.setattr("reporter.models.resolve.check_installed", lambda *_: None)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ReporterError, match=r"cannot use the offload folder .*file is a file; name another folder"):
            found(family("llama"), device_map="auto", offload_folder=place)
    found(family("llama"), device_map="auto", offload_folder=tmp_path / "new" / "below")
    assert not (tmp_path / "new").exists()
