"""The parts of claims: the keys of every claim, and the parts that its kinds share.

A kind of claim (:mod:`reporter.judge.claims`) is a form that derives from :class:`Claim` and has the kind's key as a
field. Whatever in it names a part of the study says so by its type (:data:`StatisticName`, :data:`Models`,
:data:`Corpora`, or :class:`Refers`), and is looked up there (:mod:`reporter.study.references`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from reporter.core.errors import hint
from reporter.core.places import TokenSet
from reporter.study.corpora import NullBaseline, Site
from reporter.study.offer import ClaimForm, offer_of
from reporter.study.part import AsTuple, Complaint, Name, Part, Text, failure, no_repeats, one_of, wrong
from reporter.study.problems import show

WITH_BASE = "with-base"
GROUPS = ("encoders", "decoders", "all", WITH_BASE)
"""Words for several models: those of a role, every one, those with a ``base``; baselines are none of them."""

TYPE_COLUMNS = ("count", "norm_of_mean", "variance")
"""Numbers of a token type, in the table ``token_types``."""


@dataclass(frozen=True)
class Refers:
    """A mark on the type of a field: its value names a part of the study, or several.

    Args:
        to: what it names. ``statistic`` is ``metric.statistic``; ``models`` may be groups of them, too; ``corpus`` is
            an item where the statistic beside it is one of an analysis; ``either`` is models or corpora.
        needed: whether it must be said where there are several.
    """

    to: Literal["statistic", "model", "models", "corpus", "either", "view", "site", "baseline", "query"]
    needed: bool = False


def _measure(value: str, info: ValidationInfo) -> str:
    """Return ``metric.statistic`` if there is such a statistic, as far as the validation context knows."""
    metric, dot, statistic = value.partition(".")
    if not (metric and dot and statistic):
        raise wrong(f"expected a statistic such as convergence.rate (metric.statistic), got {show(value)}")
    offer = offer_of(info)
    statistics = offer.statistics
    names = dict.fromkeys([*offer.metrics, *statistics])
    if metric not in names:
        raise wrong(f"unknown metric '{metric}'{hint(metric, list(names), 'metrics')}")
    if metric in statistics and statistic not in statistics[metric]:
        ending = hint(statistic, list(statistics[metric]), "its statistics")
        raise wrong(f"metric '{metric}' has no statistic '{statistic}'{ending}")
    if statistics.get(metric, {}).get(statistic) == "pair":
        raise wrong(f"'{value}' is a number of two layers; use `value: {{sql: …}}` with the table layer_pairs")
    return value


def _related(value: str, info: ValidationInfo) -> str:
    is_score = value.startswith("scores.") and len(value) > len("scores.")
    return value if value in TYPE_COLUMNS or is_score else _measure(value, info)


StatisticName = Annotated[str, AfterValidator(_measure), Refers("statistic")]
"""A statistic of the table ``layer_metrics``, as ``metric.statistic``."""

Related = Annotated[str, AfterValidator(_related), Refers("statistic")]
"""A :data:`StatisticName`, ``scores.<name>``, or a number of token types."""


def _layer(value: Any) -> Any:
    if value == "last" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise wrong(f"expected the number of a layer (0 is the embedding) or 'last', got {show(value)}")


Layer = Annotated[
    int | str, BeforeValidator(_layer, json_schema_input_type=Annotated[int, Field(ge=0)] | Literal["last"])
]


def _names(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise wrong(f"expected a name or a list of names, got {show(value)}")
    if not names:
        raise wrong("must not be empty")
    return no_repeats(tuple(names))


_NAMES_SCHEMA = str | Annotated[list[str], Field(min_length=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names, json_schema_input_type=_NAMES_SCHEMA)]
"""A name, or a list of names."""

Models = Annotated[Names, Refers("models")]
"""Models, or groups of them; or a list of these."""

Corpora = Annotated[Names, Refers("corpus")]
"""A corpus, or several; items of an analysis where the statistic beside is one of its own."""

OneSite = Annotated[Site, Refers("site")]
"""A site that the study reads."""


def _one_way_to_name_a_checkpoint(part: Any) -> Any:
    if part.checkpoint is not None and part.step is not None:
        raise wrong("`checkpoint` and `step` cannot be combined; remove one of them", "step", anchor="key")
    return part


def of_whole_model(measure: str, info: ValidationInfo) -> bool:
    """Return whether a statistic is one number for the whole model, not one for each layer."""
    metric, _, statistic = measure.partition(".")
    return offer_of(info).statistics.get(metric, {}).get(statistic) == "model"


def no_layers(part: Any, measure: str) -> list[Complaint]:
    """Return a complaint for each of the keys ``layer`` and ``site`` beside a statistic of the whole model."""
    message = f"'{measure}' is one number for the whole model; remove `{{}}`"
    keys = [key for key in ("layer", "site") if getattr(part, key) is not None]
    return [Complaint(message.format(key), (key,), "key") for key in keys]


class MetricNumber(Part):
    """One number of ``layer_metrics``."""

    metric: StatisticName = Field(description="The statistic, written as metric.statistic.")
    model: Annotated[Name, Refers("models")] = Field(
        description="A model, or a group: 'encoders', 'decoders', 'all' or 'with-base' (models with a `base`). The "
        "claim must hold for each model of a group. A bound that names the same group is read for the same model."
    )
    against: Literal["base"] | None = Field(
        None,
        description="'base': subtract the same statistic of the model's base, both at their last checkpoint. The "
        "interval is paired over texts where the table `differences` has one.",
    )
    corpus: Annotated[Name | None, Refers("corpus", needed=True)] = Field(
        None, description="The corpus. Optional if the study has only one."
    )
    layer: Layer | None = Field(
        None,
        description="Number of a layer (0 is the embedding), or 'last'. Omit it for a statistic of the whole model.",
    )
    site: OneSite | None = Field(
        None, description="Position in the block. Default: 'embedding' for layer 0, 'block' for other layers."
    )
    view: Annotated[TokenSet | None, Refers("view")] = Field(
        None, description="Token set. Default: the token set of the claim."
    )
    checkpoint: Text | None = Field(None, description="Name of the checkpoint. Default: the last checkpoint.")
    step: int | None = Field(None, ge=0, description="Training step of the checkpoint, instead of `checkpoint`.")

    _one_way = model_validator(mode="after")(_one_way_to_name_a_checkpoint)

    @model_validator(mode="after")
    def _of_the_last_checkpoints(self) -> MetricNumber:
        for key in ("checkpoint", "step") if self.against else ():
            if getattr(self, key) is not None:
                message = "cannot be combined with `against`, which compares the last checkpoints; remove one of them"
                raise wrong(message, key, anchor="key")
        return self

    @model_validator(mode="after")
    def _a_layer_where_there_are_layers(self, info: ValidationInfo) -> MetricNumber:
        metric, _, statistic = self.metric.partition(".")
        per = offer_of(info).statistics.get(metric, {}).get(statistic)
        if per in ("layer", "step") and self.layer is None and self.site not in ("embedding", "final"):
            raise wrong(f"'{self.metric}' is measured at every layer; add `layer: NUMBER` or `layer: last`", "metric")
        if of_whole_model(self.metric, info) and (complaints := no_layers(self, self.metric)):
            raise failure(complaints[0])
        return self


class SqlNumber(Part):
    """One number by SQL: the first row of a query."""

    sql: Annotated[str, Field(min_length=1), Refers("query")] = Field(
        description="A query whose first row has the number in the column `value`, or in its only column. Optional "
        "columns `ci_low` and `ci_high` hold the interval. The query sees only this study, with the rows of the first "
        "token set and corpus first."
    )


NUMBERS: dict[str, type[Part]] = {"metric": MetricNumber, "sql": SqlNumber}
_read_number = one_of(NUMBERS, "{metric: convergence.rate, model: bert} or {sql: SELECT …}")


def _bound(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value - value != 0:  # infinite, or not a number
            raise wrong(f"must be a finite number, got {value}")
        return float(value)
    if not isinstance(value, dict):
        raise wrong(f"expected a number, {{metric: …}} or {{sql: …}}, got {show(value)}")
    return _read_number(value, info)


Number = Annotated[
    MetricNumber | SqlNumber, BeforeValidator(_read_number, json_schema_input_type=MetricNumber | SqlNumber)
]
"""A mapping; its key ``metric`` or ``sql`` decides its kind."""

Bound = Annotated[
    float | MetricNumber | SqlNumber, BeforeValidator(_bound, json_schema_input_type=float | MetricNumber | SqlNumber)
]
"""The other side of a comparison: a number, or another :data:`Number`."""


def _sentence(value: str) -> str:
    if not (folded := " ".join(value.split())):
        raise wrong("must not be empty")
    return folded


Sentence = Annotated[str, AfterValidator(_sentence)]
Every = Annotated[
    bool | None,
    Field(
        description="true: each model must show the effect. false: the average of the models must show it, with an "
        "interval for models of this kind. Default: false for 'encoders', 'decoders' and 'all', true otherwise."
    ),
]
AtLeast = Annotated[
    Annotated[float, Field(ge=0)] | None,
    Field(
        description="Minimum meaningful difference, in the unit of the statistic; smaller effects count as none. "
        "Default: the value of the statistic (see `reporter metrics`), or 1 % of the mean size of the numbers."
    ),
]


def by_is_at_least(value: Any) -> Any:
    """Read ``by``, the name of ``at_least`` in older studies."""
    if isinstance(value, dict) and "by" in value:
        if "at_least" in value:
            raise wrong("`by` is the old name of `at_least`; remove `by`", "by", anchor="key")
        return {("at_least" if key == "by" else key): item for key, item in value.items()}
    return value


class Claim(Part):
    """The keys of every claim."""

    says: Sentence = Field(description="The claim in words.")
    source: Sentence | None = Field(None, description="Publication that makes the claim, such as 'Lee 2024'.")
    paper: float | None = Field(None, description="Published value, shown next to the measured one.")
    views: Annotated[tuple[TokenSet, ...], AsTuple, AfterValidator(no_repeats), Refers("view")] = Field(
        (),
        description="Token sets to test. The first decides the verdict; the others show whether the verdict depends on "
        "the token set. Default: the first token set of the study; 'without sinks', if the study has it, when encoders "
        "and decoders are compared.",
    )
    baselines: Annotated[tuple[NullBaseline, ...], AsTuple, AfterValidator(no_repeats), Refers("baseline")] = Field(
        (),
        description="Null baselines of the study to test as well. A baseline with the same effect explains the effect.",
    )


class Selection(Part):
    """The layers, site, view and corpus of a claim."""

    models: Models = Field(
        ("all",),
        description="A model, a list of models, or a group: 'encoders', 'decoders', 'all' or 'with-base' (models with "
        "a `base`). Groups leave out null baselines.",
    )
    corpus: Corpora | None = Field(
        None, description="A corpus or a list of corpora. The claim must hold on each. Default: every corpus."
    )
    site: OneSite | None = Field(
        None, description="Position in the block. Default: the embedding and the output of each block."
    )
    checkpoint: str | None = Field(
        None, description="Name of the checkpoint. Default: the last checkpoint of each model."
    )
    step: int | None = Field(None, ge=0, description="Training step of the checkpoint, instead of `checkpoint`.")

    _one_way = model_validator(mode="after")(_one_way_to_name_a_checkpoint)


def claim_type(kinds: Mapping[str, ClaimForm]) -> Any:
    """Return the type of a claim: a mapping whose kind follows from its key, such as ``value`` or ``shape``."""
    forms: dict[str, type[Claim]] = {key: kind.form for key, kind in kinds.items()}
    if not forms:
        return Claim
    some: Any = Union[tuple(forms.values())]  # noqa: UP007  # made here, of as many as there are
    example = "{says: It rises., shape: {metric: convergence.similarity, is: increasing}}"
    return Annotated[some, BeforeValidator(one_of(forms, example), json_schema_input_type=some)]
