"""What a cell's numbers depend on, as a value that can be hashed and compared part by part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

PASS_VERSION = 3  # raise it when tokens, strata or the pass change what observables see


def digest(parts: Mapping[str, Any]) -> str:
    """Return a hash of JSON values that does not depend on the order of keys."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def pass_inputs(
    *,
    weights: str,
    bos: str,
    sinks: Mapping[str, Any],
    texts: str,
    max_tokens: int,
    precision: str,
    seed: int,
    sites: Sequence[str],
    shuffled: bool,
) -> dict[str, Any]:
    """Return what the observables of one pass depend on; device and batch size are left out on purpose.

    Args:
        weights: fingerprint of the checkpoint.
        bos: whether a BOS is added or left out.
        sinks: which tokens are sinks.
        texts: content hash of the corpus.
        max_tokens: where texts are cut.
        precision: as the study asks for it.
        seed: the study's seed: bootstrap weights and samples hang on it.
        sites: where states are read.
        shuffled: whether the tokens of each text are shuffled.
    """
    return {
        "weights": weights,
        "bos": bos,
        "sinks": dict(sinks),
        "texts": texts,
        "max_tokens": max_tokens,
        "precision": precision,
        "seed": seed,
        "sites": sorted(sites),
        "shuffled": shuffled,
        "pass": PASS_VERSION,
    }


def cell_inputs(
    passes: Sequence[Mapping[str, Any]],
    *,
    metric: str,
    version: int,
    code: str,
    options: Mapping[str, Any],
    views: tuple[str, ...],
) -> dict[str, Any]:
    """Return what the numbers of one cell depend on: its pass, or the two that it compares."""
    first, *second = passes
    return {
        **first,
        **{f"{part} of the second": value for of_pass in second for part, value in of_pass.items()},
        "metric": metric,
        "metric version": version,
        **({"metric code": code} if code else {}),
        "options": dict(options),
        "views": sorted(views),
    }


def analysis_inputs(
    *,
    weights: str,
    bos: str,
    corpora: Mapping[str, Any],
    analysis: str,
    version: int,
    code: str,
    item: Any,
    sites: Sequence[str],
    pooling: str | None,
    seed: int,
) -> dict[str, Any]:
    """Return what the numbers of one analysis cell depend on.

    Args:
        weights: fingerprint of the checkpoint.
        bos: whether a BOS is added or left out.
        corpora: content hash and limit of each corpus that it reads.
        analysis: its name.
        version: of its definitions.
        code: hash of the file that defines it; empty for one of reporter.
        item: what it looks at, with the contents of files that it names.
        sites: where states are read.
        pooling: how texts become vectors, as the study asks for it; None where that does not matter.
        seed: the study's seed.
    """
    return {
        "weights": weights,
        "bos": bos,
        "texts": dict(corpora),
        "analysis": analysis,
        "analysis version": version,
        **({"analysis code": code} if code else {}),
        "item": item,
        "sites": sorted(sites),
        "pooling": pooling,
        "seed": seed,
    }


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Say in words what changed between two sets of inputs, e.g. ``"options changed (sample 4096 → 64)"``."""
    said = []
    for part in sorted({*old, *new}):
        before, after = old.get(part), new.get(part)
        if before == after:
            continue
        if part in (
            "texts",
            "item",
            "weights",
            "texts of the second",
            "weights of the second",
            "metric code",
            "analysis code",
        ):
            said.append(f"{part} changed")  # hashes and whole texts tell a reader nothing
        elif isinstance(before, dict) and isinstance(after, dict):
            keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
            detail = ", ".join(f"{key} {before.get(key)} → {after.get(key)}" for key in keys)
            said.append(f"{part} changed ({detail})")
        else:
            said.append(f"{part} changed ({before} → {after})")
    return ", ".join(said)
