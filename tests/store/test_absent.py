"""A query that finds nothing says which of its values no row has; DuckDB reads the query, not a pattern."""

import pytest
from store.conftest import cell, numbers

from reporter.store import Store, query, query_frame
from reporter.store.parquet import write_parquet

SINKS = "no view 'nosinks'; there are: text tokens, without sinks"
FINDS_NOTHING = {
    "FROM layers WHERE view = 'nosinks'": [SINKS],
    "SELECT max(value), count(*) FROM layers WHERE 'nosinks' = \"view\" AND layer > 0": [SINKS],
    "FROM layers WHERE view IN ('nosinks', 'without sinks') AND model = 'Bert'": ["no model 'Bert'; there are: bert"],
    "FROM layers WHERE (corpus, view) = ('wiki', 'nosinks')": [SINKS],
    "FROM layers AS a JOIN layers AS b USING (layer) WHERE b.view = 'nosinks';": [SINKS],
    "WITH own AS (FROM layers WHERE view = 'nosinks') SELECT * FROM own WHERE model = 'bert'": [SINKS],
    "SELECT 1 FROM models WHERE study IN (SELECT study FROM layer_metrics WHERE view = 'nosinks')": [SINKS],
    "FROM layers WHERE statistic = 'norms' AND site = 'final'": [
        "no statistic 'norms'; there are: norm",
        "no site 'final'; there are: block, embedding",
    ],
    # Nothing to say: the value occurs, may be absent, is computed, or stands for no name.
    "FROM layers WHERE view = 'text tokens' AND layer = 99": [],
    "FROM layers WHERE NOT view = 'nosinks' AND view NOT IN ('other') AND layer = 99": [],
    "SELECT 'a' AS view FROM layers WHERE metric || '.' || statistic = 'nosinks'": [],
    "FROM cells WHERE why = 'nosinks'": [],
    "FROM sinks WHERE model = 'nobody'": [],
    "EXPLAIN FROM layers WHERE view = 'nosinks'": [],
    "FROM layers WHERE view = 'nosinks' OR layer = 1": [],
}


@pytest.fixture(scope="module")
def two_sets(tmp_path_factory, empty):
    path = tmp_path_factory.mktemp("absent") / "results.duckdb"
    path.write_bytes(empty.read_bytes())
    store = Store(path)
    store.put("studies", ["study"], {"study": "s"})
    store.commit_cell(cell(), [*numbers(), *numbers(view="without sinks")])
    return path


@pytest.mark.parametrize("sql", FINDS_NOTHING)
def test_a_name_that_does_not_occur_is_said_with_those_that_do(two_sets, caplog, sql):
    for ask in (query, query_frame):
        caplog.clear()
        ask(two_sets, sql)
        assert caplog.messages == FINDS_NOTHING[sql]


def test_tables_in_parquet_have_the_view_and_the_same_sentences(two_sets, tmp_path, caplog):
    write_parquet(two_sets, "s", tmp_path / "tables")
    inside = tmp_path / "tables" / "results.duckdb"
    assert query(inside, "SELECT count(*) FROM layers", "csv") == query(two_sets, "SELECT count(*) FROM layers", "csv")
    query(inside, next(iter(FINDS_NOTHING)))
    assert caplog.messages == [SINKS]
