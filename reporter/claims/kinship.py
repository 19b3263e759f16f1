"""Which models are independent of each other: copies count once, relatives count as one.

Three fine-tunings of one model agree because they share nearly all of their weights, not because models like them do.
So the spread between them says nothing of other models. Seeds of one recipe are trained apart and are no relatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reporter.paths import SHORT
from reporter.spec.models import HubModel, PathModel, RecipeModel
from reporter.spec.recipes import Tuning

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers


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
    def of(cls, numbers: Numbers, models: Sequence[str]) -> Kinship:
        """Group models by what the database and the study say of them.

        Equal fingerprints in all checkpoints are copies. Relatives are models of which one is the ``base`` of another
        (or what its recipe continues), that have a base in common, or that are checkpoints or revisions of one
        repository or folder. Random initialisations share nothing but their configuration: they are relatives of none.

        Args:
            numbers: the study's numbers.
            models: as the database calls them; baselines have theirs in brackets.
        """
        prints = numbers.fingerprints()
        kept: list[str] = []
        notes = []
        for model in models:
            own = prints.get(model)
            twin = next((other for other in kept if own and prints.get(other) == own), None)
            if twin is None:
                kept.append(model)
            else:
                notes.append(f"{model} has the same weights as {twin} and is not counted again")
        groups: list[tuple[set[str], list[str]]] = []
        for model in kept:
            roots = _roots(model, numbers)
            members = [model]
            rest = []
            for shared, names in groups:
                if shared & roots:
                    roots, members = roots | shared, names + members
                else:
                    rest.append((shared, names))
            groups = [*rest, (roots, members)]
        for _, names in groups:
            if len(names) > 1:
                notes.append(f"{', '.join(names)} have one origin and count as one model")
        order = {model: place for place, model in enumerate(kept)}
        units = sorted((tuple(sorted(names, key=order.__getitem__)) for _, names in groups), key=lambda u: order[u[0]])
        return cls(tuple(units), tuple(notes))


def _roots(model: str, numbers: Numbers) -> set[str]:
    """Return everything that a model comes from, itself included."""
    study, locations, bases = numbers.study, numbers.locations(), numbers.bases()
    found = {f"weights {print_}" for print_ in numbers.fingerprints().get(model, ())}
    if model.endswith(" (random-init)"):
        return found | {f"model {model}"}
    queue, seen = [model.removesuffix(" (shuffled)")], set()
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = study.models.get(name)
        if isinstance(spec, HubModel):
            found.add(f"place hub {spec.hub}")
        place = locations.get(name)
        if place and SHORT in place and isinstance(spec, PathModel):  # folders of other places may have that name, too
            place = f"path {spec.path}"
        if place:
            found.add(f"place {place}")
        origin = spec.recipe.continues if isinstance(spec, RecipeModel) and isinstance(spec.recipe, Tuning) else None
        known = (None if spec is None else spec.base, bases.get(name), origin)
        queue += [base for base in known if base is not None]
    return found | {f"model {name}" for name in seen}
