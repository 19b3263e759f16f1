"""The public functions: equal to the metrics on the same states, to oracles, and refusing in words what cannot be."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from oracles import dimension, pairs
from oracles.again import again

from reporter import geometry
from reporter.app.verify.by_token import _entropies

ALONE = sorted(set(geometry.__all__) - {"cka", "mutual_knn", "nearest_neighbours", "principal_components"})


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    return rng.standard_normal((300, 12)) * np.geomspace(1, 0.05, 12) @ rng.standard_normal((12, 12)) + 0.5


def test_what_is_public_is_there_and_nothing_heavy_comes_with_it():
    assert geometry.__all__ == sorted(geometry.__all__)
    assert all(callable(getattr(geometry, name)) and getattr(geometry, name).__doc__ for name in geometry.__all__)
    code = "import sys, reporter.geometry; print(*{'torch', 'scipy', 'sklearn', 'pandas'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_they_are_what_the_definitions_say(x):
    of_cloud = again("spectrum", [x]) | again("anisotropy", [x], sample=10**9, batches=1)
    expected = {name: value for (name, _), value in of_cloud.items() if name in ALONE}
    expected |= {"twonn": dimension.twonn(x), "twonn_ml": dimension.twonn_ml(x), "matrix_entropy": _entropies(x)[0]}
    assert set(ALONE) == {*expected, "eigenvalues", "gride"}
    for name, value in expected.items():
        assert getattr(geometry, name)(x) == pytest.approx(value, rel=1e-9), name
    assert geometry.twonn(x, 0.8) == pytest.approx(dimension.twonn(x, 0.8), rel=1e-9)
    assert geometry.twonn(np.concatenate([x, x[:9]])) == pytest.approx(dimension.twonn(x), rel=1e-9), "equal states"
    for scale in (1, 8, 64):
        assert geometry.gride(x, scale) == pytest.approx(dimension.gride(x, scale), rel=1e-5)
    assert geometry.matrix_entropy(x, "raw") == pytest.approx(_entropies(x)[1], rel=1e-9)
    assert geometry.matrix_entropy(x[:9], "unit") == pytest.approx(_entropies(x[:9])[2], rel=1e-9)
    singular = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(geometry.eigenvalues(x), singular**2 / len(x), rtol=1e-9)
    y = x[:, :5] + np.random.default_rng(1).standard_normal((300, 5))
    assert geometry.cka(x, y) == pytest.approx(pairs.cka(x, y), abs=2e-5)
    assert geometry.mutual_knn(x, y, 7) == pytest.approx(pairs.knn(x, y, 7), rel=1e-6)
    distances, places = geometry.nearest_neighbours(x, 3)
    np.testing.assert_allclose(distances, dimension.neighbour_distances(x, 3), rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(x[places[:, 2]] - x, axis=1), distances[:, 2], rtol=1e-9)
    at = geometry.principal_components(x, 3)
    np.testing.assert_allclose(at.T @ at / len(x), np.diag(geometry.eigenvalues(x)[:3]), atol=1e-9)


@pytest.mark.parametrize("kind", [np.float32, torch.float64, torch.bfloat16, "wide"])
def test_arrays_of_every_kind(x, kind):
    if kind == "wide":  # fewer states than dimensions
        as_given = np.pad(x[:20], ((0, 0), (0, 40)))
        same = torch.from_numpy(as_given).clone().requires_grad_()
    else:
        as_given = torch.from_numpy(x).to(kind) if isinstance(kind, torch.dtype) else x.astype(kind)
        same = np.asarray(as_given.double() if torch.is_tensor(as_given) else as_given, dtype=np.float64)
    for name in ALONE:
        np.testing.assert_allclose(getattr(geometry, name)(as_given), getattr(geometry, name)(same), rtol=1e-9)
    assert geometry.cka(as_given, same) == pytest.approx(1, abs=1e-6) and geometry.mutual_knn(as_given, same) == 1.0


def test_what_has_no_answer_is_refused(x):
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 2), axis=-1).reshape(-1, 2)
    for name, arguments, says in (
        ("mean_cosine", [np.zeros((5, 3))], "at least two states .* not zero"),
        ("isoscore", [x[:, :1]], "two dimensions"),
        ("decay", [x[:, :4]], "at least three"),
        ("twonn", [x[:9]], "distinct states .* got 9"),
        ("twonn", [grid], "equally far"),
        ("twonn", [x, 0.95], "share from 0 to 0.9"),
        ("gride", [x, 3], "one of 1, 2, 4"),
        ("gride", [x[:20], 16], "scale 16 needs more than 32"),
        ("matrix_entropy", [x, "round"], "one of centred, raw, unit"),
        ("cka", [x, x[:-1]], "x has 300 rows, but y has 299"),
        ("cka", [x, np.ones((300, 2))], "states of y are equal"),
        ("cka", [x, np.eye(300)[:, 7:9] @ [[1.0], [0]]], "all rows of y but row 7 are equal"),
        ("cka", [x[:3], x[:3]], "at least 4"),
        ("mutual_knn", [x[:10], x[:10]], "at least 11"),
        ("mutual_knn", [x, x * (np.arange(300) != 7)[:, None]], "row 7 of y is zero"),
        ("nearest_neighbours", [x[:3], 3], "at least 4"),
        ("nearest_neighbours", [x, 0], "k must be .* at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=says):
            getattr(geometry, name)(*arguments)
