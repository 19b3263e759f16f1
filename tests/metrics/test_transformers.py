"""Real transformers modules with random weights, from token ids to numbers.

The reference sends each text alone through the module with ``output_hidden_states=True`` and computes every
statistic in NumPy float64. What is compared is the whole chain: batches, padding, strata, observables, metrics.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracles.again import again, anisotropy, convergence
from oracles.fake_model import FIRST_WORD, WORDS, FakeTokenizer, made_up_texts
from oracles.tokens import all_tokens
from oracles.twonn import scikit_dimension, twonn_ml

from reporter.models.load import Captured

LAYERS, WIDTH, TEXTS = 3, 32, 70


def _config(family):
    from transformers import BertConfig, GPT2Config, LlamaConfig

    size = FIRST_WORD + WORDS
    if family == "bert":
        return BertConfig(
            vocab_size=size,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            initializer_range=0.2,
        )
    if family == "gpt2":
        return GPT2Config(
            vocab_size=size,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=4,
            n_positions=64,
            initializer_range=0.2,
            bos_token_id=1,
            eos_token_id=1,
        )
    return LlamaConfig(
        vocab_size=size,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=1,
    )


class Module:
    """A transformers module with the face of a loaded model; hooks take what each block returns."""

    def __init__(self, family):
        from transformers import AutoModel

        torch.manual_seed(0)
        self.family = family
        self.module = AutoModel.from_config(_config(family)).eval()
        self.tokenizer = FakeTokenizer(special=family != "gpt2")
        self.device = torch.device("cpu")
        self.layers, self.width = LAYERS, WIDTH
        self.decoder = family != "bert"
        self.anatomy = SimpleNamespace(
            role="decoder" if self.decoder else "encoder",
            layers=LAYERS,
            width=WIDTH,
            max_tokens=64,
            vocabulary_size=FIRST_WORD + WORDS,
            positions="not-added" if family == "llama" else "added",
            final_width=None,
            attention="none",
        )

    @property
    def blocks(self):
        return {
            "bert": lambda: self.module.encoder.layer,
            "gpt2": lambda: self.module.h,
            "llama": lambda: self.module.layers,
        }[self.family]()

    def states(self, input_ids, attention_mask):
        found = [None] * (LAYERS + 1)

        def keep(place):
            def hook(module, inputs, output):
                found[place] = output if isinstance(output, torch.Tensor) else output[0]

            return hook

        hooks = [block.register_forward_hook(keep(i + 1)) for i, block in enumerate(self.blocks)]
        hooks.append(self.blocks[0].register_forward_pre_hook(lambda block, inputs: found.__setitem__(0, inputs[0])))
        try:
            self.module(input_ids=input_ids, attention_mask=attention_mask)
        finally:
            for hook in hooks:
                hook.remove()
        return found

    def run(self, input_ids, attention_mask, attention=False, contributions=False):
        path = self.states(input_ids, attention_mask)
        return Captured(path, final=None, attention=None)

    def alone(self, ids):
        """Return one text's states by ``output_hidden_states``, the last block's before any closing norm."""
        taken = []
        hook = self.blocks[-1].register_forward_hook(
            lambda block, inputs, output: taken.append(output if isinstance(output, torch.Tensor) else output[0])
        )
        with torch.no_grad():
            states = self.module(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        hook.remove()
        assert len(states) == LAYERS + 1
        return [x[0].double().numpy() for x in [*states[:-1], taken[0]]]


@pytest.fixture(scope="module", params=["bert", "gpt2", "llama"])
def module(request):
    return Module(request.param)


@pytest.fixture(scope="module")
def reference(module):
    return all_tokens(
        module.alone,
        made_up_texts(TEXTS, longest=24),
        module.tokenizer,
        decoder=module.decoder,
        positions=module.anatomy.positions == "added",
        max_tokens=20,
    )


@pytest.mark.parametrize("view", ["words", "all", "no-sinks"])
def test_every_statistic(module, reference, observe, values, view):
    observables, counts = observe(
        module, made_up_texts(TEXTS, longest=24), batch_tokens=400, shard_characters=1500, max_tokens=20
    )
    assert counts.tokens == len(reference.texts) and counts.cut_texts > 0
    assert counts.sinks == reference.sink.sum()
    found = values(module, observables, TEXTS, view)
    tokens = reference.view(view)

    def check(name, layer, expected, within=1e-4):
        # Statistics that are differences of nearly equal numbers have an absolute accuracy only.
        assert found[name, layer].value == pytest.approx(expected, rel=within, abs=1e-7), (name, layer)

    for (statistic, layer), expected in convergence(tokens.states).items():
        check(f"convergence.{statistic}", layer, expected)
    for (statistic, layer), expected in again("motion", tokens.states).items():
        check(f"motion.{statistic}", layer, expected)
    for (statistic, layer), expected in anisotropy(tokens.states).items():
        check(f"anisotropy.{statistic}", layer, expected)
    for (statistic, layer), expected in again("spectrum", tokens.states).items():
        check(f"spectrum.{statistic}", layer, expected, within=1e-3)
    for layer, x in enumerate(tokens.states):
        at, duplicates = tokens.distinct(layer)
        check("intrinsic_dimension.duplicates", layer, duplicates)
        if duplicates <= 0.5:
            check("intrinsic_dimension.twonn", layer, scikit_dimension(x[at]), within=1e-3)
            check("intrinsic_dimension.twonn_ml", layer, twonn_ml(x[at]), within=1e-3)
        else:
            assert layer == 0 and found["intrinsic_dimension.twonn", 0].value is None


def test_the_batch_size_changes_nothing(module, observe, values):
    texts = made_up_texts(TEXTS, longest=24)
    found = [values(module, observe(module, texts, batch_tokens=size)[0], TEXTS, "words") for size in (64, 16384)]
    for key, value in found[0].items():
        other = found[1][key]
        assert (value.n, value.reason) == (other.n, other.reason)
        assert value.value is None or value.value == pytest.approx(other.value, rel=1e-5, abs=1e-7), key


def test_padding_is_where_it_does_no_harm(module):
    """The same text alone and beside a longer one: a check that the comparison above stands on."""
    short, long = [2, 5, 9, 4], list(range(2, 14))
    ids = torch.zeros(2, 12, dtype=torch.int64)
    ids[0, :4], ids[1] = torch.tensor(short), torch.tensor(long)
    with torch.no_grad():
        beside = module.states(ids, (torch.arange(12) < torch.tensor([[4], [12]])).long())
    for layer, x in enumerate(module.alone(short)):
        np.testing.assert_allclose(beside[layer][0, :4], x, rtol=1e-4, atol=1e-5)
