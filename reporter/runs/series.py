"""Names checkpoints of a series that share weights with another one: published series contain such branches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby

from reporter.store import Store

_MODELS = """
SELECT model, checkpoint, weights, same_weights FROM models
WHERE study = $study AND baseline IS NULL ORDER BY model, position
"""
_KEY = ("study", "model", "checkpoint")


def write_same_weights(store: Store, study: str) -> list[str]:
    """Store what checkpoints of each series have in common with another one, where that changed.

    Args:
        store: the database.
        study: id of the study.

    Returns:
        what was found, a sentence for each checkpoint.
    """
    rows, found = [], []
    for model, of_model in groupby(store.records(_MODELS, {"study": study}), key=lambda row: row["model"]):
        known = list(of_model)
        hashes = {row["checkpoint"]: json.loads(row["weights"]) for row in known if row["weights"]}
        said = same_weights(hashes)
        found += [f"model '{model}', checkpoint '{name}': {text}" for name, text in said.items()]
        rows += [
            {
                "study": study,
                "model": model,
                "checkpoint": row["checkpoint"],
                "same_weights": said.get(row["checkpoint"]),
            }
            for row in known
            if row["same_weights"] != said.get(row["checkpoint"])
        ]
    store.put_all("models", _KEY, rows)
    return found


def same_weights(series: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Say which checkpoints have all weights of an earlier one, or some of its blocks while others differ.

    Equal embeddings, norms or heads are no news: they may be frozen. Neither are blocks that are the same in three
    checkpoints or more without exception. Of two checkpoints alone nobody can tell; it is said what was seen.

    Args:
        series: by checkpoint, in order of training, the hash of each group of weights (``reporter.models.groups``).

    Returns:
        a sentence by checkpoint; those about which there is nothing to say are left out.
    """
    names = [name for name, groups in series.items() if groups]
    blocks = {group for name in names for group in series[name] if group.isdigit()}
    moving = {block for block in blocks if len({series[name].get(block) for name in names}) > 1}
    found: dict[str, str] = {}
    for place, name in enumerate(names):
        own, earlier = series[name], names[:place]
        if same := [other for other in earlier if series[other] == own]:
            found[name] = f"all of its weights are, byte for byte, those of {_quoted(same)}"
            continue
        shared = {
            other: [
                block for block in sorted(blocks, key=int) if block in own and series[other].get(block) == own[block]
            ]
            for other in earlier
        }
        told = moving if len(names) > 2 else blocks
        best = max(shared, key=lambda other: len(told.intersection(shared[other])), default=None)
        if best is None or not told.intersection(shared[best]) or len(shared[best]) == len(blocks):
            continue
        where = "blocks" if len(shared[best]) > 1 else "block"
        found[name] = (
            f"{where} {_ranges([int(block) for block in shared[best]])} of {len(blocks)} are, byte for byte, those of "
            f"{_quoted([best])}, while the others differ: layers were frozen between the two, or files were mixed up"
        )
    return found


def _ranges(numbers: Sequence[int]) -> str:
    """Write ``1, 2, 3, 7`` as ``1–3, 7``."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        parts.append(f"{values[0]}–{values[-1]}" if len(values) > 1 else str(values[0]))
    return ", ".join(parts)


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
