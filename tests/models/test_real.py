"""Real weights: a pretrained encoder and a trained decoder, where the environment names them."""

import pytest
import torch

from reporter.models.checkpoint import Checkpoint
from reporter.models.words import whole_words

pytestmark = pytest.mark.real
TEXTS = ["The mouse was gone.", "Once upon a time there was a cat who liked to sleep in the warm sun, and a dog."]


@pytest.mark.parametrize(
    ("kind", "anatomy"),
    [("encoder", ("encoder", "post", "block", "added")), ("decoder", ("decoder", "pre", "final", "not-added"))],
)
def test_states_are_those_of_transformers(kind, anatomy, request, loaded):
    from transformers import AutoModel, AutoTokenizer

    folder = request.getfixturevalue(f"real_{kind}")
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


def test_the_words_of_a_tokenizer(real_encoder):
    words = whole_words(Checkpoint("m", "final", "path", str(real_encoder), "fingerprint", path=real_encoder))
    assert {"the", "mouse", "quickly"} <= set(words)
    assert len(words) == len(set(words)) > 15_000
    assert all(word.isalpha() for word in words)
