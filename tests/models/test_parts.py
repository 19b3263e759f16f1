"""Parts of models: both halves of an encoder–decoder, and the text tower of a model for texts and images."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from oracles.families import spread, write_tokenizer

from reporter.app.verify.by_model import PlainModel
from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]
TEXT = "the cat that dogs chase sleeps"
LAYERS = {"t5": 3, "bart": 2}  # of the decoder


@pytest.fixture
def pair(family: Family) -> Callable[[str], Path]:
    """Return the folder of an encoder–decoder whose decoder starts with token 1."""

    def get(name: str) -> Path:
        folder = family(name)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token_id": 1}))
        return folder

    return get


@pytest.mark.parametrize("name", LAYERS)
def test_a_decoder_reads_the_text_beside_its_encoder(
    name: str, pair: Family, found: Callable[..., Checkpoint], loaded: Load
) -> None:
    from transformers import AutoModel

    folder = pair(name)
    model = loaded(folder, part="decoder")
    anatomy = model.anatomy
    assert (anatomy.part, anatomy.role, anatomy.layers) == ("decoder", "decoder", LAYERS[name])
    assert anatomy.first_token == "<pad>"
    ids = torch.tensor([model.tokenizer(TEXT)["input_ids"]])
    assert ids[0, 0] == 1
    with torch.inference_mode():
        captured = model.run(ids, torch.ones_like(ids))
    # The whole pair, as anybody would call it for teacher forcing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own: Any = AutoModel.from_pretrained(folder).eval()
        with torch.inference_mode():
            result = own(input_ids=ids[:, 1:], decoder_input_ids=ids, output_hidden_states=True)
    for mine, theirs in zip(captured.path[:-1], result.decoder_hidden_states[:-1], strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(captured.last, result.last_hidden_state)
    assert anatomy.parameters == sum(p.numel() for p in own.get_decoder().parameters())
    plain = PlainModel(found(folder, part="decoder"), anatomy.layers, anatomy.last_hidden_state, offline=True)
    for mine, theirs in zip(captured.path, plain.states(ids[0].tolist())[0], strict=True):
        torch.testing.assert_close(mine[0], theirs)


@pytest.mark.parametrize("name", LAYERS)
def test_a_decoder_sees_later_words_through_its_encoder_alone(name: str, pair: Family, loaded: Load) -> None:
    model = loaded(pair(name), part="decoder")
    ids = torch.tensor([[1, 7, 8, 9, 10, 11]])
    other = torch.tensor([[1, 7, 8, 9, 10, 12]])
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        before, after = model.states(ids, mask)[-1], model.states(other, mask)[-1]
        assert not torch.allclose(before[:, 1], after[:, 1])
        fixed = [model.module(x, mask, encoder_input_ids=ids).last_hidden_state[:, :5] for x in (ids, other)]
    torch.testing.assert_close(*fixed)


def test_padding_changes_nothing(pair: Family, loaded: Load) -> None:
    model = loaded(pair("t5"), part="decoder")
    rows = [model.tokenizer(text)["input_ids"] for text in (TEXT, "a mouse runs")]
    ids, mask = torch.ones((2, len(rows[0])), dtype=torch.long), torch.zeros((2, len(rows[0])), dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row)], mask[place, : len(row)] = torch.tensor(row), 1
    with torch.inference_mode():
        batch = model.states(ids, mask)
        alone = model.states(torch.tensor([rows[1]]), torch.ones((1, len(rows[1])), dtype=torch.long))
    for together, single in zip(batch, alone, strict=True):
        torch.testing.assert_close(together[1, : len(rows[1])], single[0], rtol=1e-4, atol=1e-5)


def test_halves_are_models_of_their_own(pair: Family, found: Callable[..., Checkpoint], loaded: Load) -> None:
    folder = pair("t5")
    prints = {part: found(folder, part=part).fingerprint for part in (None, "encoder", "decoder")}
    assert prints[None] == prints["encoder"] != prints["decoder"]
    assert loaded(folder).anatomy.part == loaded(folder, part="encoder").anatomy.part == "encoder"


def test_a_part_of_what_has_none(family: Family, loaded: Load) -> None:
    with pytest.raises(ReporterError, match="bert is no encoder–decoder; leave out `part`"):
        loaded(family("bert"), part="decoder")


_TOWER = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
_TEXT = _TOWER | {"max_position_embeddings": 40, "vocab_size": 30, "eos_token_id": 2, "bos_token_id": 0}
_IMAGE = _TOWER | {"image_size": 16, "patch_size": 8}


@pytest.mark.parametrize(
    ("prefix", "whole", "role"),
    [
        ("CLIP", True, "decoder"),
        ("CLIP", False, "decoder"),
        ("Siglip", True, "encoder"),
        ("Siglip", False, "encoder"),
    ],
)
def test_a_text_tower(prefix: str, whole: bool, role: str, tmp_path: Path, loaded: Load) -> None:
    import transformers

    write_tokenizer(tmp_path, eos_token="</s>", pad_token="<pad>")
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        more = {"text_config": _TEXT, "vision_config": _IMAGE} if whole else _TEXT
        name = prefix if whole else f"{prefix}Text"
        own: Any = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**more))
        spread(own)
        own.save_pretrained(tmp_path)
    model = loaded(tmp_path)
    assert (model.anatomy.part, model.anatomy.role) == ("text" if whole else None, role)
    assert (model.anatomy.layers, model.anatomy.width, model.anatomy.max_tokens) == (3, 32, 40)
    ids = torch.tensor([[7, 8, 9, 10, 2]])
    tower = own.text_model if whole else own
    with torch.inference_mode():
        states = model.states(ids, torch.ones_like(ids))
        theirs = tower.eval()(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
    for mine, expected in zip(states[:-1], theirs.hidden_states[:-1], strict=True):
        torch.testing.assert_close(mine, expected)
