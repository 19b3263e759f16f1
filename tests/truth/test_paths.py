"""Ways through layers and through texts, through the whole program, where their value follows from geometry.

Hosseini & Fedorenko 2023 (curvature of the path from token to token), Men et al. 2024 (block influence), Gromov et al.
2024 (angular distance of layers), Razzhigaev et al. 2024 (linearity; also against their own code).
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from truth.authors import llm_microscope

import reporter

TEXTS, LENGTH, WIDTH = 12, 30, 16
OF = np.repeat(np.arange(TEXTS), LENGTH)


def in_space(plane, seed=0):
    """Put points of a plane, (n, 2), into a random plane of the space, away from the origin."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((WIDTH, 2)))[0]
    return plane @ axes.T + rng.standard_normal(WIDTH)


def numbers(states, metric, statistic):
    found = reporter.measure(states, [metric], texts=OF, view="all").layer_metrics
    rows = found[found["statistic"] == statistic].sort_values("layer")
    return rows["value"].to_numpy(float)


def test_a_line_does_not_turn_a_polygon_turns_by_its_angle_and_there_and_back_is_half_a_turn():
    t = np.tile(np.arange(LENGTH), TEXTS)
    line = in_space(np.stack([t, 0.5 * t], axis=1))
    polygon = in_space(np.stack([np.cos(2 * np.pi * t / 9), np.sin(2 * np.pi * t / 9)], axis=1))
    back = in_space(np.stack([t % 2, np.zeros(len(t))], axis=1))
    turns = numbers(np.stack([line, polygon, back]), "token_path", "curvature")
    assert turns == pytest.approx([0, 2 * np.pi / 9, np.pi], abs=2e-3)
    straighter = numbers(np.stack([polygon, line]), "token_path", "straightening")
    assert straighter == pytest.approx([0, 2 * np.pi / 9], abs=2e-3)


@pytest.mark.parametrize("degrees", [0.5, 30, 90, 170])
def test_layers_that_turn_by_an_angle_have_that_influence_and_distance(degrees):
    """Every layer turns every state by the same angle, and stretches it: lengths do not count."""
    theta = np.radians(degrees)
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    block = np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])
    turn = axes @ np.kron(np.eye(WIDTH // 2), block) @ axes.T
    layers = [rng.standard_normal((len(OF), WIDTH))]
    for _ in range(3):
        layers.append(1.7 * layers[-1] @ turn)
    states = np.stack(layers)
    # ShortGPT, equation 1: BI = 1 − E[cos(X_i, X_i+1)].
    assert numbers(states, "motion", "block_influence") == pytest.approx([1 - np.cos(theta)] * 3, abs=1e-6)
    # Gromov et al., equation 7: d(x_l, x_l+n) = arccos(cos)/π, of tokens and of last tokens.
    found = reporter.measure(states, ["angular_distance"], texts=OF, view="all").layer_pairs
    assert found["statistic"].value_counts().to_dict() == {"tokens": 6, "last_token": 6}
    for row in found.itertuples():
        whole = (row.layer_b - row.layer_a) * degrees % 360
        assert row.value == pytest.approx(min(whole, 360 - whole) / 180, abs=1e-6)


def test_linearity_is_what_the_authors_code_returns():
    """``llm-microscope`` 0.0.7, ``procrustes_similarity``: what a linear map of layer l explains of layer l + 1.

    Its ``procrustes_similarity_centered``, of what a block adds, ends before it returns anything; the same function on
    the difference is what it computes.
    """
    theirs = llm_microscope()
    rng = np.random.default_rng(2)
    layers = [rng.standard_normal((len(OF), WIDTH)) * np.geomspace(5, 0.2, WIDTH) + 2]
    for noise in (0.1, 1.0, 3.0):
        layers.append(
            layers[-1] @ rng.standard_normal((WIDTH, WIDTH)) / 4
            + noise * np.tanh(rng.standard_normal((len(OF), WIDTH)))
        )
    states = np.stack(layers).astype(np.float32)
    x = [torch.from_numpy(layer).double() for layer in states]
    steps = list(pairwise(x))
    whole = [theirs.procrustes_similarity(a, b) for a, b in steps]
    added = [theirs.procrustes_similarity(a, b - a) for a, b in steps]
    assert numbers(states, "linearity", "linearity") == pytest.approx(whole, abs=1e-5)
    assert numbers(states, "linearity", "update_linearity") == pytest.approx(added, abs=1e-5)
    assert max(whole) > 0.9 > 0.7 > min(whole)  # a case that can fail
