"""Batches that go through a model at the same time give the bits that they give one after the other."""

import itertools
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from forward.passes import settings_for
from oracles.fake_model import FakeTexts
from oracles.families import CASES, WORDS, build_family, loaded

from reporter.core import threads
from reporter.forward.measure import measure
from reporter.forward.reading import at_once, tokenised
from reporter.metrics._items import encode
from reporter.metrics.analysis import Context
from reporter.models import load
from reporter.models.load import LoadedModel
from reporter.models.places import Layout

FACTORS = {"short_factor": [1.0] * 4, "long_factor": [3.0, 5.0, 8.0, 12.0], "original_max_position_embeddings": 32}
CHANGING = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 100.0, "factor": 4.0, **FACTORS}}
CHANGING |= {"max_position_embeddings": 128, "original_max_position_embeddings": 32}
CHANGING |= {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0}


class Kept:
    """Keeps the states of each text, and what sublayers add to them."""

    settle = observe = finish = lambda *_: None

    def __init__(self):
        self.of_text = {}

    def start(self, batch):
        added = [] if batch.contributions is None else [batch.contributions.transpose(0, 1).flatten(1)]
        rows = torch.cat([*batch.states, *added], dim=1)
        in_order = np.lexsort((batch.positions, batch.texts))
        for text in np.unique(batch.texts).tolist():
            self.of_text[text] = rows[in_order[batch.texts[in_order] == text]]


@pytest.fixture
def cores(monkeypatch):
    """Return a function that sets how many cores there are."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    yield lambda count: monkeypatch.setattr(threads, "cores", lambda: count)
    torch.set_num_threads(usual)


@pytest.fixture
def most_at_once(monkeypatch):
    """Return a function that tells how many passes ran at the same time at most; the first two wait for each other."""
    run, lock, both, seen = LoadedModel.run, threading.Lock(), threading.Barrier(2), {"now": 0, "most": 0, "calls": 0}

    def counted(self, *given, **more):
        with lock:
            seen["now"] += 1
            seen["calls"] += 1
            seen["most"] = max(seen["most"], seen["now"])
            wait = seen.get("waiting") and seen["calls"] <= 2
        if wait:
            both.wait(timeout=30)
        try:
            return run(self, *given, **more)
        finally:
            with lock:
                seen["now"] -= 1

    def begin(waiting):
        seen.update(now=0, most=0, calls=0, waiting=waiting)
        monkeypatch.setattr(LoadedModel, "run", counted)
        return seen

    return begin


def texts_of(*lengths):
    rng = np.random.default_rng(0)
    return FakeTexts(" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), length)) for length in lengths)


def states_of(model, texts, **more):
    watcher = Kept()
    settings = settings_for(model, 2048, ("final", "attention"), contributions=True, **more)
    list(measure(model, tokenised(model, texts, 4096), [watcher], settings))
    return watcher.of_text


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_pass_has_the_same_bits_with_any_number_of_cores(name, tmp_path, cores, most_at_once):
    model, texts = loaded(build_family(name, tmp_path, **LONG.get(name, {}))), texts_of(*[450] * 9, *range(2, 60))
    cores(1)
    one_by_one, seen = states_of(model, texts), most_at_once(False)
    assert states_of(model, texts).keys() == one_by_one.keys() and seen["most"] == 1
    cores(3)
    seen = most_at_once(True)
    beside_each_other = states_of(model, texts)
    assert 2 <= seen["most"] <= 3 and len(one_by_one) == 67
    for text, rows in one_by_one.items():
        assert torch.equal(beside_each_other[text].nan_to_num(-1.0), rows.nan_to_num(-1.0)), text


LONG = {
    "bert": {"max_position_embeddings": 512},
    "gpt2": {"n_positions": 512},
    "llama": {"max_position_embeddings": 512},
}


@pytest.mark.parametrize("call", [0, 3, 9])
def test_after_a_lack_of_memory_one_pass_runs_after_the_other_with_the_same_bits(call, tmp_path, cores, monkeypatch):
    model, texts = loaded(build_family("llama", tmp_path, **LONG["llama"])), texts_of(*[450] * 9, *range(2, 30))
    cores(1)
    expected, run, calls = states_of(model, texts), LoadedModel.run, itertools.count()

    def lacking(self, *given, **more):
        if next(calls) == call:
            raise MemoryError
        return run(self, *given, **more)

    cores(3)
    monkeypatch.setattr(LoadedModel, "run", lacking)
    states = states_of(model, texts)
    assert states.keys() == expected.keys()
    assert all(torch.equal(states[text].nan_to_num(-1.0), rows.nan_to_num(-1.0)) for text, rows in expected.items())
    calls, context = itertools.count(), Context(model, Layout.of(model.anatomy, ()), "last", {}, 0, batch_tokens=64)
    if call:  # the first batch of an analysis runs alone
        assert len(list(encode(list(texts), context))) == len(texts)


def test_where_the_caller_lets_products_round_passes_run_one_after_the_other(tmp_path):
    model, usual = loaded(build_family("bert", tmp_path)), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert at_once(model, Layout(2, 32), 2048) == 1
    finally:
        torch.set_float32_matmul_precision(usual)
    assert at_once(model, Layout(2, 32), 2048) > 1


def test_texts_of_analyses_have_the_same_bits_too(tmp_path, cores, most_at_once):
    model = loaded(build_family("llama", tmp_path, **LONG["llama"]))
    context = Context(model, Layout.of(model.anatomy, ()), "last", {}, 0, batch_tokens=64)
    texts, results = list(texts_of(*range(3, 40))), []
    for count in (1, 3):
        cores(count)
        results.append({text.index: text.states for text in encode(texts, context)})
    assert list(results[0]) == list(results[1])
    for text, states in results[0].items():
        assert all(torch.equal(results[1][text][place], x) for place, x in states.items())


def test_a_model_that_a_pass_changes_runs_one_text_after_the_other(tmp_path, monkeypatch, cores):
    _, options, *rest = CASES["llama"]
    monkeypatch.setitem(CASES, "changing", ("Phi3", {**options, **CHANGING}, *rest))
    folder = build_family("changing", tmp_path)
    model, texts, layout = loaded(folder), texts_of(60, 90, *range(3, 30)), Layout(2, 32)
    cores(3)
    assert at_once(model, layout, 2048) > 3
    watcher = Kept()
    list(measure(model, tokenised(model, texts, 128), [watcher], settings_for(model, 32)))
    assert at_once(model, layout, 2048) == 1
    fresh = loaded(folder)
    encoded = {
        text.index: text for text in encode(list(texts), Context(fresh, Layout.of(fresh.anatomy, ()), "last", {}, 0))
    }
    for number in (0, 1, 2, 15):
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            own = transformers.AutoModel.from_pretrained(folder).eval()
            expected = own(torch.as_tensor(encoded[number].ids[None]), output_hidden_states=True).hidden_states[1][0]
        torch.testing.assert_close(
            encoded[number].states[Layout.of(fresh.anatomy, ()).path[1]], expected, rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(watcher.of_text[number][:, 32:64], expected, rtol=1e-4, atol=1e-4)


def test_what_needs_much_memory_or_is_not_on_a_processor_is_not_read_at_once(tmp_path):
    model = loaded(build_family("bert", tmp_path))
    assert at_once(model, Layout(2, 32), 2048) > 100
    assert at_once(model, Layout(2, 32), 10**9) == 1
    assert at_once(replace(model, device=torch.device("meta")), Layout(2, 32), 2048) == 1


@pytest.mark.parametrize("draw", [lambda: torch.rand(1), lambda: np.random.rand()], ids=["torch", "numpy"])  # noqa: NPY002
def test_a_model_that_draws_random_numbers_while_it_runs_is_not_read_at_once(tmp_path, monkeypatch, draw):
    folder, examine = build_family("bert", tmp_path), load.examine

    def drawing(*given):
        draw()
        return examine(*given)

    assert loaded(folder).steady
    monkeypatch.setattr(load, "examine", drawing)
    assert not loaded(folder).steady
