"""Numbers against the packages that authors published with their works, which are installed for these tests alone.

Where conventions differ: GRIDE has N − 1 in the place of N in scikit-dimension, so that it reads less by a share of
about 1/N; it also leaves out ratios above q50 + 20·(q95 − q50). TwoNN leaves out the largest tenth of μ everywhere but
in the code of Razzhigaev et al., which fits the smallest fifth.
"""

import importlib.util
import runpy
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from truth.dadapy_figures import IMBALANCES, spaces

import reporter
from reporter import geometry
from reporter.geometry.ratios import log_ratios
from reporter.geometry.similarity import imbalances

MANIFOLDS = ("M1_Sphere", "M2_Affine_3to5", "M3_Nonlinear_4to6", "M4_Nonlinear", "M5a_Helix1d", "M5b_Helix2d")


def root(logs, n, count):
    """The dimension at which the likelihood of GRIDE has no slope, with ``count`` for N."""

    def slope(d):
        return count / d - (2 * n - 1) * logs.sum() + (n - 1) * (logs / -np.expm1(-d * logs)).sum()

    return brentq(slope, 1e-3, 1e3, xtol=1e-12)


@pytest.mark.parametrize("name", MANIFOLDS)
def test_scikit_dimension_reads_the_same_of_every_manifold(name):
    """Those of Hein & Audibert 2005 and Rozza et al. 2012, as ``skdim.datasets.BenchmarkManifolds`` draws them."""
    from skdim.datasets import BenchmarkManifolds
    from skdim.id import GRIDE, TwoNN

    made = BenchmarkManifolds(random_state=0)
    d, width, _ = made._dict_truth[name]
    x = made.generate(name, n=300, d=d, dim=width)
    with np.errstate(divide="ignore"):
        assert geometry.twonn(x) == pytest.approx(TwoNN().fit(x).dimension_, rel=1e-6)
        of_likelihood = TwoNN(discard_fraction=0, method="mle").fit(x).dimension_
    assert geometry.twonn_ml(x) == pytest.approx(of_likelihood, rel=1e-6)
    logs = log_ratios(torch.from_numpy(x))
    for column, n in enumerate((1, 2, 4, 8, 16, 32)):
        # scikit-dimension leaves out ratios that are far out: the slope is taken of those it keeps.
        ratios = np.exp(logs[:, column])
        middle, high = np.quantile(ratios, [0.5, 0.95])
        kept = logs[ratios <= middle + 20 * (high - middle), column]
        theirs = GRIDE(n1=n).fit(x).dimension_
        assert root(kept, n, len(kept) - 1) == pytest.approx(theirs, rel=1e-5)
        if len(kept) == len(logs):
            assert geometry.gride(x, n) == pytest.approx(root(kept, n, len(kept)), rel=1e-6)


@pytest.mark.parametrize(("n", "d"), [(400, 3), (1000, 30), (50, 49)])
def test_isoscore_is_that_of_its_authors(n, d):
    """``IsoScore`` 2.0.1 (Rudman et al. 2022 and 2023). Its covariance is over n − 1, which no share sees."""
    theirs = pytest.importorskip("IsoScore.IsoScore")
    rng = np.random.default_rng(0)
    for power in (0, 1, 2):
        x = rng.standard_normal((n, d)) * np.arange(1.0, d + 1) ** -power
        x = x @ np.linalg.qr(rng.standard_normal((d, d)))[0] + 2
        assert geometry.isoscore(x) == pytest.approx(float(theirs.IsoScore(x)), rel=1e-5, abs=1e-7)
        assert float(theirs.IsoScore_cov(np.cov(x.T))) == pytest.approx(geometry.isoscore(x), rel=1e-5, abs=1e-7)


@pytest.fixture(scope="module")
def microscope():
    """Return the functions of ``llm-microscope`` 0.0.7 (Razzhigaev et al. 2024 and 2025).

    They are read from their file: the package as it was published imports its own modules by the wrong name.
    """
    package = importlib.util.find_spec("llm_microscope") or pytest.skip("llm-microscope is not installed")
    return SimpleNamespace(**runpy.run_path(f"{package.submodule_search_locations[0]}/functions.py"))


@pytest.mark.parametrize("n", [400, 503])
def test_dimension_and_anisotropy_are_those_of_razzhigaev_et_al(microscope, n):
    """The smallest fifth of μ (``reduction_factor``), about the mean; λ1 / Σλ of the centred states."""
    x = np.random.default_rng(n).standard_normal((n, 20)) * np.geomspace(1, 0.05, 20) + 3
    found = microscope.intrinsic_dimension(torch.from_numpy(x), "cpu")
    assert geometry.twonn(x, discard=0.8) == pytest.approx(found, rel=1e-4)  # their F is in float32
    assert geometry.twonn(x) != pytest.approx(found, rel=0.01)  # a case in which the share matters
    found = microscope.calculate_anisotropy_torch(torch.from_numpy(x))
    assert geometry.top_variance_share(x) == pytest.approx(found, rel=1e-9)


def test_linearity_is_that_of_razzhigaev_et_al(microscope):
    """``procrustes_similarity``: what a linear map of layer l explains of layer l + 1.

    Its ``procrustes_similarity_centered``, of what a block adds, ends before it returns anything; the same function on
    the difference is what it computes.
    """
    rng = np.random.default_rng(2)
    layers = [rng.standard_normal((360, 16)) * np.geomspace(5, 0.2, 16) + 2]
    for noise in (0.1, 1.0, 3.0):
        layers.append(layers[-1] @ rng.standard_normal((16, 16)) / 4 + noise * np.tanh(rng.standard_normal((360, 16))))
    states = np.stack(layers).astype(np.float32)
    steps = list(pairwise(torch.from_numpy(layer).double() for layer in states))
    found = reporter.measure(
        states, ["linearity"], texts=np.arange(360) // 30, view="with special tokens"
    ).layer_metrics
    for name, added in (("linearity", 0), ("update_linearity", 1)):
        expected = [microscope.procrustes_similarity(a, b - added * a) for a, b in steps]
        values = found[found["statistic"] == name].sort_values("layer")["value"].to_numpy(float)
        assert values == pytest.approx(expected, abs=1e-5)
        assert added or max(expected) > 0.9 > 0.7 > min(expected)  # a case that can fail


def test_information_imbalance_is_that_of_dadapy_and_blind_to_what_keeps_the_order_of_distances():
    of = spaces()
    turned = 5 * of["xyz"] @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0] + 1e7
    found = imbalances([partial(torch.from_numpy, x) for x in (turned, *of.values())], np.arange(400) % 2)[0]
    apart = ~np.eye(len(of), dtype=bool)
    np.testing.assert_allclose(found[1:, 1:][apart], IMBALANCES[apart], atol=2e-6)
    assert (found[0, 1], found[1, 0]) == pytest.approx((2 / 400, 2 / 400), abs=1e-12)
