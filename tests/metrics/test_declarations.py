"""What a declaration refuses; test_contract.py holds metrics to what they declare."""

import pytest
from pydantic import BaseModel

from reporter.core.errors import ReporterError
from reporter.metrics.base import Options, SampleOptions, Statistic, catalogue, metric


def test_options_are_closed_and_cut_batches():
    options = SampleOptions(sample=100, batches=3)
    assert options.sample_size() == 300 and Options().sample_size() == 0
    assert options.split(99) == [slice(0, 99)]
    assert options.split(100) == [slice(0, 100)]
    assert options.split(299) == [slice(0, 100), slice(100, 200)]
    assert options.split(10_000) == [slice(0, 100), slice(100, 200), slice(200, 300)]
    for wrong in ({"sample": 31}, {"batches": 0}, {"smaple": 99}):
        with pytest.raises(ValueError):
            SampleOptions(**wrong)
    assert issubclass(Options, BaseModel)


def test_a_name_can_be_taken_once():
    statistics = (Statistic("x", "x", "x", ()),)
    with pytest.raises(ReporterError, match="metric 'motion' is defined twice"):
        metric(name="motion", title="", summary="", statistics=statistics, needs=())(lambda seen, options: iter(()))
    assert catalogue()["motion"].title == "Motion through the layers"


def test_a_work_that_the_bibliography_lacks_is_refused():
    with pytest.raises(ReporterError, match=r"statistic 'x': .*no work 'yamagiwa20'"):
        Statistic("x", "x", "x", ("yamagiwa20",))


def test_a_question_is_one_of_those_that_reports_have():
    statistics = (Statistic("x", "x", "x", ()),)
    with pytest.raises(ReporterError, match=r"'y'.*'sink'.*did you mean 'sinks'"):
        metric(name="y", title="", summary="", statistics=statistics, needs=(), question="sink")
    assert metric(name="y", title="", summary="", statistics=statistics, needs=())
    assert not [name for name, definition in catalogue().items() if definition.question == "other"]
