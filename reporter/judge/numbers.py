"""Reads what a claim rests on: single numbers, profiles over depth or training, numbers of token types."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from reporter.core.json_text import stored_json
from reporter.core.places import TEXT_TOKENS
from reporter.core.table import FREE
from reporter.geometry.intervals import errors_within
from reporter.judge.estimates import Array
from reporter.judge.kinship import Origins
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Metric, Statistic, catalogue
from reporter.store import Store
from reporter.study import Study
from reporter.study.claims import WITH_BASE

"""The view under which statistics of analyses are stored."""

PATH = ("embedding", "block")
"""The sites that a profile over depth passes where a claim names none."""

CORPUS_SIZES = """
WITH read AS (FROM cells SELECT corpus, min(distinct_texts) AS units WHERE study = $study GROUP BY ALL)
SELECT corpus, words, coalesce(units, clusters, texts) AS texts, if(clusters IS NULL, 'text', 'cluster') AS unit
FROM corpora LEFT JOIN read USING (corpus) WHERE study = $study AND words > 0 AND texts > 0
"""

_TEXT = re.compile(r"'((?:[^']|'')*)'")
_READ = re.compile(r"\b(?:from|join)\s+(?:main\s*\.\s*)?\"?(\w+)", re.IGNORECASE)
"""A text in a query, and a table that it reads."""


def declared() -> dict[str, tuple[Metric, Statistic]]:
    """Return every statistic of a metric with its metric, by full name."""
    return {f"{metric.name}.{s.name}": (metric, s) for metric in catalogue().values() for s in metric.statistics}


def with_analyses() -> dict[str, Statistic]:
    """Return every statistic of a metric or an analysis by full name."""
    return {
        f"{definition.name}.{s.name}": s
        for definition in (*catalogue().values(), *analyses().values())
        for s in definition.statistics
    }


def main_statistics() -> dict[str, Statistic]:
    """Return the main statistics of metrics and analyses by full name."""
    return {name: statistic for name, statistic in with_analyses().items() if statistic.main}


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

    def errors(self, texts: int | None) -> tuple[float, float] | None:
        """Return the standard errors below and above it that its interval was made of; None without an interval."""
        if self.value is None or self.low is None or self.high is None:
            return None
        return errors_within(self.value, self.low, self.high, texts)


class Numbers:
    """The numbers of one study.

    Args:
        store: the database.
        study: the study.
        statistics: by full name what is known of each statistic; those of metrics if left out.
    """

    def __init__(self, store: Store, study: Study, statistics: Mapping[str, Statistic] | None = None) -> None:
        self.store, self.study = store, study
        self._statistics = statistics
        self.rows: Callable[[str, str], tuple[MetricRow, ...]] = cache(self._rows)
        self.against_base: Callable[[str, str], tuple[MetricRow, ...]] = cache(self._against_base)
        self.parts: Callable[[str, str], dict[tuple[str, str, str], dict[int, Array]]] = cache(self._parts)
        self.texts: Callable[[], dict[str, int]] = cache(
            lambda: {row["corpus"]: int(row["texts"]) for row in self.corpus_sizes()}
        )

    def _records(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        return self.store.records(sql, {"study": self.study.study, **values})

    def key(self, full_name: str, view: str) -> dict[str, str]:
        """Return the columns of ``layer_metrics`` that identify a statistic under a view."""
        metric, _, statistic = full_name.partition(".")
        return {"metric": metric, "statistic": statistic, "view": self.view_of(full_name, view)}

    def corpus_sizes(self) -> list[dict[str, Any]]:
        """Return corpus, words, units and their kind (texts or clusters) of each corpus that was read.

        Of the models, the one that reads the fewest different texts decides.
        """
        return self._records(CORPUS_SIZES)

    def texts_of(self, full_name: str, corpus: str) -> int | None:
        """Return how many texts or clusters a statistic's intervals are over; None if it is an analysis or unknown."""
        return None if full_name.partition(".")[0] in self.study.sections else self.texts().get(corpus)

    def units(self) -> dict[str, str]:
        """Return of each corpus what its intervals are over: ``text`` or ``cluster``."""
        return {row["corpus"]: row["unit"] for row in self.corpus_sizes()}

    def bounds(self, full_name: str) -> tuple[float | None, float | None]:
        """Return the least and the most that a statistic can be, as far as that is known."""
        statistic = self.statistic(full_name)
        return (None, None) if statistic is None else statistic.bounds

    def statistic(self, full_name: str) -> Statistic | None:
        """Return what is known of a statistic (of a floor, what is known of its statistic); None if nothing is."""
        return self._known.get(full_name) or self._known.get(full_name.removesuffix("_floor"))

    @cached_property
    def _known(self) -> Mapping[str, Statistic]:
        given = self._statistics
        return {name: statistic for name, (_, statistic) in declared().items()} if given is None else given

    def asked(self, query: str) -> tuple[list[str], list[str]]:
        """Return the statistics that a query names, by full name, and the tables that it reads.

        A statistic is named where its name stands in quotes, and so does its metric's, or that of no metric.
        """
        from reporter.store.schema import tables

        quoted, bare = set(_TEXT.findall(query)), _TEXT.sub("''", query)
        full_names = [name.partition(".") for name in self._known]
        metrics = quoted & {metric for metric, *_ in full_names}
        measured = metrics or {choice.name for choice in self.study.metrics}
        named = [f"{metric}.{name}" for metric, _, name in full_names if metric in measured and name in quoted]
        read = dict.fromkeys(name.lower() for name in _READ.findall(bare))
        return named, [name for name in read if name in tables()]

    def role_of(self, model: str) -> str | None:
        """Return the role that was measured of a model."""
        roles = [row["role"] for row in self._models if row["model"] == model]
        return roles[-1] if roles else self._roles.get(model)

    def roles_of(self, names: Sequence[str]) -> set[str]:
        """Return the roles of the models that names and groups stand for."""
        roles = {self.role_of(member) for name in names for member in self._members(name)}
        roles |= {name.removesuffix("s") for name in names if name in ("encoders", "decoders")}
        return {role for role in roles if role is not None}

    def _members(self, name: str) -> list[str]:
        """Return the models that a name stands for; none for a role, which is measured."""
        specs = self.study.models.items()
        return [m for m, spec in specs if name in (m, "all") or (name == WITH_BASE and spec.base is not None)]

    def first_tokens(self, models: Sequence[str]) -> dict[str, str]:
        """Return what stands at position 0 of each model's input, as far as the database says."""
        known = {row["model"]: str(row["first_token"]) for row in self._models if row["first_token"] is not None}
        return {model: token for model, token in known.items() if model in models}

    @cached_property
    def origins(self) -> Origins:
        """Where the models come from."""
        return Origins(self._models, self.study.models)

    def view_of(self, full_name: str, view: str) -> str:
        """Return the view under which a statistic is stored: what an analysis looks at has only one."""
        return TEXT_TOKENS if full_name.partition(".")[0] in self.study.sections else view

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

    def parts_of(self, full_name: str, view: str, rows: Sequence[MetricRow]) -> Array | None:
        """Return the parts of texts in some numbers, (rows, G); None where one has none, or the texts are fixed."""
        if self.study.texts == "fixed" or any(row.site not in PATH for row in rows):
            return None
        of = self.parts(full_name, view)
        found = [of.get((row.model, row.checkpoint, row.corpus), {}).get(row.layer or 0) for row in rows]
        known = [part for part in found if part is not None]
        return np.stack(known) if known and len(known) == len(rows) else None

    def named(self, names: Sequence[str]) -> bool:
        """Tell whether the names are models of the study, and none stands for a group."""
        return all(name in self.study.models for name in names)

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
            of_name = self._members(name)
            members = [m for m in self.study.models if m in roles and (m in of_name or f"{roles[m]}s" == name)]
            if not members:
                what = {"all": "models", WITH_BASE: "models with a base"}.get(name, name)
                failed = next((m for m in of_name or self.study.models if m in self._failed), None)
                prefix = f"model '{failed}': "
                reason = f"; {failed} failed: {self._failed[failed].removeprefix(prefix)}" if failed else ""
                raise Missing(f"there are no {what} with numbers of {full_name} for token set '{view}'{reason}")
            models |= dict.fromkeys(members)
            lost = [m for m in of_name or self.study.models if m not in roles]
            notes += [f"{model} is left out: {self.why_failed(model)}" for model in lost]
        suffix = f" ({baseline})" if baseline else ""
        return [model + suffix for model in models], list(dict.fromkeys(notes))

    def pick(self, rows: Sequence[MetricRow], model: str, checkpoint: str | None, step: int | None) -> list[MetricRow]:
        """Return the rows of one checkpoint of a model: the named one, that of a step, or the last.

        Raises:
            Missing: there is none.
        """
        of_model = [row for row in rows if row.model == model]
        if not of_model:
            raise Missing(f"there are no numbers of {model}: {self.why_failed(model)}")
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

    def why_failed(self, model: str) -> str:
        """Say why there are no numbers of a model."""
        return self._failed.get(model, "it was not measured")

    def why_missing(self, full_name: str, row: MetricRow, view: str) -> str:
        """Say why a number is NULL, as far as its cell tells."""
        metric, _, statistic = full_name.partition(".")
        place = (row.model, row.checkpoint, row.corpus, metric)
        for cell in self._reasons:
            if (cell["model"], cell["checkpoint"], cell["corpus"], cell["metric"]) == place:
                for entry in stored_json(cell["reasons"]):
                    same = (entry.get("statistic"), entry.get("view")) == (statistic, view)
                    if same and row.layer in entry.get("layers", ()):
                        return str(entry.get("reason"))
        return "it could not be computed"

    @cached_property
    def _models(self) -> list[dict[str, Any]]:
        return self._records("SELECT * FROM models WHERE study = $study ORDER BY model, position")

    @cached_property
    def _roles(self) -> dict[str, str]:
        sql = "SELECT DISTINCT model, role FROM layer_metrics WHERE study = $study AND role IS NOT NULL"
        return {row["model"]: row["role"] for row in self._records(sql)}

    @cached_property
    def _reasons(self) -> list[dict[str, Any]]:
        columns = "model, checkpoint, corpus, metric, reasons"
        return self._records(f"SELECT {columns} FROM cells WHERE study = $study AND reasons IS NOT NULL")

    @cached_property
    def _failed(self) -> dict[str, str]:
        records = self._records(
            "SELECT model, min(error) AS error FROM ("
            "SELECT model, error FROM models WHERE study = $study AND status = 'failed' UNION ALL "
            "SELECT model, error FROM cells WHERE study = $study AND status = 'failed') GROUP BY model"
        )
        return {row["model"]: str(row["error"]) for row in records}


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
