"""Intrinsic dimension against scikit-dimension and the code of Razzhigaev et al., on known manifolds.

Where conventions differ: GRIDE has N − 1 in the place of N in scikit-dimension, so that it reads less by a share of
about 1/N; it also leaves out ratios above q50 + 20·(q95 − q50). TwoNN leaves out the largest tenth of μ everywhere but
in the code of Razzhigaev et al., which fits the smallest fifth.
"""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from truth.authors import llm_microscope

from reporter import geometry
from reporter.geometry.ratios import log_ratios

MANIFOLDS = ("M1_Sphere", "M2_Affine_3to5", "M3_Nonlinear_4to6", "M4_Nonlinear", "M5a_Helix1d", "M5b_Helix2d")
MANIFOLDS += ("M6_Nonlinear", "M7_Roll", "M8_Nonlinear", "M9_Affine", "M10b_Cubic", "M10d_Cubic", "M11_Moebius")
MANIFOLDS += ("M12_Norm", "M13a_Scurve", "M13b_Spiral", "Mp1_Paraboloid")


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


def test_the_code_of_razzhigaev_et_al_reads_the_published_form():
    """``llm-microscope`` 0.0.7, of the authors: the smallest fifth of μ (``reduction_factor``), about the mean."""
    theirs = llm_microscope()
    for seed, n in ((0, 400), (1, 503)):
        x = np.random.default_rng(seed).standard_normal((n, 20)) * np.geomspace(1, 0.05, 20) + 3
        found = theirs.intrinsic_dimension(torch.from_numpy(x), "cpu")
        assert geometry.twonn(x, discard=0.8) == pytest.approx(found, rel=1e-4)  # their F is in float32
        assert geometry.twonn(x) != pytest.approx(found, rel=0.01)  # a case in which the share matters
