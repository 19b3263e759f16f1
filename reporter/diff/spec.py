"""What two study files say differently: by meaning, key by key, not line by line.

Order of keys, comments, quotes and layout mean nothing. Two ways to write one thing are one thing: ``bert: some/id``
is ``bert: {hub: some/id}``, and an item ``{lens: {…}}`` of a list of names is looked up by its name, not by its place.
A key that is left out and one without a value are one thing, too; a default that is written out is not looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reporter.spec.problems import Location, show_location
from reporter.spec.yaml_reader import read_yaml


@dataclass(frozen=True)
class Change:
    """Something that differs.

    Args:
        where: its name: a path inside the study file, or what was recorded of which model or corpus.
        a: what the first side says; None where it says nothing.
        b: what the second side says.
    """

    where: str
    a: Any
    b: Any


_SHORTHANDS = {"models": "hub"}
"""Parts whose entries may be bare text, and the key that the text is short for."""


def spec_changes(a: str | None, b: str | None) -> list[Change]:
    """Compare two studies.

    Args:
        a: the text of the first study file; JSON is YAML, too.
        b: the text of the second.

    Returns:
        One change for each key that differs, at the deepest path that both sides share; where a text cannot be read
        (another version of reporter knew more YAML), one change that says so.
    """
    if a == b:
        return []
    documents = [read_yaml(text or "") for text in (a, b)]
    unread = [bool(document.problems) or not isinstance(document.data, dict) for document in documents]
    if any(unread):
        told = [
            "cannot be read here" if bad else "a study" if text else "nothing"
            for bad, text in zip(unread, (a, b), strict=True)
        ]
        return [Change("(the whole study file)", *told)]
    return list(_compare(documents[0].data, documents[1].data, ()))


def _compare(a: Any, b: Any, at: Location) -> Iterator[Change]:
    if len(at) == 2 and at[0] in _SHORTHANDS:
        key = _SHORTHANDS[str(at[0])]
        a, b = ({key: side} if isinstance(side, str) else side for side in (a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        yield from _compare_mappings(a, b, at)
    elif isinstance(a, list) and isinstance(b, list):
        yield from _compare_lists(a, b, at)
    elif not _same(a, b):
        yield Change(show_location(at), a, b)


def _compare_mappings(a: dict[str, Any], b: dict[str, Any], at: Location) -> Iterator[Change]:
    for key in dict.fromkeys([*a, *b]):
        yield from _compare(a.get(key), b.get(key), (*at, key))


def _compare_lists(a: list[Any], b: list[Any], at: Location) -> Iterator[Change]:
    named = [found for side in (a, b) if (found := _by_name(side)) is not None]
    if len(named) == 2:
        for name in dict.fromkeys([*named[0], *named[1]]):
            if name in named[0] and name in named[1]:
                yield from _compare(named[0][name], named[1][name], (*at, name))
            else:
                listed = [side[name] or "listed" if name in side else None for side in named]
                yield Change(show_location((*at, name)), *listed)
        both = [[name for name in side if name in other] for side, other in (named, named[::-1])]
        if both[0] != both[1]:
            yield Change(f"{show_location(at)} (order)", both[0], both[1])
        return
    start = 0
    while start < min(len(a), len(b)) and _same(a[start], b[start]):
        start += 1
    end = 0  # items that were put in or taken out shift those behind them, which have not changed
    while end < min(len(a), len(b)) - start and _same(a[-1 - end], b[-1 - end]):
        end += 1
    for index in range(start, max(len(a), len(b)) - end):
        one, other = (side[index] if index < len(side) - end else None for side in (a, b))
        yield from _compare(one, other, (*at, index))


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """A list of names, some with options, as a mapping from name to options; None for any other list."""
    found: dict[str, Any] = {}
    for item in items:
        if isinstance(item, dict) and len(item) == 1:
            name, options = next(iter(item.items()))
        else:
            name, options = item, {}
        if not isinstance(name, str) or name in found or " " in name:  # sentences are known by their place
            return None
        found[name] = options
    return found


def _same(a: Any, b: Any) -> bool:
    """Equality in which true is not 1; 1 and 1.0 are the same number."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)
