"""While much is imported the garbage collector rests, and what was made is old afterwards."""

from __future__ import annotations

import gc

import pytest

from reporter.imports import importing


def test_the_collector_rests_and_comes_back() -> None:
    with importing():
        assert not gc.isenabled()
        with importing():
            pass
        assert not gc.isenabled(), "the inner one leaves it as it was"
    assert gc.isenabled() and not gc.get_freeze_count()
    with pytest.raises(ZeroDivisionError), importing():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_was_made_is_old_and_circles_of_it_still_go() -> None:
    with importing():
        made = [[] for _ in range(1000)]
        circle: list[object] = []
        circle.append(circle)
    assert any(one is made[0] for one in gc.get_objects(generation=2))
    number = id(circle)
    del circle
    gc.collect()
    assert not any(id(one) == number for one in gc.get_objects())
