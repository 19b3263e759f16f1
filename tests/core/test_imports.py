"""While much is imported the garbage collector rests."""

import gc

import pytest

from reporter.core.imports import importing


def test_the_collector_rests_and_comes_back():
    with pytest.raises(ZeroDivisionError), importing():
        with importing():
            pass
        assert not gc.isenabled(), "the inner one leaves it as it was"
        raise ZeroDivisionError
    assert gc.isenabled()
