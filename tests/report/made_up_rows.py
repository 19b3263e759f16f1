"""Made-up rows of the tables besides ``layer_metrics``, made of its places. Not a test: loaded by ``made_up``."""

TABLES = """
CREATE TEMP TABLE places AS  -- of each model's last checkpoint
  SELECT DISTINCT study, model, checkpoint, n.step, n.role, corpus, view, site, layer, depth, layer = layers AS is_last
  FROM layer_metrics AS n JOIN models AS m USING (study, model, checkpoint)
  WHERE study = 'whole' AND m.is_last AND site IN ('embedding', 'block');
INSERT INTO spectra BY NAME
  SELECT * EXCLUDE (is_last, power), 'spectrum' AS metric, 4000 AS n,
    power / sum(power) OVER (PARTITION BY model, corpus, view, layer) AS value
  FROM (SELECT *, rank ** -(0.6 + depth) AS power FROM places, range(1, {ranks} + 1) AS ranks(rank));
INSERT INTO token_types BY NAME
  SELECT * EXCLUDE (is_last, noise), 'variance' AS metric, 'token-' || token_id AS token,
    5 + 2000 // (token_id + 1) AS count, exp(1 + depth + noise) AS norm_of_mean, 9 * exp(noise - depth) AS variance
  FROM (SELECT *, sin(37 * token_id + layer) AS noise FROM places, range({types}) AS types(token_id));
INSERT INTO layer_pairs BY NAME  -- a model beside itself in one half alone
  WITH pairs AS (
    SELECT a.study, corpus, view, a.model AS model_a, a.checkpoint AS checkpoint_a, a.layer AS layer_a,
      b.model AS model_b, b.checkpoint AS checkpoint_b, b.layer AS layer_b, 500 AS n, model_a = model_b AS inside,
      if(inside, exp(-4 * abs(a.depth - b.depth)), 0.025 * (layer_a + layer_b) - 0.05) AS near,
      least(0.5, 0.1 * (layer_b - layer_a) + 0.01 * layer_a) AS angle
    FROM places AS a JOIN places AS b USING (corpus, view)
    WHERE a.model < b.model OR (a.model = b.model AND a.layer <= b.layer)
  ), numbers AS (
    SELECT *, 'layer_pairs' AS metric, unnest(['cka', 'knn', 'cka_floor']) AS statistic,
      unnest([near, greatest(0, near) ** 2, 0]) AS value FROM pairs
    UNION ALL BY NAME
    SELECT *, 'angular_distance' AS metric, unnest(['tokens', 'last_token']) AS statistic, angle AS value FROM pairs
    WHERE inside AND layer_a < layer_b
  )
  SELECT * EXCLUDE (inside, near, angle), value - 0.02 AS ci_low, value + 0.02 AS ci_high FROM numbers;
INSERT INTO sinks BY NAME  -- of each decoder the first token, and a hostile one, of which the norm alone told
  SELECT DISTINCT study, model, checkpoint, step, role, corpus, 'outliers' AS metric, true AS own, 1 AS layer_first,
    layer AS layer_last, unnest([7, 8]) AS token_id, unnest(['the', '<script>alert(2)</script>']) AS token,
    unnest([0, 3]) AS position_first, unnest([0, 90]) AS position_last, unnest([400, 12]) AS texts,
    unnest([400, 15]) AS count, unnest([170, 4]) AS norm_ratio, unnest([69, 0]) AS dominance,
    unnest([47, NULL]) AS dimension
  FROM places WHERE is_last AND role = 'decoder';
INSERT INTO sink_cuts BY NAME  -- at every cut of both rules: the same below 4, and half as much again above
  WITH cuts AS (
    SELECT 'dominance' AS rule, unnest([0.25, 0.5, 1, 2, 4]) AS cut
    UNION ALL SELECT 'factor', unnest([2, 3, 4, 6, 8, 12])
  )
  SELECT * EXCLUDE (view, is_last), 'outliers' AS metric, 2000 AS n, if(cut > 4, 0.02, 0.03) AS left_out,
    'anisotropy.' || unnest(['top_variance_share', 'mean_cosine']) AS statistic,
    0.1 + 0.05 * depth * if(cut > 4, 2, 1) AS value
  FROM places, cuts WHERE view = 'text tokens';
INSERT INTO differences BY NAME  -- between two corpora for every model, and between ``tuned`` and ``bert``
  WITH numbers AS (
    SELECT * EXCLUDE is_last, unnest(['similarity', 'bound']) AS statistic FROM places WHERE NOT is_last
    UNION ALL BY NAME SELECT * EXCLUDE (is_last, site, layer, depth), 'rate' AS statistic FROM places WHERE is_last
  ), sides AS (
    SELECT a.*, b.model AS model_b, b.checkpoint AS checkpoint_b, b.corpus AS corpus_b,
      if(a.model = b.model, 'corpora', 'base') AS kind
    FROM numbers AS a JOIN numbers AS b USING (view, statistic)
    WHERE a.layer IS NOT DISTINCT FROM b.layer AND ((a.model = b.model AND a.corpus > b.corpus)
      OR (a.corpus = b.corpus AND a.model = 'tuned' AND b.model = 'bert'))
  )
  SELECT * EXCLUDE (model, checkpoint, corpus, step, role), model AS model_a, checkpoint AS checkpoint_a,
    corpus AS corpus_a, 'convergence' AS metric, 500 AS n,
    if(kind = 'base', 0.04, 0.1 * sin(3 * coalesce(depth, 0) + len(model))) AS value,
    value - 0.03 AS ci_low, value + 0.03 AS ci_high
  FROM sides;
INSERT INTO correlations BY NAME  -- over two models there is nothing to say
  SELECT DISTINCT study, corpus, view, 'convergence' AS metric, score, n, method, ['area', 'decay', 'first', 'rate'][i]
    AS feature, if(n > 2, 0.5 * i - 1.4, NULL) AS value, if(n > 2, 0.2 * i - 0.16, NULL) AS p,
    value - 0.1 AS ci_low, value + 0.4 AS ci_high
  FROM places, range(1, 5) AS features(i), (VALUES ('loss.lm', 5), ('sst2', 2)) AS scores(score, n),
    (VALUES ('pearson'), ('spearman')) AS methods(method);
"""
