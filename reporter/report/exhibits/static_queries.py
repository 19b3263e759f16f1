"""The queries behind the page of static embeddings. Nothing on a page rests on more than 5,000 rows of a model."""

from __future__ import annotations

from reporter.report.queries import Query

FACTS = Query(
    "vocabulary_facts",
    """
SELECT model, checkpoint, fact, value, said FROM vocabulary_facts
WHERE study = $study ORDER BY model, checkpoint
""",
)

# Eleven sorts have colours of their own; a vocabulary of the world has forty scripts.
SHARES = Query(
    "vocabulary_shares",
    """
WITH own AS (
  FROM vocabulary_shares WHERE study = $study
), largest AS (
  SELECT sorted_by, sort, max(share) AS most FROM own
  GROUP BY sorted_by, sort
  QUALIFY row_number() OVER (PARTITION BY sorted_by ORDER BY max(share) DESC, sort) <= 11
)
SELECT model, checkpoint, own.sorted_by, if(any_value(most) IS NULL, 'others', any_value(own.sort)) AS sort,
  CAST(sum(count) AS BIGINT) AS count, sum(share) AS share
FROM own LEFT JOIN largest ON (largest.sorted_by, largest.sort) = (own.sorted_by, own.sort)
GROUP BY model, checkpoint, own.sorted_by, largest.sort
ORDER BY own.sorted_by, max(max(most)) OVER (PARTITION BY own.sorted_by, largest.sort) DESC NULLS LAST, sort,
  model, checkpoint
""",
)

# The shapes are compared, not the numbers of pairs, which differ by factors of millions: height is 1 at the peak.
HISTOGRAMS = Query(
    "vocabulary_histograms",
    """
SELECT model, checkpoint, measure, part, low, high, count,
  count / max(count) OVER (PARTITION BY model, checkpoint, measure, part) AS height,
  CAST(sum(count) OVER (PARTITION BY model, checkpoint, measure, part) AS BIGINT) AS n
FROM histograms
WHERE study = $study AND analysis = 'vocabulary'
ORDER BY model, checkpoint, measure, part, low
""",
)

EXPLAINED = Query(
    "vocabulary_explained",
    """
SELECT model, checkpoint, part, components, share, n FROM explained_variance
WHERE study = $study AND analysis = 'vocabulary'
ORDER BY model, checkpoint, part, components
""",
)

POINTS = Query(
    "vocabulary_points",
    """
SELECT p.model, p.checkpoint, p.projection, p.part AS kind, p.point, p.label, p.x, p.y, p.z, v.class,
  CASE v.subword WHEN true THEN 'part of a word' WHEN false THEN 'a word, or the beginning of one' END AS subword,
  v.script, v.length, coalesce(v.norm, q.norm) AS norm
FROM projections AS p
LEFT JOIN vocabulary AS v ON p.part = 'token' AND (v.study, v.model, v.checkpoint, v.token_id)
  = (p.study, p.model, p.checkpoint, p.point)
LEFT JOIN positions AS q ON p.part = 'position' AND (q.study, q.model, q.checkpoint, q.position)
  = (p.study, p.model, p.checkpoint, p.point)
WHERE p.study = $study AND p.analysis = 'vocabulary'
QUALIFY row_number() OVER (PARTITION BY p.model, p.checkpoint, p.projection, p.part ORDER BY hash(p.point)) <= 2000
ORDER BY p.model, p.checkpoint, p.projection LIKE '% of %', p.projection, p.part, p.point
""",
)

EXTREMES = Query(
    "vocabulary_extremes",
    """
SELECT model, checkpoint, among, what, measure, end_of_scale, rank, token_id, token, other_id, other, value, certain
FROM vocabulary_extremes
WHERE study = $study AND what <> 'token–position' AND rank <= 100
ORDER BY model, checkpoint, what, measure, among DESC, end_of_scale IN ('most', 'largest') DESC, rank
""",
)

OUTLIERS = Query(
    "vocabulary_outliers",
    """
SELECT model, checkpoint, rank, token_id, token, other_id AS position, value AS cosine
FROM vocabulary_extremes
WHERE study = $study AND what = 'token–position'
ORDER BY model, checkpoint, rank
""",
)

POSITIONS = Query(
    "positions",
    """
SELECT model, checkpoint, position, norm, step_length, mean_cosine, mean_distance, pc1, pc2, pc3, change_p,
  'position ' || position AS label
FROM positions
WHERE study = $study
QUALIFY (row_number() OVER (PARTITION BY model, checkpoint ORDER BY position) - 1)
  % CAST(ceil(count(*) OVER (PARTITION BY model, checkpoint) / 2048) AS BIGINT) = 0 OR change_p IS NOT NULL
ORDER BY model, checkpoint, position
""",
)

# At most 64 positions each way: a picture of more has cells that no eye tells apart.
HEAT = Query(
    "position_cosines",
    """
WITH own AS (
  FROM position_cosines WHERE study = $study
), places AS (
  SELECT model, checkpoint, position_a AS position,
    row_number() OVER (PARTITION BY model, checkpoint ORDER BY position_a) - 1 AS place,
    CAST(ceil(count(*) OVER (PARTITION BY model, checkpoint) / 64) AS BIGINT) AS every
  FROM (SELECT DISTINCT model, checkpoint, position_a FROM own)
), kept AS (
  FROM places WHERE place % every = 0
)
SELECT own.model, own.checkpoint, position_a, position_b, cosine
FROM own
SEMI JOIN kept AS a ON (a.model, a.checkpoint, a.position) = (own.model, own.checkpoint, position_a)
SEMI JOIN kept AS b ON (b.model, b.checkpoint, b.position) = (own.model, own.checkpoint, position_b)
ORDER BY own.model, own.checkpoint, position_a, position_b
""",
)

OFFSETS = Query(
    "position_offsets",
    """
SELECT model, checkpoint, distance, cosine, cosine - sd AS low, cosine + sd AS high, sd, n
FROM position_offsets
WHERE study = $study
QUALIFY (row_number() OVER (PARTITION BY model, checkpoint ORDER BY distance) - 1)
  % CAST(ceil(count(*) OVER (PARTITION BY model, checkpoint) / 2048) AS BIGINT) = 0
ORDER BY model, checkpoint, distance
""",
)

VOCABULARY = Query(
    "vocabulary",
    """
SELECT token_id, token, class, subword, script, norm, mean_cosine, mean_distance, repeated
FROM vocabulary
WHERE study = $study AND model = $model
ORDER BY norm DESC
LIMIT 100
""",
)
"""What the page offers for the rest of the vocabulary."""

COUNT = Query("vocabulary_count", "SELECT count(*) AS n FROM vocabulary WHERE study = $study")
