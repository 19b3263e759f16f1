"""How numbers are written: fifty cases of single numbers, columns and differences, which the pages' scripts share."""

import json
from math import inf, nan
from pathlib import Path

import pytest

from reporter.core import numbers
from reporter.core.numbers import compared, estimate, estimates, short

CASES = json.loads(Path(__file__).with_name("typesetting.json").read_text("utf-8"))


@pytest.mark.parametrize(("number", "text"), [*CASES["estimate"], ((nan, nan, nan), "–")])
def test_a_number_has_the_decimals_that_its_interval_leaves_certain(number, text):
    assert estimate(*number) == text


@pytest.mark.parametrize(("numbers", "texts"), CASES["estimates"])
def test_a_column_has_one_precision(numbers, texts):
    assert estimates(numbers) == texts


@pytest.mark.parametrize(("numbers", "starts"), CASES["compared"])
def test_a_difference_is_that_of_the_numbers_as_they_are_written(numbers, starts):
    texts = compared(*numbers)
    assert all(map(str.startswith, texts, starts)), texts
    a, b, gap = (float(text.partition(" ")[0].replace("−", "-")) for text in texts)
    assert gap == pytest.approx(a - b, abs=1e-12)
    decimals = len(texts[2].partition(" ")[0].partition(".")[2])
    assert gap == pytest.approx(numbers[2][0], abs=0.5001 * 10**-decimals), "as claims and findings write it"


def test_a_difference_that_is_not_known_is_not_that_of_the_numbers():
    assert compared((0.5, 0.4, 0.6), (0.25, 0.2, 0.3), (None, None, None)) == (
        "0.50 [0.40, 0.60]",
        "0.25 [0.20, 0.30]",
        "–",
    )


@pytest.mark.parametrize(("values", "texts"), CASES["columns"])
def test_columns_have_one_precision(values, texts):
    assert numbers.in_one_precision(values, 3) == texts


@pytest.mark.parametrize(("function", "arguments", "text"), CASES["others"])
def test_other_numbers(function, arguments, text):
    assert getattr(numbers, function)(*arguments) == text


def test_an_infinite_number_and_one_that_is_none():
    assert (short(inf), short(nan)) == ("∞", "–")
