"""Linear maps from second moments, against least squares on the rows themselves."""

import numpy as np
import pytest
import torch

from reporter.geometry.linear import (
    Joint,
    canonical,
    directions,
    explained,
    fit,
    joint_of,
    merged,
    procrustes,
    pull,
    push,
    token_cka,
)


def joint(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Joint:
    """Moments of rows, each as often as its weight says."""
    w = np.ones(len(x)) if weights is None else weights
    centre, mean = w @ x / w.sum(), w @ y / w.sum()
    a, b = x - centre, y - mean
    made = (centre, mean, (a.T * w) @ a, (a.T * w) @ b, (b.T * w) @ b)
    return Joint(w.sum(), *map(torch.from_numpy, made))


@pytest.fixture
def pair() -> tuple[np.ndarray, np.ndarray]:
    """300 rows, 6 → 4 dimensions: half linear, half noise, scales from 1e-3 to 1e3, means far from zero."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6)) * np.logspace(-3, 3, 6)
    y = (x / np.logspace(-3, 3, 6)) @ rng.standard_normal((6, 4)) + 2 * rng.standard_normal((300, 4))
    return x + 50, y - 7


def least_squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    design = np.column_stack([x - x.mean(axis=0), np.ones(len(x))])
    return np.linalg.lstsq(design, y, rcond=None)[0]


def test_the_share_explained_is_that_of_least_squares(pair) -> None:
    x, y = pair
    design = np.column_stack([x - x.mean(axis=0), np.ones(len(x))])
    left = y - design @ least_squares(x, y)
    expected = 1 - np.square(left).sum() / np.square(y - y.mean(axis=0)).sum()
    of = joint(x, y)
    assert explained(fit(of), of) == pytest.approx(expected, rel=1e-9)
    assert 0.3 < expected < 0.9  # a case that can fail


def test_held_out_is_the_loss_of_the_other_halfs_map(pair) -> None:
    x, y = pair
    halves = np.arange(300) % 3 == 0
    found = []
    for fitted, tried in ((halves, ~halves), (~halves, halves)):
        centre, mean = x[fitted].mean(axis=0), y[fitted].mean(axis=0)
        a = np.linalg.lstsq(x[fitted] - centre, y[fitted] - mean, rcond=None)[0]
        left = (y[tried] - mean) - (x[tried] - centre) @ a
        found.append(1 - np.square(left).sum() / np.square(y[tried] - mean).sum())
    first, second = joint(x[halves], y[halves]), joint(x[~halves], y[~halves])
    both = (explained(fit(first), second) + explained(fit(second), first)) / 2
    assert both == pytest.approx(np.mean(found), rel=1e-9)


def test_parts_merge_to_the_whole(pair) -> None:
    x, y = pair
    whole, parts = joint(x, y), merged([joint(x[:40], y[:40]), joint(x[40:41], y[40:41]), joint(x[41:], y[41:])])
    for name in ("mean_x", "mean_y", "xx", "xy", "yy"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))


def test_likeness_against_the_formulas_on_rows(pair) -> None:
    x, y = pair
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    of = joint(x, y)
    nuclear = np.linalg.svd(a.T @ b, compute_uv=False).sum()
    assert procrustes(of).value == pytest.approx(nuclear / (np.linalg.norm(a) * np.linalg.norm(b)), rel=1e-9)
    expected = np.linalg.norm(a.T @ b) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert token_cka(of).value == pytest.approx(expected, rel=1e-9)
    qa, qb = np.linalg.qr(a)[0], np.linalg.qr(b)[0]
    assert canonical(of) == pytest.approx(np.square(np.linalg.svd(qa.T @ qb, compute_uv=False)).mean(), rel=1e-6)


def test_a_rotation_is_no_angle_and_every_canonical_correlation_is_one() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 5)) * [1, 2, 3, 4, 5]
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    of = joint(x, 3 * x @ rotation + 1)
    assert procrustes(of).value == pytest.approx(1, abs=1e-12)
    assert token_cka(of).value == pytest.approx(1, abs=1e-12)
    skewed = joint(x, x @ rng.standard_normal((5, 5)))
    assert canonical(skewed) == pytest.approx(1, abs=1e-6)
    assert procrustes(skewed).value < 0.95


@pytest.mark.parametrize("measure", [procrustes, token_cka])
def test_influences_are_the_derivative_in_the_weight_of_a_row(measure, pair) -> None:
    x, y = pair[0] / np.logspace(-3, 3, 6), pair[1]
    of = measure(joint(x, y))
    influence = of.influence(torch.from_numpy(x - x.mean(axis=0)), torch.from_numpy(y - y.mean(axis=0)))
    assert float(influence.mean()) == pytest.approx(0, abs=1e-12)
    for row in (0, 17, 200):
        weights = np.ones(300)
        weights[row] += 1e-3
        more = measure(joint(x, y, weights))
        assert (more.value - of.value) * 300 / 1e-3 == pytest.approx(float(influence[row]), rel=1e-2)


def test_fewer_rows_than_dimensions_are_explained_whole() -> None:
    rng = np.random.default_rng(3)
    of = joint(rng.standard_normal((5, 8)), rng.standard_normal((5, 3)))
    assert fit(of).rank == 4
    assert explained(fit(of), of) == pytest.approx(1)


def test_what_a_row_does_to_its_own_map_is_what_leaving_it_out_does(pair):
    """Also where a map has few rows to a dimension, and has drawn its residuals near zero."""
    x, y = (torch.from_numpy(side[:24]) for side in pair)
    of = joint_of(x, y)
    axes = directions(of.xx, of.n)
    whole = explained(fit(of), of)
    found = push(fit(of, axes), axes, of, whole, x, y).numpy() / len(x)
    kept = [[j for j in range(len(x)) if j != i] for i in range(len(x))]
    parts = [joint_of(x[rows], y[rows]) for rows in kept]
    left_out = np.array([whole - explained(fit(part), part) for part in parts])
    assert np.corrcoef(found, left_out)[0, 1] > 0.98
    assert found.std() == pytest.approx(left_out.std(), rel=0.1)


def test_what_a_row_does_to_the_map_is_what_leaving_it_out_does(pair):
    x, y = (torch.from_numpy(side) for side in pair)
    half, others = slice(0, 100), slice(100, None)
    tried = joint_of(x[others], y[others])
    fitted = joint_of(x[half], y[half])
    axes = directions(fitted.xx, fitted.n)
    whole = explained(fit(fitted), tried)
    found = pull(fit(fitted, axes), axes, fitted, tried, whole, x[half], y[half]).numpy()
    kept = [[j for j in range(100) if j != i] for i in range(100)]
    left_out = np.array([whole - explained(fit(joint_of(x[rows], y[rows])), tried) for rows in kept])
    assert np.corrcoef(found, left_out)[0, 1] > 0.98
    assert found.std() == pytest.approx(left_out.std(), rel=0.05)
