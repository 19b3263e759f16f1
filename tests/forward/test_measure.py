"""A pass shows each text as it is alone, and batches, shards, padding, windows and a resumed half change no number."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from forward.passes import settings_for
from oracles.fake_model import EDGE, FIRST_WORD, FakeModel, FakeTexts, made_up_texts
from oracles.tokens import all_tokens

from reporter.core.errors import ReporterError
from reporter.forward.batch import context_keys
from reporter.forward.measure import Counts, measure
from reporter.forward.parts import poisson_weights
from reporter.forward.paths import TextSums
from reporter.forward.precision import settle_precision
from reporter.forward.reading import longest, tokenised
from reporter.forward.type_sample import count_types
from reporter.models.places import Layout
from reporter.texts.tokens import Windows

UNTIMED = {"seconds": 0, "model_seconds": 0}
VARIANTS = [
    {"role": "encoder", "special": True, "positions": True, "sinks": True},
    {"role": "encoder", "special": False, "positions": False, "sinks": False},
    {"role": "decoder", "special": False, "positions": True, "sinks": True},
    {"role": "decoder", "special": True, "positions": False, "sinks": False},
]


class Collector:
    """Keeps of every token that passes by these columns of its batch, and last its states."""

    def __init__(self, *columns):
        self.columns, self.rows = columns, []

    def start(self, batch):
        self.states = []

    def observe(self, layer):
        assert layer.index == len(self.states) and layer.states.dtype == torch.float32
        torch.testing.assert_close(layer.norms, layer.states.norm(dim=1))
        self.states.append(layer.states.double().numpy())

    def finish(self, batch):
        assert len(self.states) == len(batch.states)
        for i, facts in enumerate(zip(*(getattr(batch, name) for name in self.columns), strict=True)):
            self.rows.append((*(int(fact) for fact in facts), np.stack([x[i] for x in self.states])))

    def settle(self):
        pass


def collect(model, texts):
    collector = Collector("texts", "positions", "token_ids", "strata", "contexts", "embedding_contexts")
    list(measure(model, tokenised(model, texts, 256), [collector], settings_for(model, 64)))
    return sorted(collector.rows, key=lambda row: row[:2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_batch_holds_what_the_model_does_to_each_text_alone(variant):
    model, texts = FakeModel(**variant), made_up_texts(80, longest=12)
    *columns, states = zip(*collect(model, texts), strict=True)
    how = {"decoder": model.role == "decoder", "positions": model.positions}
    all_ = all_tokens(model.reference, texts, model.tokenizer, **how)
    strata = np.where(all_.special, 1, np.where(all_.aside, 2, 0))
    expected = (all_.texts, all_.positions, all_.ids, strata, all_.contexts, all_.embedding_contexts)
    assert [list(column) for column in columns] == [column.tolist() for column in expected]
    np.testing.assert_allclose(np.stack(states, axis=1), np.stack(all_.states), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_keys_of_contexts_depend_on_the_seed(causal):
    ids, lengths = np.arange(400).reshape(100, 4), np.arange(100) % 4 + 1
    one, other = (context_keys(ids, lengths, causal, seed) for seed in (0, 1))
    assert not np.isin(one, other).any()


def assert_same(some, others, within=1e-9):
    """Compare everything that two sets of observables hold."""
    for name, observable in some.items():
        tensors = others[name].tensors()
        for key, tensor in observable.tensors().items():
            size = float(tensor.abs().max()) if tensor.is_floating_point() and tensor.numel() else 1.0
            near = {"rtol": within, "atol": within * max(size, 1.0), "equal_nan": True}
            torch.testing.assert_close(tensors[key], tensor, **near, msg=lambda text, at=(name, key): f"{at}: {text}")


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[2]])
def test_batches_shards_and_a_resumed_or_merged_half_change_no_number(variant, observe, tmp_path):
    model, texts, how = FakeModel(**variant), made_up_texts(24), {"batch_tokens": 64, "shard_characters": 200}
    whole, counts = observe(model, texts, **how)
    other, again = observe(model, texts, batch_tokens=16384)
    assert {**asdict(again), **UNTIMED} == {**asdict(counts), **UNTIMED}
    assert_same(whole, other, 1e-4)
    first, some = observe(model, texts, shards=2, **how)
    for name, observable in first.items():
        observable.save(tmp_path / name)
    resumed = {name: type(observable).load(tmp_path / name) for name, observable in first.items()}
    resumed, rest = observe(model, texts, observables=resumed, first_shard=2, **how)
    second, _ = observe(model, texts, first_shard=2, **how)
    for name in first:  # the other way round, too
        second[name].merge(first[name])
    assert {**asdict(some + rest), **UNTIMED} == {**asdict(counts), **UNTIMED}
    assert 0 < some.texts < counts.texts
    assert_same(whole, resumed)
    assert_same(whole, second)


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_padding_that_is_not_finite_and_a_text_longer_than_the_budget_change_no_number(observe, role):
    class Careless(FakeModel):
        def states(self, input_ids, attention_mask):
            padding = (attention_mask == 0)[..., None]
            return [x.masked_fill(padding, torch.nan) for x in super().states(input_ids, attention_mask)]

    texts = FakeTexts([*made_up_texts(12), " ".join("4 5 6 7" for _ in range(40))])
    expected, counts = observe(FakeModel(role=role), texts)
    assert_same(expected, observe(Careless(role=role), texts)[0], 1e-5)
    alone, again = observe(FakeModel(role=role), texts, batch_tokens=10)
    assert_same(expected, alone, 1e-4)
    assert counts.tokens == again.tokens > 162


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_states_that_are_not_finite_say_where(observe, layer, poison):
    def spoil(states):
        for x in states:
            if x.shape[1] == 16:  # the one longest text
                states[layer][:, 4, 1] = poison
        return states

    texts = FakeTexts(["1 2", "3 4 5", "1 2 3 4 5 6 7", "8"])
    with pytest.raises(ReporterError, match=f"layer {layer}, text 2 of corpus 'made-up', token 4;"):
        observe(FakeModel(change=spoil), texts, names=("moments",))


CUT = [  # texts, those cut and those too short; tokens; special ones
    (FakeModel(sinks=False), (5, 2, 2), 5 + 2 + 3 + 4 + 5, 10),
    (FakeModel(role="decoder", special=False, sinks=False), (4, 1, 1), 13, 0),  # a text without a token is none
    (FakeModel(max_tokens=4, sinks=False), (5, 2, 2), 4 + 2 + 3 + 4 + 4, 10),  # the model's own limit counts
]


@pytest.mark.parametrize(("model", "texts", "tokens", "special"), CUT)
def test_counts_of_cut_short_and_empty_texts_can_be_written_as_json(observe, model, texts, tokens, special):
    five = FakeTexts(["1 2 4 5 6 7 8", "", "5", "6 7", "8 9 1 2 4"])
    _, counts = observe(model, five, max_tokens=5, names=("moments",))
    assert (counts.texts, counts.cut_texts, counts.short_texts) == texts
    assert (counts.tokens, counts.special, counts.sinks) == (tokens, special, 0)
    assert counts.ordinary == tokens - special - 4  # the first words of four texts are set aside
    assert Counts(**json.loads(json.dumps(asdict(counts)))) == counts


def test_padding_uses_an_id_that_the_model_has_and_without_a_token_nothing_is_tried(observe):
    model = FakeModel(special=False, max_tokens=4)
    model.tokenizer.pad_token_id = 10_000  # beyond the embedding: a tokenizer with an added pad token
    model.tokenizer.eos_token_id = None
    assert observe(model, FakeTexts(["1 2 4", "1"]), names=("moments",))[1].tokens == 4
    assert settle_precision("mixed", model, FakeTexts(["", ""]), 256).precision == "float32"
    assert (longest(256, model), longest(3, model), longest(256, FakeModel())) == (4, 3, 256)


SIZE, STRIDE = 8, 3
DOCUMENTS = [" ".join(str(4 + (7 * i + k) % 30) for i in range(n)) for k, n in enumerate((29, 3, 14, 8, 29, 11))]


def by_hand(model, text):
    """Cut a text into windows; yield each token once: id, position in its window, special, first, states."""
    words, edges = [FIRST_WORD + int(word) for word in text.split()], [EDGE] * model.special
    done = start = 0
    while done < len(words):
        end = min(start + SIZE - 2 * len(edges), len(words))
        ids = [*edges, *words[start:end], *edges]
        states = np.stack(model.reference(ids))
        # The edge before the words is new in the first window, that after them in the last.
        new = range(done if start else -1, end + (end == len(words)))
        for place, token in enumerate(ids):
            word = start + place - len(edges)
            if word in new:
                yield token, place, token == EDGE, word == start, states[:, place]
        done, start = end, start + STRIDE


@pytest.mark.parametrize(("role", "special"), [(role, edges) for role in ("encoder", "decoder") for edges in (0, 1)])
@pytest.mark.parametrize("batch_tokens", [8, 200])
def test_a_pass_over_windows_is_what_each_window_gives_alone(role, special, batch_tokens):
    model, texts = FakeModel(role=role, special=special, sinks=False), FakeTexts(DOCUMENTS)
    corpus = tokenised(model, texts, SIZE, windows=Windows(SIZE, STRIDE))
    seen, ticks = Collector("originals", "token_ids", "positions", "strata", "first_own"), []
    ((_, counts),) = measure(model, corpus, [seen], settings_for(model, batch_tokens), tick=ticks.append)
    expected = [(text, *row) for text, said in enumerate(DOCUMENTS) for row in by_hand(model, said)]
    assert counts.texts == len(DOCUMENTS) and counts.cut_texts == 0 and counts.windows == corpus.windows > counts.texts
    words = sum(len(text.split()) for text in DOCUMENTS)
    assert sum(ticks) == counts.tokens == len(expected) == words + 2 * special * len(DOCUMENTS)
    result, wanted = (sorted(rows, key=lambda row: (*row[:3], row[5][1].tolist())) for rows in (seen.rows, expected))
    for one, other in zip(result, wanted, strict=True):
        assert one[:3] == other[:3]
        assert (one[3] == 1) == other[3] and (one[3] == 2) == bool(one[4]) == (other[4] and not other[3])
        np.testing.assert_allclose(one[5], other[5], rtol=1e-4, atol=1e-5)
    types = count_types(corpus, model.anatomy.vocabulary_size, 0)
    assert types.counts.sum() == words and types.added.sum() == counts.special


def test_intervals_are_over_documents():
    """Two documents of many windows have two weights each replicate, and no more."""
    model, texts = FakeModel(role="decoder", special=False, sinks=False), FakeTexts(DOCUMENTS[:2])
    corpus = tokenised(model, texts, SIZE, windows=Windows(SIZE, STRIDE))
    sums = TextSums(Layout.of(model.anatomy, ()), 0, replicates=400)
    list(measure(model, corpus, [sums], settings_for(model, 64)))
    counts = sums.replicate_counts[:, 0].sum(dim=1)[:, sums.quantities.index("norm")]
    first, second = (len(text.split()) for text in DOCUMENTS[:2])
    weights = poisson_weights(np.array([0, 1]), 0, 400).astype(float)
    np.testing.assert_allclose(counts.numpy(), first * weights[0] + second * weights[1])
