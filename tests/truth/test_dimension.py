"""Intrinsic dimension against scikit-dimension, DADApy, the code of Razzhigaev et al., and known manifolds.

Where conventions differ: GRIDE has N − 1 in the place of N in scikit-dimension and in DADApy, so that they read less by
a share of about 1/N; both also leave out ratios above q50 + 20·(q95 − q50). TwoNN leaves out the largest tenth of μ
everywhere but in the code of Razzhigaev et al., which fits the smallest fifth.
"""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from truth.authors import llm_microscope
from truth.dadapy_figures import DIMENSIONS, SCALES, clouds

from reporter import geometry
from reporter.geometry.ratios import log_ratios
from reporter.geometry.spectra import gride_of

LOW = {  # dimension 6 at most: what scikit-dimension calls them, and their dimension
    "M2_Affine_3to5": 3,
    "M3_Nonlinear_4to6": 4,
    "M4_Nonlinear": 4,
    "M5a_Helix1d": 1,
    "M5b_Helix2d": 2,
    "M6_Nonlinear": 6,
    "M7_Roll": 2,
    "M11_Moebius": 2,
    "M13a_Scurve": 2,
    "M13b_Spiral": 1,
    "Mp1_Paraboloid": 3,
}
HIGH = {"M1_Sphere": 10, "M8_Nonlinear": 12, "M9_Affine": 20, "M10b_Cubic": 17, "M10d_Cubic": 70, "M12_Norm": 20}


def manifold(name, n):
    from skdim.datasets import BenchmarkManifolds

    made = BenchmarkManifolds(random_state=0)
    d, width, _ = made._dict_truth[name]
    return d, made.generate(name, n=n, d=d, dim=width)


def root(logs, n, count):
    """The dimension at which the likelihood of GRIDE has no slope, with ``count`` for N."""

    def slope(d):
        return count / d - (2 * n - 1) * logs.sum() + (n - 1) * (logs / -np.expm1(-d * logs)).sum()

    return brentq(slope, 1e-3, 1e3, xtol=1e-12)


@pytest.mark.parametrize("name", LOW)
def test_manifolds_of_low_dimension_read_it(name):
    """Hein & Audibert 2005 and Rozza et al. 2012, as ``skdim.datasets.BenchmarkManifolds`` draws them."""
    d, x = manifold(name, 1500)
    assert d == LOW[name]
    assert geometry.twonn(x) == pytest.approx(d, rel=0.1)
    assert geometry.gride(x, 1) == pytest.approx(d, rel=0.1)


@pytest.mark.parametrize("name", HIGH)
def test_manifolds_of_high_dimension_read_less_the_higher_it_is(name):
    """What Facco et al. 2017 say of it: the density changes between a point and its neighbours, and it reads less."""
    d, x = manifold(name, 1000)
    assert d == HIGH[name]
    assert 0.4 * d < geometry.twonn(x) < 1.2 * d
    if d >= 17:
        assert geometry.twonn(x) < 0.9 * d


@pytest.mark.parametrize("name", [*LOW, *HIGH])
def test_scikit_dimension_reads_the_same_of_every_manifold(name):
    from skdim.id import GRIDE, TwoNN

    _, x = manifold(name, 300)
    with np.errstate(divide="ignore"):
        assert geometry.twonn(x) == pytest.approx(TwoNN().fit(x).dimension_, rel=1e-6)
        of_likelihood = TwoNN(discard_fraction=0, method="mle").fit(x).dimension_
    assert geometry.twonn_ml(x) == pytest.approx(of_likelihood, rel=1e-6)
    logs = log_ratios(torch.from_numpy(x))
    for column, n in enumerate(SCALES):
        # scikit-dimension leaves out ratios that are far out: the slope is taken of those it keeps.
        ratios = np.exp(logs[:, column])
        middle, high = np.quantile(ratios, [0.5, 0.95])
        kept = logs[ratios <= middle + 20 * (high - middle), column]
        theirs = GRIDE(n1=n).fit(x).dimension_
        assert root(kept, n, len(kept) - 1) == pytest.approx(theirs, rel=1e-5)
        if len(kept) == len(logs):
            assert geometry.gride(x, n) == pytest.approx(root(kept, n, len(kept)), rel=1e-6)


@pytest.mark.parametrize("name", DIMENSIONS)
def test_dadapy_reads_the_same_but_for_one_in_n(name):
    x = clouds()[name]
    twonn, twonn_ml, *scales = DIMENSIONS[name]
    assert geometry.twonn(x) == pytest.approx(twonn, abs=2e-6)
    assert geometry.twonn_ml(x) == pytest.approx(twonn_ml, abs=2e-6)
    logs = log_ratios(torch.from_numpy(x))
    for column, (n, theirs) in enumerate(zip(SCALES, scales, strict=True)):
        ours = geometry.gride(x, n)
        assert root(logs[:, column], n, len(x) - 1) == pytest.approx(theirs, rel=1e-4)
        assert root(logs[:, column], n, len(x)) == pytest.approx(ours, rel=1e-6)
        assert theirs < ours < theirs * (1 + 1.2 / len(x))


def test_the_swiss_roll_of_dadapys_documentation():
    """5,000 points: TwoNN 1.96; with noise of 0.3 GRIDE from scale to scale as below, with these errors.

    DADApy, ``IdEstimation.compute_id_2NN`` and ``return_id_scaling_gride``, version 0.3.4. They say no seed.
    """
    from sklearn.datasets import make_swiss_roll

    x, _ = make_swiss_roll(5000, random_state=0)
    assert geometry.twonn(x) == pytest.approx(1.96, abs=3 * 0.04)
    noisy, _ = make_swiss_roll(5000, noise=0.3, random_state=0)
    logs = log_ratios(torch.from_numpy(noisy))
    published = (2.81, 2.71, 2.48, 2.27, 2.11, 1.98, 1.95)
    errors = (0.04, 0.03, 0.02, 0.01, 0.01, 0.01, 0.005)
    for column, (figure, error) in enumerate(zip(published, errors, strict=True)):
        within = 3 * np.sqrt(2) * error + 0.005  # of a difference of two samples, and two digits
        assert gride_of(logs[:, column], 2**column) == pytest.approx(figure, abs=within)


def test_the_code_of_razzhigaev_et_al_reads_the_published_form():
    """``llm-microscope`` 0.0.7, of the authors: the smallest fifth of μ (``reduction_factor``), about the mean."""
    theirs = llm_microscope()
    for seed, n in ((0, 400), (1, 503)):
        x = np.random.default_rng(seed).standard_normal((n, 20)) * np.geomspace(1, 0.05, 20) + 3
        found = theirs.intrinsic_dimension(torch.from_numpy(x), "cpu")
        assert geometry.twonn(x, discard=0.8) == pytest.approx(found, rel=1e-4)  # their F is in float32
        assert geometry.twonn(x) != pytest.approx(found, rel=0.01)  # a case in which the share matters
