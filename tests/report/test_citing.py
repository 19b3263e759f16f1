"""The hash of a study's numbers, which is made in portions: it is what the statement beside it gives."""

from types import SimpleNamespace

import duckdb
import pytest

from reporter.report import citing


@pytest.mark.parametrize("most", [1, 4, 1000])
def test_the_hash_is_what_its_statement_gives(most, monkeypatch):
    monkeypatch.setattr(citing, "MOST_HASHED", most)
    with duckdb.connect() as base:
        base.execute("""
CREATE TABLE layer_metrics AS
  SELECT 's' AS study, metric, statistic, 'm' AS model, 'final' AS checkpoint, 'it''s, or not' AS corpus,
    NULL AS view, 'block' AS site, layer, if(layer = 2, NULL, layer / 7) AS value, NULL AS ci_low, NULL AS ci_high,
    10 AS n
  FROM unnest(['a', 'a_b', 'a b', 'aa', 'a-b', 'a)']) AS metrics(metric),
    unnest(['v', 'v_floor', 'v w', 'v-w', 'v)', 'it''s']) AS statistics(statistic), range(3) AS layers(layer)
""")
        seen = []

        def read(sql):
            seen.append(sql)
            return base.execute(sql).df()

        found, sql = citing.read_hash(read, "s")
        assert found == base.execute(sql).fetchall()[0][0]
        assert len(seen) == 1 + {1: 36, 4: 36, 1000: 1}[most]
        assert citing.read_hash(read, "t")[0] == ""


def test_a_pass_has_the_tokens_of_one_model_and_not_those_of_a_pair():
    """A cell that compares two models counts the tokens of both."""
    last = {"checkpoint": "final", "is_last": True, "baseline": None, "max_tokens": 128}
    cell = {"checkpoint": "final", "corpus": "wiki", "status": "done", "texts": 80, "cut_texts": 3, "inputs": None}
    tokens = {"minilm": 12672, "minilm | smollm": 25103, "smollm": 12431}
    cells = [cell | {"model": model, "tokens": count} for model, count in tokens.items()]
    models = [last | {"model": "minilm"}, last | {"model": "smollm"}]
    contents = SimpleNamespace(models=models, corpora=[{"corpus": "wiki"}], cells=cells)
    passes = {reading.model: reading.tokens for reading in citing.read_passes(contents)["wiki"]}
    assert passes == {"minilm": 12672, "smollm": 12431}
