"""Made-up static embeddings and sentences: an encoder, and a decoder with two checkpoints; hostile texts; no test."""

from report.made_up_journeys import HOSTILE as TOKENS_OF_JOURNEYS

HOSTILE = (*TOKENS_OF_JOURNEYS, "<img src=x onerror=alert(2)>")
TOKENS = [{"token_id": i, "token": token} for i, token in enumerate((*HOSTILE, *(f"token{i}" for i in range(60))))]
EXHIBITS = """
CREATE TEMP TABLE who AS SELECT study, model, checkpoint, step, role FROM models WHERE study = 'exhibited' AND is_last;
CREATE TEMP TABLE parts AS
  SELECT who.*, 'vocabulary' AS analysis, '(weights)' AS item, unnest(['token', 'token–token']) AS part FROM who
  UNION ALL BY NAME SELECT * FROM places, (VALUES ('clouds', 'two', 'cats'), ('clouds', 'two', 'ships'),
    ('clouds', 'two', 'cats–ships'), ('groups', '(groups)', 'weather'), ('groups', '(groups)', 'greeting'),
    ('pairs', 'shipped', 'female-male'), ('pairs', 'shipped', 'doctor-nurse'), ('pairs', 'shipped', 'past-present')
  ) AS parts(analysis, item, part);
INSERT INTO projections BY NAME
  WITH shown AS (
    SELECT *, unnest(CASE WHEN analysis <> 'vocabulary' THEN ['pca'] WHEN role = 'decoder'
      THEN ['pca of token', 'tsne of token'] ELSE ['pca of token', 'pca', 'tsne'] END) AS projection
    FROM parts WHERE part NOT LIKE '%–%'
  )
  SELECT shown.*, token_id AS point, token AS label, coalesce(depth, 0) * len(part) / 4 + sin(17 * token_id) AS x,
    sin(5 * token_id) AS y, if(analysis = 'vocabulary' AND projection LIKE 'pca%', sin(3 * token_id), NULL) AS z
  FROM shown JOIN tokens ON token_id < if(analysis = 'vocabulary', 70, 12)
  UNION ALL BY NAME SELECT * REPLACE ('mean ' || part AS part), 0 AS point, 'mean of ' || part AS label,
    depth * len(part) / 4 AS x, 0.3 * depth AS y FROM shown WHERE analysis = 'pairs'
  UNION ALL BY NAME SELECT who.*, 'vocabulary' AS analysis, '(weights)' AS item, 'pca' AS projection,
    'position' AS part, i AS point, i::TEXT AS label, cos(i) AS x, sin(i) AS y, i / 24 AS z
  FROM who, range(24) AS positions(i) WHERE role = 'encoder';
INSERT INTO explained_variance BY NAME
  SELECT parts.*, components, components / 8 AS share, 70 AS n FROM parts, range(1, 9) AS numbers(components)
  WHERE analysis IN ('clouds', 'vocabulary') AND part NOT LIKE '%–%';
INSERT INTO histograms BY NAME
  SELECT parts.*, if(part = 'token', 'norm', 'cosine') AS measure, i / 8 AS low, (i + 1) / 8 AS high, 8 - i AS count
  FROM parts, range(8) AS bins(i) WHERE analysis IN ('clouds', 'vocabulary');
INSERT INTO vocabulary BY NAME
  SELECT who.*, token_id, token, ['alphabetic', 'numeric', 'punctuation', 'special'][token_id % 4 + 1] AS class,
    token_id % 3 = 0 AS subword, 1 + token_id / 70 AS norm, sin(token_id) / 4 AS mean_cosine, norm AS mean_distance,
    false AS repeated, sin(17 * token_id) AS pc1, sin(5 * token_id) AS pc2, sin(3 * token_id) AS pc3
  FROM who, tokens;
INSERT INTO vocabulary_extremes BY NAME
  SELECT who.*, ends.*, among, b.token_id AS rank, a.token_id, a.token, 0.9 - rank / 20 AS value, rank <> 11 AS certain,
    if(measure = 'cosine', rank, NULL) AS other_id, if(what = 'token–token', b.token, other_id::TEXT) AS other
  FROM who, unnest(['text', 'all']) AS texts(among), tokens AS a JOIN tokens AS b ON a.token_id + 1 = b.token_id,
    (VALUES ('smallest', 'token', 'norm'), ('largest', 'token', 'norm'), ('least', 'token–token', 'cosine'),
      ('most', 'token–token', 'cosine'), ('outlier', 'token–position', 'cosine')) AS ends(end_of_scale, what, measure)
  WHERE rank < if(end_of_scale <> 'outlier', 12, if(role = 'encoder' AND among = 'all', 6, 0));
INSERT INTO vocabulary_facts BY NAME
  SELECT who.*, facts.* EXCLUDE whose FROM who JOIN (VALUES
    ('positions', NULL, 'learned', 'encoder'), ('positions', NULL, 'none', 'decoder'),
    ('note 1', NULL, 'A note on <b>positions</b>.', NULL), ('token vectors', 70, '8 dimensions', NULL),
    ('norm of token: mean', 1.5, 'n = 70', NULL), ('norm of token: standard deviation', 0.3, 'n = 70', NULL),
    ('outlier threshold', 0.2, '|cosine| of a token and a position', 'encoder'),
    ('outliers', 5, 'of 1,680 pairs', 'encoder'), ('outliers by chance', 1.25, NULL, 'encoder')
  ) AS facts(fact, value, said, whose) ON coalesce(whose, role) = role;
INSERT INTO positions BY NAME
  SELECT who.*, position, if(position > 9, 2, 1) AS norm, if(position > 0, 0.5, NULL) AS step_length,
    0.1 AS mean_cosine, 1 AS mean_distance, cos(position) AS pc1, sin(position) AS pc2, position / 24 AS pc3
  FROM who, range(24) AS positions(position) WHERE role = 'encoder';
INSERT INTO position_cosines BY NAME
  SELECT who.*, position_a, position_b, cos(position_a - position_b) AS cosine
  FROM who, range(24) AS a(position_a), range(24) AS b(position_b) WHERE role = 'encoder';
INSERT INTO position_offsets BY NAME
  SELECT who.*, distance, cos(distance) AS cosine, 0.1 AS sd, 24 - distance AS n
  FROM who, range(1, 24) AS distances(distance) WHERE role = 'encoder';
INSERT INTO groups BY NAME
  SELECT places.*, text_group, control, 'mean' AS pooling, 0.5 * depth - len(control) / 50 AS silhouette, 1 AS within,
    2 AS between, 0.5 AS ratio, 12 AS n
  FROM places, unnest(['weather', 'greeting']) AS groups(text_group),
    unnest(['none', 'random-characters', 'random-words']) AS controls(control);
INSERT INTO pair_directions BY NAME
  SELECT places.*, 'shipped' AS pair_set, concept, 'mean' AS pooling, 0.3 + len(concept) * depth / 30 AS consistency,
    0.2 AS ci_low, 0.9 AS ci_high, 0.001 AS p, 1 AS norm, 0.2 AS relative_norm, 10 AS n
  FROM places, unnest(['female-male', 'doctor-nurse', 'past-present']) AS concepts(concept);
INSERT INTO direction_cosines BY NAME
  SELECT places.*, own.* EXCLUDE c, depth * c AS cosine, 'shipped' AS pair_set, 'mean' AS pooling, 10 AS n_a, 10 AS n_b
  FROM places, (VALUES ('female-male', 'doctor-nurse', -0.64, 0.001), ('female-male', 'past-present', 0.1, 0.04),
    ('doctor-nurse', 'past-present', 0, 0.9)) AS own(concept_a, concept_b, c, p);
INSERT INTO probe_poolings BY NAME
  SELECT places.*, 'classes' AS probe, pooling, pooling = 'mean' AS main, 0.9 - 0.1 * depth - 0.2 * (NOT main)::INT
    AS accuracy, 0.5 AS ci_low, 0.95 AS ci_high, 0.5 AS chance, 24 AS n
  FROM places, unnest(['mean', 'last', 'first']) AS poolings(pooling);
INSERT INTO partner_numbers BY NAME
  SELECT places.*, 'halves' AS partner_set, statistic, variant, 'mean' AS pooling, true AS main,
    0.2 + 0.6 * depth - len(variant) / 90 AS value, value - 0.1 AS ci_low, value + 0.1 AS ci_high, 1 / 20 AS chance,
    20 AS n, true AS halves
  FROM places, unnest(['recall', 'mexa']) AS statistics(statistic), unnest(['raw', 'centred']) AS variants(variant);
INSERT INTO changed_weights BY NAME
  SELECT who.*, 'block' AS kind, block, weight, if(block = 2, 0, 0.001 * len(weight) * block) AS relative,
    1.5 AS stable_rank, 64 AS parameters
  FROM who, range(1, 5) AS blocks(block), unnest(['attn.weight', 'mlp.weight']) AS weights(weight);
INSERT INTO layer_metrics BY NAME
  SELECT places.*, own.* EXCLUDE high, 'text tokens' AS view, high - 0.1 * depth AS value, value - 0.05 AS ci_low,
    value + 0.05 AS ci_high, 24 AS n
  FROM places, (VALUES ('clouds', 'two', 'separability', 0.9), ('probes', 'classes', 'linear', 0.9),
    ('probes', 'classes', 'linear_control', 0.6), ('probes', 'classes', 'linear_selectivity', 0.3)
  ) AS own(metric, corpus, statistic, high);
"""
