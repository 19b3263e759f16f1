"""While much is imported the garbage collector rests."""

import gc

import pytest

from reporter.core.imports import importing


def test_the_collector_rests_and_comes_back():
    with importing():
        assert not gc.isenabled()
        with importing():
            pass
        assert not gc.isenabled(), "the inner one leaves it as it was"
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), importing():
        raise ZeroDivisionError
    assert gc.isenabled()
