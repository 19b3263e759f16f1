"""The compact forms of what is kept: how far they may be off, and what must come back as it was."""

import numpy as np
import pytest
import torch

from reporter.forward.moments import Gram, correlations_of, from_correlations, matrix_of, triangle_of
from reporter.forward.observable import FIRST, RoundedStates
from reporter.forward.token_categories import VIEWS
from reporter.forward.token_sample import CONTEXT, COUNT, Pooled, Tokens
from reporter.models.places import Layout


def states(n: int, d: int, seed: int = 0) -> torch.Tensor:
    """Coordinates of unequal size about a long mean, as models make them, and sinks of a thousand times the norm."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.logspace(-2, 1, d) + 30 * rng.standard_normal(d)
    x[::17, 3] += 40_000
    return torch.from_numpy(x.astype(np.float32))


def read(x: torch.Tensor) -> torch.Tensor:
    return RoundedStates.of(x).rows(torch.arange(len(x)))


def test_no_coordinate_is_off_by_more_than_is_said():
    x = states(400, 32)
    kept = RoundedStates.of(x)
    off = (kept.rows(torch.arange(400)) - x).abs()
    away = (x - kept.middle).abs()
    assert (off <= away * 2**-11 + x.abs() * 2**-23).all()
    assert off.max() > 0 and kept.values.dtype == torch.float16
    ordinary = torch.arange(400) % 17 != 0
    spread = (x - x[ordinary].mean(dim=0))[ordinary]
    assert (off[ordinary].norm(dim=1) / spread.norm(dim=1)).max() < 2**-10, "a few sinks cost the others nothing"


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
def test_any_scale(scale):
    x = states(50, 8) * scale
    torch.testing.assert_close(read(x), x, rtol=0, atol=float(x.abs().max()) * 2**-10)


def test_zeros_equal_states_and_what_is_not_finite_stay_what_they_are():
    x = states(60, 8)
    x[40] = 0
    x[41] = x[50]
    x[42, 1], x[43, 2] = torch.inf, torch.nan
    found = read(x)
    assert (found[40] == 0).all() and torch.equal(found[41], found[50])
    assert found[42, 1] == torch.inf and found[43, 2].isnan()
    rest = [row for row in range(60) if row not in (42, 43)]
    assert found[rest].isfinite().all()
    assert torch.equal(read(torch.zeros(3, 4)), torch.zeros(3, 4)) and read(torch.zeros(0, 4)).shape == (0, 4)


def test_a_larger_sample_rounds_its_first_states_alike():
    x = states(500, 16)
    assert torch.equal(read(x)[:100], read(x[:100])) and FIRST <= 100
    assert not torch.equal(read(x)[1:100], read(x[1:100]))  # the mean is that of the first ones


def test_what_was_read_is_kept_without_further_loss():
    once = read(states(200, 16))
    again = read(once)
    assert ((again - once).abs() <= (once - once.mean(0)).abs() * 2**-10 + once.abs() * 2**-20).all()


def test_triangles():
    x = states(300, 20).double()
    matrix = x.T @ x
    assert torch.equal(matrix_of(triangle_of(matrix), 20), matrix)
    scale, triangle = correlations_of(matrix)
    found = from_correlations(scale, triangle)
    assert triangle.dtype == torch.float32 and len(triangle) == 210
    roots = matrix.diagonal().sqrt()
    assert ((found - matrix).abs() <= roots * roots[:, None] * 2**-23).all() and torch.equal(found, found.T)
    torch.testing.assert_close(found.diagonal(), matrix.diagonal(), rtol=1e-14, atol=0)
    assert (from_correlations(*correlations_of(torch.zeros(4, 4))) == 0).all()


def test_a_finished_gram_is_exact_at_the_embedding_and_close_elsewhere(make_batch, feed, tmp_path):
    x = states(200, 12).numpy()
    kept = feed(Gram(Layout(1, 12)), make_batch([x, x], np.arange(200)))
    kept.save(tmp_path / "gram", finished=True)
    found = Gram.load(tmp_path / "gram")
    for place, within in ((0, 0), (1, 1e-6)):
        before, after = (one.covariance(place, (0,))[1] for one in (kept, found))
        values = [torch.linalg.eigvalsh(x) for x in (before, after)]
        assert (values[0] - values[1]).abs().max() <= within * before.trace()
    kept.save(tmp_path / "whole")
    assert (tmp_path / "gram").stat().st_size < 0.75 * (tmp_path / "whole").stat().st_size


def test_a_finished_sample_reads_as_rounded_whatever_is_kept_beside(make_batch, feed, tmp_path):
    """The same tokens come back alike from a sample of 100 and from one of 300, and in half the room."""
    x = states(300, 12).numpy()
    layout, read_back = Layout(1, 12), []
    for size in (100, 300):
        kept = feed(Tokens(layout, size, 0), make_batch([x, x], np.arange(300), contexts=np.arange(300) // 2))
        path = tmp_path / str(size)
        kept.save(path, finished=True)
        found = Tokens.load(path)
        drawn = found.select((0,), 100)
        assert drawn.keys.tolist() == kept.select((0,), 100).keys.tolist()
        exact = kept.select((0,), 100).states(layout.path[1])
        assert not torch.equal(drawn.states(layout.path[1]), exact)
        torch.testing.assert_close(drawn.states(layout.path[1]), exact, rtol=1e-3, atol=1e-2)
        read_back.append(drawn.states(layout.path[1]))
        found.save(tmp_path / "again", finished=True)
    assert torch.equal(*read_back)


def test_distinct_contexts_among_the_drawn_tokens(make_batch, feed):
    contexts = np.random.default_rng(1).integers(0, 40, 300)
    x = contexts[:, None] * np.ones(5)
    kept = feed(Tokens(Layout(0, 5), 300, 0), make_batch([x], np.arange(300), contexts=contexts))
    drawn = kept.select((0,), 60)
    found = drawn.distinct()
    expected = dict.fromkeys(drawn.facts[:, CONTEXT].tolist())  # in the order in which they come first
    assert found.facts[:, CONTEXT].tolist() == list(expected) and 20 < len(found) < 45
    assert found.facts[:, COUNT].sum() == 60
    assert found.facts[:, COUNT].tolist() == [(drawn.facts[:, CONTEXT] == c).sum() for c in expected]
    assert found.states(Layout(0, 5).path[0])[:, 0].tolist() == list(expected)
    assert (drawn.facts[:, COUNT] == 1).all()


@pytest.mark.parametrize("kind", [Tokens, Pooled])
def test_a_finished_sample_holds_what_views_draw_and_no_more(kind, make_batch, feed, tmp_path):
    """Half of the tokens are set aside: of these the views that hold them draw half of what is kept on the way."""
    rng = np.random.default_rng(2)
    strata = rng.choice(3, 900, p=[0.4, 0.2, 0.4])
    batch = make_batch([rng.standard_normal((900, 6))], np.arange(900), strata=strata)
    kept = feed(kind(Layout(0, 6), 100, 0), batch)
    kept.save(tmp_path / "it", finished=True)
    found = kind.load(tmp_path / "it")
    sizes = [len(found.tensors()[f"keys/{stratum}"]) for stratum in range(3)]
    assert sizes[0] == 100 and 5 < sizes[1] < 40 and 30 < sizes[2] < 70
    assert [len(kept.tensors()[f"keys/{stratum}"]) for stratum in range(3)] == [100, 100, 100]
    for view, drawn in VIEWS.items():
        for size in (100, 60):
            a, b = (one.select(drawn, size) for one in (kept, found))
            assert a.keys.tolist() == b.keys.tolist() and np.array_equal(a.facts, b.facts), view
