"""Which metrics a study asks for, and with which options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, SerializeAsAny, ValidationError, ValidationInfo

from reporter.errors import hint
from reporter.spec.offer import offer_of
from reporter.spec.part import Complaint, Part, complaints_of, failure, join
from reporter.spec.problems import show

Catalogue = Mapping[str, type[BaseModel]]
"""By name of a metric, the model of its options."""


class MetricChoice(Part):
    """A metric with its options, defaults filled in.

    Args:
        name: the metric's name.
        options: an instance of that metric's options model.
    """

    name: str
    options: SerializeAsAny[BaseModel]


def read_metrics(value: Any, info: ValidationInfo) -> Any:
    """Turn ``all``, ``none``, or a list of names, ``{name: options}`` and ``all``, into :class:`MetricChoice` values.

    Raises:
        ValidationError: an unknown metric or option, or a metric that is listed twice.
    """
    catalogue = offer_of(info).metrics
    if value == "all":
        return _all(catalogue)
    if value == "none":
        return ()
    if not isinstance(value, list | tuple):
        message = f"expected 'all', 'none' or a list such as [convergence, motion], got {show(value)}"
        raise failure(Complaint(message))
    if not value:
        raise failure(Complaint("must not be empty; leave it out to have all metrics"))
    chosen: dict[str, MetricChoice] = {}
    complaints: list[Complaint] = []
    for index, item in enumerate(value):
        if item == "all":
            continue
        try:
            choice = _read_choice(item, catalogue)
        except ValidationError as error:
            complaints += join(complaints_of(error), index)
            continue
        if choice.name in chosen:
            complaints.append(Complaint(f"metric '{choice.name}' is listed twice", (index,)))
        chosen[choice.name] = choice
    if complaints:
        raise failure(*complaints)
    if "all" in value:  # with the options of those that are listed beside it, and with optional ones that are
        everything = {choice.name: choice for choice in _all(catalogue)} | chosen
        return tuple(everything[name] for name in sorted(everything))
    return tuple(chosen.values())


def _all(catalogue: Catalogue) -> tuple[MetricChoice, ...]:
    """Return every metric but those whose options say that they are optional."""
    wanted = {name: options for name, options in catalogue.items() if not getattr(options, "optional", False)}
    return tuple(MetricChoice(name=name, options=options()) for name, options in wanted.items())


def _read_choice(item: Any, catalogue: Catalogue) -> MetricChoice:
    if isinstance(item, MetricChoice):
        return item
    if isinstance(item, str):
        return MetricChoice(name=item, options=_options(item, {}, catalogue, ()))
    if isinstance(item, dict) and len(item) == 1:
        name, options = next(iter(item.items()))
        return MetricChoice(name=name, options=_options(name, options, catalogue, (name,)))
    got = f"a mapping with {len(item)} keys" if isinstance(item, dict) else show(item)
    message = f"expected a metric's name or one mapping {{name: {{option: value}}}}, got {got}"
    raise failure(Complaint(message))


def _options(name: str, given: Any, catalogue: Catalogue, location: tuple[str, ...]) -> BaseModel:
    if name not in catalogue:
        message = f"unknown metric '{name}'{hint(name, list(catalogue), 'there are')}"
        raise failure(Complaint(message, location, "key"))
    model = catalogue[name]
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise failure(Complaint(f"expected a mapping of options, got {show(given)}", location))
    try:
        # By way of JSON, in which strict means: no guessing, but a list will do for a tuple.
        return model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        raise failure(*join(complaints_of(error, list(model.model_fields)), *location)) from None
