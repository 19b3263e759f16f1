import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from forward.passes import Collector, settings_for
from oracles.fake_model import FIRST_WORD, SINK_WORD, FakeModel, FakeTexts, made_up_texts
from oracles.tokens import all_tokens

from reporter.core.errors import ReporterError
from reporter.forward.measure import Counts, longest, measure, settle_precision, tokenised

UNTIMED = {"seconds": 0, "model_seconds": 0}
VARIANTS = [
    {"role": "encoder", "special": True, "positions": True, "sinks": True},
    {"role": "encoder", "special": False, "positions": False, "sinks": False},
    {"role": "decoder", "special": False, "positions": True, "sinks": True},
    {"role": "decoder", "special": True, "positions": False, "sinks": False},
]


@pytest.fixture(params=VARIANTS)
def model(request):
    return FakeModel(**request.param)


def collect(model, texts, max_tokens=256, batch_tokens=64):
    collector = Collector("texts", "positions", "token_ids", "strata", "contexts", "embedding_contexts")
    for _ in measure(model, tokenised(model, texts, max_tokens), [collector], settings_for(model, batch_tokens)):
        pass
    return sorted(collector.rows, key=lambda row: row[:2])


def test_the_batch_holds_what_the_model_does_to_each_text_alone(model):
    texts = made_up_texts(80, longest=12)
    rows = collect(model, texts)
    decoder = model.role == "decoder"
    expected = all_tokens(model.reference, texts, model.tokenizer, decoder=decoder, positions=model.positions)
    strata = np.where(expected.special, 1, np.where(expected.aside, 2, 0))
    columns = (expected.texts, expected.positions, expected.ids, strata, expected.contexts, expected.embedding_contexts)
    for at, column in enumerate(columns):
        assert [row[at] for row in rows] == column.tolist()
    states = np.stack([row[6] for row in rows], axis=1)
    np.testing.assert_allclose(states, np.stack(expected.states), rtol=1e-4, atol=1e-5)


def test_sinks_are_looked_for_in_blocks_not_in_what_enters_the_first():
    class Loud(FakeModel):
        def states(self, input_ids, attention_mask):
            found = super().states(input_ids, attention_mask)
            found[0] = found[0].clone()
            found[0][..., 0] += torch.where(input_ids == FIRST_WORD + SINK_WORD, 500.0, 0.0)
            return found

    rows = collect(Loud(special=False, sinks=False), FakeTexts([f"1 2 4 {SINK_WORD} 5 6 7"]))
    assert np.linalg.norm(rows[3][6][0]) > 20 * np.linalg.norm(rows[2][6][0])
    assert [row[3] for row in rows] == [2, 0, 0, 0, 0, 0, 0]


# What makes more of the rounding of float32 sums: a difference of two nearly equal angles; axes of nearly equal
# eigenvalues; the smallest eigenvalues of few states.
DELICATE = ("token_path.straightening", "subspaces.", "spectrum.alpha_req", "spectrum.effective_rank_without_first")


def assert_same(a, b):
    assert a.keys() == b.keys()
    for key, value in a.items():
        other = b[key]
        assert (value.value is None) == (other.value is None), key
        assert value.n == other.n, key
        for part in ("value", "ci_low", "ci_high"):
            y = getattr(other, part)
            within = 2e-4 if key[0].startswith(DELICATE) else 1e-5
            # A mean cosine of nearly 0 is a difference of nearly equal numbers: absolute there. So is a share of nearly
            # 0 that is one minus a ratio.
            least = within * (1e-1 if key[0].endswith("_heldout") else 1e-2)
            assert getattr(value, part) == (None if y is None else pytest.approx(y, rel=within, abs=least)), key


@pytest.mark.parametrize("model", [VARIANTS[0], VARIANTS[2]], indirect=True)
def test_batch_size_and_shards_change_no_number(model, observe, values):
    texts = made_up_texts(60)
    usual, counts = observe(model, texts, batch_tokens=512)
    expected = {view: values(model, usual, 60, view) for view in ("all", "no-sinks")}
    for how in ({"batch_tokens": 32, "shard_characters": 300}, {"batch_tokens": 16384}):
        other, again = observe(model, texts, **how)
        assert {**asdict(again), **UNTIMED} == {**asdict(counts), **UNTIMED}
        # Once for each view, and further for the one that leaves out most: what a view is made of is the same sums.
        for view in expected if how["batch_tokens"] == 32 else ("no-sinks",):
            assert_same(expected[view], values(model, other, 60, view))


@pytest.mark.parametrize("model", [VARIANTS[1], VARIANTS[2]], indirect=True)
def test_halves_resumed_or_merged_are_the_whole(model, observe, tmp_path):
    texts = made_up_texts(60)
    how = {"batch_tokens": 64, "shard_characters": 400}
    whole, counts = observe(model, texts, **how)
    first, some = observe(model, texts, shards=2, **how)
    for name, observable in first.items():
        observable.save(tmp_path / name)
    resumed = {name: type(first[name]).load(tmp_path / name) for name in first}
    resumed, rest = observe(model, texts, observables=resumed, first_shard=2, **how)
    second, _ = observe(model, texts, first_shard=2, **how)
    for name in first:  # the other way round, too
        second[name].merge(first[name])
    assert {**asdict(some + rest), **UNTIMED} == {**asdict(counts), **UNTIMED}
    assert 0 < some.texts < counts.texts
    for name, observable in whole.items():
        for key, tensor in observable.tensors().items():
            for parts in (resumed, second):
                torch.testing.assert_close(parts[name].tensors()[key], tensor, rtol=1e-9, atol=1e-9)


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
        observe(FakeModel(change=spoil), texts)


def test_padding_that_is_not_finite_changes_no_number(observe, values):
    class Careless(FakeModel):
        def states(self, input_ids, attention_mask):
            padding = (attention_mask == 0)[..., None]
            return [x.masked_fill(padding, torch.nan) for x in super().states(input_ids, attention_mask)]

    texts = made_up_texts(20)
    for role in ("encoder", "decoder"):
        a, b = (observe(kind(role=role), texts)[0] for kind in (Careless, FakeModel))
        assert_same(values(FakeModel(), a, 20), values(FakeModel(), b, 20))


def test_counts_of_cut_short_and_empty_texts_can_be_written_as_json(observe):
    texts = FakeTexts(["1 2 4 5 6 7 8", "", "5", "6 7", "8 9 1 2 4"])
    _, counts = observe(FakeModel(role="encoder", special=True, sinks=False), texts, max_tokens=5)
    assert (counts.texts, counts.cut_texts, counts.short_texts) == (5, 2, 2)
    assert (counts.tokens, counts.special, counts.ordinary, counts.sinks) == (5 + 2 + 3 + 4 + 5, 10, 9 - 4, 0)
    assert Counts(**json.loads(json.dumps(asdict(counts)))) == counts
    _, counts = observe(FakeModel(role="decoder", special=False, sinks=False), texts, max_tokens=5)
    assert (counts.texts, counts.cut_texts, counts.short_texts) == (4, 1, 1)
    assert (counts.tokens, counts.special, counts.ordinary, counts.sinks) == (13, 0, 13 - 4, 0)


def test_the_models_own_limit_counts(observe):
    model = FakeModel(max_tokens=4, sinks=False)
    assert longest(256, model) == 4 and longest(3, model) == 3 and longest(256, FakeModel()) == 256
    _, counts = observe(model, FakeTexts(["1 2 4 5 6 7", "1 2"]))
    assert (counts.tokens, counts.cut_texts) == (8, 1)


def test_a_text_longer_than_the_budget_goes_alone(observe, values):
    model = FakeModel()
    texts = FakeTexts(["1 2", " ".join("4 5 6 7" for _ in range(40)), "5"])
    a, counts = observe(model, texts, batch_tokens=10)
    assert counts.tokens == 4 + 162 + 3
    assert_same(values(model, a, 3), values(model, observe(model, texts, batch_tokens=10**6)[0], 3))


def test_ticks_tell_of_every_token_and_shards_come_in_order():
    texts, ticks = made_up_texts(50), []
    settings = settings_for(FakeModel(), 64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.texts.tokens.SHARD_CHARACTERS", 200)
        corpus = tokenised(FakeModel(), texts, 256)
        steps = list(measure(FakeModel(), corpus, [], settings, tick=ticks.append))
        late = list(measure(FakeModel(), replace(corpus, shards=corpus.shards[2:]), [], settings))
    assert sum(ticks) == sum(counts.tokens for _, counts in steps) > 500
    assert len(ticks) > len(steps) > 3
    assert [shard.index for shard, _ in steps] == list(range(len(steps)))
    assert [shard for shard, _ in late] == [shard for shard, _ in steps][2:]


def test_padding_uses_an_id_that_the_model_has(observe):
    model = FakeModel(special=False)
    model.tokenizer.pad_token_id = 10_000  # beyond the embedding: a tokenizer with an added pad token
    model.tokenizer.eos_token_id = None
    assert observe(model, FakeTexts(["1 2 4", "1"]))[1].tokens == 4


def test_without_a_token_nothing_is_tried():
    assert settle_precision("mixed", FakeModel(special=False), FakeTexts(["", ""]), 256).precision == "float32"
