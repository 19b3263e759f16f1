"""What must fit together across a study: recipes name corpora and models, corpora name models, metrics need texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reporter.spec.part import Complaint
from reporter.spec.problems import hint


def contradictions(study: Any) -> list[Complaint]:
    """Find references to what is not there, and recipes and corpora that wait for each other.

    Args:
        study: a ``Study``, or what its file says, whether the rest of it is right or not: a reader wants to
            hear of everything that is wrong at once.
    """
    models, corpora = _mapping(study, "models"), _mapping(study, "corpora")
    complaints = []
    for name, model in models.items():
        corpus = _get(_get(model, "recipe"), "train_on")
        if isinstance(corpus, str) and corpus not in corpora:
            message = f"no corpus '{corpus}'{_hint(corpus, corpora, 'corpora')}"
            complaints.append(Complaint(message, ("models", name, "recipe", "train_on")))
        if problem := _wrong_origin(name, models):
            complaints.append(Complaint(problem, ("models", name, "recipe", "from")))
        base = _get(model, "base")
        if isinstance(base, str) and base != _origin(model) and (base == name or base not in models):
            message = (
                "a model is not its own base" if base == name else f"no model '{base}'{_hint(base, models, 'models')}"
            )
            complaints.append(Complaint(message, ("models", name, "base")))
    for name, corpus in corpora.items():
        model = _get(corpus, "vocabulary")
        if isinstance(model, str) and model not in models:
            message = f"no model '{model}'{_hint(model, models, 'models')}"
            complaints.append(Complaint(message, ("corpora", name, "vocabulary")))
        elif (circle := _circle(("corpus", name), models, corpora)) is not None:
            message = f"goes in a circle: {circle}"
            complaints.append(Complaint(message, ("corpora", name, "vocabulary")))
    asked = "metrics" in (study if isinstance(study, dict) else study.model_fields_set)
    if asked and not _get(study, "corpora"):
        complaints.append(Complaint("metrics need texts; add a corpus under 'corpora'", ("metrics",), "key"))
    return complaints


def _wrong_origin(name: str, models: dict[str, Any]) -> str | None:
    """Say what is wrong with the model that a recipe continues, if anything is."""
    origin = _origin(models[name])
    if origin is None:
        return None
    trained = {other: model for other, model in models.items() if other != name and _get(model, "recipe") is not None}
    if origin == name:
        return "a model cannot continue itself"
    if origin not in models:
        return f"no model '{origin}'{_hint(origin, trained, 'recipe models')}"
    if origin not in trained:
        return f"model '{origin}' is not trained from a recipe, and only such a model can be continued"
    circle = _circle(("model", name), models, {})
    return f"goes in a circle: {circle}" if circle is not None else None


Node = tuple[str, str]
"""A corpus or a model: its kind and its name."""


def _circle(start: Node, models: dict[str, Any], corpora: dict[str, Any]) -> str | None:
    """Describe the way from a corpus or model through what it needs back to itself; None if there is none."""
    ways: list[tuple[Node, list[str]]] = [(start, [])]
    seen = set()
    while ways:
        here, way = ways.pop()
        for needed, how in _needs(here, models, corpora):
            if needed == start:
                return f"{start[0]} '{start[1]}' " + ", which ".join([*way, how])
            if needed not in seen:
                seen.add(needed)
                ways.append((needed, [*way, how]))
    return None


def _needs(node: Node, models: dict[str, Any], corpora: dict[str, Any]) -> Iterator[tuple[Node, str]]:
    """Yield what a corpus or model needs before it can be made, and how a person would say so."""
    kind, name = node
    if kind == "corpus":
        model = _get(corpora.get(name), "vocabulary")
        if isinstance(model, str):
            yield ("model", model), f"draws the words of model '{model}'"
        return
    corpus = _get(_get(models.get(name), "recipe"), "train_on")
    if isinstance(corpus, str):
        yield ("corpus", corpus), f"is trained on corpus '{corpus}'"
    origin = _origin(models.get(name))
    if origin is not None:
        yield ("model", origin), f"continues model '{origin}'"


def _origin(model: Any) -> str | None:
    """Return the model that a recipe continues."""
    recipe = _get(model, "recipe")
    origin = recipe.get("from") if isinstance(recipe, dict) else getattr(recipe, "continues", None)
    return origin if isinstance(origin, str) else None


def _hint(wrong: str, known: dict[str, Any], what: str) -> str:
    return hint(wrong, list(known), f"{what} of this study") or f"; this study has no {what}"


def _mapping(value: Any, key: str) -> dict[str, Any]:
    found = _get(value, key)
    return found if isinstance(found, dict) else {}


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else getattr(value, key, None)
