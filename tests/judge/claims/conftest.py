"""A database with profiles that are known, and a study that makes claims on them."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from reporter.judge.judging import judge
from reporter.metrics.base import Value, catalogue, settled
from reporter.models.places import Place
from reporter.runs.studies import offer
from reporter.store import Store
from reporter.study import load_study

STATISTICS = {f"{metric.name}.{one.name}": one for metric in catalogue().values() for one in metric.statistics}
METRICS = "[convergence, anisotropy, intrinsic_dimension, variance{}]"


class World:
    """A results folder that is filled by hand: with what was put before the database is asked for."""

    def __init__(self, folder, empty):
        self.folder = folder
        shutil.copyfile(empty, folder / "results.duckdb")
        self._store = Store(folder / "results.duckdb")
        self._cells, self._types, self._unwritten = {}, [], {}

    @property
    def store(self):
        """The database, in which every checkpoint with numbers has its row, by training step, as the planner has it."""
        if not self._unwritten:
            return self._store
        with self._store.together():
            for key, (cell, tables) in self._unwritten.items():
                self._store.commit_cell(cell, self._cells[key], tables)
        self._unwritten = {}
        checkpoints = {}
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
        return self._store

    def put(
        self, model, measure, values, error=0.01, *, corpus="wiki", view="text tokens", role="encoder", step=None,
        study="s", options=None, reasons=None, n=100,
    ):  # fmt: skip
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
        self._unwritten[tuple(key.values())] = cell, {}

    def put_model(self, name, **facts):
        """Store facts of a model's only checkpoint."""
        row = {"study": "s", "model": name, "checkpoint": "final", "status": "done", **facts}
        self.store.put("models", ["study", "model", "checkpoint"], row)

    def put_corpus(self, name, **facts):
        """Store facts of a corpus."""
        self.store.put("corpora", ["study", "corpus"], {"study": "s", "corpus": name, **facts})

    def put_types(self, model, layer, numbers, corpus="wiki"):
        """Store numbers of token types at a layer, and beside them a statistic of their table."""
        key = {"study": "s", "model": model, "checkpoint": "final", "corpus": corpus, "metric": "variance"}
        place = {"view": "text tokens", "role": "encoder", "site": "block", "layer": layer, "depth": layer / 2}
        self._types += [
            {**place, "token_id": i, "token": str(i), **{name: float(column[i]) for name, column in numbers.items()}}
            for i in range(len(next(iter(numbers.values()))))
        ]
        row = {**place, "statistic": "tradeoff", "value": 0.0, "ci_low": None, "ci_high": None, "n": 1}
        self._cells.setdefault(tuple(key.values()), []).append(row)
        cell = {**key, "fingerprint": "f", "status": "done"}
        self._unwritten[tuple(key.values())] = cell, {"token_types": self._types}

    def study(self, claims, *, models="bert, gpt2", corpora="wiki", more="", bases=None, metrics=""):
        """Return a study with these claims, one a line: ``name: what it claims``; ``bases`` are those of its models."""
        texts = "\n".join(f"  {name.strip()}: {{texts: [a]}}" for name in corpora.split(","))
        based = {name: f", base: {base}" for name, base in (bases or {}).items()}
        names = [name.strip() for name in models.split(",")]
        given = ", ".join(f"{name}: {{path: {name}{based.get(name, '')}}}" for name in names)
        lines = "".join(f"  {name}: {{says: It is so., {body}}}\n" for name, _, body in _parsed(claims))
        measured = METRICS.format(metrics)
        text = f"study: s\nmodels: {{{given}}}\ncorpora:\n{texts}\nmetrics: {measured}\n{more}\nclaims:\n{lines}"
        path = self.folder / "study.yaml"
        path.write_text(text, "utf-8")
        # A peak at a fixed end is refused when a study is read; here is tested what the test itself does about it.
        return load_study(path, replace(offer(), fixed={})).study

    def judge(self, claims, **more):
        """Return the verdict of each claim, by name; other readings are called ``name/2`` and so on.

        A line may say what verdict there must be: ``name, supported: what it claims``.
        """
        verdicts = {
            verdict.claim if verdict.reading == 1 else f"{verdict.claim}/{verdict.reading}": verdict
            for verdict in judge(self.store, self.study(claims, **more))
        }
        expected = {name: word for name, word, _ in _parsed(claims) if word}
        assert {name: verdicts[name].verdict for name in expected} == expected
        return verdicts

    def judge_one(self, claim, **more):
        """Return the verdict of a single claim."""
        (verdict,) = self.judge(f"c: {claim}", **more).values()
        return verdict


def _parsed(claims):
    """Yield name, expected verdict (or none) and body of each claim."""
    for line in claims.strip().splitlines():
        head, _, body = line.partition(":")
        name, _, word = head.partition(",")
        yield name.strip(), word.strip(), body


@pytest.fixture
def world(tmp_path, empty):
    return World(tmp_path, empty)
