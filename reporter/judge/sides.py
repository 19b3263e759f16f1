"""The sides of a comparison: encoders and decoders where a study has both, else its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reporter.charts.styles import DECODER, ENCODER, OTHER
from reporter.judge.estimates import FEWEST_MODELS
from reporter.metrics.base import Statistic

MOST_COLUMNS = 6
"""More models of one role are shown as their mean."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a model, or the models of a role, by its name in the table."""

    name: str
    models: tuple[str, ...]
    role: str

    @property
    def several(self) -> bool:
        """Whether it is more than one model."""
        return len(self.models) > 1


@dataclass(frozen=True)
class Sides:
    """The sides of a study.

    Args:
        roles: the role of each model, in the order of the legend.
        tuned: of two models the one that was tuned from the other.
    """

    roles: Mapping[str, str]
    tuned: str | None = None

    @classmethod
    def of(cls, roles: Mapping[str, Any], bases: Mapping[str, Any]) -> Sides:
        """Return the sides of models with their roles and bases, both by model."""
        named = {model: role if role in (ENCODER, DECODER) else OTHER for model, role in roles.items()}
        legend = sorted(named, key=lambda model: (ENCODER, DECODER, OTHER).index(named[model]))
        tuned = next((model for model in legend if bases.get(model) in named.keys() - {model}), None)
        return cls({model: named[model] for model in legend}, tuned if len(legend) == 2 else None)

    @cached_property
    def by_role(self) -> dict[str, tuple[str, ...]]:
        """The models of each role, encoders first, and a tuned model before its base."""
        models: dict[str, tuple[str, ...]] = {}
        for model in sorted(self.roles, key=lambda model: model != self.tuned):
            models[self.roles[model]] = (*models.get(self.roles[model], ()), model)
        return {role: models[role] for role in (ENCODER, DECODER, OTHER) if role in models}

    @cached_property
    def both(self) -> bool:
        """Whether there are encoders and decoders."""
        return {ENCODER, DECODER} <= self.by_role.keys()

    @cached_property
    def each(self) -> dict[str, Side]:
        """Each model as a side, in the order of the legend."""
        return {model: Side(model, (model,), role) for model, role in self.roles.items()}

    @cached_property
    def of_roles(self) -> dict[str, Side]:
        """The models of each role as a side."""
        return {
            role: Side(f"{role}s", models, role) if len(models) > 1 else self.each[models[0]]
            for role, models in self.by_role.items()
        }

    @cached_property
    def pair(self) -> tuple[Side, Side] | tuple[()]:
        """The two sides that are compared, a base last; none of a single model, or of several of one role."""
        if self.both:
            return self.of_roles[ENCODER], self.of_roles[DECODER]
        models = [self.each[model] for of_role in self.by_role.values() for model in of_role]
        return (models[0], models[1]) if len(models) == 2 else ()

    @cached_property
    def columns(self) -> tuple[Side, ...]:
        """The sides that a table shows: the mean of a role of three models or more, else its models."""
        columns: list[Side] = []
        for role, models in self.by_role.items():
            as_one = len(models) >= FEWEST_MODELS if self.both else len(models) > MOST_COLUMNS
            columns += [self.of_roles[role]] if as_one else [self.each[model] for model in models]
        return tuple(columns)

    def comparable(self, statistic: Statistic) -> bool:
        """Tell whether a statistic means the same on all sides."""
        return not (statistic.within_role and self.both)
