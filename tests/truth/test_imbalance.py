"""Information imbalance against DADApy (Glielmo et al. 2022), and where it is known."""

import numpy as np
import pytest
import torch
from truth.dadapy_figures import IMBALANCES, spaces

from reporter.geometry.similarity import imbalances


def found(of):
    """Δ(A → B) of each two of some spaces."""
    groups = np.arange(len(next(iter(of.values())))) % 2
    values = imbalances([lambda x=x: torch.from_numpy(x) for x in of.values()], groups)[0]
    return {(a, b): values[i, j] for i, a in enumerate(of) for j, b in enumerate(of) if a != b}


def test_dadapy_reads_the_same():
    ours = found(spaces())
    assert set(ours) == set(IMBALANCES)
    for pair, theirs in IMBALANCES.items():
        assert ours[pair] == pytest.approx(theirs, abs=2e-6), pair


def test_it_is_blind_to_what_keeps_the_order_of_distances():
    x = spaces()["xyz"]
    turned = 5 * x @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0] + 1e7
    of = found({"x": x, "turned": turned})
    assert list(of.values()) == pytest.approx([2 / len(x)] * 2, abs=1e-12)
