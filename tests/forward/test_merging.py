"""What every observable promises: any split, in any order, is the same; and a file holds all of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reporter.forward.moments import Gram, Moments
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS
from reporter.models.places import Layout

LAYERS, WIDTH, TEXTS = 2, 5, 12
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def new(name):
    # A place of another width, and types that occur more or less often.
    layout = Layout(LAYERS, WIDTH, final_width=WIDTH + 2, attention=True)
    counts = {token: 30 - token for token in range(7)}
    splits = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 7)  # of ids 7 and 8 nothing is known
    names = {token: f"t{token}" for token in counts}
    return KINDS[name].empty(Setting(layout, 3, TEXTS, 8, counts, names, splits=splits))


@pytest.fixture
def corpus():
    """12 texts of 1 to 6 tokens in all strata, whose contexts repeat and decide the states."""
    rng = np.random.default_rng(5)
    widths = [WIDTH] * (LAYERS + 1) + [WIDTH + 2] + [WIDTH] * LAYERS
    of_context = [rng.standard_normal((30, width)) + 3 for width in widths]
    texts = np.repeat(np.arange(TEXTS), rng.integers(1, 7, TEXTS))
    contexts = rng.integers(0, 30, len(texts))
    return {
        "states": [states[contexts] for states in of_context],
        "texts": texts,
        "positions": contexts,
        "contexts": contexts * 7919 % 10007,
        "token_ids": contexts % 9,
        "strata": rng.choice(3, len(texts), p=[0.6, 0.2, 0.2]),
    }


def part(corpus, make_batch, texts):
    keep = np.flatnonzero(np.isin(corpus["texts"], texts))
    rest = {key: column[keep] for key, column in corpus.items() if key != "states"}
    return make_batch(
        [states[keep] for states in corpus["states"]], **rest, layout=Layout(LAYERS, WIDTH, WIDTH + 2, True)
    )


def assert_equal(a, b, exact=False):
    a, b = a.tensors(), b.tensors()
    assert a.keys() == b.keys()
    for key in a:
        torch.testing.assert_close(a[key], b[key], rtol=0 if exact else 1e-6, atol=0 if exact else 1e-5)


@pytest.mark.parametrize("name", KINDS)
@QUICK
@given(st.lists(st.integers(0, 3), min_size=TEXTS, max_size=TEXTS), st.permutations(range(4)), st.booleans())
def test_any_split_in_any_order_and_grouping_is_the_same(name, corpus, make_batch, feed, where, order, right):
    whole = feed(new(name), part(corpus, make_batch, range(TEXTS)))
    parts = []
    for place in order:
        texts = [text for text in range(TEXTS) if where[text] == place]
        parts.append(feed(new(name), part(corpus, make_batch, texts)) if texts else new(name))
    a, b, c, d = parts
    if right:  # a + (b + (c + d)), else ((a + b) + c) + d
        c.merge(d)
        b.merge(c)
        a.merge(b)
    else:
        for other in (b, c, d):
            a.merge(other)
    assert_equal(a, whole)


@pytest.mark.parametrize("name", KINDS)
@QUICK
@given(st.permutations(range(TEXTS)), st.integers(1, 5))
def test_batches_in_any_order_are_the_same(name, corpus, make_batch, feed, order, size):
    whole = feed(new(name), part(corpus, make_batch, range(TEXTS)))
    batches = [part(corpus, make_batch, order[i : i + size]) for i in range(0, TEXTS, size)]
    assert_equal(feed(new(name), *batches), whole)


@pytest.mark.parametrize("name", KINDS)
def test_merging_leaves_the_other_one_alone_and_shares_nothing(name, corpus, make_batch, feed):
    first, second = (feed(new(name), part(corpus, make_batch, texts)) for texts in (range(6), range(6, TEXTS)))
    kept = {key: tensor.clone() for key, tensor in second.tensors().items()}
    target = new(name)
    target.merge(second)  # into an empty one: a copy, not the same arrays
    target.merge(first)
    feed(target, part(corpus, make_batch, [0, 1]))
    assert kept.keys() == second.tensors().keys()
    for key, tensor in second.tensors().items():
        assert torch.equal(tensor, kept[key]), key


@pytest.mark.parametrize("name", KINDS)
def test_a_file_holds_all_of_it_bit_for_bit(name, corpus, make_batch, feed, tmp_path):
    half, rest = part(corpus, make_batch, range(6)), part(corpus, make_batch, range(6, TEXTS))
    kept = feed(new(name), half)
    path = tmp_path / "some" / "where.safetensors"
    kept.save(path)
    found = type(kept).load(path)
    assert found.parameters() == kept.parameters()
    assert_equal(found, kept, exact=True)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    # What was read goes on as what was kept, and can be written again.
    feed(found, rest).save(path)
    assert_equal(found, feed(kept, rest), exact=True)
    assert_equal(type(kept).load(path), kept, exact=True)


@pytest.mark.parametrize("name", KINDS)
def test_one_that_saw_nothing_can_be_written_and_merged(name, corpus, make_batch, feed, tmp_path):
    nothing = new(name)
    nothing.save(tmp_path / "nothing")
    found = KINDS[name].load(tmp_path / "nothing")
    assert_equal(found, nothing, exact=True)
    some = feed(new(name), part(corpus, make_batch, range(3)))
    before = {key: tensor.clone() for key, tensor in some.tensors().items()}
    some.merge(found)
    for key, tensor in some.tensors().items():
        assert torch.equal(tensor, before[key])


def test_another_observables_or_versions_file_is_refused(tmp_path, monkeypatch):
    new("moments").save(tmp_path / "file")
    with pytest.raises(ValueError, match="does not hold gram"):
        Gram.load(tmp_path / "file")
    monkeypatch.setattr(Moments, "version", Moments.version + 1)
    with pytest.raises(ValueError, match="version"):
        Moments.load(tmp_path / "file")


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


def test_names_are_unique_and_lead_to_the_classes():
    assert all(issubclass(kind, Observable) and kind.name == name for name, kind in KINDS.items())
