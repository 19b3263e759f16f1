"""Paths from token to token of which the turn is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reporter.forward.paths import TokenPath
from reporter.models.places import Layout


def one_text(make_batch, feed, states, positions=None, strata=None):
    layout = Layout(0, states.shape[1])
    batch = make_batch([states], np.zeros(len(states)), positions, strata, layout=layout)
    kept = feed(TokenPath(layout, 0), batch)
    return {view: kept.average("curvature", layout.path[0], view) for view in ("words", "no-sinks", "all")}


def test_paths_whose_turn_is_known(make_batch, feed):
    t = np.arange(9)[:, None]
    line = one_text(make_batch, feed, 5.0 + t * [[1.0, 2.0, -1.0]])
    assert line["words"].value == pytest.approx(0, abs=1e-3)
    octagon = np.concatenate([np.cos(t * math.pi / 4), np.sin(t * math.pi / 4)], axis=1)
    assert one_text(make_batch, feed, octagon)["words"].value == pytest.approx(math.pi / 4, abs=1e-5)
    back_and_forth = one_text(make_batch, feed, (t % 2) * [[1.0, 1.0]])
    assert back_and_forth["words"].value == pytest.approx(math.pi, abs=1e-3)


def test_independent_tokens_turn_by_120_degrees(make_batch, feed):
    found = one_text(make_batch, feed, np.random.default_rng(0).standard_normal((3000, 200)))
    assert found["words"].value == pytest.approx(2 * math.pi / 3, abs=2e-3)


def test_rows_in_any_order_and_a_token_that_a_view_leaves_out(make_batch, feed):
    """Of nine tokens at the corners of an octagon the fifth is a sink: without it no path leads past."""
    rng = np.random.default_rng(1)
    t = np.arange(9)
    octagon = np.stack([np.cos(t * math.pi / 4), np.sin(t * math.pi / 4)], axis=1)
    octagon[4] = 100
    order = rng.permutation(9)
    found = one_text(make_batch, feed, octagon[order], t[order], np.where(t == 4, 2, 0)[order])
    assert found["no-sinks"].value == pytest.approx(math.pi / 4, abs=1e-4)
    assert found["words"].value > 1
