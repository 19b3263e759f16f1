"""Attention by head: against loops over the weights that transformers itself returns, and in closed form."""

from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.corpora import corpus
from oracles.families import WORDS
from scipy import stats

from reporter.core.errors import ReporterError
from reporter.metrics import attention as room
from reporter.metrics.analysis import analyses
from reporter.metrics.attention import AttentionSpec

ATTENTION = analyses()["attention"]
LENGTH = 9
CHANCE = np.random.default_rng(0)
TEXTS = [" ".join(CHANCE.choice(WORDS, size=int(CHANCE.integers(2, 25)))) for _ in range(40)]


def computed(context, **options):
    """Return values by statistic and layer, and rows by layer and head."""
    spec = {"corpus": "c", "texts": 40, "tokens": LENGTH} | options
    values, heads = {}, {}
    for row in ATTENTION.compute(ATTENTION.resolve(AttentionSpec(**spec), Path()), context):
        if isinstance(row, room.AttentionHead):
            heads[row.place.layer, row.head] = row
        else:
            assert row.place.site == "block"
            values[row.statistic, row.place.layer] = row
    return values, heads


def by_hand(model, text, causal, threshold):
    """Return the four numbers of each layer and head on a text, with loops, from the model's own ``attentions``."""
    ids = torch.tensor([model.tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]])
    with torch.inference_mode():
        found = model.module(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True)
    return [[numbers_of(head, causal, threshold) for head in layer[0].double().numpy()] for layer in found.attentions]


def numbers_of(a, causal, threshold):
    """Return whether a head is a sink, and its means over queries but the first: key 1, entropy, distance."""
    at, most = np.arange(LENGTH), np.log(np.arange(2, LENGTH + 1) if causal else LENGTH)
    distance = (a * abs(at[:, None] - at)).sum(axis=1)
    return (
        a[:, 0].mean() > threshold,
        a[1:, 0].mean(),
        (stats.entropy(a[1:], axis=1) / most).mean(),
        distance[1:].mean(),
    )


@pytest.mark.parametrize(("family", "threshold"), [("bert", 0.111), ("llama", 0.32)])
def test_against_loops_over_the_weights(of_family, family, threshold):
    """Of one family heads share keys. Even attention gives about the threshold, so that heads lie on both sides."""
    context = of_family(family, {"c": corpus(TEXTS)})
    model, usual = context.model, context.model.module.config._attn_implementation
    values, heads = computed(context, threshold=threshold)
    assert model.module.config._attn_implementation == usual
    causal = model.anatomy.role == "decoder"
    long = [t for t in TEXTS if len(model.tokenizer(t)["input_ids"]) >= LENGTH]
    assert 5 < len(long) < 40  # so that all of them are in the sample, whatever the order
    model.module.set_attn_implementation("eager")
    every = np.array([by_hand(model, text, causal, threshold) for text in long])  # (texts, layers, heads, numbers)
    for layer in range(1, model.anatomy.layers + 1):
        found = every[:, layer - 1]
        for column, name in enumerate(("sink_rate", "first_token", "entropy", "distance")):
            value = values[name, layer]
            each = found[:, :, column].mean(axis=1)
            assert value.value == pytest.approx(each.mean(), rel=1e-5, abs=1e-7)
            assert value.n == len(long)
            half = stats.t.ppf(0.975, len(long) - 1) * stats.sem(each)
            assert value.ci_high - value.value <= half + 1e-6
            of_heads = [getattr(heads[layer, head], name) for head in range(4)]
            assert of_heads == pytest.approx(found[:, :, column].mean(axis=0), rel=1e-5, abs=1e-7)
    model.module.set_attn_implementation(usual)
    assert 0 < np.mean([values["sink_rate", layer].value for layer in (1, 2, 3)]) < 1


@pytest.mark.parametrize("causal", [True, False])
def test_even_attention_reads_its_floor(causal):
    weights = torch.ones(3, 2, 12, 12).tril(0 if causal else 12)
    first_token, _, entropy, distance = room._heads(weights / weights.sum(dim=-1, keepdim=True), 0.3, causal)
    for found, floor in zip((first_token, distance, entropy), (*room._evenly(12, causal), 1), strict=True):
        assert found == pytest.approx(np.full((3, 2), floor), rel=1e-6)


def test_texts_that_are_too_short_are_an_error_that_says_what_to_do(of_family):
    context = of_family("gpt2", {"c": corpus(["cat", "dogs"])})
    with pytest.raises(ReporterError, match=r"corpus 'c' has no text of 9 tokens or more; lower `tokens`"):
        computed(context)
    with pytest.raises(ReporterError, match=r"cut at 40 tokens, .* `tokens: 50`; lower `tokens`"):
        computed(of_family("gpt2", {"c": corpus(TEXTS)}), tokens=50)
