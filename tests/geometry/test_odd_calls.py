"""Any array and any option give a finite number, or an error of reporter that names the argument and says why."""

import inspect
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from oracles.dimension import neighbour_distances
from torch._subclasses.fake_tensor import FakeTensorMode

from reporter import geometry
from reporter.core.errors import UsageError

X = np.random.default_rng(0).standard_normal((40, 6))
T = torch.from_numpy(X)
HIDDEN = np.arange(40)[:, None] >= np.full(6, 5)
PAIRS = {"cka", "mutual_knn"}
SCALE_FREE = sorted(set(geometry.__all__) - {"eigenvalues", "nearest_neighbours", "principal_components"})


def but(x, place, value):
    """Return x with another value at a place."""
    changed = np.array(x)
    changed[place] = value
    return changed


class Broken:
    """An object whose conversion to an array fails in its own way."""

    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError


class Subclass(torch.Tensor):
    """A tensor like any other."""


def odd_arrays():
    """Return odd arguments by name."""
    nested: list = [1.0]
    nested.append(nested)
    with FakeTensorMode():
        fake = torch.ones(40, 6)
    arrays = {"0d": X[0, 0], "1d": X[0], "3d": X[None], "no row": X[:0], "no column": X[:, :0], "1 column": X[:, :1]}
    arrays |= {f"{n} rows": X[:n] for n in (1, 2, 3, 4, 9)} | {"list": X.tolist(), "rows": list(X), "tensors": list(T)}
    arrays |= {"constant": np.ones((40, 6)), "two values": np.repeat(X[:2], 20, axis=0), "lone": but(X * 0, 3, 1.0)}
    arrays |= {str(bad): but(X, (3, 2), bad) for bad in (np.nan, np.inf, -np.inf, 1e9, 1e12, 1e17, 1e200, 1.7e308)}
    arrays |= {f"times {by:g}": X * by for by in (1e300, 1e160, 1e20, 1e-20, 1e-160, 1e-300, 1e-310, 5e-324)}
    arrays |= {f"float32 times {by:g}": X.astype("f4") * np.float32(by) for by in (1e37, 1e-37, 1e-40)}
    arrays |= {f"plus {by:g}": X + by for by in (1e6, 1e9, 1e12, 1e17)}
    arrays |= {"largest": np.sign(X) * 1.7976931348623157e308, "close": but(X, 3, X[4] + 1e-200)}
    arrays |= {"sizes of rows": X * np.geomspace(1e-300, 1e300, 40)[:, None]}
    arrays |= {"sizes of columns": X * np.geomspace(1e-300, 1e300, 6), "far": np.concatenate([X[:20], X[20:] + 1e200])}
    arrays |= {kind: (X * 9).astype(kind) for kind in ("f2", "i1", "i8", ">f8", "g", "?", "c16", "O", "U", "S9")}
    arrays |= {"int64": np.iinfo("i8").min + (X * 9).astype("i8") ** 2, "uint64": np.full((40, 6), 2**64 - 1, "u8")}
    arrays |= {"long": X.astype("g") * np.longdouble("1e4000"), "records": np.zeros((40, 6), [("a", "f8")])}
    arrays |= {
        "dates": np.zeros((40, 6), "M8[s]"),
        "reversed": X[::-1, ::-1],
        "broadcast": np.broadcast_to(X[0], (40, 6)),
    }
    arrays |= {"partly masked": np.ma.array(X, mask=HIDDEN), "masked": np.ma.masked_all((40, 6))}
    arrays |= {"no mask": np.ma.array(X), "masked rows": [np.ma.array(x, mask=x > 1) for x in X]}
    arrays |= {"frame": pd.DataFrame(X), "column": pd.Series(X[0]), "texts": pd.DataFrame(X.astype(str))}
    arrays |= {"NA": pd.DataFrame(X).convert_dtypes().mask(HIDDEN)}
    arrays |= {"csr": scipy.sparse.csr_array(X), "sparse": T.to_sparse(), "meta": T.to("meta"), "fake": fake}
    arrays |= {
        "jagged": torch.nested.nested_tensor([T, T[:3]], layout=torch.jagged),
        "subclass": T.as_subclass(Subclass),
    }
    arrays |= {
        "quantized": torch.quantize_per_tensor(T.float(), 0.1, 0, torch.qint8),
        "grad": T.clone().requires_grad_(),
    }
    arrays |= {"bfloat16": T.bfloat16(), "float8": T.to(torch.float8_e4m3fn), "conj": torch.complex(T, T).conj()}
    arrays |= {
        "imaginary": torch.complex(T, T).conj().imag,
        "integers": (T * 9).long(),
        "broken": Broken(),
        "none": None,
    }
    arrays |= {"ragged": [[1.0, 2.0], [3.0]], "nested": nested, "text": "abc", "type": dict, "set": {1, 2}}
    arrays |= {"generator": iter(X), "complex tensor": torch.complex(T, T)}
    return arrays


@pytest.fixture(scope="module")
def arrays():
    """The odd arguments; not made by other processes of the tests, as PyTorch then reads every module's name."""
    with warnings.catch_warnings(action="ignore"):  # PyTorch's prototypes announce themselves
        return odd_arrays()


OPTIONS = ["a", "", True, -1, 0, 1, 64, 10**30, -(10**30), 10**5000, float("nan"), float("inf"), 0.5, 3.0, np.int64(3)]
OPTIONS += [np.int8(127), np.float32(0.1), np.bool_(True), None, [1], {}, np.array([1, 2]), np.array(1), np.str_("raw")]
OPTIONS += [torch.tensor(1), Fraction(1, 2), 1j, b"raw", object(), len, pd.NA]


def assert_number_or_reason(function, *arguments, **options):
    try:
        values = function(*arguments, **options)
    except UsageError as error:
        assert isinstance(error, ValueError)
        assert any(re.search(rf"\b{name}\b", str(error)) for name in inspect.signature(function).parameters), error
        return
    for value in values if isinstance(values, tuple) else (values,):
        assert isinstance(value, float | np.ndarray) and np.isfinite(value).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", geometry.__all__)
def test_odd_arrays_and_options_give_a_number_or_a_reason(arrays, name):
    function = getattr(geometry, name)
    for array in arrays.values():
        for arguments in ([array, X], [X, array], [array, array]) if name in PAIRS else ([array],):
            assert_number_or_reason(function, *arguments)
    for option in list(inspect.signature(function).parameters)[2 if name in PAIRS else 1 :]:
        for value in OPTIONS:
            assert_number_or_reason(function, *[X] * (2 if name in PAIRS else 1), **{option: value})


@pytest.mark.parametrize("name", SCALE_FREE)
@pytest.mark.parametrize("exponent", [1000, 500, 100, -100, -500, -1000])
def test_a_power_of_two_changes_no_number(name, exponent):
    function = getattr(geometry, name)
    others = [X[:, :3]] if name in PAIRS else []
    assert function(X * 2.0**exponent, *others) == pytest.approx(function(X, *others), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("exponent", [500, 900, -500, -900])
def test_what_scales_is_scaled_back_or_does_not_fit(exponent):
    factor, scaled = 2.0**exponent, X * 2.0**exponent
    distances, rows = geometry.nearest_neighbours(X, 3)
    np.testing.assert_allclose(geometry.nearest_neighbours(scaled, 3)[0], distances * factor, rtol=1e-12)
    assert (geometry.nearest_neighbours(scaled, 3)[1] == rows).all()
    at = geometry.principal_components(X)
    np.testing.assert_allclose(geometry.principal_components(scaled), at * factor, rtol=1e-9, atol=factor * 1e-9)
    if abs(exponent) == 900:
        with pytest.raises(ValueError, match="eigenvalues of x are too"):
            geometry.eigenvalues(scaled)
    else:
        np.testing.assert_allclose(geometry.eigenvalues(scaled), geometry.eigenvalues(X) * factor**2, rtol=1e-12)


@pytest.mark.parametrize("far", [1e9, 1e12, 1e17])
def test_neighbours_are_exact_beside_a_row_far_from_all_others(far):
    x = but(X, (3, 2), far)
    for array in (x, np.concatenate([X, X + far])[:, :3] if far < 1e17 else x):
        distances, rows = geometry.nearest_neighbours(array, 2)
        np.testing.assert_allclose(distances, neighbour_distances(array, 2), rtol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(array[rows[:, 1]] - array, axis=1), distances[:, 1], rtol=1e-9)
    others = np.delete(x, 3, axis=0)
    assert geometry.twonn(x) == pytest.approx(geometry.twonn(others), rel=0.2)


REASONS = {
    "1 rows": "at least .* rows, got 1",
    "no row": "got 0",
    "1d": "must be a matrix .* the shape .6,.",
    "no column": "must be a matrix",
    "nan": "1 rows of x are not finite, first row 3",
    "U": "must hold real numbers",
    "c16": "must hold real numbers",
    "complex tensor": "must hold real numbers",
    "partly masked": "masked values",
    "masked rows": "masked values",
    "csr": "sparse",
    "sparse": "sparse",
    "jagged": "nested",
    "meta": "meta",
    "fake": "FakeTensor",
    "quantized": "quantized",
    "long": "not finite",
    "generator": "got generator|got .*iterator",
    "broken": "ZeroDivisionError",
}


@pytest.mark.parametrize("name", geometry.__all__)
def test_the_reason_is_true(arrays, name):
    for array, reason in REASONS.items():
        with pytest.raises(ValueError, match=reason):
            getattr(geometry, name)(*[arrays[array]] * (2 if name in PAIRS else 1))


def test_states_that_are_equal_or_almost_equal_have_no_number(arrays):
    cases = [(name, "constant", "equal|distinct") for name in {*SCALE_FREE, "eigenvalues"} - {"mean_cosine", *PAIRS}]
    for name in ("cka", "matrix_entropy", "participation_ratio"):
        cases += [(name, "constant", "states of x are equal"), (name, "plus 1e+09", "almost equal")]
        cases += [(name, "plus 1e+17", "equal in float64")]
    for name, array, reason in cases:
        with pytest.raises(ValueError, match=reason):
            getattr(geometry, name)(*[arrays[array]] * (2 if name in PAIRS else 1))


@pytest.mark.parametrize(
    "array", ["no mask", "frame", "list", "rows", "reversed", ">f8", "grad", "subclass", "imaginary"]
)
def test_arrays_with_the_same_numbers_have_the_same_value(arrays, array):
    same = {"reversed": X[::-1, ::-1], ">f8": (X * 9), "imaginary": -X}.get(array, X)
    assert geometry.participation_ratio(arrays[array]) == pytest.approx(geometry.participation_ratio(np.array(same)))
