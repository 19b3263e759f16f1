"""The named queries behind the report; those of figures are in :mod:`figure_queries`. The text that runs is shown.

Every figure rests on the frame of one query. Parameters are filled in as literals before the query runs, so
that what a reader copies from a page into ``reporter sql`` is, letter for letter, what made the figure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reporter.errors import ReporterError

INTEGERS = ("step", "layer", "layers", "layer_a", "layer_b", "scale", "rank", "count", "n")
"""Columns that are whole numbers in the database; pandas would show them as floats where one is NULL."""
NUMBERS = ("depth", "part", "value", "ci_low", "ci_high", "floor", "p", "norm_of_mean", "variance", "rho")


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
CORPUS_NAMES = Query(
    "corpus_names", "SELECT DISTINCT corpus, metric FROM layer_metrics WHERE study = $study ORDER BY corpus, metric"
)
SITES = Query(
    "sites", "SELECT DISTINCT site FROM layer_metrics WHERE study = $study AND site IS NOT NULL ORDER BY site"
)
BESIDES = Query(
    "besides",
    """
SELECT 'spectra' AS name, metric FROM spectra WHERE study = $study GROUP BY metric
UNION ALL SELECT 'token_types', metric FROM token_types WHERE study = $study GROUP BY metric
UNION ALL SELECT 'sink_cuts', metric FROM sink_cuts WHERE study = $study GROUP BY metric
UNION ALL SELECT 'layer_pairs', metric FROM layer_pairs WHERE study = $study GROUP BY metric
UNION ALL SELECT 'differences', metric FROM differences WHERE study = $study AND layer IS NOT NULL GROUP BY metric
UNION ALL SELECT 'differences_of_models', metric FROM differences WHERE study = $study AND layer IS NULL GROUP BY metric
UNION ALL SELECT 'correlations', metric FROM correlations WHERE study = $study GROUP BY metric
ORDER BY metric, name
""",
)
VIEW_NAMES = Query("view_names", "SELECT DISTINCT view FROM layer_metrics WHERE study = $study ORDER BY view")
