"""Losses and the lens of small random language models against transformers' own, text by text."""

import numpy as np
import pytest
import torch
from forward.passes import settings_for
from oracles.fake_model import FakeTexts
from oracles.families import FAMILIES, build_language_model, language_model_class, loaded

from reporter.app.verify.by_model import _stays_near as again
from reporter.app.verify.reading import key
from reporter.forward.measure import measure
from reporter.forward.reading import tokenised
from reporter.forward.readout import Lens, Losses, Readout
from reporter.metrics.lens import _stays_near
from reporter.models.head import load_head

TEXTS = ["the cat sleeps in old town", "a mouse", "the mouse sleeps and the cat runs while dogs chase a cat", "cat"]


@pytest.fixture
def language_model(tmp_path):
    """Return a function that makes a family's language model and loads it, and transformers' own beside it."""

    def make(name):
        build_language_model(name, tmp_path)
        return loaded(tmp_path), language_model_class(name).from_pretrained(tmp_path).eval()

    return make


def measured(model, kind, **options):
    """Send the texts through a model as a run does."""
    readout = Readout(model, load_head(model.checkpoint, model, offline=True))
    settings = settings_for(model, 64, ("final",), readout=readout, losses=True)
    kept = kind(settings.layout, seed=0, **options)
    list(measure(model, tokenised(model, FakeTexts(TEXTS), 64), [kept], settings))
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
        shown, ahead, targets = ids, 1, ~special & (torch.arange(length) > 0)
        if FAMILIES[name][2] != "decoder":
            targets = torch.tensor([key(0, index, at) < 0.15 * 2**64 for at in range(length)]) & ~special
            shown, ahead = ids.where(~targets, model.tokenizer.mask_token_id), 0
        with torch.no_grad():
            log_p = own(shown).logits[0].log_softmax(dim=-1)
        losses += [-log_p[t - ahead, ids[0, t]].item() for t in targets.nonzero()[:, 0].tolist()]
    assert kept.counts.sum() == len(losses) > 8 * ahead
    assert (kept.sums.sum() / kept.counts.sum()).item() == pytest.approx(np.mean(losses), rel=1e-5)


def by_hand(model, own, shift=1, twice=False):
    """Read each text alone with transformers: {quantity: (layers, tokens)}, of which "exit" is of the last alone.

    ``shift`` is how far ahead the next token lies; ``twice`` puts the last layer through the closing norm again.
    """
    parts = []
    for ids, special in texts_of(model):
        with torch.no_grad():
            result = own(ids, output_hidden_states=True)
            read = [own.lm_head(own.model.norm(h))[0] for h in result.hidden_states]
        read = torch.stack(read if twice else [*read[:-1], result.logits[0]]).log_softmax(dim=-1)
        tops = read.argsort(dim=-1, descending=True)[..., :5]
        agrees, before = tops[..., 0] == tops[-1, :, 0], (~special[1:]).nonzero()[:, 0]
        settled = len(read) - agrees.flip(0).long().cumprod(dim=0).sum(dim=0, keepdim=True)
        numbers = {"loss": -read[:, before, ids[0, before + shift]], "exit": settled / (len(read) - 1)}
        numbers |= {"top1": agrees, "top5": (tops[..., None] == tops[-1, :, None]).any(dim=-1).double().mean(dim=-1)}
        numbers["entropy"] = -(read.exp() * read).sum(dim=-1)
        parts.append(numbers | {"kl": (read[-1].exp() * (read[-1] - read)).sum(dim=-1)})
    return {name: torch.cat([part[name].double() for part in parts], dim=1) for name in parts[0]}


def test_the_lens_by_layer_against_transformers(language_model):
    model, own = language_model("llama")
    kept, expected = measured(model, Lens, share=1.0), by_hand(model, own)
    means, counts = kept.sums.sum(dim=1) / kept.counts.sum(dim=1), kept.counts.sum(dim=1)
    for quantity, numbers in expected.items():
        (layers, tokens), at = numbers.shape, kept.quantities.index(quantity)
        assert counts[:, at].tolist() == [0] * (len(counts) - layers) + [tokens] * layers, quantity
        assert means[-layers:, at].tolist() == pytest.approx(numbers.mean(dim=1).tolist(), rel=1e-4), quantity
    losses = means[:, kept.quantities.index("loss")]
    assert len(set(expected["top5"].mean(dim=1).tolist())) > 2 and 0 < expected["exit"].mean() < 1
    for wrong, first in (({"shift": 0}, 0), ({"twice": True}, -1)):
        other = by_hand(model, own, **wrong)["loss"].mean(dim=1)
        assert not np.isclose(losses[first:], other[first:], rtol=1e-3, atol=0).any()


PROFILES = {
    "from where it stays near": ([9, 5, 0.5, 3, 0.9, 0.2, 0], 4),
    "whatever the embedding has": ([900, 5, 0.5, 3, 0.9, 0.2, 0], 4),
    "and whatever a layer between has": ([9, 500, 0.5, 3, 0.9, 0.2, 0], 4),
    "no layer but the last": ([9, 5, 3, 0], 3),
    "all layers": ([0.9, 0.1, 0.0], 0),
    "no token": ([np.nan, np.nan], np.nan),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_effective_depth_hangs_on_no_single_layer(profile):
    divergences, layer = PROFILES[profile]
    outcome = _stays_near(np.array(divergences, dtype=float)[:, None])
    assert outcome == pytest.approx([layer], nan_ok=True)
    assert again(divergences, 1.0) == pytest.approx(layer, nan_ok=True), "and on the path of `verify`"


def test_an_encoder_predicts_no_next_token(language_model):
    model, _ = language_model("bert")
    kept = measured(model, Lens, share=1.0)
    counts = dict(zip(kept.quantities, kept.counts.sum(dim=1)[-1].tolist(), strict=True))
    assert counts["loss"] == 0 < counts["top1"] == counts["entropy"]
