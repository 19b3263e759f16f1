"""Real weights: a pretrained encoder and a trained decoder, where the environment names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from reporter.models.load import LoadedModel

pytestmark = pytest.mark.real
TEXTS = ["The mouse was gone.", "Once upon a time there was a cat who liked to sleep in the warm sun, and a dog."]


def agrees_with_transformers(model: LoadedModel, folder: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    own = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        assert model.tokenizer(text)["input_ids"] == ids[0].tolist()
        with torch.inference_mode():
            theirs = own(input_ids=ids, output_hidden_states=True).hidden_states
            mine = model.states(ids, torch.ones_like(ids))
        for x, y in zip(mine[:-1], theirs[:-1], strict=True):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


def test_the_encoder(real_encoder: Path, loaded: Callable[..., LoadedModel]) -> None:
    model = loaded(real_encoder)
    assert (model.anatomy.role, model.anatomy.norm_placement) == ("encoder", "post")
    assert (model.anatomy.last_hidden_state, model.anatomy.positions) == ("block", "added")
    agrees_with_transformers(model, real_encoder)


def test_the_decoder(real_decoder: Path, loaded: Callable[..., LoadedModel]) -> None:
    model = loaded(real_decoder)
    assert (model.anatomy.role, model.anatomy.norm_placement) == ("decoder", "pre")
    assert (model.anatomy.last_hidden_state, model.anatomy.positions) == ("final", "not-added")
    agrees_with_transformers(model, real_decoder)
