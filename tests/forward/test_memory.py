"""Batches that do not fit into memory are halved, and nothing else changes."""

import numpy as np
import pytest
import torch
from forward.passes import settings_for
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.core.errors import ReporterError, is_out_of_memory
from reporter.forward.measure import OutOfMemoryError, measure, tokenised

ERRORS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried to"),
]


class Small(FakeModel):
    """Takes so many tokens at once, padding included."""

    def __init__(self, most, error=ERRORS[0]):
        super().__init__()
        self.most, self.error, self.sizes = most, error, []

    def states(self, input_ids, attention_mask):
        self.sizes.append(input_ids.numel())
        if input_ids.numel() > self.most:
            raise self.error
        return super().states(input_ids, attention_mask)


class Texts:
    """Notes of each batch its texts; fails like memory where one has more than so many tokens."""

    def __init__(self, most=10**9):
        self.seen, self.most = [], most

    def start(self, batch):
        self.seen += np.unique(batch.texts).tolist()

    def observe(self, layer):
        if len(layer.batch) > self.most:
            raise MemoryError

    def finish(self, batch):
        pass

    def settle(self):
        pass


def through(model, texts, watcher):
    sizes, corpus = [], tokenised(model, texts, 256)
    for _ in measure(model, corpus, [watcher], settings_for(model, 512), shrunk=sizes.append):
        pass
    return sizes


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_batch_is_halved_until_it_fits_and_every_text_is_seen_once(error):
    model, watcher = Small(60, error), Texts()
    told = through(model, made_up_texts(60), watcher)
    assert sorted(watcher.seen) == list(range(60))
    assert told == sorted(told, reverse=True) and told[-1] <= 60
    assert len([size for size in model.sizes if size > 60]) == len(told)  # the size that fits is remembered


def test_a_text_that_does_not_fit_alone_says_so():
    texts = FakeTexts(["1 2", " ".join("4 5 6 7" for _ in range(40)), "5"])
    with pytest.raises(ReporterError, match=r"out of memory on cpu for one text of 168 tokens; lower `max_tokens`"):
        through(Small(100), texts, Texts())


def test_other_errors_are_not_taken_for_it():
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="another"):
        through(Small(10, RuntimeError("another")), made_up_texts(10), Texts())


def test_where_observables_run_short_they_may_have_seen_half():
    with pytest.raises(OutOfMemoryError) as caught:
        through(FakeModel(), made_up_texts(60), Texts(most=40))
    assert 40 < caught.value.tokens <= 512


def test_an_error_that_is_in_its_own_chain_of_causes_ends():
    error = ValueError("first")
    error.__context__ = KeyError("second")
    error.__context__.__context__ = error
    assert not is_out_of_memory(error)
