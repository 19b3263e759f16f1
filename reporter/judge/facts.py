"""What is known of a study besides its numbers: its statistics, its models, its corpora."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reporter.judge.kinship import Origins
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Metric, Statistic, catalogue
from reporter.store import Store
from reporter.store.schema import tables
from reporter.study import Study
from reporter.study.claims import WITH_BASE

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


def bounds_in(statistics: Mapping[str, Statistic], full_name: str) -> tuple[float | None, float | None]:
    """Return the least and the most that a statistic or its floor can be, as far as that is known."""
    statistic = statistics.get(full_name.removesuffix("_floor"))
    return (None, None) if statistic is None else statistic.bounds


@dataclass(frozen=True)
class Facts:
    """Facts of one study.

    Args:
        store: the database.
        study: the study.
        given: by full name what is known of each statistic; None for those of metrics.
    """

    store: Store
    study: Study
    given: Mapping[str, Statistic] | None = None

    @cached_property
    def statistics(self) -> Mapping[str, Statistic]:
        """What is known of each statistic, by full name."""
        return {name: s for name, (_, s) in declared().items()} if self.given is None else self.given

    def statistic(self, full_name: str) -> Statistic | None:
        """Return what is known of a statistic (of a floor, what is known of its statistic); None if nothing is."""
        return self.statistics.get(full_name) or self.statistics.get(full_name.removesuffix("_floor"))

    def bounds(self, full_name: str) -> tuple[float | None, float | None]:
        """Return the least and the most that a statistic can be, as far as that is known."""
        return bounds_in(self.statistics, full_name)

    def asked(self, query: str) -> tuple[list[str], list[str]]:
        """Return the statistics that a query names, by full name, and the tables that it reads.

        A statistic is named where its name stands in quotes, and so does its metric's, or that of no metric.
        """
        quoted, bare = set(_TEXT.findall(query)), _TEXT.sub("''", query)
        full_names = [name.partition(".") for name in self.statistics]
        metrics = quoted & {metric for metric, *_ in full_names}
        measured = metrics or {choice.name for choice in self.study.metrics}
        named = [f"{metric}.{name}" for metric, _, name in full_names if metric in measured and name in quoted]
        read = dict.fromkeys(name.lower() for name in _READ.findall(bare))
        return named, [name for name in read if name in tables()]

    @cached_property
    def models(self) -> list[dict[str, Any]]:
        """The rows of the table ``models``."""
        return self._records("SELECT * FROM models WHERE study = $study ORDER BY model, position")

    @cached_property
    def roles(self) -> dict[str, str]:
        """The role that was measured of each model."""
        sql = "SELECT DISTINCT model, role FROM layer_metrics WHERE study = $study AND role IS NOT NULL"
        return {row["model"]: row["role"] for row in (*self._records(sql), *self.models)}

    def roles_of(self, names: Sequence[str]) -> set[str]:
        """Return the roles of the models that names and groups stand for."""
        roles = {self.roles.get(member) for name in names for member in self.members(name)}
        roles |= {name.removesuffix("s") for name in names if name in ("encoders", "decoders")}
        return {role for role in roles if role is not None}

    def members(self, name: str) -> list[str]:
        """Return the models that a name stands for; none for a role, which is measured."""
        specs = self.study.models.items()
        return [m for m, spec in specs if name in (m, "all") or (name == WITH_BASE and spec.base is not None)]

    def named(self, names: Sequence[str]) -> bool:
        """Tell whether the names are models of the study, and none stands for a group."""
        return all(name in self.study.models for name in names)

    @cached_property
    def origins(self) -> Origins:
        """Where the models come from."""
        return Origins(self.models, self.study.models)

    @cached_property
    def corpora(self) -> dict[str, dict[str, Any]]:
        """By corpus that was read its words, its units and their kind (texts or clusters).

        Of the models, the one that reads the fewest different texts decides.
        """
        return {row["corpus"]: row for row in self._records(CORPUS_SIZES)}

    @cached_property
    def texts(self) -> dict[str, int]:
        """How many texts or clusters each corpus has."""
        return {corpus: int(row["texts"]) for corpus, row in self.corpora.items()}

    def texts_of(self, full_name: str, corpus: str) -> int | None:
        """Return how many texts or clusters a statistic's intervals are over; None if it is an analysis or unknown."""
        return None if full_name.partition(".")[0] in self.study.sections else self.texts.get(corpus)

    def _records(self, sql: str) -> list[dict[str, Any]]:
        return self.store.records(sql, {"study": self.study.study})
