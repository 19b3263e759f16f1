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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = getattr(transformers, f"{FAMILIES[name][0]}Model").from_pretrained(model.checkpoint.path).eval()
    own = own.get_encoder() if own.config.is_encoder_decoder else own
    observables, _ = observe(model, TEXTS, names=("moments", "contributions"), batch_tokens=60)
    found = values(model, observables, len(TEXTS), "all", ["contributions"])
    expected = {}
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
    assert len(found) == len(STATISTICS[:-1]) * 3 + 1
    assert all(one.value is None and one.reason for one in found.values())


def last_turn(*means, spread=0.0):
    """Return the last turn of a profile whose replicates move by ``spread`` times a normal number."""
    rng = np.random.default_rng(0)
    profile = [Average(mean, 50, mean + spread * rng.standard_normal(1000)) for mean in means]
    return layer_with_interval("turn", profile, _last_turn, 20, "absent", "no turn")


def test_the_last_turn_is_the_block_after_the_last_one_below_zero_and_its_interval_is_of_whole_blocks():
    for cosines, block in (
        ((-0.2, 0.1, -0.1, 0.3), 4), ((-0.2, 0.0, 0.1), 2), ((0.1, 0.2), None), ((-0.1, -0.2), None), ((-0.1,), None),
    ):  # fmt: skip
        value = last_turn(*cosines)
        assert (value.value, value.reason) == (block, "" if block else "no turn")
        assert (value.ci_low, value.ci_high) == (block, block)
    value = last_turn(-0.2, -0.1, 0.02, 0.3, spread=0.02)
    assert (value.value, value.ci_low, value.ci_high) == (3, 3, 4)
    value = last_turn(-0.02, 0.1, 0.3, spread=0.02)  # one resample in six has no layer below 0
    assert value.value == 2 and value.ci_low is None and "resamples" in value.reason
