"""What a page leaves out of a study of very many numbers: it says so, and its own SQL gives what it shows."""

import shutil

import duckdb
import pandas as pd
import pytest

from reporter.charts.chart import Chart, Drawn
from reporter.charts.drawing import page_data, read_chart
from reporter.charts.layout import Panel
from reporter.charts.models import PAIRS, pairs
from reporter.charts.profile import PROFILE, TRAINING
from reporter.report import downsampling
from reporter.report.downsampling import Sampling, spread

STEPS = (0, 1, 10, 100, 1000)
TWO_STEPS = Sampling("'s'", (0, 1000), 5)


@pytest.fixture(scope="module")
def read(empty, tmp_path_factory):
    """Three models at up to five steps, one at a checkpoint without a step; 13 layers each."""
    with duckdb.connect(shutil.copy(empty, tmp_path_factory.mktemp("many"))) as base:
        base.execute(f"""
INSERT INTO models BY NAME
  SELECT 's' AS study, m AS model, 'step-' || step AS checkpoint, step, 12 AS layers,
    step = max(step) OVER (PARTITION BY model) AS is_last
  FROM unnest(['a', 'b', 'c']) AS ms(m), unnest({list(STEPS)}) AS steps(step) WHERE m <> 'c' OR step < 100
  UNION ALL SELECT 's', 'd', 'main', NULL, 12, true;
INSERT INTO layer_metrics BY NAME
  SELECT study, model, 'decoder' AS role, checkpoint, step, 'x' AS corpus, 'text tokens' AS view, 'm' AS metric,
    'v' AS statistic, 'block' AS site, layer, layer / 12 AS depth, hash(model, step, layer) % 1000 / 7 AS value, 10 AS n
  FROM models, range(13) AS layers(layer);
INSERT INTO layer_pairs BY NAME
  SELECT study, corpus, view, metric, statistic, model AS model_a, checkpoint AS checkpoint_a, layer AS layer_a,
    model AS model_b, checkpoint AS checkpoint_b, other AS layer_b, value, ci_low, ci_high, n
  FROM layer_metrics, range(13) AS others(other) WHERE other >= layer;
""")
        yield lambda sql: base.execute(sql).df()


def chart(query, **said):
    return Chart("m.v", "v", query, pairs, **said)


def rows(read, own, thin=None):
    found = read_chart(read, own, sample=thin and thin.apply, study="s", metric="m", statistic="v", floor="v_floor")
    assert not found.error
    return found


def test_steps_are_spread_over_their_logarithm_and_a_study_of_few_numbers_is_shown_whole(read):
    assert spread(range(1001), 4) == (0, 9, 99, 1000)  # 1 + step: 1, 10, 100, 1001
    assert spread([5, 7], 4) == (5, 7)
    assert downsampling.sampling(read, "s", STEPS) is None and rows(read, chart(PROFILE)).kept == ""


def test_checkpoints_are_left_out_but_for_each_models_last(read, monkeypatch):
    monkeypatch.setattr(downsampling, "MOST_OF_STATISTIC", 80)
    thin = downsampling.sampling(read, "s", STEPS)
    assert thin == TWO_STEPS
    whole, own = rows(read, chart(PROFILE)), rows(read, chart(PROFILE), thin)
    last = (whole.frame["model"] == "c") & (whole.frame["step"] == 10)
    there = whole.frame["step"].isin([0, 1000]) | whole.frame["step"].isna() | last
    pd.testing.assert_frame_equal(own.frame, whole.frame[there].reset_index(drop=True))  # in the same order
    assert own.kept == "the checkpoints at 2 of 5 steps, and each model's last"
    stops = [(0, False), (10, True), (10, False), (None, True), (1000, True)]
    assert [thin.shows(*stop) for stop in stops] == [True, True, False, True, True], "the slider stops at what is there"


@pytest.mark.parametrize(("most", "layers"), [(600, set(range(0, 13, 2))), (60, {0, 5, 10, 12})])
def test_layers_are_left_out_of_what_is_still_too_large_but_for_the_last_block(read, monkeypatch, most, layers):
    monkeypatch.setattr(downsampling, "MOST_OF_PANELS", most)
    whole, own = (rows(read, chart(PAIRS, facet="pair"), thin) for thin in (None, TWO_STEPS))
    assert (len(whole.frame), len(own.frame)) == (14 * 13 * 13, 7 * len(layers) ** 2)  # two of a, b and c, one of d
    assert set(own.frame["layer_a"]) == set(own.frame["layer_b"]) == layers
    assert "one layer in" in own.kept and own.kept.endswith("from the embedding on, and each model's last block")
    both = own.frame.merge(whole.frame, how="left", indicator=True)
    assert set(both["_merge"]) == {"both"}, "no number is another one"


CALLED_LIKE_WHAT_IT_READS = """with layer_metrics as (from layer_metrics where study = $study)
select model, step, layer, value from layer_metrics order by all -- of all layers"""
FROM_FIRST = 'FROM "layer_metrics" SELECT model, step, layer, value WHERE study = $study ORDER BY ALL;'


@pytest.mark.parametrize("sql", [CALLED_LIKE_WHAT_IT_READS, FROM_FIRST])
@pytest.mark.parametrize("kind", ["profile", "training"])
def test_queries_of_plug_ins_are_thinned_however_they_are_written(read, monkeypatch, sql, kind):
    monkeypatch.setattr(downsampling, "MOST_OF_FIGURE", 50)
    whole, fewer = (rows(read, chart(sql, kind=kind), thin) for thin in (None, TWO_STEPS))
    assert (len(whole.frame), len(fewer.frame)) == (14 * 13, 7 * (4 if kind == "training" else 7))
    assert "the checkpoints at 2 of 5 steps" in fewer.kept and "one layer in" in fewer.kept
    own = whole.frame.merge(fewer.frame[["model", "step", "layer"]])
    pd.testing.assert_frame_equal(fewer.frame, own, check_dtype=False)


def test_a_mean_over_training_is_over_all_layers(read, monkeypatch):
    monkeypatch.setattr(downsampling, "MOST_OF_FIGURE", 60)
    whole, own = (rows(read, chart(TRAINING, kind="training"), thin) for thin in (None, Sampling("'s'")))
    there = whole.frame["layer"].isna() | (whole.frame["layer"] % 5 == 0) | (whole.frame["layer"] == 12)
    assert 0 < there.sum() < len(there) and own.kept.startswith("the mean over all layers, and one layer in 5")
    pd.testing.assert_frame_equal(own.frame, whole.frame[there].reset_index(drop=True))


def test_rows_of_many_panels_stand_in_a_file_for_each(read, monkeypatch):
    monkeypatch.setattr("reporter.charts.chart.MOST_TOGETHER", 100)
    found = rows(read, chart(PAIRS, facet="pair"))
    drawn = Drawn(found.chart, found.sql, found.frame, panels=[Panel(f"{m} × {m}", m, (m, m)) for m in "abcd"])
    data = page_data(drawn)
    assert drawn.parts == {"a × a": "m.v.0", "b × b": "m.v.1", "c × c": "m.v.2", "d × d": "m.v.3"}
    assert "data" not in data["m.v"] and [data[f"m.v.{i}"]["rows"] for i in range(4)] == [845, 845, 507, 169]
    assert Drawn(chart(PROFILE), "", rows(read, chart(PROFILE)).frame).parts == {}, "a corpus is one panel of many"
