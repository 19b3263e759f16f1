"""Losses and the lens of small random language models against transformers' own, text by text."""

import numpy as np
import pytest
import torch
from forward.passes import settings_for
from oracles.fake_model import FakeTexts
from oracles.families import FAMILIES, build_language_model, language_model_class, loaded

from reporter.app.verify.reading import key
from reporter.forward.measure import measure, tokenised
from reporter.forward.readout import Lens, Losses, Readout
from reporter.models.head import load_head

TEXTS = ["the cat sleeps in old town", "a mouse", "the mouse sleeps and the cat runs while dogs chase a cat", "cat"]


@pytest.fixture
def language_model(tmp_path):
    """Return a function that makes a family's language model and loads it, and transformers' own beside it."""

    def make(name):
        build_language_model(name, tmp_path)
        own = language_model_class(name).from_pretrained(tmp_path)
        return loaded(tmp_path), own.eval()

    return make


def measured(model, kind, **options):
    """Send the texts through a model as a run does."""
    readout = Readout(model, load_head(model.checkpoint, model, offline=True))
    settings = settings_for(model, 64, ("final",), readout=readout, losses=True)
    kept = kind(settings.layout, seed=0, **options)
    for _ in measure(model, tokenised(model, FakeTexts(TEXTS), 64), [kept], settings):
        pass
    return kept


def texts_of(model):
    for text in TEXTS:
        encoded = model.tokenizer(text, return_special_tokens_mask=True)
        yield torch.tensor([encoded["input_ids"]]), torch.tensor(encoded["special_tokens_mask"], dtype=torch.bool)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "opt, projected", "bert", "roberta"])
def test_the_loss_is_that_of_the_next_token_or_of_hidden_ones(language_model, name):
    model, own = language_model(name)
    kept, losses = measured(model, Losses), []
    for index, (ids, special) in enumerate(texts_of(model)):
        length = ids.shape[1]
        if FAMILIES[name][2] == "decoder":
            shown, ahead, targets = ids, 1, [t for t in range(1, length) if not special[t]]
        else:
            hidden = torch.tensor([key(0, index, at) < 0.15 * 2**64 for at in range(length)]) & ~special
            shown, ahead = ids.where(~hidden, model.tokenizer.mask_token_id), 0
            targets = hidden.nonzero()[:, 0].tolist()
        with torch.no_grad():
            log_p = own(shown).logits[0].log_softmax(dim=-1)
        losses += [-log_p[t - ahead, ids[0, t]].item() for t in targets]
    assert kept.counts.sum() == len(losses) > 8 * ahead
    assert (kept.sums.sum() / kept.counts.sum()).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_lens_ends_in_what_the_model_predicts(language_model):
    model, own = language_model("llama")
    kept = measured(model, Lens, share=1.0)
    entropies, divergences = [], []
    for ids, _ in texts_of(model):
        with torch.no_grad():
            result = own(ids, output_hidden_states=True)
            first = own.lm_head(own.model.norm(result.hidden_states[1]))[0].log_softmax(dim=-1)
            last = result.logits[0].log_softmax(dim=-1)
        entropies += (-(last.exp() * last).sum(dim=-1)).tolist()
        divergences += (last.exp() * (last - first)).sum(dim=-1).tolist()
    means = kept.sums.sum(dim=1) / kept.counts.sum(dim=1)  # (places, quantities)
    assert means[-1, 0].item() == pytest.approx(np.mean(entropies), rel=1e-5)
    assert means[-1, 1].item() == 0
    assert means[1, 1].item() == pytest.approx(np.mean(divergences), rel=1e-4)
