"""What every observable promises: any split, in any order, is the same; a file holds all of it; and what it sums stays
where the states are until the end of a shard, and nothing waits for the device.
"""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reporter.forward.moments import Gram, Moments
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS
from reporter.models.places import Layout

LAYERS, WIDTH, TEXTS = 2, 5, 12
LAYOUT = Layout(LAYERS, WIDTH, final_width=WIDTH + 2, attention=True)  # with a place of another width


def new(name, layout=LAYOUT):
    counts = {token: 30 - token for token in range(7)}  # types occur more or less often
    splits = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 7)  # of ids 7 and 8 nothing is known
    names = {token: f"t{token}" for token in counts}
    return KINDS[name].empty(Setting(layout, 3, TEXTS, 8, counts, names, splits=splits))


every = pytest.mark.parametrize("name", KINDS)


@pytest.fixture(scope="module")
def corpus():
    """12 texts of 1 to 6 tokens in all strata, whose contexts repeat and decide the states."""
    rng = np.random.default_rng(5)
    of_context = [rng.standard_normal((30, width)) + 3 for width in LAYOUT.widths]
    texts = np.repeat(np.arange(TEXTS), rng.integers(1, 7, TEXTS))
    at, strata = rng.integers(0, 30, len(texts)), rng.choice(3, len(texts), p=[0.6, 0.2, 0.2])
    facts = {"texts": texts, "positions": at, "contexts": at * 7919 % 10007, "token_ids": at % 9, "strata": strata}
    return [states[at] for states in of_context], facts


@pytest.fixture
def shown(corpus, make_batch, feed):
    """Return a function that shows these texts to an observable, so many in a batch."""

    def run(observable, texts, size=TEXTS):
        for start in range(0, len(texts), size):
            keep = np.flatnonzero(np.isin(corpus[1]["texts"], texts[start : start + size]))
            facts = {name: column[keep] for name, column in corpus[1].items()}
            feed(observable, make_batch([states[keep] for states in corpus[0]], **facts, layout=LAYOUT))
        return observable

    return run


def assert_equal(a, b, exact=False):
    within = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-6, "atol": 1e-5}
    torch.testing.assert_close(a.tensors(), b.tensors(), **within)


@every
def test_any_split_and_batches_in_any_order_and_grouping_are_the_same(name, shown):
    whole = shown(new(name), range(TEXTS))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        where, order = rng.integers(0, 4, TEXTS) % (seed + 2), rng.permutation(TEXTS)
        parts = [order[where[order] == place] for place in rng.permutation(4)]  # some of them empty
        a, b, c, d = (shown(new(name), texts, int(rng.integers(1, 5))) for texts in parts)
        for one, other in ((c, d), (b, c), (a, b)) if seed % 2 else ((a, b), (a, c), (a, d)):
            one.merge(other)  # a + (b + (c + d)), or ((a + b) + c) + d
        assert_equal(a, whole)


@every
def test_merging_leaves_the_other_one_alone_and_shares_nothing(name, shown):
    first, second = (shown(new(name), texts) for texts in (range(6), range(6, TEXTS)))
    before, target = deepcopy(second), new(name)
    target.merge(second)  # into an empty one: a copy, not the same arrays
    target.merge(first)
    shown(target, [0, 1])
    assert_equal(second, before, exact=True)


@every
def test_a_file_holds_all_of_it_bit_for_bit_also_of_one_that_saw_nothing(name, shown, tmp_path):
    kept = shown(new(name), range(6))
    path = tmp_path / "some" / "where.safetensors"
    kept.save(path)
    read, nothing = type(kept).load(path), new(name)
    assert read.parameters() == kept.parameters()
    assert_equal(read, kept, exact=True)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    # What was read goes on as what was kept, and can be written again.
    shown(read, range(6, TEXTS)).save(path)
    assert_equal(read, shown(kept, range(6, TEXTS)), exact=True)
    assert_equal(type(kept).load(path), kept, exact=True)
    nothing.save(tmp_path / "nothing")
    empty = KINDS[name].load(tmp_path / "nothing")
    assert_equal(empty, nothing, exact=True)
    kept.merge(empty)
    assert_equal(type(kept).load(path), kept, exact=True)


def test_another_observables_or_versions_file_is_refused(tmp_path, monkeypatch):
    new("moments").save(tmp_path / "file")
    with pytest.raises(ValueError, match="does not hold gram"):
        Gram.load(tmp_path / "file")
    monkeypatch.setattr(Moments, "version", Moments.version + 1)
    with pytest.raises(ValueError, match="version"):
        Moments.load(tmp_path / "file")
    assert all(issubclass(kind, Observable) and kind.name == name for name, kind in KINDS.items())


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    kept = new("moments")
    kept.save(tmp_path / "file")
    before = (tmp_path / "file").read_bytes()

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("reporter.forward.observable.save_file", full)
    with pytest.raises(OSError, match="no space"):
        kept.save(tmp_path / "file")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", before)]


@pytest.fixture
def on_stand_in(make_batch, rng):
    """24 tokens in all strata, on PyTorch's device "meta": tensors without numbers.

    Whatever asks for a number (``item``, ``nonzero``, a boolean index, a copy to the host) and whatever mixes two
    devices fails at once.
    """
    numbers, layout = np.arange(24), Layout(LAYERS, WIDTH, final_width=WIDTH, attention=True)
    states = [rng.standard_normal((24, width)) for width in layout.widths]
    for x in states:
        x[3, 2] = 5000  # a massive activation
    made = make_batch(states, numbers // 4, numbers % 4, numbers % 3, layout=layout)
    read = {"lens_problem": "", "log_probabilities": lambda x, closed: iter([x.log_softmax(dim=1)])}
    return replace(
        made,
        states=[x.to("meta") for x in made.states],
        norms=made.norms.to("meta"),
        losses=torch.zeros(24, dtype=torch.float64, device="meta"),
        vocabulary=replace(made.vocabulary, table=made.vocabulary.table.to("meta")),
        readout=SimpleNamespace(predicts_next=True, **read),
    )


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"journey"}))  # which is of a few tokens, and may wait
def test_nothing_leaves_the_device_while_a_batch_is_shown(name, on_stand_in, feed):
    observable = new(name, on_stand_in.layout)
    observable.settle = lambda: None  # which is what may copy
    feed(observable, on_stand_in, on_stand_in)
