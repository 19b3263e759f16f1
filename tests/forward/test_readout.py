"""Losses and the lens of small random language models against transformers' own, text by text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeTexts
from oracles.families import build_family, spread
from oracles.readout import masked

from reporter.forward.measure import Settings, measure, tokenised
from reporter.forward.readout import Lens, Losses, Readout
from reporter.models.head import load_head
from reporter.models.load import load
from reporter.models.places import Layout
from reporter.models.resolve import resolve
from reporter.spec.models import PathModel

TEXTS = ["the cat sleeps in old town", "a mouse", "the mouse sleeps and the cat runs while dogs chase a cat", "cat"]


@pytest.fixture
def language_model(tmp_path):
    """Return a function that saves a family's language model and loads it, and transformers' own beside it."""

    def make(name, kind):
        import transformers

        build_family(name, tmp_path)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            own = kind.from_config(transformers.AutoConfig.from_pretrained(tmp_path))
            spread(own)
            own.save_pretrained(tmp_path)
        spec = PathModel(path=tmp_path)
        (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", lambda corpus: None, offline=True)
        return load(checkpoint, "cpu", offline=True), own.eval()

    return make


def measured(model, watchers):
    """Send the texts through a model as a run does."""
    vocabulary = model.anatomy.vocabulary_size
    settings = Settings(
        batch_tokens=64,
        seed=0,
        precision="float32",
        layout=Layout.of(model.anatomy, ("final",)),
        frequent=np.zeros(vocabulary, dtype=bool),
        readout=Readout(model, load_head(model.checkpoint, model, offline=True)),
        losses=True,
    )
    for _ in measure(model, tokenised(model, FakeTexts(TEXTS), 64), watchers, settings):
        pass


def texts_of(model):
    for text in TEXTS:
        encoded = model.tokenizer(text, return_special_tokens_mask=True)
        if encoded["input_ids"]:
            yield torch.tensor([encoded["input_ids"]]), torch.tensor(encoded["special_tokens_mask"], dtype=torch.bool)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "opt, projected"])
def test_a_decoders_loss_is_that_of_transformers(language_model, name):
    from transformers import AutoModelForCausalLM

    model, own = language_model(name, AutoModelForCausalLM)
    kept = Losses(Layout.of(model.anatomy, ("final",)), seed=0)
    measured(model, [kept])
    losses = []
    for ids, special in texts_of(model):
        with torch.no_grad():
            log_p = own(ids).logits[0].log_softmax(dim=-1)
        losses += [-log_p[t - 1, ids[0, t]].item() for t in range(1, ids.shape[1]) if not special[t]]
    assert kept.counts.sum() == len(losses) > 8
    assert (kept.sums.sum() / kept.counts.sum()).item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_an_encoders_loss_is_that_of_hidden_tokens(language_model, name):
    from transformers import AutoModelForMaskedLM

    model, own = language_model(name, AutoModelForMaskedLM)
    kept = Losses(Layout.of(model.anatomy, ("final",)), seed=0)
    measured(model, [kept])
    losses = []
    for index, (ids, special) in enumerate(texts_of(model)):
        hidden = torch.from_numpy(masked(index, ids.shape[1])) & ~special
        with torch.no_grad():
            log_p = own(ids.where(~hidden, model.tokenizer.mask_token_id)).logits[0].log_softmax(dim=-1)
        losses += [-log_p[t, ids[0, t]].item() for t in hidden.nonzero()[:, 0].tolist()]
    assert kept.counts.sum() == len(losses) > 0
    assert (kept.sums.sum() / kept.counts.sum()).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_lens_ends_in_what_the_model_predicts(language_model):
    from transformers import AutoModelForCausalLM

    model, own = language_model("llama", AutoModelForCausalLM)
    kept = Lens(Layout.of(model.anatomy, ("final",)), seed=0, share=1.0)
    measured(model, [kept])
    entropies, divergences = [], []
    for ids, _ in texts_of(model):
        with torch.no_grad():
            found = own(ids, output_hidden_states=True)
            first = own.lm_head(own.model.norm(found.hidden_states[1]))[0].log_softmax(dim=-1)
            last = found.logits[0].log_softmax(dim=-1)
        entropies += (-(last.exp() * last).sum(dim=-1)).tolist()
        divergences += (last.exp() * (last - first)).sum(dim=-1).tolist()
    means = kept.sums.sum(dim=1) / kept.counts.sum(dim=1)  # (places, quantities)
    assert means[-1, 0].item() == pytest.approx(np.mean(entropies), rel=1e-5)
    assert means[-1, 1].item() == 0
    assert means[1, 1].item() == pytest.approx(np.mean(divergences), rel=1e-4)
