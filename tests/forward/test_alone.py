"""A run checks itself: states of a text depend on nothing but the text, at the lengths that a corpus has."""

import warnings

import numpy as np
import pytest
import torch
import transformers
from oracles.fake_model import FakeTexts
from oracles.families import CASES, WORDS, build_family, loaded

from reporter.core.errors import ReporterError
from reporter.forward.alone import AloneCheck, chosen
from reporter.forward.output import Settings, forward
from reporter.forward.reading import batched, tokenised
from reporter.metrics._items import encode
from reporter.metrics.analysis import Context
from reporter.models.places import Layout
from reporter.texts.tokens import TokenisedCorpus

SPARSE = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0}
LONG = {"rope_type": "longrope", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 32}
LONG |= {"short_factor": [1.0] * 4, "long_factor": [3.0, 5.0, 8.0, 12.0]}
# Class and options of a family, lengths of texts, and whether padding decides.
STATEFUL = {
    "bigbird": ("BigBird", SPARSE, (3, 29, 46, 90), True),
    "dynamic ntk": ("Llama", {"rope_parameters": DYNAMIC, "max_position_embeddings": 48}, (3, 60, 100, 90), None),
    "fnet": ("FNet", {}, (3, 29, 46, 46), True),
    "convbert": ("ConvBert", {"embedding_size": 32}, (3, 29, 46, 46), True),
    "longrope": ("Phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 32}, (3, 32, 50, 31), True),
}


@pytest.fixture
def stateful(tmp_path, monkeypatch):
    """Return a function that saves a model that changes while it runs, and loads it as a run does."""

    def get(name):
        prefix, options, *_ = STATEFUL[name]
        _, base, role, *rest = CASES["llama" if prefix in ("Llama", "Phi3") else "bert"]
        own = {"max_position_embeddings": 128, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0}
        monkeypatch.setitem(CASES, name, (prefix, {**base, **own, **options}, role, *rest))
        return build_family(name, tmp_path / "model")

    return get


def texts_of(lengths):
    rng = np.random.default_rng(0)
    return FakeTexts(" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), length)) for length in lengths)


def states_of_run(model, corpus, reverse=False):
    """Return the states of each text as a pass reads them, by text; in the usual order of batches, or backwards."""
    settings = Settings(512, 0, "float32", Layout.of(model.anatomy, ()), np.zeros(99, bool))
    check = AloneCheck(model, corpus, settings)
    check.run()
    batches = list(batched([text for shard in corpus.shards for text in corpus.of(shard)], 512, model))
    result = {}
    for batch in batches[:: -1 if reverse else 1]:
        part = forward(model, batch, settings, "c")
        check.compare([part])
        for row, text in enumerate(batch.texts.tolist()):
            result[text] = [x[row, : int(batch.mask[row].sum())] for x in part.states]
    return result, check.unpadded, check.largest


def states_alone(folder, ids):
    """Return the states of transformers in a fresh model that reads nothing else."""
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        own = transformers.AutoModel.from_pretrained(folder).eval()
        return [h[0] for h in own(torch.as_tensor(ids[None]), output_hidden_states=True).hidden_states]


@pytest.mark.parametrize("name", STATEFUL)
def test_models_that_change_while_they_run_have_the_states_of_transformers_in_any_order(stateful, name):
    folder, (*_, lengths, exact) = stateful(name), STATEFUL[name]
    model = loaded(folder)
    corpus = tokenised(model, texts_of(lengths), 128)
    for reverse in (False, True):
        result, padding_decides, largest = states_of_run(model, corpus, reverse)
        assert exact is None or padding_decides == exact
        assert largest < 1e-4 and len(result) == len(lengths)
        for text, states in result.items():
            (ids,) = [t.ids for shard in corpus.shards for t in corpus.of(shard) if t.index == text]
            for layer, (x, h) in enumerate(zip(states[:-1], states_alone(folder, ids)[:-1], strict=True)):
                torch.testing.assert_close(x, h[: len(x)], rtol=1e-4, atol=1e-4, msg=f"text {text}, layer {layer}")


@pytest.mark.parametrize("lengths", [(32, 3), (32,)])
def test_no_analysis_pads_a_model_whose_states_depend_on_padding(stateful, lengths):
    """A text of exactly the original length, which one token of padding moves to the long factors."""
    folder = stateful("longrope")
    model = loaded(folder)
    context = Context(model, Layout.of(model.anatomy, ()), "last", {}, 0)
    texts = list(texts_of(lengths))
    for text in encode(texts, context):
        expected = states_alone(folder, text.ids)
        for place in context.layout.path[:-1]:
            torch.testing.assert_close(text.states[place], expected[place.layer], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factors", [LONG["long_factor"], [1.0, 1.0, 1.0, 64.8]])  # the last turn 12 tokens by little
def test_whether_a_model_may_be_padded_depends_on_the_length_alone(stateful, tmp_path, factors, monkeypatch):
    monkeypatch.setitem(LONG, "long_factor", factors)
    folder = stateful("longrope")
    for lengths in ((32, 40, 128), (128, 40, 32), (40, 33, 32)):
        model = loaded(folder)
        assert {length: model.may_pad(length) for length in lengths} == {length: length <= 32 for length in lengths}
    assert loaded(build_family("bert", tmp_path / "usual")).may_pad(40)


def test_the_texts_that_are_measured_alone_are_of_the_lengths_of_the_corpus():
    def corpus(lengths, cut=()):
        starts = np.cumsum([0, *lengths])
        return TokenisedCorpus("c", (), starts, np.isin(np.arange(len(lengths)), cut), starts[:-1], starts, starts)

    assert chosen(corpus([5, 0, 9, 3, 7])).tolist() == [2, 3, 4]
    assert chosen(corpus([5, 0, 9, 8, 7, 6], cut=[3])).tolist() == [0, 2, 3, 4]
    assert chosen(corpus([0, 0])).tolist() == [] and chosen(corpus([4])).tolist() == [0]


def test_a_model_whose_states_depend_on_other_texts_is_refused_with_both_numbers(tmp_path, monkeypatch):
    """A later text of a batch is read with the states of the first one mixed in, padded or not."""
    model = loaded(build_family("llama", tmp_path))
    run = type(model).run

    def mixing(self, ids, mask, *more):
        captured = run(self, ids, mask, *more)
        captured.path[2][1:] += 0.1 * captured.path[2][:1]
        return captured

    monkeypatch.setattr(type(model), "run", mixing)
    corpus = tokenised(model, texts_of([6, 6, 6, 7]), 128)
    with pytest.raises(ReporterError, match=r"text \d of corpus 'made-up' \(\d tokens\) has other states in a batch"):
        states_of_run(model, corpus)
