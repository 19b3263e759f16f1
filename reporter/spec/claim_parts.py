"""What claims are made of: the name of a statistic, one number, a bound, names of models or corpora."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from reporter.spec.offer import offer_of
from reporter.spec.part import Complaint, Name, Part, Text, failure, one_of
from reporter.spec.problems import hint, show
from reporter.spec.reading import Site, View

GROUPS = ("encoders", "decoders", "all")
"""Words that stand for several models: those of a role, or every one; baselines are none of them."""

TYPE_COLUMNS = ("count", "norm_of_mean", "variance")
"""Numbers of a token type, in the table ``token_types``."""

ANALYSES = ("journeys", "groups", "pairs", "clouds", "probes", "vocabulary")
"""What a study writes itself and has looked at; its statistics stand in ``layer_metrics``, the item's name in the place
of the corpus."""

ONE_ITEM = ("groups", "vocabulary")
"""Analyses that look at all their items together, so that a claim need not name one."""


def _measure(value: str, info: ValidationInfo) -> str:
    """Return ``metric.statistic`` if there is such a statistic, as far as the validation context knows."""
    metric, dot, statistic = value.partition(".")
    if not (metric and dot and statistic):
        message = f"expected a statistic such as convergence.rate (metric.statistic), got {show(value)}"
        raise failure(Complaint(message))
    offer = offer_of(info)
    known = offer.statistics
    names = dict.fromkeys([*offer.metrics, *known])
    if metric not in names:
        raise failure(Complaint(f"unknown metric '{metric}'{hint(metric, list(names), 'there are')}"))
    if metric in known and statistic not in known[metric]:
        ending = hint(statistic, list(known[metric]), "it has")
        raise failure(Complaint(f"metric '{metric}' has no statistic '{statistic}'{ending}"))
    if known.get(metric, {}).get(statistic) == "pair":
        message = f"'{value}' is a number of two layers (table layer_pairs); claim it with value: {{sql: …}}"
        raise failure(Complaint(message))
    return value


def _is_score(value: str) -> bool:
    return value.startswith("scores.") and len(value) > len("scores.")


def _related(value: str, info: ValidationInfo) -> str:
    """Return what a relation may correlate: a statistic, a score of the models, or a number of token types."""
    return value if value in TYPE_COLUMNS or _is_score(value) else _measure(value, info)


Measure = Annotated[str, AfterValidator(_measure)]
"""A statistic of the table ``layer_metrics``, as ``metric.statistic``."""

Related = Annotated[str, AfterValidator(_related)]
"""A :data:`Measure`, ``scores.<name>``, or a number of token types."""


def _layer(value: Any) -> Any:
    if value == "last" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise failure(Complaint(f"expected a layer (0 is the embedding) or 'last', got {show(value)}"))


Layer = Annotated[
    int | str, BeforeValidator(_layer, json_schema_input_type=Annotated[int, Field(ge=0)] | Literal["last"])
]


def _names(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise failure(Complaint(f"expected a name or a list of names, got {show(value)}"))
    if not names:
        raise failure(Complaint("must not be empty"))
    for index, name in enumerate(names):
        if name in names[:index]:
            raise failure(Complaint(f"'{name}' is listed twice", (index,)))
    return tuple(names)


_NAMES_SCHEMA = str | Annotated[list[str], Field(min_length=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names, json_schema_input_type=_NAMES_SCHEMA)]
"""A name, or a list of names."""


class MetricNumber(Part):
    """One number of ``layer_metrics``."""

    metric: Measure = Field(description="The statistic, as metric.statistic.")
    model: Name = Field(description="The model.")
    corpus: Name | None = Field(None, description="The corpus; may be left out where the study has one.")
    layer: Layer | None = Field(
        None, description="A layer (0 is the embedding), or 'last'; left out for a number of the whole model."
    )
    site: Site | None = Field(
        None, description="Where it is read: 'embedding' for layer 0 and 'block' for others if left out."
    )
    view: View | None = Field(None, description="Which tokens count; the claim's view if left out.")
    checkpoint: Text | None = Field(None, description="The checkpoint's name; the last one if left out.")
    step: int | None = Field(None, ge=0, description="The checkpoint's training step, instead of its name.")

    @model_validator(mode="after")
    def _one_way_to_name_a_checkpoint(self) -> MetricNumber:
        if self.checkpoint is not None and self.step is not None:
            message = "'checkpoint' and 'step' exclude each other; keep one of them"
            raise failure(Complaint(message, ("step",), "key"))
        return self

    @model_validator(mode="after")
    def _a_layer_where_there_are_layers(self, info: ValidationInfo) -> MetricNumber:
        metric, _, statistic = self.metric.partition(".")
        per = offer_of(info).statistics.get(metric, {}).get(statistic)
        if per in ("layer", "step") and self.layer is None and self.site not in ("embedding", "final"):
            message = f"'{self.metric}' is measured at every layer; say which with 'layer'"
            raise failure(Complaint(message, ("metric",)))
        if per == "model" and (self.layer is not None or self.site is not None):
            key = "layer" if self.layer is not None else "site"
            raise failure(
                Complaint(f"'{self.metric}' is a number of the whole model; leave '{key}' out", (key,), "key")
            )
        return self


class SqlNumber(Part):
    """One number by SQL: the first row of a query."""

    sql: Annotated[str, Field(min_length=1)] = Field(
        description="A query whose first row has the number in a column 'value' (or in its only column), and may have "
        "its interval in 'ci_low' and 'ci_high'. It sees the rows of this study alone, those of the first view and "
        "corpus first."
    )


NUMBERS: dict[str, type[Part]] = {"metric": MetricNumber, "sql": SqlNumber}
_read_number = one_of(NUMBERS, "{metric: convergence.rate, model: bert} or {sql: SELECT …}")


def _bound(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value - value != 0:  # infinite, or not a number
            raise failure(Complaint(f"must be a finite number, got {value}"))
        return float(value)
    if not isinstance(value, dict | MetricNumber | SqlNumber):
        message = f"expected a number, {{metric: …}} or {{sql: …}}, got {show(value)}"
        raise failure(Complaint(message))
    return _read_number(value, info)


Number = Annotated[
    MetricNumber | SqlNumber, BeforeValidator(_read_number, json_schema_input_type=MetricNumber | SqlNumber)
]
"""A mapping told apart by its key ``metric`` or ``sql``."""

Bound = Annotated[
    float | MetricNumber | SqlNumber, BeforeValidator(_bound, json_schema_input_type=float | MetricNumber | SqlNumber)
]
"""What a number is compared with: a number, or another :data:`Number`."""
