"""The named queries behind the pages; those of charts stand with their charts. The text that runs is shown."""

from __future__ import annotations

from reporter.charts.chart import Query

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
SELECT DISTINCT model, l.role, checkpoint, l.step, position
FROM layer_metrics AS l JOIN models USING (study, model, checkpoint) WHERE study = $study ORDER BY role, model, position
""",
)

STUDIES = Query("studies", "SELECT * FROM studies ORDER BY study")
STUDY = Query("study", "SELECT * FROM studies WHERE study = $study")
MODELS = Query(
    "models",
    "SELECT * FROM models WHERE study = $study ORDER BY role DESC NULLS LAST, model, position",
)
CORPORA = Query("corpora", "SELECT * FROM corpora WHERE study = $study ORDER BY corpus")
CORPUS_TEXTS = Query("corpus_texts", "SELECT * FROM corpus_texts WHERE study = $study ORDER BY corpus, number")
CUT_TEXTS = Query(
    "cut_texts",
    """
SELECT corpus, model, max(cut_texts) AS cut, max(texts) AS texts, any_value(max_tokens) AS own,
       max((inputs->>'max_tokens')::BIGINT) AS asked
FROM cells JOIN models USING (study, model, checkpoint)
WHERE study = $study AND cells.status = 'done' AND baseline IS NULL
      AND corpus IN (SELECT corpus FROM corpora WHERE study = $study)
GROUP BY ALL ORDER BY cut DESC, model
""",
)
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
SELECT 'layer_pairs' AS name, metric FROM layer_pairs WHERE study = $study GROUP BY metric
UNION ALL SELECT 'differences', metric FROM differences WHERE study = $study AND layer IS NOT NULL GROUP BY metric
UNION ALL SELECT 'layer_pairs_of_base', metric FROM layer_pairs WHERE study = $study AND EXISTS (
  FROM models AS m WHERE m.study = $study AND m.baseline IS NULL
  AND (m.model, m.base) IN ((model_a, model_b), (model_b, model_a))) GROUP BY metric
UNION ALL SELECT 'differences_of_models', metric FROM differences WHERE study = $study AND layer IS NULL GROUP BY metric
UNION ALL SELECT 'correlations', metric FROM correlations WHERE study = $study GROUP BY metric
ORDER BY metric, name
""",
)
VIEW_NAMES = Query("view_names", "SELECT DISTINCT view FROM layer_metrics WHERE study = $study ORDER BY view")
SAID_CLAIMS = Query(
    "said_claims",
    """
SELECT says, verdict, view, detail->>'reason' AS reason
FROM claims WHERE study = $study AND baseline IS NULL ORDER BY number, claim, reading
""",
)
SAID_FINDINGS = Query("said_findings", "SELECT says FROM findings WHERE study = $study ORDER BY rank")
