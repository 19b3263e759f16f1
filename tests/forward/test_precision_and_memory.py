"""Which precision a model is run in; and batches that do not fit into memory are halved."""

import numpy as np
import pytest
import torch
from forward.passes import settings_for
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.core.errors import ReporterError, is_out_of_memory
from reporter.forward import precision
from reporter.forward.measure import OutOfMemoryError, measure
from reporter.forward.precision import autocast, settle_precision
from reporter.forward.reading import tokenised


class Rough(FakeModel):
    """A model whose states are off by ``error`` times themselves under autocast, or by ``poison`` at a layer."""

    steady = False  # passes run one after the other

    def __init__(self, error, width=256, poison=0, layer=0, **more):
        super().__init__(width=width, **more)
        self.error, self.poison, self.layer, self.runs = error, poison, layer, []

    def states(self, input_ids, attention_mask):
        states, mixed = super().states(input_ids, attention_mask), torch.is_autocast_enabled("cpu")
        self.runs.append(mixed)
        if mixed:
            off = 9 * (1 - attention_mask[..., None])  # padding does not count
            states = [x * (1 + self.error * (i > 0)) + off for i, x in enumerate(states)]
            states[self.layer] = states[self.layer] + self.poison
        return states


def choose(precision, model):
    return settle_precision(precision, model, FakeTexts(["1 2 3", "4 5"]), 16)


@pytest.fixture
def machine(monkeypatch):
    """Have bf16, and let autocast switch its flag only, so that the deviation is exactly the one asked for."""
    monkeypatch.setattr(precision, "_has_bf16", lambda device: True)
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: (a[..., None] * b).sum(-2))


@pytest.mark.usefixtures("machine")
def test_a_small_deviation_is_accepted_and_every_one_is_stored():
    for error, expected in ((0.004, "mixed"), (0.019, "mixed"), (0.021, "float32"), (9.0, "float32")):
        for change in (None, lambda states: [states[0] * 0, *states[1:]]):  # zero states deviate by nothing
            chosen, forced = (choose(setting, Rough(error, change=change)) for setting in ("auto", "mixed"))
            assert (chosen.precision, forced.precision) == (expected, "mixed")  # as asked for, whatever it costs
            assert [chosen.deviation, forced.deviation] == pytest.approx([error, error], rel=1e-3)
    for poison, layer in ((float("nan"), 1), (float("inf"), 3)):  # states that stop being finite
        assert choose("auto", Rough(0.0, poison=poison, layer=layer)).precision == "float32"


@pytest.mark.usefixtures("machine")
def test_nothing_is_tried_in_float32_nor_with_narrow_models_or_plain_machines(monkeypatch):
    exact, narrow, wide = Rough(0.5), Rough(0.0, width=64), Rough(0.0)
    assert choose("float32", exact).deviation is None and choose("auto", narrow).precision == "float32"
    monkeypatch.setattr(precision, "_has_bf16", lambda device: False)
    assert choose("auto", wide).precision == "float32" and exact.runs == narrow.runs == wide.runs == []


def test_autocast_keeps_weights_and_rounds_products():
    weight, x = torch.randn(64, 64), torch.randn(3, 64)
    for setting, dtype in (("mixed", torch.bfloat16), ("float32", torch.float32)):
        with autocast(torch.device("cpu"), setting):
            assert torch.nn.functional.linear(x, weight).dtype == dtype


ALLOCATOR = "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried to"
ERRORS = [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to"), RuntimeError(ALLOCATOR)]
ERRORS += [RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")]
ERRORS += [RuntimeError("MPS backend out of memory (MPS allocated: 17.90 GB)")]
ERRORS += [torch.AcceleratorError("CUDA error: out of memory")]


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

    finish = settle = lambda *_: None

    def __init__(self, most=10**9):
        self.seen, self.most = [], most

    def start(self, batch):
        self.seen += np.unique(batch.texts).tolist()

    def observe(self, layer):
        if len(layer.batch) > self.most:
            raise MemoryError


def through(model, texts, watcher):
    sizes, corpus = [], tokenised(model, texts, 256)
    list(measure(model, corpus, [watcher], settings_for(model, 512), shrunk=sizes.append))
    return sizes


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_batch_is_halved_until_it_fits_and_every_text_is_seen_once(error):
    model, watcher = Small(60, error), Texts()
    told = through(model, made_up_texts(60), watcher)
    assert sorted(watcher.seen) == list(range(60))
    assert told == sorted(told, reverse=True) and told[-1] <= 60
    assert sum(size > 60 for size in model.sizes) == len(told)  # the size that fits is remembered


def test_a_text_that_does_not_fit_alone_says_so():
    texts = FakeTexts(["1 2", " ".join("4 5 6 7" for _ in range(40)), "5"])
    with pytest.raises(ReporterError, match=r"out of memory on cpu for one text of 168 tokens; lower `max_tokens`"):
        through(Small(100), texts, Texts())


def test_other_errors_are_not_taken_for_it():
    with pytest.raises(RuntimeError, match="another"):
        through(Small(10, RuntimeError("another")), made_up_texts(10), Texts())
    error, second = ValueError("in its own chain of causes"), KeyError("second")
    error.__context__, second.__context__ = second, error
    assert not is_out_of_memory(error)


def test_where_observables_run_short_they_may_have_seen_half():
    with pytest.raises(OutOfMemoryError) as caught:
        through(FakeModel(), made_up_texts(60), Texts(most=40))
    assert 40 < caught.value.tokens <= 512
