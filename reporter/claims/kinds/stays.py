"""``stays:`` claims: a number, at every layer, is what an earlier run of the same texts read, up to rounding.

`reporter freeze` writes them. The texts are the same, so nothing is a sample: the verdict has no p-value, and the
tolerance is what rounding, batch size, threads and machine move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from reporter.claims.common import layer_sql
from reporter.claims.finding import Finding, Range
from reporter.claims.kind import claim_kind
from reporter.claims.numbers import MetricRow, Missing, at_layer, finite
from reporter.spec.claims import Claim, Refers, StatisticName
from reporter.spec.part import AsTuple, Name, Part
from reporter.spec.reading import View

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers

LEAST = 0.1
"""The tolerance is a share of the number's size, but never of a size below this: numbers near 0 have rounding, too."""
WHY = "the earlier run read the same texts: compared as it stands, up to rounding"


class Stays(Part):
    """Which number is compared with an earlier run."""

    metric: StatisticName = Field(description="The statistic, as metric.statistic.")
    model: Annotated[Name, Refers("model")] = Field(description="The model; its last checkpoint is read.")
    corpus: Annotated[Name | None, Refers("corpus", needed=True)] = Field(
        None, description="The corpus; may be left out where the study has one."
    )
    view: Annotated[View | None, Refers("view")] = Field(
        None, description="Which tokens count; the claim's view if left out."
    )


class StaysClaim(Claim):
    """A number, at every layer, is what an earlier run read."""

    stays: Stays = Field(description="The number, as {metric: …, model: …}.")
    values: Annotated[tuple[float | None, ...], AsTuple] = Field(
        min_length=1,
        description="What the earlier run read at layers 0, 1, … (one value for a number of the whole model); null "
        "where there was no number, or one that is fixed by definition.",
    )
    tolerance: float = Field(
        gt=0, description=f"How far each value may move, as a share of its size (of {LEAST:g} where it is smaller)."
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
        """How far the value moved, in tolerances."""
        return float("inf") if self.now is None else abs(self.now - self.before) / self.reach


@claim_kind("stays", StaysClaim, place=5)
def stays_finding(numbers: Numbers, claim: StaysClaim, view: str, baseline: str | None) -> Finding:
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
        raise Missing(f"there are no numbers of {kept.metric} of {model} on '{corpus}' under view '{under}'")
    compared = _compared(claim, profile)
    if not compared:
        raise Missing("every entry of 'values' is null; freeze the study again")
    beyond = [one for one in compared if one.moved > 1]
    shown = beyond[0] if beyond else max(compared, key=lambda one: one.moved)
    statistic = numbers.statistic(kept.metric)
    step = statistic is not None and statistic.per == "step"
    ahead = kept.metric.endswith(".to_last") or (statistic is not None and "last" in dict(statistic.fixed))
    notes = []
    layers, expected = 1 + max(row.layer or 0 for row in profile), len(claim.values)
    if layers != expected:
        counted = "blocks" if step else "layers"
        notes.append(f"there are {layers} {counted} with numbers, and there were {expected}")
    if beyond and profile[0].layer is not None:
        first = shown.layer + step
        place = f"block {first}" if first else "the embedding"
        notes.append(
            f"{len(beyond)} of {len(compared)} layers moved; each is compared with the last layer, so the first is not "
            "where the change began"
            if ahead
            else f"moved first at {place}; the earliest one that any claim names is where the change began"
        )
    same = not beyond and layers == expected
    return Finding(
        None,
        None,
        shown.now,
        wanted=Range(f"{shown.before:.6g} ± {shown.reach:.1g}", shown.before - shown.reach, shown.before + shown.reach),
        plain="supported" if same else "refuted",
        why=WHY,
        detail={
            "statistic": kept.metric,
            "definition": "supported if every value lies within its tolerance of the earlier one, refuted otherwise",
            "models": [model],
            "corpora": [corpus],
            "evidence": [_evidence(one, step) for one in beyond],
            "notes": [*notes, WHY],
            "sql": layer_sql(numbers, kept.metric, under, [model], [corpus]),
        },
    )


def _compared(claim: StaysClaim, profile: list[MetricRow]) -> list[_Comparison]:
    """Return the comparison at each layer that has an earlier value, from the first layer on."""
    now = {row.layer or 0: row.value if finite(row.value) else None for row in profile}
    return [
        _Comparison(layer, before, now.get(layer), claim.tolerance * max(abs(before), LEAST))
        for layer, before in enumerate(claim.values)
        if before is not None
    ]


def _evidence(one: _Comparison, step: bool) -> dict[str, Any]:
    return {"block" if step else "layer": one.layer + step, "before": one.before, "value": one.now}
