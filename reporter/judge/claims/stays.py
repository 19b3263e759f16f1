"""``stays:`` claims: a number, at every layer, is what an earlier run of the same texts read, up to rounding.

`reporter export --guard` writes them. The texts are the same, so nothing is a sample: the verdict has no p-value, and
the tolerance is what rounding, batch size, threads and machine move.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from reporter.core.errors import UsageError, hint
from reporter.core.places import TokenSet
from reporter.judge.claims import claim_kind, layer_sql
from reporter.judge.numbers import MetricRow, Missing, Numbers, at_layer, finite
from reporter.judge.outcomes import Detail, Outcome, Range
from reporter.metrics.base import catalogue
from reporter.store import Store
from reporter.study import Study
from reporter.study.claims import Claim, Refers, StatisticName
from reporter.study.load import as_yaml
from reporter.study.part import AsTuple, Name, Part
from reporter.study.yaml_reader import read_yaml

LEAST = 0.1
"""The tolerance is a share of the number's size, but never of a size below this: numbers near 0 have rounding, too."""
WHY = "the earlier run read the same texts, so numbers are compared as they are, up to rounding"


class Stays(Part):
    """The number that is compared with an earlier run."""

    metric: StatisticName = Field(description="The statistic, as metric.statistic.")
    model: Annotated[Name, Refers("model")] = Field(description="The model; its last checkpoint is read.")
    corpus: Annotated[Name | None, Refers("corpus", needed=True)] = Field(
        None, description="The corpus. Optional if the study has only one."
    )
    view: Annotated[TokenSet | None, Refers("view")] = Field(
        None, description="Token set. Default: the token set of the claim."
    )


class StaysClaim(Claim):
    """A number, at every layer, is what an earlier run read."""

    stays: Stays = Field(description="The number, as {metric: …, model: …}.")
    values: Annotated[tuple[float | None, ...], AsTuple] = Field(
        min_length=1,
        description="Numbers of the earlier run at layers 0, 1, …, or one number for the whole model. null: no number, "
        "or one that is fixed by definition.",
    )
    tolerance: float = Field(
        gt=0, description=f"Largest change of a value, as a share of its size (of {LEAST:g} if its size is smaller)."
    )


@dataclass(frozen=True)
class _Comparison:
    """The earlier and the current value at a layer; ``now`` is None where there is no number any more."""

    layer: int
    before: float
    now: float | None
    reach: float

    @property
    def moved(self) -> float:
        """The change of the value, in tolerances."""
        return float("inf") if self.now is None else abs(self.now - self.before) / self.reach


@claim_kind("stays", StaysClaim, place=5, samples=False)
def stays_finding(numbers: Numbers, claim: StaysClaim, view: str, baseline: str | None) -> Outcome:
    """Compare a profile with an earlier run and name the first block that moved.

    Args:
        numbers: the study's numbers.
        claim: what is claimed.
        view: the view, for a claim that names none.
        baseline: a null baseline to read in place of the model.

    Raises:
        Missing: there are no numbers.
    """
    kept = claim.stays
    under = kept.view or view
    model = f"{kept.model} ({baseline})" if baseline else kept.model
    corpus = numbers.corpus_of(kept.metric, under, kept.corpus)
    rows = [row for row in numbers.rows(kept.metric, under) if row.corpus == corpus]
    profile = at_layer(numbers.pick(rows, model, None, None), None, None)
    if not profile:
        raise Missing(f"there are no numbers of {kept.metric} of {model} on '{corpus}' for token set '{under}'")
    compared = _compared(claim, profile)
    if not compared:
        raise Missing("every entry of `values` is null; write the guard again with `reporter export --guard`")
    beyond = [comparison for comparison in compared if comparison.moved > 1]
    shown = beyond[0] if beyond else max(compared, key=lambda comparison: comparison.moved)
    statistic = numbers.facts.statistic(kept.metric)
    step = statistic is not None and statistic.per == "step"
    ahead = kept.metric.endswith(".to_last") or (statistic is not None and "last" in dict(statistic.fixed))
    notes = []
    layers, expected = 1 + max(row.layer or 0 for row in profile), len(claim.values)
    if layers != expected:
        counted = "blocks" if step else "layers"
        notes.append(f"{layers} {counted} have numbers; in the earlier run {expected} had numbers")
    if beyond and profile[0].layer is not None:
        first = shown.layer + step
        place = f"block {first}" if first else "the embedding"
        notes.append(
            f"{len(beyond)} of {len(compared)} layers moved; each is compared with the last layer, so the first of "
            "them does not show where the change began"
            if ahead
            else f"the first number that moved is at {place}; the change began at the earliest one that any claim names"
        )
    same = not beyond and layers == expected
    return Outcome(
        None,
        None,
        shown.now,
        wanted=Range(f"{shown.before:.6g} ± {shown.reach:.1g}", shown.before - shown.reach, shown.before + shown.reach),
        plain="supported" if same else "refuted",
        why=WHY,
        detail=Detail(
            statistic=kept.metric,
            definition="supported if every value is within the tolerance of its earlier value, refuted otherwise",
            models=[model],
            corpora=[corpus],
            evidence=[
                {"block" if step else "layer": of.layer + step, "before": of.before, "value": of.now} for of in beyond
            ],
            notes=[*notes, WHY],
            sql=layer_sql(numbers, kept.metric, under, [model], [corpus]),
        ),
    )


def _compared(claim: StaysClaim, profile: list[MetricRow]) -> list[_Comparison]:
    now = {row.layer or 0: row.value if finite(row.value) else None for row in profile}
    return [
        _Comparison(layer, before, now.get(layer), claim.tolerance * max(abs(before), LEAST))
        for layer, before in enumerate(claim.values)
        if before is not None
    ]


# Turns a run into a guard: its main statistics as claims that each is unchanged at every layer.
#
# The guard reads the same texts as the run, so their choice is no error, and an interval over texts would be far too
# wide a tolerance: int8 rounding of a block moves no number beyond it. What may move a number is rounding. Its
# tolerance is measured: MiniLM (40 paragraphs) and SmolLM2-135M (16), float32, read again with one thread in place of
# two, with batches of 600 tokens in place of 8,192, and with the instructions of another processor (AVX2). No main
# number moved by more than 1.4e-5 of its size (of 0.1 where it is smaller), but for ``local_dimension`` (1.5e-4),
# which picks neighbours. Products in bfloat16 move numbers by up to 2 %, so that a run in mixed precision is not
# frozen.


ROUNDING = 1e-4
"""The tolerance in float32, a share of the number's size: seven times what was measured."""
OF_NEIGHBOURS = {"local_dimension": 1e-3}
"""The tolerance of metrics that pick neighbours, where a rounding can pick another one."""


def inherited(text: str) -> dict[str, Any]:
    """Return what a guard takes over of a study whose whole text is known, for a guard that extends no file."""
    keys = read_yaml(text).data
    return {key: value for key, value in keys.items() if key not in ("study", "texts", "run", "claims")}


def frozen(store: Store, study: Study, begins: Mapping[str, Any], only: Sequence[str] = ()) -> str:
    """Return a study in YAML that claims what the run of another one measured.

    Args:
        store: the database.
        study: the study that ran.
        begins: what the guard says besides: which study it ``extends``, or all that such a study says.
        only: metrics to freeze; all that have main statistics if empty.

    Raises:
        UsageError: the study did not run, has no such metric or no main statistic, or ran in mixed precision.
    """
    store.require(study.study)
    metrics = catalogue()
    names = [choice.name for choice in study.metrics]
    for name in only:
        if name not in names:
            raise UsageError(f"the study has no metric '{name}'{hint(name, names, 'it has')}")
    _require_float32(store, study)
    numbers, lines, taken = Numbers(store, study), [], set[str]()
    for metric in (name for name in names if not only or name in only):
        for statistic in metrics[metric].statistics:
            if not statistic.main:
                continue
            for profile in _profiles(numbers, study, f"{metric}.{statistic.name}"):
                name = _name(f"{profile[0].model}-{profile[0].corpus}-{metric}.{statistic.name}", taken)
                lines += _claim(name, f"{metric}.{statistic.name}", profile, study.views[0])
    if not lines:
        raise UsageError(f"study '{study.study}' has no main statistic to freeze")
    run = study.run.model_dump(mode="json", exclude_defaults=True) | {"precision": "float32"}
    return "\n".join(
        [
            f"# Written by `reporter export --guard` from study '{study.study}'. Each claim fails if a number changes",
            "# by more than rounding. `values` holds the numbers of layers 0, 1, 2, …",
            "# To check another model, add `--set models.NAME=PATH`. `--strict` exits with 3 if a claim is refuted.",
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
    rows = numbers.rows(full_name, study.views[0])
    for model in study.models:
        for corpus in study.corpora:
            cell = [row for row in rows if (row.model, row.corpus) == (model, corpus)]
            profile = at_layer(numbers.pick(cell, model, None, None), None, None) if cell else []
            if any(_is_measured(row) for row in profile):
                yield profile


def _is_measured(row: MetricRow) -> bool:
    return finite(row.value) and not row.by_definition


def _claim(name: str, full_name: str, profile: Sequence[MetricRow], view: str) -> list[str]:
    """Return the lines of a claim that a profile is unchanged."""
    model, corpus = profile[0].model, profile[0].corpus
    values: list[str] = ["null"] * (1 + max(row.layer or 0 for row in profile))
    for row in profile:
        if _is_measured(row):
            values[row.layer or 0] = json.dumps(float(f"{row.value:.9g}"))
    says = f"{full_name} of {model} on {corpus} is unchanged."
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
    name, number = text[:64], 2
    while name in taken:
        name, number = f"{text[:60]}-{number}", number + 1
    taken.add(name)
    return name


def _require_float32(store: Store, study: Study) -> None:
    precisions = store.records(
        "SELECT DISTINCT precision FROM cells WHERE study = $study AND precision <> 'float32'", {"study": study.study}
    )
    if study.run.precision == "mixed" or precisions:
        precision = str(precisions[0]["precision"]) if precisions else "mixed"
        raise UsageError(
            f"study '{study.study}' ran in precision '{precision}', whose rounding would hide a change; run it again "
            "with `--set run.precision=float32`, then write the guard with `run: {precision: float32}` in the study"
        )
