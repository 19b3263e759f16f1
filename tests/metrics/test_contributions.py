"""What sublayers add, against the published formula by plain hooks, and where it cannot be known."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from oracles.contributions import NAMES, contributions
from oracles.fake_model import FakeTexts
from oracles.families import FAMILIES, WORDS

from reporter.forward.between_layers import Contributions
from reporter.forward.means import Average
from reporter.forward.passes import _unfed
from reporter.metrics._intervals import layer_with_interval
from reporter.metrics.contributions import STATISTICS, _last_turn
from reporter.models.capture import share
from reporter.models.sublayers import Sublayer

RNG = np.random.default_rng(4)
TEXTS = FakeTexts(dict.fromkeys(" ".join(RNG.choice(WORDS, n)) for n in RNG.integers(1, 12, 30)))


@pytest.mark.parametrize("name", NAMES)
def test_the_published_formula(name, family_model, observe, values):
    model = family_model(name)
    with warnings.catch_warnings(action="ignore"):
        own = getattr(transformers, f"{FAMILIES[name][0]}Model").from_pretrained(model.checkpoint.path).eval()
    own = own.get_encoder() if own.config.is_encoder_decoder else own
    observables, _ = observe(model, TEXTS, names=("moments", "contributions"), batch_tokens=60)
    found = values(model, observables, len(TEXTS), "with special tokens", ["contributions"])
    each = [contributions(name, own, torch.tensor([model.tokenizer(text)["input_ids"]])) for text in TEXTS]
    assert len(each[0]) == 5 * model.anatomy.layers
    for quantity, block in each[0]:
        tokens = np.concatenate([of[quantity, block] for of in each])
        value = found[f"contributions.{quantity}", block]
        assert value.n == len(tokens)
        assert value.value == pytest.approx(tokens.mean(), rel=2e-4, abs=1e-5), (quantity, block)
        assert value.ci_low <= value.value <= value.ci_high


def test_products_in_bf16_do_not_round_what_is_compared():
    added, stream = torch.randn(2, 50, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = share(added, stream)
    assert torch.equal(found, share(added, stream))
    expected = torch.cosine_similarity(added.double(), stream.double(), dim=1)
    torch.testing.assert_close(found[:, 1].double(), expected, rtol=0, atol=1e-7)


def test_a_model_whose_sublayers_were_not_found_says_so(family_model, observe, values):
    model = replace(family_model("llama"), feed_forward=Sublayer("none", problem="it was not found"))
    assert _unfed(model) == {"contributions": "it was not found"}
    observables, _ = observe(model, TEXTS, names=("moments",))
    observables["contributions"] = Contributions(observables["moments"].layout, 0)  # of a pass that could not feed it
    found = values(model, observables, len(TEXTS), "with special tokens", ["contributions"])
    assert len(found) == len(STATISTICS[:-1]) * 3 + 1
    assert all(one.value is None and one.reason for one in found.values())


def last_turn(*means, spread=0.0):
    """Return the last turn of a profile whose replicates move by ``spread`` times a normal number."""
    noise = spread * np.random.default_rng(0).standard_normal((len(means), 1000))
    profile = [Average(mean, 50, mean + of) for mean, of in zip(means, noise, strict=True)]
    return layer_with_interval("turn", profile, _last_turn, 20, "absent", "no turn")


def test_the_last_turn_is_the_block_after_the_last_one_below_zero_and_its_interval_is_of_whole_blocks():
    for cosines, block in (
        ((-0.2, 0.1, -0.1, 0.3), 4), ((-0.2, 0.0, 0.1), 2), ((0.1, 0.2), None), ((-0.1, -0.2), None), ((-0.1,), None),
    ):  # fmt: skip
        value = last_turn(*cosines)
        found = (value.value, value.ci_low, value.ci_high, value.reason)
        assert found == (block, block, block, "" if block else "no turn")
    value = last_turn(-0.2, -0.1, 0.02, 0.3, spread=0.02)
    assert (value.value, value.ci_low, value.ci_high) == (3, 3, 4)
    value = last_turn(-0.02, 0.1, 0.3, spread=0.02)  # one resample in six has no layer below 0
    assert value.value == 2 and value.ci_low is None and "resamples" in value.reason
