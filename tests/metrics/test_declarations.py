"""What a declaration refuses, analyses declare and another package adds; test_contract.py has what metrics declare."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.core.errors import ReporterError
from reporter.judge.claims import least_effect
from reporter.metrics.analysis import analyses
from reporter.metrics.base import METRICS, Statistic, catalogue, metric
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


METRIC = """
import numpy as np

from reporter.metrics.base import Source, Statistic, Value, metric

SOURCES = (Source("Nobody 2026", "Nobody 2026"),)
TOKENS = Statistic("tokens", "tokens", "n of the tokens", SOURCES, method="bootstrap", floor=True)

@metric(name="foreign", title="A", summary="Tokens.", statistics=(TOKENS,), needs=("moments",), cost="nothing")
def foreign(seen, options):
    for place in seen.places:
        yield Value("tokens", place, float(seen.moments(place).n), seen.tokens, spread=20 + np.arange(1e3), floor=9.0)
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Return a function that calls the program beside an installed package with a module of metrics."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    monkeypatch.setattr(METRICS, "_offered", False)
    monkeypatch.syspath_prepend(tmp_path)

    (tmp_path / "theirs-1.0.dist-info").mkdir()
    (tmp_path / "theirs-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")

    def run(module, source, *arguments):
        (tmp_path / f"{module}.py").write_text(source)
        entry = f"[reporter.metrics]\nforeign = {module}\n"
        (tmp_path / "theirs-1.0.dist-info/entry_points.txt").write_text(entry)
        return CliRunner().invoke(app, ["metrics", *arguments])

    return run


# The largest differences of copies of MiniLM and SmolLM2, as tests/oracles/thresholds.py measured them: by a bf16
# copy, another batch, bf16 products or another seed of the sample, and by int8 or noise of 5 % in one block.
MINIMA = [
    ("change.distance", 0.0080, 0.033),
    ("divergence.kl", 0.0005, 0.0022),
    ("divergence.kl_median", 0.00005, 0.0016),
    ("divergence.kl_max", 0.015, 0.16),
    ("divergence.same_top", 0.010, 0.032),
    ("information_imbalance.imbalance", 0.025, None),
    ("journey.rank_content", 0.19, None),
    ("journey.rank_function", 1.2, 9.8),
    ("lens.kl", 0.011, 0.046),
    ("lens.loss", 0.0080, 0.034),
    ("loss.lm", 0.0012, None),
    ("outliers.dimensions", 1.0, None),
    ("subspaces.speed", 0.14, 0.187),
    ("variance.tradeoff", 0.026, 0.037),
]


@pytest.mark.parametrize(("name", "harmless", "harmful"), MINIMA)
def test_a_minimum_is_above_what_harmless_copies_do(name, harmless, harmful):
    """A copy in bf16 is no meaningful change, and damage is one, where numbers tell them apart."""
    metric, _, statistic = name.partition(".")
    least = catalogue()[metric].statistic(statistic).smallest
    assert harmless <= least and (harmful is None or least < harmful)


@pytest.mark.parametrize(("mean", "least"), [(1.6, 2.0), (79.0, 2.0), (33_600.0, 336.0)])  # MiniLM, SmolLM2
def test_a_relative_minimum_grows_with_the_number(mean, least):
    assert least_effect(catalogue()["journey"].statistic("rank_function"), [mean]) == pytest.approx(least)


def test_a_metric_of_another_package_is_explained_and_computed(call):
    result = call("their_metrics", METRIC, "foreign")
    assert result.exit_code == 0 and "n of the tokens" in result.stdout and "Nobody 2026" in result.stdout
    assert "95 % CI over texts (bootstrap)." in result.stdout
    numbers = reporter.measure(np.ones((3, 20, 4), np.float32), ["foreign"], texts=np.arange(20)).layer_metrics
    assert numbers["value"].tolist() == [20, 9] * 3 and set(numbers["statistic"]) == {"tokens", "tokens_floor"}
    ends = numbers.query("statistic == 'tokens'")[["ci_low", "ci_high"]]
    assert ((ends > [20, 900]) & (ends < [60, 1020])).all(axis=None)


@pytest.mark.parametrize(
    ("scale", "bounds", "value", "without"),
    [("fisher", (-1, 1), 0.2, [0.1, 0.3]), ("logit", (0, 2), 1.2, [1.1, 1.3]), ("log", (0, None), 3.0, [2.5, 3.5])],
)
def test_words_and_ends_of_an_interval_follow_from_one_declaration(scale, bounds, value, without):
    statistic = Statistic("x", "x", "x", (), method="jackknife", scale=scale, bounds=bounds, interval="And more.")
    assert re.fullmatch(r"95 % CI over texts \(jackknife, .*\)\. And more\.", statistic.interval)
    low, high = statistic.ends(value, np.array(without * 4))
    to_scale = {"fisher": np.arctanh, "logit": lambda x: np.log(x / (2 - x)), "log": np.log}[scale]
    assert bounds[0] < low < value < high and to_scale(high) - to_scale(value) == pytest.approx(
        to_scale(value) - to_scale(low)
    )
    assert statistic.ends(value, None) == (None, None)


def test_a_package_that_breaks_is_named(call):
    result = call("their_broken_metrics", "import there_is_no_such_module")
    assert result.exit_code not in (0, None) and "Traceback" not in result.stderr
    assert "their_broken_metrics" in result.stderr and "there_is_no_such_module" in result.stderr
