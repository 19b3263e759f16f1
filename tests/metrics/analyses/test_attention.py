"""Attention by head: against loops over the weights that transformers itself returns, and in closed form."""

import numpy as np
import pytest
import torch
from oracles.corpora import corpus
from oracles.families import WORDS
from scipy import stats

from reporter.core.errors import ReporterError
from reporter.metrics import attention as room
from reporter.metrics.analysis import analyses

LENGTH = 9
CHANCE = np.random.default_rng(0)
TEXTS = [" ".join(CHANCE.choice(WORDS, size=int(CHANCE.integers(2, 25)))) for _ in range(40)]


def computed(context, **options):
    """Return rows by statistic and layer, or by layer and head."""
    spec = room.AttentionSpec(**{"corpus": "c", "texts": 40, "tokens": LENGTH} | options)
    rows = list(analyses()["attention"].compute(spec, context))
    assert {row.place.site for row in rows} == {"block"}
    by_head = {(row.place.layer, row.head): row for row in rows if isinstance(row, room.AttentionHead)}
    return {(row.statistic, row.place.layer): row for row in rows if not isinstance(row, room.AttentionHead)} | by_head


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
    entropy = stats.entropy(a[1:], axis=1) / most
    return a[:, 0].mean() > threshold, a[1:, 0].mean(), entropy.mean(), distance[1:].mean()


@pytest.mark.parametrize(("family", "threshold"), [("bert", 0.111), ("llama", 0.32)])
def test_against_loops_over_the_weights(of_family, family, threshold):
    """Of one family heads share keys. Even attention gives about the threshold, so that heads lie on both sides."""
    context = of_family(family, {"c": corpus(TEXTS)})
    model, usual = context.model, context.model.module.config._attn_implementation
    rows = computed(context, threshold=threshold)
    assert model.module.config._attn_implementation == usual
    long = [t for t in TEXTS if len(model.tokenizer(t)["input_ids"]) >= LENGTH]
    assert 5 < len(long) < 40  # so that all of them are in the sample, whatever the order
    model.module.set_attn_implementation("eager")
    causal = model.anatomy.role == "decoder"
    every = np.array([by_hand(model, text, causal, threshold) for text in long])  # (texts, layers, heads, numbers)
    model.module.set_attn_implementation(usual)
    for layer in range(1, model.anatomy.layers + 1):
        for column, name in enumerate(("sink_rate", "first_token", "entropy", "distance")):
            value, found = rows[name, layer], every[:, layer - 1, :, column]
            each = found.mean(axis=1)
            assert value.value == pytest.approx(each.mean(), rel=1e-5, abs=1e-7) and value.n == len(long)
            half = stats.t.ppf(0.975, len(long) - 1) * stats.sem(each)
            assert value.ci_high - value.value <= half + 1e-6
            of_heads = [getattr(rows[layer, head], name) for head in range(4)]
            assert of_heads == pytest.approx(found.mean(axis=0), rel=1e-5, abs=1e-7)
    assert 0 < np.mean([rows["sink_rate", layer].value for layer in (1, 2, 3)]) < 1


@pytest.mark.parametrize("causal", [True, False])
def test_even_attention_reads_its_floor(causal):
    weights = torch.ones(3, 2, 12, 12).tril(0 if causal else 12)
    first_token, _, entropy, distance = room._heads(weights / weights.sum(dim=-1, keepdim=True), 0.3, causal)
    for found, floor in zip((first_token, distance, entropy), (*room._evenly(12, causal), 1), strict=True):
        assert found == pytest.approx(np.full((3, 2), floor), rel=1e-6)


def test_texts_that_are_too_short_are_an_error_that_says_what_to_do(of_family):
    with pytest.raises(ReporterError, match=r"corpus 'c' has no text of 9 tokens or more; lower `tokens`"):
        computed(of_family("gpt2", {"c": corpus(["cat", "dogs"])}))
    with pytest.raises(ReporterError, match=r"cut at 40 tokens, .* `tokens: 50`; lower `tokens`"):
        computed(of_family("gpt2", {"c": corpus(TEXTS)}), tokens=50)
