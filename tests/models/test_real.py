"""Real weights: a pretrained encoder and a trained decoder, where the environment names them."""

import os
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.real
TEXTS = ["The mouse was gone.", "Once upon a time there was a cat who liked to sleep in the warm sun, and a dog."]


@pytest.mark.parametrize(
    ("variable", "anatomy"),
    [
        ("REPORTER_REAL_ENCODER", ("encoder", "post", "block", "added")),
        ("REPORTER_REAL_DECODER", ("decoder", "pre", "final", "not-added")),
    ],
)
def test_states_are_those_of_transformers(variable, anatomy, loaded):
    from transformers import AutoModel, AutoTokenizer

    folder = Path(os.environ.get(variable) or pytest.skip(f"{variable} names no folder with a real model"))
    model = loaded(folder)
    measured = model.anatomy
    assert (measured.role, measured.norm_placement, measured.last_hidden_state, measured.positions) == anatomy
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
