"""How numbers are written: fifty cases of single numbers, columns and differences."""

from math import nan

import pytest

from reporter.core.numbers import compared, estimate, estimates, interval, short, signed, span

SINGLE = [
    ((0.2712, 0.2603, 0.2798), "0.27 [0.26, 0.28]"),
    ((0.5, 0.4, 0.6), "0.50 [0.40, 0.60]"),
    ((0.9998, 0.9995, 1.0), "0.9998 [0.9995, 1.0000]"),
    ((0.11, 0.1, 0.119), "0.11 [0.10, 0.12]"),
    ((-0.43, -0.54, -0.32), "−0.43 [−0.54, −0.32]"),
    ((-0.0005, -0.0009, -0.0001), "−0.00050 [−0.00090, −0.00010]"),
    ((0.0001, -0.02, 0.02), "0.000 [−0.020, 0.020]"),
    ((12.34, 10.9, 13.8), "12 [11, 14]"),
    ((28.53, 28.1, 28.9), "28.5 [28.1, 28.9]"),
    ((151.2, 140.0, 163.0), "151 [140, 163]"),
    ((12345.6, 12000.0, 12700.0), "12,346 [12,000, 12,700]"),
    ((5.0, 0.1, 10.0), "5.0 [0.1, 10.0]"),
    ((50.0, 45.0, 55.0), "50 [45, 55]"),
    ((0.00123, 0.00117, 0.0013), "0.0012 [0.0012, 0.0013]"),
    ((3e-7, 2e-7, 4e-7), "3 × 10⁻⁷ [2 × 10⁻⁷, 4 × 10⁻⁷]"),
    ((0.3, None, None), "0.3"),
    ((0.123456, None, None), "0.123"),
    ((nan, nan, nan), "–"),
    ((None, None, None), "–"),
    ((1.0, 1.0, 1.0), "1"),
    ((0.0, -0.5, 0.5), "0.00 [−0.50, 0.50]"),
]
COLUMNS = [
    ([(0.84, 0.83, 0.85), (0.8361, 0.826, 0.846)], ["0.84 [0.83, 0.85]", "0.84 [0.83, 0.85]"]),
    ([(2.078, 2.07, 2.09), (12.0, 11.0, 13.0)], ["2.08 [2.07, 2.09]", "12.00 [11.00, 13.00]"]),
    ([(0.5, 0.4, 0.6), (0.25, None, None)], ["0.50 [0.40, 0.60]", "0.25"]),
    ([(0.5, 0.4, 0.6), (0.123456, None, None)], ["0.50 [0.40, 0.60]", "0.12"]),
    ([(0.123456, None, None), (7.0, None, None)], ["0.123", "7"]),
    ([(None, None, None), (0.5, 0.4, 0.6)], ["–", "0.50 [0.40, 0.60]"]),
    ([(-1.0, -1.2, -0.8), (1.0, 0.8, 1.2)], ["−1.0 [−1.2, −0.8]", "1.0 [0.8, 1.2]"]),
]
DIFFERENCES = [
    (
        ((2.078, 2.0, 2.1), (2.046, 2.0, 2.1), (0.032, 0.01, 0.05)),
        ("2.078 [2.000", "2.046 [2.000", "0.032 [0.010, 0.050]"),
    ),
    (
        ((0.8385, 0.83, 0.85), (0.8361, 0.83, 0.84), (0.0024, 0.001, 0.004)),
        ("0.8385", "0.8361", "0.0024 [0.0010, 0.0040]"),
    ),
    (((28.53, 28.1, 28.9), (30.8, 30.1, 31.5), (-2.27, -3.1, -1.4)), ("28.5", "30.8", "−2.3 [−3.1, −1.4]")),
    (((0.5, None, None), (0.25, None, None), (0.25, None, None)), ("0.5", "0.25", "0.25")),
    (((0.5, 0.4, 0.6), (0.5, 0.4, 0.6), (0.0, -0.1, 0.1)), ("0.50", "0.50", "0.00 [−0.10, 0.10]")),
]
OTHERS = [
    (short, (0.041231,), "0.0412"),
    (short, (4096,), "4,096"),
    (short, (1.2e-5,), "1.2 × 10⁻⁵"),
    (short, (0.99984,), "0.9998"),
    (short, (-3.14159,), "−3.14"),
    (short, (0,), "0"),
    (short, (float("inf"),), "∞"),
    (short, (None,), "–"),
    (short, (99.6,), "100"),
    (signed, (0.0412,), "+0.041"),
    (signed, (-0.0412,), "−0.041"),
    (signed, (0,), "0"),
    (interval, (0.12, 0.31), "[0.12, 0.31]"),
    (interval, (-1, None), ""),
    (interval, (-0.5, 0.25), "[−0.5, 0.25]"),
    (span, ([0.12, 0.31],), "0.12–0.31"),
    (span, ([-0.06, 0.1],), "−0.06 to 0.1"),
]


@pytest.mark.parametrize(("number", "text"), SINGLE)
def test_a_number_has_the_decimals_that_its_interval_leaves_certain(number, text):
    assert estimate(*number) == text


@pytest.mark.parametrize(("numbers", "texts"), COLUMNS)
def test_a_column_has_one_precision(numbers, texts):
    assert estimates(numbers) == texts


@pytest.mark.parametrize(("numbers", "starts"), DIFFERENCES)
def test_a_difference_is_that_of_the_numbers_as_they_are_written(numbers, starts):
    texts = compared(*numbers)
    assert all(map(str.startswith, texts, starts)), texts
    a, b, gap = (float(text.partition(" ")[0].replace("−", "-")) for text in texts)
    assert gap == pytest.approx(a - b, abs=1e-12)


@pytest.mark.parametrize(("function", "arguments", "text"), OTHERS)
def test_other_numbers(function, arguments, text):
    assert function(*arguments) == text
