"""Turns a run into a guard: its headline numbers as claims, with the intervals of the run as tolerances.

The guard reads the same texts as the run, so their choice is no error: it says ``texts: fixed``, and its numbers are
compared as they stand. A number may move within the 95 % interval over texts that the run had: further than the choice
of texts would have moved it. What is left of noise is rounding: another machine, batch size or number of threads moves
numbers by about 1e-5 of their size in float32, and ``precision: mixed`` by up to 2 %, so the guard names the precision
that the run had; seeds are those of the study.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reporter.claims.numbers import MetricRow, Numbers, at_layer, finite
from reporter.errors import UsageError, hint
from reporter.metrics.registry import catalogue
from reporter.spec import Study
from reporter.spec.layers import as_yaml
from reporter.spec.yaml_reader import read_yaml
from reporter.store import Store

ROUNDING = 1e-4
"""The least tolerance, of the number's size: ten times what rounding moves a number in float32."""
WITHOUT = 0.01
"""The tolerance of a number without an interval, of its size."""


def said(text: str) -> dict[str, Any]:
    """Return what a guard takes over of a study whose whole text is known, for a guard that extends no file."""
    own = read_yaml(text).data
    return {key: value for key, value in own.items() if key not in ("study", "texts", "run", "claims")}


def frozen(store: Store, study: Study, begins: Mapping[str, Any], only: Sequence[str] = ()) -> str:
    """Return a study in YAML that claims what the run of another one measured.

    Args:
        store: the database.
        study: the study that ran.
        begins: what the guard says besides: which study it ``extends``, or all that such a study says.
        only: metrics to freeze; all that have headline numbers if empty.

    Raises:
        UsageError: the study did not run, has no such metric, or no headline number.
    """
    store.require(study.study)
    known = catalogue()
    there = [choice.name for choice in study.metrics]
    for name in only:
        if name not in there:
            raise UsageError(f"the study has no metric '{name}'{hint(name, there, 'it has')}")
    numbers, lines, taken = Numbers(store, study), [], set[str]()
    for metric in (name for name in there if not only or name in only):
        for statistic in known[metric].statistics:
            if not statistic.headline:
                continue
            for row, layer in _rows(numbers, study, f"{metric}.{statistic.name}"):
                name = _name(f"{row.model}-{row.corpus}-{metric}.{statistic.name}", layer, taken)
                lines += _claim(name, f"{metric}.{statistic.name}", row, layer, study.views[0])
    if not lines:
        raise UsageError(f"study '{study.study}' has no headline number to freeze")
    run = study.run.model_dump(mode="json", exclude_defaults=True) | _precision(store, study)
    return "\n".join(
        [
            f"# What `reporter freeze` found in study '{study.study}': each number may lie anywhere in the interval",
            "# over texts that it had. The texts are the same, so they are no error here; rounding is far below this.",
            "# Try another model by `--set models.NAME=PATH`; `--strict` ends with exit code 3 where a number moved.",
            f"study: {study.study[:57]}-frozen",
            as_yaml(begins).rstrip(),
            "texts: fixed",
            *([f"run: {json.dumps(run)}"] if run else []),
            "claims:",
            *lines,
            "",
        ]
    )


def _rows(numbers: Numbers, study: Study, full_name: str) -> Iterator[tuple[MetricRow, int | None]]:
    """Yield the numbers of a statistic to freeze: of the middle and the last block, or of the whole model."""
    statistic = numbers.statistic(full_name)
    ends = {end for end, _ in statistic.fixed} if statistic is not None else set()
    rows = numbers.rows(full_name, study.views[0])
    for model in study.models:
        for corpus in study.corpora:
            own = [row for row in rows if (row.model, row.corpus) == (model, corpus)]
            if not own:
                continue
            last = at_layer(numbers.pick(own, model, None, None), None, None)
            deepest = max((row.layer or 0 for row in last), default=0)
            middle = deepest // 2
            wanted = {middle} | ({deepest} if "last" not in ends else set())
            for row in last:
                if finite(row.value) and (row.layer is None or row.layer in wanted):
                    yield row, row.layer


def _claim(name: str, full_name: str, row: MetricRow, layer: int | None, view: str) -> list[str]:
    """Return the lines of a claim that a number lies where it lay."""
    value, low, high = float(row.value or 0.0), row.low, row.high
    least = ROUNDING * abs(value) or ROUNDING
    if low is None or high is None or high - low <= 2 * least:
        known = low is not None and high is not None
        reach = least if known else WITHOUT * abs(value) or WITHOUT
        low, high = value - reach, value + reach
    number: dict[str, Any] = {"metric": full_name, "model": row.model, "corpus": row.corpus}
    number |= {} if layer is None else {"layer": layer}
    where = "" if layer is None else f" at layer {layer}"
    says = f"{full_name} of {row.model} on {row.corpus}{where} is about {value:.4g}."
    return [
        f"  {name}:",
        f"    says: {json.dumps(says, ensure_ascii=False)}",
        f"    value: {_flow(number | {'view': view})}",
        f"    between: [{_down(low)}, {-_down(-high) or 0.0}]",
    ]


def _flow(number: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in number.items()) + "}"


def _down(value: float) -> float:
    """Return a number rounded down to six digits."""
    if not value:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 5)
    return float(f"{math.floor(value / step) * step:.6g}")


def _name(text: str, layer: int | None, taken: set[str]) -> str:
    """Return a name for a claim that no other has, of at most 64 characters."""
    end = "" if layer is None else f"-{layer}"
    name, number = text[: 64 - len(end)] + end, 2
    while name in taken:
        name, number = f"{text[: 60 - len(end)]}{end}-{number}", number + 1
    taken.add(name)
    return name


def _precision(store: Store, study: Study) -> dict[str, str]:
    """Return the precision in which the run was computed, where all of it was in one."""
    found = store.records(
        "SELECT DISTINCT precision FROM cells WHERE study = $study AND precision IN ('float32', 'mixed')",
        {"study": study.study},
    )
    return {"precision": str(found[0]["precision"])} if len(found) == 1 else {}
