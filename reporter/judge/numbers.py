"""Reads what a claim rests on: single numbers, profiles over depth or training, numbers of token types."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from reporter.core.json_text import stored_json
from reporter.core.places import TEXT_TOKENS
from reporter.core.table import FREE
from reporter.judge.estimates import Array, Estimates, measured
from reporter.judge.facts import Facts
from reporter.metrics.base import Statistic
from reporter.store import Store
from reporter.study import Study
from reporter.study.claims import WITH_BASE

PATH = ("embedding", "block")
"""The sites that a profile over depth passes where a claim names none."""


class Missing(Exception):
    """Numbers that a claim needs are missing; the text says which, for people."""


class Incomparable(Missing):
    """Numbers are there, but cannot be compared as the study has them; the text says why and what to write."""


@dataclass(frozen=True)
class MetricRow:
    """One row of ``layer_metrics``, with its uncertainty as the half-width of a 95 % interval.

    Args:
        model: the model.
        checkpoint: its checkpoint.
        step: training step; None where it is not known.
        is_last: whether the checkpoint is the model's last one.
        role: ``encoder`` or ``decoder``.
        corpus: the corpus.
        site: where it was read; None for a number of the whole model.
        layer: the layer; None likewise.
        depth: layer / L.
        value: None where it could not be computed.
        low: lower end of its 95 % interval.
        high: upper end.
        by_definition: whether the statistic's definition fixes the value.
        n: tokens, pairs or texts behind it.
    """

    model: str
    checkpoint: str
    step: int | None
    is_last: bool
    role: str | None
    corpus: str
    site: str | None
    layer: int | None
    depth: float | None
    value: float | None
    low: float | None
    high: float | None
    by_definition: bool = False
    n: int = 0


@dataclass(frozen=True)
class Reasons:
    """Why a study has no number: what failed, and what could not be computed."""

    store: Store
    study: str

    @cached_property
    def failed(self) -> dict[str, str]:
        """The first error of each model that failed, or of which a cell failed."""
        sql = (
            "SELECT model, min(error) AS error FROM ("
            "SELECT model, error FROM models WHERE study = $study AND status = 'failed' UNION ALL "
            "SELECT model, error FROM cells WHERE study = $study AND status = 'failed') GROUP BY model"
        )
        return {row["model"]: str(row["error"]) for row in self.store.records(sql, {"study": self.study})}

    @cached_property
    def _cells(self) -> list[dict[str, Any]]:
        columns = "model, checkpoint, corpus, metric, reasons"
        sql = f"SELECT {columns} FROM cells WHERE study = $study AND reasons IS NOT NULL"
        return self.store.records(sql, {"study": self.study})

    def why_failed(self, model: str) -> str:
        """Say why there are no numbers of a model."""
        return self.failed.get(model, "it was not measured")

    def why_missing(self, full_name: str, row: MetricRow, view: str) -> str:
        """Say why a number is NULL, as far as its cell tells."""
        metric, _, statistic = full_name.partition(".")
        place = (row.model, row.checkpoint, row.corpus, metric)
        for cell in self._cells:
            if (cell["model"], cell["checkpoint"], cell["corpus"], cell["metric"]) == place:
                for entry in stored_json(cell["reasons"]):
                    same = (entry.get("statistic"), entry.get("view")) == (statistic, view)
                    if same and row.layer in entry.get("layers", ()):
                        return str(entry.get("reason"))
        return "it could not be computed"


class Numbers:
    """The numbers of one study.

    Args:
        store: the database.
        study: the study.
        statistics: by full name what is known of each statistic; those of metrics if left out.
    """

    def __init__(self, store: Store, study: Study, statistics: Mapping[str, Statistic] | None = None) -> None:
        self.store, self.study = store, study
        self.facts, self.reasons = Facts(store, study, statistics), Reasons(store, study.study)
        self.rows: Callable[[str, str], tuple[MetricRow, ...]] = cache(self._rows)
        self.against_base: Callable[[str, str], tuple[MetricRow, ...]] = cache(self._against_base)
        self.parts: Callable[[str, str], dict[tuple[str, str, str], dict[int, Array]]] = cache(self._parts)

    def _records(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        return self.store.records(sql, {"study": self.study.study, **values})

    def key(self, full_name: str, view: str) -> dict[str, str]:
        """Return the columns of ``layer_metrics`` that identify a statistic under a view."""
        metric, _, statistic = full_name.partition(".")
        view = TEXT_TOKENS if metric in self.study.sections else view  # what an analysis looks at has only one
        return {"metric": metric, "statistic": statistic, "view": view}

    def corpus_of(self, full_name: str, view: str, corpus: str | None) -> str:
        """Return the corpus that a claim names, or the only one there is; for an analysis the item.

        Raises:
            Missing: there is none, or there are several.
        """
        if corpus is not None:
            return corpus
        corpora = self.corpora(full_name, view)
        if len(corpora) != 1:
            raise Missing(f"{full_name} was measured on {', '.join(corpora) or 'no corpus'}; add `corpus: NAME`")
        return corpora[0]

    def corpora(self, full_name: str, view: str) -> list[str]:
        """Return the corpora (items, for an analysis) with numbers of a statistic, in the order of the study."""
        measured = dict.fromkeys(row.corpus for row in self.rows(full_name, view))
        return [corpus for corpus in self.study.corpora if corpus in measured] or list(measured)

    def _rows(self, full_name: str, view: str) -> tuple[MetricRow, ...]:
        """Return all numbers of a statistic under a view, by model, checkpoint, corpus and layer."""
        records = self._records(
            "SELECT model, checkpoint, l.step, is_last, l.role, corpus, site, layer, depth, value, ci_low, ci_high, "
            f"NOT ({FREE}) AS by_definition, n "
            "FROM layer_metrics AS l JOIN models USING (study, model, checkpoint) WHERE study = $study "
            "AND metric = $metric AND statistic = $statistic AND view = $view "
            "ORDER BY model, position, corpus, layer NULLS FIRST, site",
            **self.key(full_name, view),
        )
        rows = []
        for row in records:
            ends = row.pop("ci_low"), row.pop("ci_high")
            low, high = (None, None) if None in (*ends, row["value"]) else ends
            rows.append(MetricRow(**row, low=low, high=high))
        return tuple(rows)

    def _against_base(self, full_name: str, view: str) -> tuple[MetricRow, ...]:
        records = self._records(
            "SELECT model_a AS model, checkpoint_a AS checkpoint, NULL AS step, is_last, NULL AS role, "
            "corpus_a AS corpus, site, layer, depth, value, ci_low AS low, ci_high AS high FROM differences AS d JOIN "
            "models AS m ON (m.study, m.model, m.checkpoint) = (d.study, model_a, checkpoint_a) WHERE d.study = $study "
            "AND kind = 'base' AND metric = $metric AND statistic = $statistic AND view = $view",
            **self.key(full_name, view),
        )
        return tuple(MetricRow(**row) for row in records)

    def _parts(self, full_name: str, view: str) -> dict[tuple[str, str, str], dict[int, Array]]:
        """Return the parts of texts in numbers (``text_parts``), by model, checkpoint and corpus, by layer."""
        parts: dict[tuple[str, str, str], dict[int, Array]] = defaultdict(dict)
        for row in self._records(
            "SELECT model, checkpoint, corpus, layer, scale, parts FROM text_parts WHERE study = $study "
            "AND metric = $metric AND statistic = $statistic AND view = $view ORDER BY layer",
            **self.key(full_name, view),
        ):
            parts[row["model"], row["checkpoint"], row["corpus"]][row["layer"]] = row["scale"] * np.array(row["parts"])
        return parts

    def estimates(self, full_name: str, view: str, rows: Sequence[MetricRow]) -> Estimates:
        """Return some numbers of one checkpoint with their errors over texts, by parts of texts where all have them."""
        of = self.parts(full_name, view)
        found = (of.get((row.model, row.checkpoint, row.corpus), {}).get(row.layer or 0) for row in rows)
        return measured(
            np.array([row.value for row in rows], dtype=float),
            [(row.low, row.high) for row in rows],
            [part if row.site in (None, *PATH) else None for part, row in zip(found, rows, strict=True)],
            self.facts.texts_of(full_name, rows[0].corpus),
            self.facts.bounds(full_name),
            self.study.texts == "fixed",
        )

    def models(
        self, names: Sequence[str], full_name: str, view: str, baseline: str | None
    ) -> tuple[list[str], list[str]]:
        """Return the models that names and groups stand for, as the database calls them, and what is left out, and why.

        Args:
            names: models, ``encoders``, ``decoders``, ``all``, ``with-base``.
            full_name: the statistic; a group has those models for which there are numbers of it.
            view: the view.
            baseline: a null baseline, to have it in place of each model.

        Raises:
            Missing: nothing is left.
        """
        rows = self.rows(full_name, view)
        roles = {row.model: row.role for row in rows}
        models: dict[str, None] = {}
        notes = []
        for name in names:
            if name in self.study.models:
                models[name] = None
                continue
            of_name = self.facts.members(name)
            members = [m for m in self.study.models if m in roles and (m in of_name or f"{roles[m]}s" == name)]
            if not members:
                what = {"all": "models", WITH_BASE: "models with a base"}.get(name, name)
                failed = self.reasons.failed
                of_lost = next((m for m in of_name or self.study.models if m in failed), None)
                prefix = f"model '{of_lost}': "
                reason = f"; {of_lost} failed: {failed[of_lost].removeprefix(prefix)}" if of_lost else ""
                raise Missing(f"there are no {what} with numbers of {full_name} for token set '{view}'{reason}")
            models |= dict.fromkeys(members)
            lost = [m for m in of_name or self.study.models if m not in roles]
            notes += [f"{model} is left out: {self.reasons.why_failed(model)}" for model in lost]
        suffix = f" ({baseline})" if baseline else ""
        return [model + suffix for model in models], list(dict.fromkeys(notes))

    def pick(self, rows: Sequence[MetricRow], model: str, checkpoint: str | None, step: int | None) -> list[MetricRow]:
        """Return the rows of one checkpoint of a model: the named one, that of a step, or the last.

        Raises:
            Missing: there is none.
        """
        of_model = [row for row in rows if row.model == model]
        if not of_model:
            raise Missing(f"there are no numbers of {model}: {self.reasons.why_failed(model)}")
        if checkpoint is not None:
            picked = [row for row in of_model if row.checkpoint == checkpoint]
            what = f"checkpoint '{checkpoint}'"
        elif step is not None:
            picked, what = [row for row in of_model if row.step == step], f"checkpoint at step {step}"
        else:
            picked, what = [row for row in of_model if row.is_last], "numbers of its last checkpoint"
        if not picked:
            checkpoints = ", ".join(dict.fromkeys(row.checkpoint for row in of_model))
            raise Missing(f"{model} has no {what}; its checkpoints: {checkpoints}")
        return picked

    def types(
        self, model: str, checkpoint: str, corpus: str, view: str, x: str, y: str
    ) -> dict[tuple[str, int], tuple[Array, Array]]:
        """Return two numbers of every token type that has both, by site and layer."""
        frame = self.store.frame(
            f"SELECT site, layer, {x} AS x, {y} AS y FROM token_types WHERE study = $study AND model = $model "
            f"AND checkpoint = $checkpoint AND corpus = $corpus AND view = $view AND {x} IS NOT NULL "
            f"AND {y} IS NOT NULL ORDER BY site, layer, token_id",
            {"study": self.study.study, "model": model, "checkpoint": checkpoint, "corpus": corpus, "view": view},
        )
        return {
            (str(site), int(str(layer))): (part["x"].to_numpy(float), part["y"].to_numpy(float))
            for (site, layer), part in frame.groupby(["site", "layer"])
        }


def at_layer(rows: Sequence[MetricRow], layer: int | str | None, site: str | None) -> list[MetricRow]:
    """Return the rows at a layer; without one, all along the embedding and the blocks, or at the site.

    A number of the whole model has no layer and no site: it is returned whatever is asked for.
    """
    if all(row.layer is None for row in rows):
        return list(rows)
    sites = PATH if site is None else (site,)
    at_sites = [row for row in rows if row.site in sites]
    if layer is None or not at_sites:
        return at_sites
    number = max(row.layer or 0 for row in at_sites) if layer == "last" else layer
    return [row for row in at_sites if row.layer == number]


def finite(value: float | None) -> bool:
    """Tell whether there is a number."""
    return value is not None and math.isfinite(value)
