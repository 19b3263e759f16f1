"""The query of each kind of figure.

Sites are never mixed: ``embedding`` and ``block`` are a token's path and what most charts show; only a profile
also has the rows of ``final`` and ``attention``, and keeps them apart by its column ``site``.
"""

from __future__ import annotations

from reporter.report.queries import Query

PROFILE = Query(
    "profile",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, site, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
ORDER BY statistic, corpus, view, role, model, step, checkpoint,
  list_position(['final', 'attention'], site) NULLS FIRST, layer
""",
)

DOTS = Query(
    "dots",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
  AND layer IS NULL AND (site IS NULL OR site IN ('embedding', 'block'))
ORDER BY statistic, corpus, view, role, model, step, checkpoint
""",
)

_TRAINED = """own.study = $study AND own.metric = $metric AND own.statistic = $statistic AND own.step IS NOT NULL
    AND (own.site IS NULL OR own.site IN ('embedding', 'block'))
    AND own.model IN (
      SELECT model FROM layer_metrics WHERE study = $study GROUP BY model HAVING count(DISTINCT step) > 1
    )"""
# The interval of the mean over models, for three of a role or more: that of two reaches too far to be drawn.
_WITH_MEANS = """
FROM own LEFT JOIN (
  FROM over_models WHERE study = $study AND metric = $metric AND statistic = $statistic AND models >= 3
    AND (site IS NULL OR site IN ('embedding', 'block'))
) AS means
  ON means.role = own.role AND means.step = own.step AND means.corpus = own.corpus AND means.view = own.view
    AND means.layer IS NOT DISTINCT FROM own.layer
    AND own.model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
"""

# layer is NULL in the rows that average over all layers
TRAINING = Query(
    "training",
    f"""
WITH own AS (
  SELECT model, role, step, corpus, view, layer, avg(value ORDER BY layer) AS value, count(value) AS layers
  FROM layer_metrics AS own
  WHERE layer IS NOT NULL AND {_TRAINED}
  GROUP BY GROUPING SETS ((model, role, step, corpus, view), (model, role, step, corpus, view, layer))
)
SELECT model, own.role, own.step, own.corpus, own.view, own.layer, own.value, layers, ci_low, ci_high
{_WITH_MEANS}
ORDER BY own.corpus, own.view, own.layer NULLS FIRST, own.role, model, own.step
""",
)

TRAINING_OF_MODELS = Query(
    "training_of_models",
    f"""
WITH own AS (
  SELECT model, role, step, corpus, view, layer, value, 0 AS layers
  FROM layer_metrics AS own
  WHERE layer IS NULL AND {_TRAINED}
)
SELECT model, own.role, own.step, own.corpus, own.view, own.layer, own.value, layers, ci_low, ci_high
{_WITH_MEANS}
ORDER BY own.corpus, own.view, own.role, model, own.step
""",
)

SHARES = Query(
    "shares",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, layer, depth, value, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ('within_share', 'between_share')
  AND site IN ('embedding', 'block')
ORDER BY corpus, view, role, model, step, checkpoint, statistic, layer
""",
)

# Five depths and the most frequent types of each, at the last checkpoint: all of them would be millions of marks.
TYPES = Query(
    "types",
    """
WITH newest AS (
  SELECT model, last(checkpoint ORDER BY step NULLS LAST, checkpoint) AS checkpoint, max(layer) AS layers
  FROM token_types WHERE study = $study AND metric = $metric GROUP BY model
), chosen AS (
  SELECT types.*, part
  FROM token_types AS types
  JOIN newest USING (model, checkpoint)
  CROSS JOIN (VALUES (0e0), (0.25), (0.5), (0.75), (1.0)) AS parts(part)
  WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block') AND layer = round(part * layers)
  QUALIFY row_number() OVER (
    PARTITION BY model, corpus, view, part ORDER BY "count" DESC, token_id
  ) <= 300
)
SELECT model, chosen.role, checkpoint, corpus, view, part, layer, chosen.depth,
  token, "count", norm_of_mean, variance, numbers.value AS rho
FROM chosen
LEFT JOIN (
  FROM layer_metrics WHERE study = $study AND metric = $metric AND statistic = 'tradeoff'
) AS numbers USING (model, checkpoint, corpus, view, site, layer)
ORDER BY corpus, view, role, model, part, "count" DESC, token_id
""",
)

# Three ranks to an octave: on a logarithmic axis the others would lie between them.
SPECTRA = Query(
    "spectra",
    """
SELECT model, role, checkpoint, step, corpus, view, layer, depth, rank, value, n
FROM spectra
WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block') AND value > 0
QUALIFY rank <= 2 OR floor(3 * log2(rank)) > floor(3 * log2(rank - 1))
  OR rank = max(rank) OVER (PARTITION BY model, checkpoint, corpus, view, site, layer)
ORDER BY corpus, view, role, model, step, checkpoint, layer, rank
""",
)

SCALES = Query(
    "scales",
    """
SELECT model, role, checkpoint, step, corpus, view, if(ends_with(statistic, '_floor'), 'floor', 'measured') AS kind,
  layer, depth, CAST(regexp_extract(statistic, '[0-9]+') AS INTEGER) AS scale, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND regexp_matches(statistic, '^' || $statistic || '_[0-9]+(_floor)?$')
  AND site IN ('embedding', 'block')
ORDER BY kind DESC, corpus, view, role, model, step, checkpoint, layer, scale
""",
)

# Numbers without sinks, cut elsewhere; nothing is left out where no token lies between the cuts.
CUTS = Query(
    "cuts",
    """
SELECT model, role, checkpoint, step, corpus, rule, cut, statistic, layer, depth, value, n, left_out
FROM sink_cuts
WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block')
ORDER BY corpus, role, model, step, checkpoint, rule, statistic, cut, layer
""",
)

# A model beside itself is symmetric: where one half is stored, the other is its mirror image.
PAIRS = Query(
    "pairs",
    """
WITH own AS (
  FROM layer_pairs WHERE study = $study AND metric = $metric
), floors AS (
  SELECT corpus, view, statistic, model_a, checkpoint_a, model_b, checkpoint_b, avg(value) AS floor
  FROM own WHERE ends_with(statistic, '_floor') GROUP BY ALL
), whole AS (
  SELECT *, false AS mirrored FROM own
  UNION ALL BY NAME
  SELECT * REPLACE (layer_a AS layer_b, layer_b AS layer_a), true AS mirrored FROM own
  WHERE model_a = model_b AND checkpoint_a = checkpoint_b AND layer_a <> layer_b
)
SELECT whole.model_a || ' × ' || whole.model_b AS pair, whole.corpus, whole.view, whole.statistic,
  whole.model_a, whole.checkpoint_a, layer_a, whole.model_b, whole.checkpoint_b, layer_b,
  value, ci_low, ci_high, floor, n
FROM whole
LEFT JOIN floors ON floors.statistic = whole.statistic || '_floor'
  AND (floors.corpus, floors.view, floors.model_a, floors.checkpoint_a, floors.model_b, floors.checkpoint_b)
    = (whole.corpus, whole.view, whole.model_a, whole.checkpoint_a, whole.model_b, whole.checkpoint_b)
WHERE NOT ends_with(whole.statistic, '_floor')
QUALIFY row_number() OVER (
  PARTITION BY whole.corpus, whole.view, whole.statistic, whole.model_a, whole.checkpoint_a, layer_a,
    whole.model_b, whole.checkpoint_b, layer_b ORDER BY mirrored
) = 1
ORDER BY whole.statistic, whole.corpus, whole.view, whole.model_a = whole.model_b DESC, whole.model_a, whole.model_b,
  whole.checkpoint_a, whole.checkpoint_b, layer_a, layer_b
""",
)

DIFFERENCES = Query(
    "differences",
    """
SELECT if(kind = 'corpora', corpus_a || ' − ' || corpus_b, 'model − its base, on ' || corpus_a) AS comparison,
  model_a AS model, checkpoint_a AS checkpoint, model_b, checkpoint_b, view, statistic, layer, depth,
  value, ci_low, ci_high, n
FROM differences
WHERE study = $study AND metric = $metric AND layer IS NOT NULL AND site IN ('embedding', 'block')
ORDER BY kind DESC, comparison, statistic, view, model, checkpoint, layer
""",
)

DIFFERENCES_OF_MODELS = Query(
    "differences_of_models",
    """
SELECT if(kind = 'corpora', corpus_a || ' − ' || corpus_b, 'model − its base, on ' || corpus_a) AS comparison,
  model_a AS model, checkpoint_a AS checkpoint, model_b, checkpoint_b, view, statistic,
  value, ci_low, ci_high, n
FROM differences
WHERE study = $study AND metric = $metric AND layer IS NULL
ORDER BY kind DESC, comparison, statistic, view, model, checkpoint
""",
)

CORRELATIONS = Query(
    "correlations",
    """
SELECT corpus, view, score, feature, method, value, ci_low, ci_high, p, n
FROM correlations
WHERE study = $study AND metric = $metric
ORDER BY corpus, view, score, max(abs(value)) OVER (PARTITION BY corpus, view, score, feature) DESC NULLS LAST,
  feature, method
""",
)
