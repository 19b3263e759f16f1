"""Turns a run into a guard: its headline numbers as claims that each stays what it is at every layer.

The guard reads the same texts as the run, so their choice is no error, and an interval over texts would be far too wide
a tolerance: int8 rounding of a block moves no number beyond it. What may move a number is rounding. Its tolerance is
measured: MiniLM (40 paragraphs) and SmolLM2-135M (16), float32, read again with one thread in place of two, with
batches of 600 tokens in place of 8,192, and with the instructions of another processor (AVX2). No headline number
moved by more than 1.4e-5 of its size (of 0.1 where it is smaller), but for ``local_dimension`` (1.5e-4), which
picks neighbours. Products in bfloat16 move numbers by up to 2 %, so that a run in mixed precision is not frozen.
"""

from __future__ import annotations

import json
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
"""The tolerance in float32, a share of the number's size: seven times what was measured."""
OF_NEIGHBOURS = {"local_dimension": 1e-3}
"""The tolerance of metrics that pick neighbours, where a rounding can pick another one."""


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
        UsageError: the study did not run, has no such metric or no headline number, or ran in mixed precision.
    """
    store.require(study.study)
    known = catalogue()
    there = [choice.name for choice in study.metrics]
    for name in only:
        if name not in there:
            raise UsageError(f"the study has no metric '{name}'{hint(name, there, 'it has')}")
    _require_float32(store, study)
    numbers, lines, taken = Numbers(store, study), [], set[str]()
    for metric in (name for name in there if not only or name in only):
        for statistic in known[metric].statistics:
            if not statistic.headline:
                continue
            for profile in _profiles(numbers, study, f"{metric}.{statistic.name}"):
                name = _name(f"{profile[0].model}-{profile[0].corpus}-{metric}.{statistic.name}", taken)
                lines += _claim(name, f"{metric}.{statistic.name}", profile, study.views[0])
    if not lines:
        raise UsageError(f"study '{study.study}' has no headline number to freeze")
    run = study.run.model_dump(mode="json", exclude_defaults=True) | {"precision": "float32"}
    return "\n".join(
        [
            f"# What `reporter freeze` found in study '{study.study}': each number may move by what rounding moves.",
            "# The texts are the same, so they are no error here. `values` are those of layers 0, 1, 2, …",
            "# Try another model by `--set models.NAME=PATH`; `--strict` ends with exit code 3 where a number moved.",
            f"study: {study.study[:57]}-frozen",
            as_yaml(begins).rstrip(),
            "texts: fixed",
            f"run: {json.dumps(run)}",
            "claims:",
            *lines,
            "",
        ]
    )


def _profiles(numbers: Numbers, study: Study, full_name: str) -> Iterator[list[MetricRow]]:
    """Yield the profile of each model's last checkpoint on each corpus, if the definition leaves it free."""
    rows = numbers.rows(full_name, study.views[0])
    for model in study.models:
        for corpus in study.corpora:
            own = [row for row in rows if (row.model, row.corpus) == (model, corpus)]
            profile = at_layer(numbers.pick(own, model, None, None), None, None) if own else []
            if any(_free(row) for row in profile):
                yield profile


def _free(row: MetricRow) -> bool:
    return finite(row.value) and not row.by_definition


def _claim(name: str, full_name: str, profile: Sequence[MetricRow], view: str) -> list[str]:
    """Return the lines of a claim that a profile stays what it is."""
    model, corpus = profile[0].model, profile[0].corpus
    values: list[str] = ["null"] * (1 + max(row.layer or 0 for row in profile))
    for row in profile:
        if _free(row):
            values[row.layer or 0] = json.dumps(float(f"{row.value:.9g}"))
    says = f"{full_name} of {model} on {corpus} stays what it is."
    number = {"metric": full_name, "model": model, "corpus": corpus, "view": view}
    tolerance = OF_NEIGHBOURS.get(full_name.partition(".")[0], ROUNDING)
    return [
        f"  {name}:",
        f"    says: {json.dumps(says, ensure_ascii=False)}",
        f"    stays: {_flow(number)}",
        f"    values: [{', '.join(values)}]",
        f"    tolerance: {tolerance:f}".rstrip("0"),
    ]


def _flow(number: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in number.items()) + "}"


def _name(text: str, taken: set[str]) -> str:
    """Return a name for a claim that no other has, of at most 64 characters."""
    name, number = text[:64], 2
    while name in taken:
        name, number = f"{text[:60]}-{number}", number + 1
    taken.add(name)
    return name


def _require_float32(store: Store, study: Study) -> None:
    """Raise where numbers of the run were computed in a precision whose rounding would hide a change."""
    found = store.records(
        "SELECT DISTINCT precision FROM cells WHERE study = $study AND precision <> 'float32'",
        {"study": study.study},
    )
    if study.run.precision == "mixed" or found:
        there = str(found[0]["precision"]) if found else "mixed"
        raise UsageError(
            f"study '{study.study}' ran in precision '{there}', whose rounding would hide a change; run it again "
            "with `--set run.precision=float32`, then freeze it with `run: {precision: float32}` in the study"
        )
