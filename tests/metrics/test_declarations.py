"""What a declaration refuses and analyses declare; test_contract.py holds metrics to what they declare."""

import pytest

from reporter.core.errors import ReporterError
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Statistic, catalogue, metric
from reporter.metrics.pairs import PairsFile
from reporter.metrics.probes import WordsProbe


def test_what_a_declaration_refuses():
    of = {"title": "", "summary": "", "statistics": (Statistic("x", "x", "x", ()),), "needs": ()}
    for declare, problem in (
        (lambda: metric(name="motion", **of)(lambda seen: None), "'motion' is defined twice"),
        (lambda: Statistic("x", "x", "x", ("yamagiwa20",)), "statistic 'x': .*no work 'yamagiwa20'"),
        (lambda: metric(name="y", question="sink", **of), "'y'.*'sink'.*did you mean 'sinks'"),
    ):
        with pytest.raises(ReporterError, match=problem):
            declare()
    assert catalogue()["motion"].title == "Motion through the layers"
    assert not [name for name, definition in catalogue().items() if definition.question == "other"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pairs", None, "there is no such file"),
        ("pairs", "", "is empty; expected a mapping such as {female-male"),
        ("pairs", "a: [[x, y]]", "f.yaml:1:4: a: a concept needs at least 2 pairs, got 1"),
        ("pairs", "a:\n  - [x, y]\n  - [x]", "f.yaml:3:5: a[1]: expected two texts, [first, second], got a list of 1"),
        ("pairs", "a: [[x, y], [x, 3]]", "f.yaml:1:17: a[1][1]: expected text, got the number 3; put it in quotes"),
        ("probes", None, "f.yaml: there is no such file"),
        ("probes", "a: [cat, dog]", "f.yaml:1:1: needs two or more classes, each with its words"),
        ("probes", "a: [cat, dog]\nb: [go]", "f.yaml:2:4: b: expected a list of two or more words"),
        ("probes", "a: [cat, dog]\nb: [go, true]", "f.yaml:2:9: b[1]: expected text, got"),
        ("probes", "a: [run, dog]\nb: [go, run]", "f.yaml: the word 'run' is in 'a' and in 'b'; keep one of them"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / "f.yaml").write_text(text)
    spec = PairsFile(file="f.yaml") if name == "pairs" else WordsProbe(words="f.yaml")
    with pytest.raises(ReporterError) as caught:
        analyses()[name].resolve(spec, tmp_path)
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)
