"""The number of texts that the interval of a statistic needs, as counted by ``tests/intervals/study.py --write``."""

import csv
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from reporter.geometry.intervals import FEWEST_TEXTS
from reporter.metrics.base import Difference, Numeric, Value

FILE = "coverage.csv"
LEAST_MEAN = 0.92
"""Mean coverage, over layers and inputs, from which on an interval is shown."""
MOST_MEAN = 0.98
"""Mean coverage up to which an interval is shown, within two standard errors: a wider one hides differences."""
LEAST_IN_LAYER = 0.90
MOST_LAYERS_BELOW = 0.1
"""Share of the layers in which an interval that is shown may cover less than ``LEAST_IN_LAYER``."""
SHOWN_ANYWAY = ("divergence.kl",)
"""Too narrow for some inputs, which no sample can know: the interval is shown, and answers say so."""
UNMEASURED = 0
"""Texts for the interval of a statistic that was not measured, such as a plug-in's: its metric decides."""

N = TypeVar("N", bound=Numeric)


class Coverage(NamedTuple):
    """The measured coverage of a statistic's interval: one line of the file.

    Args:
        statistic: full name; ``difference:`` before it stands for the difference of two sides.
        texts: of each corpus.
        input: model and texts.
        subsets: corpora for each layer.
        layers: layers, or pairs of layers, and token sets with an interval.
        below: how many of them covered less than ``LEAST_IN_LAYER``.
        covered: mean over layers of the share of corpora whose interval covered.
    """

    statistic: str
    texts: int
    input: str
    subsets: int
    layers: int
    below: int
    covered: float


def read(path: Path) -> list[Coverage]:
    """Return every line of the file."""
    with path.open(encoding="utf-8") as file:
        return [
            Coverage(statistic, int(texts), name, int(subsets), int(layers), int(below), float(covered))
            for statistic, texts, name, subsets, layers, below, covered in list(csv.reader(file))[1:]
        ]


def _lines() -> dict[str, dict[int, list[Coverage]]]:
    by_statistic: dict[str, dict[int, list[Coverage]]] = defaultdict(lambda: defaultdict(list))
    for line in read(Path(__file__).parent / FILE):
        by_statistic[line.statistic][line.texts].append(line)
    return by_statistic


@cache
def _needed() -> dict[str, int]:
    needed = {}
    for statistic, by_texts in _lines().items():
        sizes = sorted(by_texts)
        failing = [texts for texts in sizes if clearly_fails(by_texts[texts])]
        enough = (texts for texts in sizes if texts > max(failing, default=0) and covers(by_texts[texts]))
        needed[statistic] = next(enough, 2 * sizes[-1])
    return needed


def covers(lines: list[Coverage]) -> bool:
    """Return whether the interval of a statistic covers as it should at a number of texts, over all inputs."""
    layers, below = sum(line.layers for line in lines), sum(line.below for line in lines)
    often_enough = mean_of(lines) >= LEAST_MEAN and below <= max(1, MOST_LAYERS_BELOW * layers)
    return often_enough and not clearly_fails(lines)


def clearly_fails(lines: list[Coverage]) -> bool:
    """Return whether coverage is off by two standard errors on average, or too low in far too many layers.

    Layers share the corpora that coverage is counted over, so that the error is that of one layer.
    """
    subsets = sum(line.subsets for line in lines)
    error, error_at_most = (0.95 * 0.05 / subsets) ** 0.5, (MOST_MEAN * (1 - MOST_MEAN) / subsets) ** 0.5
    layers, below = sum(line.layers for line in lines), sum(line.below for line in lines)
    far_too_many = below > max(1, 3 * MOST_LAYERS_BELOW * layers)
    too_low, too_high = mean_of(lines) + 2 * error < LEAST_MEAN, mean_of(lines) - 2 * error_at_most > MOST_MEAN
    return too_low or too_high or far_too_many


def mean_of(lines: list[Coverage]) -> float:
    """Return the mean coverage over the layers of all inputs."""
    return sum(line.covered * line.layers for line in lines) / sum(line.layers for line in lines)


def counted(name: str) -> dict[int, float]:
    """Return the mean coverage of a statistic by number of texts, given its name in the file."""
    return {texts: mean_of(lines) for texts, lines in sorted(_lines()[name].items())}


def full_name(metric: str, number: Numeric) -> str:
    """Return what a number is called in the file: ``metric.statistic``, or that of which it is a difference."""
    return f"{'difference:' * isinstance(number, Difference)}{metric}.{number.statistic}"


def texts_needed(name: str) -> int:
    """Return the fewest texts with which the interval of a statistic is shown, given its name in the file.

    A difference that was not measured needs as many as the number that it is a difference of.
    """
    if name in SHOWN_ANYWAY:
        return 0
    return _needed().get(name, _needed().get(name.removeprefix("difference:"), UNMEASURED))


def shown(number: N, metric: str, texts: int, expected: bool = False) -> N:
    """Return a number without its interval, and with the reason, where the interval needs more texts.

    Args:
        number: as the metric yields it.
        metric: name of the metric.
        texts: distinct texts that were measured.
        expected: whether its statistic has intervals, so that one that is missing has a reason.
    """
    needed = texts_needed(full_name(metric, number))
    if number.ci_low is None:
        fixed = isinstance(number, Value) and number.by_definition
        lacks = expected and number.value is not None and not fixed and texts < FEWEST_TEXTS
        reason = f"no interval with fewer than {max(needed, FEWEST_TEXTS)} texts"
        return replace(number, reason=reason) if lacks and not number.reason else number
    if texts >= needed:
        return number
    reason = f"no interval with fewer than {needed} texts, since its coverage would be too far from 95%"
    return replace(number, ci_low=None, ci_high=None, reason=reason)
