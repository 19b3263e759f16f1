"""Which models are independent of each other: copies count once, relatives count as one.

Three fine-tunings of one model agree because they share nearly all of their weights, not because models like them do.
So the spread between them says nothing of other models. Seeds of one recipe are trained apart and are no relatives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reporter.core.errors import SHORT
from reporter.study.models import HubModel, ModelSpec, PathModel, RecipeModel
from reporter.study.recipes import Tuning


@dataclass(frozen=True)
class Origins:
    """Where models come from.

    Args:
        rows: the table ``models``.
        specs: the models as the study writes them; none where there is only the database.
    """

    rows: Sequence[Mapping[str, Any]]
    specs: Mapping[str, ModelSpec]

    @cached_property
    def fingerprints(self) -> dict[str, frozenset[str]]:
        """The fingerprints of the checkpoints of each model."""
        prints_of: dict[str, frozenset[str]] = defaultdict(frozenset)
        for row in self.rows:
            if row.get("fingerprint") is not None:
                prints_of[row["model"]] |= {str(row["fingerprint"])}
        return dict(prints_of)

    @cached_property
    def bases(self) -> dict[str, str]:
        """The model that each model was tuned from, where it has one."""
        return {row["model"]: str(row["base"]) for row in self.rows if row.get("base") is not None}

    @cached_property
    def locations(self) -> dict[str, str]:
        """The repository or the folder that each model was loaded from."""
        return {
            row["model"]: f"{row['source']} {row['location']}"
            for row in self.rows
            if row.get("source") in ("hub", "path") and row.get("location") is not None
        }


@dataclass(frozen=True)
class Kinship:
    """Models in groups that count as one each.

    Args:
        units: the groups; copies are left out.
        notes: who was left out as a copy, and who counts together, for readers.
    """

    units: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, origins: Origins, models: Sequence[str]) -> Kinship:
        """Group models by what the database and the study say of them.

        Equal fingerprints in all checkpoints are copies. Relatives are models of which one is the ``base`` of another
        (or what its recipe continues), that have a base in common, or that are checkpoints or revisions of one
        repository or folder. Random initialisations share nothing but their configuration: they are relatives of none.

        Args:
            origins: where they come from.
            models: as the database calls them; baselines have theirs in brackets.
        """
        prints = origins.fingerprints
        kept: list[str] = []
        notes = []
        for model in models:
            weights = prints.get(model)
            twin = next((other for other in kept if weights and prints.get(other) == weights), None)
            if twin is None:
                kept.append(model)
            else:
                notes.append(f"{model} has the same weights as {twin} and is not counted again")
        groups: list[tuple[set[str], list[str]]] = []
        for model in kept:
            roots = _roots(model, origins)
            related = [group for group in groups if group[0] & roots]
            members = [name for _, names in reversed(related) for name in names]
            joined = (roots.union(*(shared for shared, _ in related)), [*members, model])
            groups = [*(group for group in groups if group not in related), joined]
        for _, names in groups:
            if len(names) > 1:
                notes.append(f"{', '.join(names)} have a common origin and count as one model")
        order = {model: place for place, model in enumerate(kept)}
        units = sorted((tuple(sorted(names, key=order.__getitem__)) for _, names in groups), key=lambda u: order[u[0]])
        return cls(tuple(units), tuple(notes))


def _roots(model: str, origins: Origins) -> set[str]:
    """Return everything that a model comes from, itself included."""
    locations, bases = origins.locations, origins.bases
    roots = {f"weights {print_}" for print_ in origins.fingerprints.get(model, ())}
    if model.endswith(" (random-init)"):
        return roots | {f"model {model}"}
    queue, visited = [model.removesuffix(" (shuffled)")], set()
    while queue:
        name = queue.pop()
        if name in visited:
            continue
        visited.add(name)
        spec = origins.specs.get(name)
        if isinstance(spec, HubModel):
            roots.add(f"place hub {spec.hub}")
        place = locations.get(name)
        if place and SHORT in place and isinstance(spec, PathModel):  # folders of other places may have that name, too
            place = f"path {spec.path}"
        if place:
            roots.add(f"place {place}")
        origin = spec.recipe.continues if isinstance(spec, RecipeModel) and isinstance(spec.recipe, Tuning) else None
        parents = (None if spec is None else spec.base, bases.get(name), origin)
        queue += [base for base in parents if base is not None]
    return roots | {f"model {name}" for name in visited}
