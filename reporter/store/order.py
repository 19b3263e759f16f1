"""The order in which a study file names its models and its corpora, which is the one that readers know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import yaml

Row = TypeVar("Row", bound=Mapping[str, Any])


def order_of(spec: str | None) -> dict[str, list[str]]:
    """Return the names of models, corpora, groups and concepts of pairs as a study file has them.

    Args:
        spec: the study file's text, as ``studies.spec`` has it; nothing is named where it cannot be read any more.
    """
    try:
        said = yaml.safe_load(spec or "")
    except yaml.YAMLError:
        said = None
    parts = {key: _part(said, key) for key in ("models", "corpora", "groups", "pairs")}
    parts["pairs"] = {
        concept: None for pairs in parts["pairs"].values() if isinstance(pairs, dict) for concept in pairs
    }
    return {key: [str(name) for name in part] for key, part in parts.items()}


def _part(said: Any, key: str) -> dict[Any, Any]:
    part = said.get(key) if isinstance(said, dict) else None
    return part if isinstance(part, dict) else {}


def in_order(rows: Iterable[Row], column: str, names: Sequence[str]) -> list[Row]:
    """Return rows in the order of the study file.

    A null baseline stands after its model, a share of a corpus (``tweets.joy``) after the whole; what the file does not
    name comes last.

    Args:
        rows: of models or of corpora.
        column: which of their columns has the name.
        names: the names in the order of the file.
    """
    place = {name: number for number, name in enumerate(names)}

    def where(row: Row) -> int:
        name = str(row["base"] if row.get("baseline") else row.get(column))
        return place.get(name, place.get(name.rpartition(".")[0], len(place)))

    return sorted(rows, key=where)


def as_named(rows: Iterable[Row], order: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return rows by model, those of a model by corpus, as the study file names them.

    Args:
        rows: of models on corpora, or of one of them.
        order: what :func:`order_of` returned.
    """
    return in_order(in_order(rows, "corpus", order["corpora"]), "model", order["models"])
