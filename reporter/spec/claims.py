"""Claims: statements about the numbers of a study that can turn out right or wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from reporter.spec.claim_parts import TYPE_COLUMNS, Bound, Layer, Measure, Names, Number, Related, SqlNumber
from reporter.spec.part import AsTuple, Complaint, Part, failure, no_repeats, one_of
from reporter.spec.problems import choices, show
from reporter.spec.reading import NullBaseline, Site, View

ShapeName = Literal["bell", "flat", "increasing", "decreasing", "rise-then-fall", "peak-at"]


def _sentence(value: str) -> str:
    if not (folded := " ".join(value.split())):
        raise failure(Complaint("must not be empty"))
    return folded


Sentence = Annotated[str, AfterValidator(_sentence)]
Every = Annotated[
    bool | None,
    Field(
        description="Whether each model must show it by itself; if not, their average must, with an uncertainty that "
        "speaks of models like these. If left out: each of those that are named, the average of 'encoders', 'decoders' "
        "and 'all'."
    ),
]
AtLeast = Annotated[
    Annotated[float, Field(ge=0)] | None,
    Field(
        description="The smallest effect that counts, in the statistic's unit; what is smaller is none. If left out: "
        "the statistic's own (see 'reporter metrics'), or 1 % of the numbers' mean size."
    ),
]


def by_is_at_least(value: Any) -> Any:
    """Read ``by``, which ``at_least`` was called in older studies."""
    if isinstance(value, dict) and "by" in value:
        if "at_least" in value:
            message = "'by' is what 'at_least' was called; keep 'at_least'"
            raise failure(Complaint(message, ("by",), "key"))
        return {("at_least" if key == "by" else key): item for key, item in value.items()}
    return value


class _Claim(Part):
    """What every claim says of itself."""

    says: Sentence = Field(description="The claim in words.")
    source: Sentence | None = Field(None, description="Who says it, and where.")
    paper: float | None = Field(None, description="The number that the work itself gives, shown beside ours.")
    views: Annotated[tuple[View, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Views to test it under. The first one decides; the others show whether the verdict hangs on "
        "which tokens count. The study's first view if left out; where models of both roles are compared, 'no-sinks' "
        "if the study has it.",
    )
    baselines: Annotated[tuple[NullBaseline, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (), description="Null baselines of the study to test it on, too; one that shows the same explains it away."
    )


class _Selection(Part):
    """Where the numbers of a claim are read."""

    models: Names = Field(
        ("all",), description="A model, a list of models, 'encoders', 'decoders' or 'all'; baselines are none of them."
    )
    corpus: Names | None = Field(
        None, description="A corpus, or several; every one if left out. The claim must hold on each of them."
    )
    site: Site | None = Field(
        None, description="Where states are read: along the embedding and the blocks if left out."
    )
    checkpoint: str | None = Field(None, description="The checkpoint's name; each model's last one if left out.")
    step: int | None = Field(None, ge=0, description="The checkpoint's training step, instead of its name.")

    @model_validator(mode="after")
    def _one_way_to_name_a_checkpoint(self) -> _Selection:
        if self.checkpoint is not None and self.step is not None:
            raise failure(Complaint("'checkpoint' and 'step' exclude each other; keep one of them", ("step",), "key"))
        return self


class ValueClaim(_Claim):
    """A number is near the published one, or above, below or between others."""

    value: Number = Field(description="The number: {metric: …, model: …} or {sql: …}.")
    within: float | None = Field(None, ge=0, description="How far from 'paper' it may lie.")
    above: Bound | None = Field(None, description="It is greater than this number, {metric: …} or {sql: …}.")
    below: Bound | None = Field(None, description="It is less than this number, {metric: …} or {sql: …}.")
    between: Annotated[tuple[Bound, Bound], AsTuple] | None = Field(
        None, description="It lies between two numbers, [low, high]."
    )

    @model_validator(mode="after")
    def _is_tested_in_one_way(self) -> ValueClaim:
        if self.within is not None and self.paper is None:
            raise failure(Complaint("needs 'paper', the number it is compared with", ("within",), "key"))
        given = [key for key in ("within", "above", "below", "between") if getattr(self, key) is not None]
        if not given:
            message = "needs a test: 'within' (of 'paper'), 'above', 'below' or 'between'"
            raise failure(Complaint(message, (), "parent"))
        if len(given) > 1:
            message = f"'{given[0]}' and '{given[1]}' exclude each other; keep one of them, or use 'between'"
            raise failure(Complaint(message, (given[1],), "key"))
        low, high = self.between or (None, None)
        if isinstance(low, float) and isinstance(high, float) and low >= high:
            raise failure(
                Complaint(f"the first number ({low:g}) must be less than the second ({high:g})", ("between",))
            )
        if isinstance(self.value, SqlNumber) and (self.views or self.baselines):
            key = "views" if self.views else "baselines"
            message = "goes with {metric: …}; a query says itself what it reads"
            raise failure(Complaint(message, (key,), "key"))
        return self


class Shape(_Selection):
    """What a profile over depth or over training looks like."""

    _old_name = model_validator(mode="before")(by_is_at_least)

    metric: Measure = Field(description="The statistic, as metric.statistic.")
    over: Literal["depth", "step"] = Field("depth", description="The axis: the layers, or the training checkpoints.")
    is_: ShapeName = Field(
        alias="is",
        description="bell: the middle third lies above both outer thirds; rise-then-fall: the same of some "
        "neighbouring points, wherever, against both ends; increasing, decreasing: from no point to a later one does "
        "it fall (rise) by more than 'tolerance'; flat: all within 'tolerance' of their mean; peak-at: the maximum "
        "lies at 'at', give or take 'within'. Values that are fixed by definition take no part.",
    )
    at_least: AtLeast = None
    tolerance: float | None = Field(
        None,
        gt=0,
        description="In the statistic's unit. flat: how far from the mean a point may lie (10 % of the mean's size "
        "if left out, or 'at_least' where that is more). increasing, decreasing: how far against the trend ('at_least' "
        "if left out). bell, rise-then-fall: how deep a valley between two hills may be (25 % of the hill's height "
        "over the higher end, or 'at_least').",
    )
    at: float | None = Field(None, ge=0, description="peak-at: the depth (0 to 1) or the training step of the maximum.")
    within: float | None = Field(
        None, gt=0, description="peak-at: how far from 'at' the maximum may lie; 0.1 over depth if left out."
    )
    layer: Layer | None = Field(
        None, description="over: step only: the layer to follow; the mean over layers if left out."
    )
    every: Every = None

    @model_validator(mode="after")
    def _fits_together(self) -> Shape:
        complaints = []
        if self.is_ == "peak-at":
            if self.at is None:
                complaints.append(Complaint("'peak-at' needs the key 'at'", ("is",)))
            elif self.over == "depth" and self.at > 1:
                complaints.append(Complaint(f"a depth lies between 0 and 1, got {self.at:g}", ("at",)))
            elif self.over == "step" and self.within is None:
                complaints.append(Complaint("'peak-at' over steps needs the key 'within'", ("is",)))
        else:
            for key in ("at", "within"):
                if getattr(self, key) is not None:
                    complaints.append(Complaint("goes only with 'is: peak-at'", (key,), "key"))
        if self.is_ == "flat" and self.at_least is not None:
            message = "does not go with 'is: flat'; use 'tolerance', how far from the mean a point may lie"
            complaints.append(Complaint(message, ("at_least",), "key"))
        if self.is_ == "peak-at" and self.tolerance is not None:
            complaints.append(Complaint("does not go with 'is: peak-at'; use 'within'", ("tolerance",), "key"))
        if self.over == "depth":
            if self.layer is not None:
                complaints.append(Complaint("goes only with 'over: step'", ("layer",), "key"))
            if self.site in ("embedding", "final"):
                complaints.append(Complaint(f"'{self.site}' is a single place, not a profile", ("site",)))
        elif self.checkpoint is not None or self.step is not None:
            key = "checkpoint" if self.checkpoint is not None else "step"
            complaints.append(Complaint("does not go with 'over: step'", (key,), "key"))
        if complaints:
            raise failure(*complaints)
        return self


class ShapeClaim(_Claim):
    """A profile over depth or training steps has a shape."""

    shape: Shape = Field(description="The profile and its shape.")


class SideParts(Part):
    """One of the two sets that are compared."""

    models: Names | None = Field(None, description="Models, or 'encoders', 'decoders' or 'all'.")
    corpus: Names | None = Field(None, description="Corpora.")

    @model_validator(mode="after")
    def _names_something(self) -> SideParts:
        if self.models is None and self.corpus is None:
            raise failure(Complaint("needs one of the keys 'models' or 'corpus'", (), "parent"))
        return self


def _side(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, dict):
        return SideParts.model_validate(value, context=info.context)
    if isinstance(value, str | list | tuple | SideParts):
        return value
    message = f"expected a name, a list of names or a mapping such as {{models: encoders}}, got {show(value)}"
    raise failure(Complaint(message))


Side = Annotated[SideParts | Names, BeforeValidator(_side, json_schema_input_type=SideParts | Names)]
"""Names, all of models or all of corpora, or :class:`SideParts`."""


class Differ(Part):
    """Two sets of models or of corpora, and on what they differ."""

    _old_name = model_validator(mode="before")(by_is_at_least)

    metric: Measure = Field(description="The statistic, as metric.statistic.")
    a: Side = Field(description="The first set: models, a role, or corpora.")
    b: Side = Field(description="The second set.")
    is_: Literal["above", "below", "different", "same"] = Field(
        alias="is", description="a lies above or below b by more than 'at_least', they differ by more, or less (same)."
    )
    at_least: AtLeast = None
    models: Names = Field(("all",), description="Where a and b are corpora: on which models they are compared.")
    corpus: Names | None = Field(
        None, description="Where a and b are models: a corpus, or several, of which the mean is taken; all if left out."
    )
    layer: Layer | None = Field(None, description="A layer, or 'last'; the mean over layers if left out.")
    site: Site | None = Field(None, description="Where states are read: the embedding and the blocks if left out.")

    @model_validator(mode="after")
    def _can_be_shown(self) -> Differ:
        if self.is_ == "same" and not self.at_least:
            message = "'same' needs the key 'at_least': from which difference on they are no longer the same"
            raise failure(Complaint(message, ("is",)))
        return self


class DifferClaim(_Claim):
    """Two sets of models or corpora differ on a statistic."""

    differ: Differ = Field(description="The two sets and the statistic.")


class Relation(_Selection):
    """A correlation of two statistics."""

    _old_name = model_validator(mode="before")(by_is_at_least)

    x: Related = Field(
        description="metric.statistic; over models also scores.<name>; over types 'count', "
        "'norm_of_mean' or 'variance'."
    )
    y: Related = Field(description="What it is correlated with, named like x.")
    over: Literal["layers", "types", "models"] = Field(description="What the points are.")
    is_: Literal["positive", "negative", "none"] = Field(
        alias="is", description="The correlation's sign; 'none': it is weaker than 'at_least'."
    )
    at_least: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None,
        description="How strong the correlation is at least, 0.1 if left out (a small one by Cohen 1988); for 'none', "
        "from which strength on it is one.",
    )
    method: Literal["spearman", "pearson"] = Field("spearman", description="Which correlation.")
    layer: Layer | None = Field(
        None, description="over: types and models: a layer, or 'last'; the mean over layers if left out."
    )
    every: Every = None

    @model_validator(mode="after")
    def _fits_together(self) -> Relation:
        complaints = []
        if self.is_ == "none" and not self.at_least:
            message = "'none' needs the key 'at_least': from which strength on it is a correlation"
            complaints.append(Complaint(message, ("is",)))
        for key in ("x", "y"):
            name = getattr(self, key)
            if (name in TYPE_COLUMNS) != (self.over == "types"):
                allowed = choices(TYPE_COLUMNS) if self.over == "types" else "metric.statistic"
                message = f"over {self.over} it must be {allowed}, got {show(name)}"
                complaints.append(Complaint(message, (key,)))
            elif name.startswith("scores.") and self.over != "models":
                complaints.append(Complaint("scores go only with 'over: models'", (key,)))
        if self.x == self.y:
            complaints.append(Complaint(f"'{self.x}' is x, too; name another one", ("y",)))
        if self.over == "layers" and self.layer is not None:
            complaints.append(Complaint("does not go with 'over: layers'", ("layer",), "key"))
        if self.over == "layers" and self.site in ("embedding", "final"):
            complaints.append(Complaint(f"'{self.site}' is a single place", ("site",)))
        if complaints:
            raise failure(*complaints)
        return self


class RelationClaim(_Claim):
    """Two statistics go together, or do not."""

    relation: Relation = Field(description="The two statistics and how they go together.")


CLAIMS: dict[str, type[Part]] = {
    "value": ValueClaim,
    "shape": ShapeClaim,
    "differ": DifferClaim,
    "relation": RelationClaim,
}
_Any = ValueClaim | ShapeClaim | DifferClaim | RelationClaim

ClaimSpec = Annotated[
    _Any,
    BeforeValidator(
        one_of(CLAIMS, "{says: It rises., shape: {metric: convergence.similarity, is: increasing}}"),
        json_schema_input_type=_Any,
    ),
]
"""A mapping told apart by its key ``value``, ``shape``, ``differ`` or ``relation``."""
