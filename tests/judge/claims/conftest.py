"""A database with profiles that are known, and a study that makes claims on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reporter.judge.judging import judge
from reporter.metrics.base import Value, catalogue, settled
from reporter.models.places import Place
from reporter.runs.studies import offer
from reporter.spec import Study, load_study
from reporter.store import Store
from reporter.store.schema import Verdict

STATISTICS = {f"{metric.name}.{one.name}": one for metric in catalogue().values() for one in metric.statistics}
METRICS = "[convergence, anisotropy, intrinsic_dimension, variance]"


class World:
    """A results folder that is filled by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = Store(folder / "results.duckdb")
        self._new_models = False
        self._cells: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self._types: list[dict[str, Any]] = []

    @property
    def store(self) -> Store:
        """The database, in which every checkpoint with numbers has its row, by training step, as the planner has it."""
        if not self._new_models:
            return self._store
        checkpoints: dict[tuple[str, str], set[str]] = {}
        for study, model, checkpoint, *_ in self._cells:
            checkpoints.setdefault((study, model), set()).add(checkpoint)
        rows = []
        for (study, model), names in checkpoints.items():
            ordered = sorted(names, key=lambda name: int(name.removeprefix("step")) if name != "final" else -1)
            rows += [
                {"study": study, "model": model, "checkpoint": name, "position": place, "is_last": place == len(names)}
                for place, name in enumerate(ordered, 1)
            ]
        self._store.put_all("models", ("study", "model", "checkpoint"), rows)
        self._new_models = False
        return self._store

    def put(
        self,
        model: str,
        measure: str,
        values: Any,
        error: float | None = 0.01,
        *,
        corpus: str = "wiki",
        view: str = "words",
        role: str = "encoder",
        step: int | None = None,
        study: str = "s",
        options: Mapping[str, Any] | None = None,
        reasons: list[dict[str, Any]] | None = None,
        n: int = 100,
    ) -> None:
        """Store a profile (a list; None is NULL), or one number of the whole model (a float)."""
        metric, _, statistic = measure.partition(".")
        checkpoint = "final" if step is None else f"step{step}"
        whole = not isinstance(values, list | np.ndarray)
        reach = None if error is None else 1.959964 * error
        rows = []
        for layer, value in enumerate([values] if whole else values):
            interval = value is not None and reach is not None
            place = None if whole else Place("block" if layer else "embedding", layer)
            ends = (float(value) - reach, float(value) + reach) if interval else (None, None)
            number = Value(statistic, place, None if value is None else float(value), n, *ends)
            layers = 1 if whole else len(values) - 1
            if known := STATISTICS.get(measure):
                number = settled(known, number, layers if known.per == "layer" else layers + 1)
            rows.append(number.record({"step": step, "role": role, "view": view}, layers))
        key = {"study": study, "model": model, "checkpoint": checkpoint, "corpus": corpus, "metric": metric}
        before = self._cells.get(tuple(key.values()), [])
        rows += [row for row in before if (row["statistic"], row["view"]) != (statistic, view)]
        self._cells[tuple(key.values())] = rows
        cell = {**key, "fingerprint": "f", "status": "done", "options": options or {}, "reasons": reasons or []}
        self._store.commit_cell(cell, rows)
        self._new_models = True

    def put_types(self, model: str, layer: int, numbers: Mapping[str, Any], corpus: str = "wiki") -> None:
        """Store numbers of token types at a layer, beside a statistic that says that they are there."""
        key = {"study": "s", "model": model, "checkpoint": "final", "corpus": corpus, "metric": "variance"}
        place = {"view": "words", "role": "encoder", "site": "block", "layer": layer, "depth": layer / 2}
        types = [
            {**place, "token_id": i, "token": str(i), **{name: float(column[i]) for name, column in numbers.items()}}
            for i in range(len(next(iter(numbers.values()))))
        ]
        row = {**place, "statistic": "tradeoff", "value": 0.0, "ci_low": None, "ci_high": None, "n": 1}
        rows = self._cells.setdefault(tuple(key.values()), [])
        rows.append(row)
        self._types += types
        self._new_models = True
        self._store.commit_cell({**key, "fingerprint": "f", "status": "done"}, rows, {"token_types": self._types})

    def study(
        self,
        claims: str,
        *,
        models: str = "bert, gpt2",
        corpora: str = "wiki",
        more: str = "",
        bases: Mapping[str, str] | None = None,
    ) -> Study:
        """Return a study with these claims, one a line: ``name: what it claims``; ``bases`` are those of its models."""
        texts = "\n".join(f"  {name.strip()}: {{texts: [a]}}" for name in corpora.split(","))
        based = {name: f", base: {base}" for name, base in (bases or {}).items()}
        names = [name.strip() for name in models.split(",")]
        given = ", ".join(f"{name}: {{path: {name}{based.get(name, '')}}}" for name in names)
        lines = "".join(
            f"  {name.strip()}: {{says: It is so., {body}}}\n"
            for name, _, body in (line.partition(":") for line in claims.strip().splitlines())
        )
        text = f"study: s\nmodels: {{{given}}}\ncorpora:\n{texts}\nmetrics: {METRICS}\n{more}\nclaims:\n{lines}"
        path = self.folder / "study.yaml"
        path.write_text(text, "utf-8")
        # A peak at a fixed end is refused when a study is read; here is tested what the test itself does about it.
        return load_study(path, replace(offer(), fixed={})).study

    def judge(self, claims: str, **more: Any) -> dict[str, Verdict]:
        """Return the verdict of each claim, by name; other readings are called ``name/2`` and so on."""
        found = judge(self.store, self.study(claims, **more))
        return {v.claim if v.reading == 1 else f"{v.claim}/{v.reading}": v for v in found}

    def words(self, claims: str, **more: Any) -> dict[str, str]:
        """Return the verdicts in words."""
        return {name: verdict.verdict for name, verdict in self.judge(claims, **more).items()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def one(world: World) -> Callable[..., Verdict]:
    """Return a function that judges a single claim."""

    def verdict(claim: str, **more: Any) -> Verdict:
        (found,) = world.judge(f"c: {claim}", **more).values()
        return found

    return verdict


@pytest.fixture
def failed_model(world: World) -> None:
    """Let the model gpt2 have failed."""
    row = {"study": "s", "model": "gpt2", "checkpoint": "final", "status": "failed", "error": "out of memory"}
    world.store.put("models", ["study", "model", "checkpoint"], row)
