"""Made-up journeys: an encoder with attention, a decoder with two checkpoints; hostile tokens. Not a test."""

LONG = "long" * 125
# tokens and texts are hostile; names of groups, concepts and corpora cannot be
HOSTILE = ("<script>alert(1)</script>", "\"quoted'", "back\\slash", "שלום", "zero\u200bwidth", "\x07bell\x1b")
HOSTILE += ("", LONG, "\u202eturned")
# the last one is what a state may come close to besides the words of the others
MOUSE = ("the", "mouse", "was", "gone", ".", "the")
TEXTS = {
    "mouse": ([*MOUSE, "cat", "sat", "useless", "."], [*MOUSE, "screen", "is", "dark", "."]),
    "hostile": (["say", *HOSTILE, "now"],),
    "never": (["far", "rat", "animal", "rabbit", "dog", "button", "keyboard", "cursor", "bird", "snake", *HOSTILE],),
}


def tokens():
    """Every token of the texts in its place: a word of a decoder has its space."""
    for journey, texts in TEXTS.items():
        for text, words in enumerate(texts):
            row = {"journey": journey, "text": text + 1}
            for position, word in enumerate(("[CLS]", *words, "[SEP]")):
                yield row | {"role": "encoder", "position": position, "token": word}
            for position, word in enumerate(words):
                token = f"␣{word}" if word.isalpha() and position else word
                yield row | {"role": "decoder", "position": position, "token": token}


PLACES = """
CREATE TEMP TABLE places AS  -- the path of every checkpoint, and other sites of the encoder
  SELECT study, model, checkpoint, step, role, layer, layer / layers AS depth, unnest(if(layer = 0, ['embedding'],
    if(role = 'encoder', ['block', 'attention'] || if(layer = layers, ['final'], []), ['block']))) AS site
  FROM (SELECT *, unnest(range(layers + 1)) AS layer FROM models WHERE study = '{study}');
"""
JOURNEYS = """
CREATE TEMP TABLE known AS
  SELECT *, row_number() OVER (ORDER BY role, token) AS token_id FROM (SELECT DISTINCT role, token FROM tokens);
CREATE TEMP TABLE steps AS  -- a state drifts away from its token, further in some positions and with age
  SELECT *, row_number() OVER () AS id, if(step = 50, 0.3, 1) AS age,
    age * depth * (1 + 0.6 * sin(2.1 * position)) + if(site = 'attention', 0.05, 0) AS drift,
    least(30521, floor(greatest(0, exp(9 * drift - 2 - 0.4 * (text - 1)) - 1)))::INT AS rank
  FROM places JOIN tokens USING (role) JOIN known USING (role, token) WHERE journey <> 'never';
INSERT INTO journeys BY NAME
  SELECT * EXCLUDE (id, age, drift, rank), token IN ('[CLS]', '[SEP]') AS special, 1.4 + 10 * depth AS norm,
    journey = 'hostile' OR ltrim(token, '␣') IN ('mouse', 'cat', 'screen') AS followed,
    unnest(if(role = 'encoder', ['without', 'with'], ['without'])) AS positions,
    if(role = 'decoder', 'closing', 'none') AS norm_before,
    exp(-1.6 * drift) AS cosine, 0.4 + 9 * drift AS distance, rank AS rank_cosine, rank // 3 AS rank_distance,
    if(site = 'final', NULL, 1 + 3 * abs(sin(position + 3 * depth)) * age) AS step_length,
    if(site = 'final', NULL, 0.7 + 0.25 * cos(2 * depth + position)) AS step_cosine,
    if(depth = 0, NULL, least(1, 0.08 + 0.5 * abs(sin(position + 4 * depth)) * age)) AS turnover_cosine,
    if(depth = 0, NULL, least(1, 0.05 + 0.5 * abs(sin(position + 5 * depth)) * age)) AS turnover_distance
  FROM steps;
INSERT INTO neighbours BY NAME  -- the token itself stands at its rank among the others
  WITH others AS (
    SELECT s.*, measure, n.token_id AS neighbour_id, n.token AS neighbour, n.token_id = s.token_id AS itself,
      row_number() OVER (PARTITION BY id, measure, itself ORDER BY hash(neighbour_id, s.token_id) % 997 / 997
        + 2.2 * age * depth * (hash(neighbour_id, s.token_id, text - 1, measure) % 997) / 997) AS number
    FROM steps AS s JOIN known AS n USING (role), unnest(['cosine', 'distance']) AS measures(measure)
  ), placed AS (
    SELECT *, row_number() OVER (PARTITION BY id, measure
      ORDER BY if(itself, if(measure = 'cosine', rank, rank // 3) + 0.5, number)) AS place
    FROM others QUALIFY place <= 8
  )
  SELECT * EXCLUDE (id, age, drift, rank, itself, number), 0.95 - 0.5 * depth - 0.02 * place AS cosine,
    9 - 8 * cosine AS distance, unnest(if(role = 'encoder', ['without', 'with'], ['without'])) AS positions,
    if(role = 'decoder', 'closing', 'none') AS norm_before
  FROM placed WHERE journey = 'hostile' OR ltrim(token, '␣') IN ('mouse', 'cat', 'screen');
INSERT INTO projections BY NAME  -- one with the last layer, and one without it
  SELECT places.*, 'journeys' AS analysis, journey AS item, projection, text::TEXT AS part, position AS point,
    token AS label, (1 + 4 * depth) * cos(2.4 * position + depth * if(text = 2, 1.5, -0.7)) + 3 * depth AS x,
    (1 + 4 * depth) * sin(2.4 * position + depth * if(text = 2, 1.5, -0.7)) AS y
  FROM places JOIN tokens USING (role), unnest(['pca-joint', 'pca-joint-without-last']) AS projections(projection)
  WHERE journey <> 'never' AND site <> 'attention' AND (depth < 1 OR projection = 'pca-joint');
"""
