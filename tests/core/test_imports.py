"""While much is imported the garbage collector rests; imports on another core."""

import gc
import sys

import pytest

from reporter.core.imports import import_beside, importing


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


def test_imports_beside_go_on_after_a_module_that_is_not_there(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    import_beside("there_is_no_such_module", "colorsys").join()
    assert "colorsys" in sys.modules
