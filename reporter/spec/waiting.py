"""What waits for what: recipes need corpora and other recipes, corpora need vocabularies and the size of others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reporter.errors import hint
from reporter.spec.offer import Reference

Node = tuple[str, str]
"""A corpus or a model: its kind and its name."""


def origin_of(model: Any) -> str | None:
    """Return the model that a model's recipe continues; None where it continues none."""
    recipe = get(model, "recipe")
    origin = recipe.get("from") if isinstance(recipe, dict) else getattr(recipe, "continues", None)
    return origin if isinstance(origin, str) else None


def wrong_origin(name: str, models: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the model that a recipe continues, if anything is.

    Args:
        name: the model whose recipe it is.
        models: all of the study.
    """
    origin = origin_of(models[name])
    if origin is None:
        return None
    trained = [other for other, model in models.items() if other != name and get(model, "recipe") is not None]
    if origin == name:
        return "a model cannot continue itself"
    if origin not in models:
        ending = hint(origin, trained, "recipe models of this study") or "; this study has no other recipe models"
        return f"no model '{origin}'{ending}"
    if origin not in trained:
        return f"model '{origin}' is not trained from a recipe, and only such a model can be continued"
    way = circle(("model", name), models, {}, ())
    return f"goes in a circle: {way}" if way is not None else None


def circle(
    start: Node, models: Mapping[str, Any], corpora: Mapping[str, Any], of_corpora: Sequence[Reference]
) -> str | None:
    """Describe the way from a corpus or model through what it needs back to itself; None if there is none."""
    ways: list[tuple[Node, list[str]]] = [(start, [])]
    seen = set()
    while ways:
        here, way = ways.pop()
        for needed, how in _needs(here, models, corpora, of_corpora):
            if needed == start:
                return f"{start[0]} '{start[1]}' " + ", which ".join([*way, how])
            if needed not in seen:
                seen.add(needed)
                ways.append((needed, [*way, how]))
    return None


def _needs(
    node: Node, models: Mapping[str, Any], corpora: Mapping[str, Any], of_corpora: Sequence[Reference]
) -> Iterator[tuple[Node, str]]:
    """Yield what a corpus or model needs before it can be made, and how a person would say so."""
    kind, name = node
    if kind == "corpus":
        for reference in of_corpora:
            for other, _ in reference.named(corpora.get(name)):
                yield ("model" if reference.to == "models" else "corpus", other), f"{reference.says} '{other}'"
        return
    corpus = get(get(models.get(name), "recipe"), "train_on")
    if isinstance(corpus, str):
        yield ("corpus", corpus), f"is trained on corpus '{corpus}'"
    origin = origin_of(models.get(name))
    if origin is not None:
        yield ("model", origin), f"continues model '{origin}'"


def share_name(corpus: str, one: str) -> str:
    """Return what the share of a corpus is called: its name and the label, with what no name may hold as '-'."""
    return f"{corpus}.{re.sub(r'[^A-Za-z0-9._-]+', '-', one)}"


def shares_of(corpora: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the shares that corpora say under ``by``, and the corpus of each.

    Args:
        corpora: all of a study, validated or as its file says them, right or wrong.
    """
    said = {name: get(corpus, "by") for name, corpus in corpora.items()}
    return {
        share_name(name, one): name
        for name, by in said.items()
        for one in (by if isinstance(by, list | tuple) else ())
        if isinstance(one, str)
    }


def with_shares_of(corpora: Mapping[str, Any]) -> dict[str, Any]:
    """Return corpora, each followed by its shares, which validated ones already have; else a share is its corpus.

    Args:
        corpora: all of a study, validated or as its file says them, right or wrong.
    """
    shares, found = shares_of(corpora), {}
    for name in corpora:
        for one in (name, *(share for share, of in shares.items() if of == name)):
            found[one] = corpora.get(one, corpora[name])
    return found


def get(value: Any, key: str) -> Any:
    """Return what a part of a study says under a key, whether it was read already or is as its file says it."""
    return value.get(key) if isinstance(value, dict) else getattr(value, key, None)
