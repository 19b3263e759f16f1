"""The queries behind the page of sentences: groups, pairs, clouds and probes by layer."""

from __future__ import annotations

from reporter.report.queries import Query

GROUP_POINTS = Query(
    "group_points",
    """
SELECT model, checkpoint, site, layer, part AS text_group, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'groups' AND projection = 'pca'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, site, layer ORDER BY hash(point), part) <= 2000
ORDER BY model, checkpoint, site, layer, part, point
""",
)

GROUPS = Query(
    "groups",
    """
SELECT model, checkpoint, text_group, control, pooling, site, layer, depth, silhouette, within, between, ratio, n
FROM groups
WHERE study = $study AND site IN ('embedding', 'block')
QUALIFY dense_rank() OVER (PARTITION BY model, checkpoint ORDER BY text_group) <= 24
ORDER BY model, checkpoint, control <> 'none', control, text_group, layer
""",
)

PAIR_POINTS = Query(
    "pair_points",
    """
SELECT model, checkpoint, item AS pairs, site, layer, if(label = 'mean of ' || part[6:], part[6:], part) AS concept,
  label = 'mean of ' || part[6:] AS mean, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'pairs' AND projection = 'pca'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, item, site, layer ORDER BY mean DESC, hash(point), part)
  <= 2000
ORDER BY model, checkpoint, item, site, layer, concept, mean, point
""",
)

PAIR_DIRECTIONS = Query(
    "pair_directions",
    """
SELECT model, checkpoint, pairs, concept, pooling, site, layer, depth, consistency, ci_low, ci_high, p, norm,
  relative_norm, n
FROM pair_directions
WHERE study = $study AND site IN ('embedding', 'block')
ORDER BY model, checkpoint, pairs, concept, layer
""",
)

# A cosine is symmetric and stored once. Beyond chance is judged over all cosines of a set at one layer (Bonferroni).
DIRECTION_COSINES = Query(
    "direction_cosines",
    """
WITH own AS (
  SELECT *, 0.05 / count(*) OVER (PARTITION BY model, checkpoint, pairs, site, layer) AS level
  FROM direction_cosines WHERE study = $study
), whole AS (
  FROM own
  UNION ALL BY NAME
  SELECT * REPLACE (concept_b AS concept_a, concept_a AS concept_b, n_b AS n_a, n_a AS n_b) FROM own
)
SELECT model, checkpoint, pairs, site, layer, concept_a, concept_b, cosine, p, level, p < level AS beyond, n_a, n_b
FROM whole
ORDER BY model, checkpoint, pairs, site, layer, concept_a, concept_b
""",
)

CLOUD_POINTS = Query(
    "cloud_points",
    """
SELECT model, checkpoint, item, projection, site, layer, part AS corpus, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'clouds'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, item, projection, site, layer ORDER BY hash(point), part)
  <= 2000
ORDER BY model, checkpoint, item, projection, site, layer, part, point
""",
)

CLOUD_HISTOGRAMS = Query(
    "cloud_histograms",
    """
SELECT model, checkpoint, item, measure, part, site, layer, low, high, count,
  count / max(count) OVER (PARTITION BY model, checkpoint, item, measure, part, site, layer) AS height,
  CAST(sum(count) OVER (PARTITION BY model, checkpoint, item, measure, part, site, layer) AS BIGINT) AS n
FROM histograms
WHERE study = $study AND analysis = 'clouds'
ORDER BY model, checkpoint, item, measure, site, layer, part, low
""",
)

CLOUD_EXPLAINED = Query(
    "cloud_explained",
    """
SELECT model, checkpoint, item, part, site, layer, components, share, n
FROM explained_variance
WHERE study = $study AND analysis = 'clouds'
ORDER BY model, checkpoint, item, site, layer, part, components
""",
)

# Of a model with several checkpoints the last one is drawn beside other models.
SEPARABILITY = Query(
    "separability",
    """
SELECT model, checkpoint, corpus, statistic, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = 'clouds' AND site IN ('embedding', 'block')
QUALIFY step IS NOT DISTINCT FROM max(step) OVER (PARTITION BY model)
ORDER BY corpus, statistic, model, layer
""",
)

PROBES = Query(
    "probes",
    """
SELECT model, checkpoint, corpus, split_part(statistic, '_', 1) AS classifier,
  if(ends_with(statistic, '_control'), 'control', if(ends_with(statistic, '_floor'), 'floor', 'accuracy')) AS kind,
  layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = 'probes' AND site IN ('embedding', 'block')
  AND NOT regexp_matches(statistic, '_(selectivity|memorised)')
ORDER BY model, checkpoint, corpus, classifier DESC, kind, layer
""",
)

SELECTIVITY = Query(
    "selectivity",
    """
SELECT model, checkpoint, corpus, statistic, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = 'probes' AND site IN ('embedding', 'block') AND NOT ends_with(statistic, '_floor')
QUALIFY step IS NOT DISTINCT FROM max(step) OVER (PARTITION BY model)
ORDER BY corpus, statistic, model, layer
""",
)
