"""What sublayers add, against the published formula by plain hooks, and where it cannot be known."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from oracles.contributions import NAMES, contributions
from oracles.fake_model import FakeTexts
from oracles.families import FAMILIES, WORDS

from reporter.forward.between_layers import Contributions
from reporter.forward.passes import _unfed
from reporter.metrics.contributions import STATISTICS
from reporter.models.capture import share
from reporter.models.sublayers import Sublayer

RNG = np.random.default_rng(4)
TEXTS = FakeTexts(dict.fromkeys(" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(1, 12, 30)))


def own_class(name, model):
    """Return the model of a family by its own class, without our hooks."""
    import transformers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = getattr(transformers, f"{FAMILIES[name][0]}Model").from_pretrained(model.checkpoint.path).eval()
    return own.get_encoder() if own.config.is_encoder_decoder else own


@pytest.mark.parametrize("name", NAMES)
def test_the_published_formula(name, family_model, observe, values):
    model = family_model(name)
    own = own_class(name, model)
    observables, _ = observe(model, TEXTS, names=("moments", "contributions"), batch_tokens=60)
    found = values(model, observables, len(TEXTS), "all", ["contributions"])
    expected: dict[tuple[str, int], list[np.ndarray]] = {}
    for text in TEXTS:
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        for key, numbers in contributions(name, own, ids).items():
            expected.setdefault(key, []).append(numbers)
    assert len(expected) == 5 * model.anatomy.layers
    for (quantity, block), parts in expected.items():
        tokens = np.concatenate(parts)
        value = found[f"contributions.{quantity}", block]
        assert value.n == len(tokens)
        assert value.value == pytest.approx(tokens.mean(), rel=2e-4, abs=1e-5), (quantity, block)
        assert value.ci_low <= value.value <= value.ci_high


def test_products_in_bf16_do_not_round_what_is_compared():
    added, stream = torch.randn(2, 50, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = share(added, stream)
    assert torch.equal(found, share(added, stream))
    a, x = added.double(), stream.double()
    assert torch.allclose(found[:, 1].double(), torch.cosine_similarity(a, x, dim=1), rtol=0, atol=1e-7)


def test_a_model_whose_sublayers_were_not_found_says_so(family_model, observe, values):
    model = replace(family_model("llama"), feed_forward=Sublayer("none", problem="it was not found"))
    assert _unfed(model) == {"contributions": "it was not found"}
    observables, _ = observe(model, TEXTS, names=("moments",))
    # As a pass leaves it that could not feed it.
    observables["contributions"] = Contributions(observables["moments"].layout, 0)
    found = values(model, observables, len(TEXTS), "all", ["contributions"])
    assert len(found) == len(STATISTICS) * 3 and all(one.value is None and one.reason for one in found.values())
