"""The named queries behind the report. The text that runs is the text that a page shows.

Every figure rests on the frame of one query. Parameters are filled in as literals before the query runs, so
that what a reader copies from a page into ``reporter sql`` is, letter for letter, what made the figure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reporter.errors import ReporterError

INTEGERS = ("step", "layer", "layers", "n")
"""Columns that are whole numbers in the database; pandas would show them as floats where one is NULL."""
NUMBERS = ("depth", "value", "ci_low", "ci_high")


@dataclass(frozen=True)
class Query:
    """A SQL statement with a name and ``$parameters``."""

    name: str
    text: str

    def fill(self, **parameters: str) -> str:
        """Return the statement with every parameter written as a SQL string literal.

        Args:
            **parameters: one value for each ``$name`` in the text.

        Returns:
            A statement that runs as it stands.

        Raises:
            ReporterError: where a parameter is missing.
        """

        def literal(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in parameters:
                raise ReporterError(f"query {self.name!r} wants a value for ${name}")
            return "'" + parameters[name].replace("'", "''") + "'"

        return re.sub(r"\$([a-z_]+)", literal, self.text.strip())


PROFILE = Query(
    "profile",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
ORDER BY statistic, corpus, view, role, model, step, checkpoint, layer
""",
)

DOTS = Query(
    "dots",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor) AND layer IS NULL
ORDER BY statistic, corpus, view, role, model, step, checkpoint
""",
)

# layer is NULL in the rows that average over all layers
TRAINING = Query(
    "training",
    """
SELECT model, role, step, corpus, view, layer, avg(value ORDER BY layer) AS value, count(value) AS layers
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic = $statistic
  AND step IS NOT NULL AND layer IS NOT NULL
  AND model IN (
    SELECT model FROM layer_metrics WHERE study = $study GROUP BY model HAVING count(DISTINCT step) > 1
  )
GROUP BY GROUPING SETS ((model, role, step, corpus, view), (model, role, step, corpus, view, layer))
ORDER BY corpus, view, layer NULLS FIRST, role, model, step
""",
)

TRAINING_OF_MODELS = Query(
    "training_of_models",
    """
SELECT model, role, step, corpus, view, layer, value, 0 AS layers
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic = $statistic
  AND step IS NOT NULL AND layer IS NULL
  AND model IN (
    SELECT model FROM layer_metrics WHERE study = $study GROUP BY model HAVING count(DISTINCT step) > 1
  )
ORDER BY corpus, view, role, model, step
""",
)

STATISTICS = Query(
    "statistics",
    """
SELECT metric, statistic, count(layer) AS layers, count(value) AS n
FROM layer_metrics WHERE study = $study GROUP BY metric, statistic ORDER BY metric, statistic
""",
)

CHECKPOINTS = Query(
    "checkpoints",
    """
SELECT DISTINCT model, role, checkpoint, step
FROM layer_metrics WHERE study = $study ORDER BY role, model, step, checkpoint
""",
)

STUDIES = Query("studies", "SELECT * FROM studies ORDER BY study")
STUDY = Query("study", "SELECT * FROM studies WHERE study = $study")
MODELS = Query(
    "models",
    "SELECT * FROM models WHERE study = $study ORDER BY role DESC NULLS LAST, model, step, checkpoint",
)
CORPORA = Query("corpora", "SELECT * FROM corpora WHERE study = $study ORDER BY corpus")
CELLS = Query(
    "cells",
    """
SELECT * FROM cells WHERE study = $study
ORDER BY status = 'failed' DESC, model, checkpoint, corpus, metric
""",
)
CORPUS_NAMES = Query("corpus_names", "SELECT DISTINCT corpus FROM layer_metrics WHERE study = $study ORDER BY corpus")
VIEW_NAMES = Query("view_names", "SELECT DISTINCT view FROM layer_metrics WHERE study = $study ORDER BY view")
