"""What the report makes of every table: sites and null baselines apart, and charts of more than one statistic."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import vl_convert

from reporter.charts.chart import Drawn, filled
from reporter.charts.drawing import axis_shown, captions_of, first_choice
from reporter.charts.layout import ASKED, ATTENTION, WITH, WITHOUT, Pick
from reporter.charts.models import PAIRS, correlation_rows
from reporter.charts.profile import PROFILE, PROFILE_DETERMINED, TRAINING, training_query
from reporter.metrics.base import catalogue
from reporter.report.free_charts import of_statistic, of_tables, over_training
from reporter.report.site import facts
from reporter.store import Store

SHARE = {"metric": "anisotropy", "statistic": "top_variance_share"}


@pytest.fixture(scope="module")
def contents(drawn):
    return drawn[1]


@pytest.fixture(scope="module")
def rows(drawn):
    """Returns a function that runs a query, or that of a metric's chart, which is found by its name."""
    store = Store(drawn[0] / "results.duckdb")
    of_charts = {chart.id: chart.query for metric in catalogue().values() for chart in metric.charts}
    return lambda query, **values: store.frame(filled(of_charts.get(query, query), study="whole", **values))


@pytest.fixture
def figure(contents):
    return lambda name: next(drawn for drawn in contents.charts if drawn.id == name)


@pytest.fixture
def caption(contents):
    """Returns a function that gives the sentence under a panel for a choice."""
    first, scene = first_choice(contents.scene), contents.scene
    return lambda drawn, panel, **choice: captions_of(drawn, scene, replace(first, **choice)).get(panel, "")


def words_nested(frame):
    return frame[(frame["view"] == "text tokens") & (frame["corpus"] == "nested")]


def test_nothing_broke_and_every_kind_passes_altairs_own_validation(contents):
    assert {drawn.id: drawn.error for drawn in contents.charts if drawn.error} == {}
    assert all(drawn.specs for drawn in contents.charts), "every one has numbers"
    drawn = next(drawn for drawn in contents.charts if drawn.id == "anisotropy.top_variance_share")
    assert drawn.flat == "" and replace(drawn, frame=drawn.frame.assign(value=0.0)).flat.startswith("0 throughout")
    for drawn in {drawn.chart.kind: drawn for drawn in contents.charts}.values():
        draws = drawn.chart.draw
        for draw in draws.values() if isinstance(draws, Mapping) else [draws]:
            spec = draw(drawn.frame.head(2000), contents.scene.styles).to_dict()
            vl_convert.vegalite_to_svg(spec, vl_version="6.4")


def test_only_a_profile_has_other_sites_and_it_keeps_them_out_of_means(rows, contents, figure, caption):
    for drawn in contents.charts:
        assert drawn.chart.kind == "profile" or "site" not in drawn.frame
    profile = rows(PROFILE, **SHARE, floor="x")
    assert set(profile["site"]) == {"embedding", "block", "final", "attention"}
    drawn = figure("anisotropy.top_variance_share")
    reading = caption(drawn, "nested")
    assert "last block" in reading == drawn.captions["nested"] != caption(drawn, "nested", site=ATTENTION)
    keys, training = ["model", "corpus", "view", "step"], rows(TRAINING, **SHARE)
    means = training[training["layer"].isna() & training["step"].notna()].set_index(keys)["value"].sort_index()
    path = profile[profile["site"].isin(["embedding", "block"]) & profile["step"].notna()]
    pd.testing.assert_series_equal(means, path.groupby(keys)["value"].mean(), check_index_type=False)


def test_what_differs_in_kind_between_roles_has_panels_of_its_own_over_training(rows):
    asked = rows(training_query(of_model=False, within_role=True), **SHARE)[["role", ASKED]].drop_duplicates()
    assert len(asked) > 1 and asked[ASKED].is_unique
    assert all(value.endswith(f", {role}s") for role, value in asked.itertuples(index=False))
    loss = catalogue()["loss"].statistic("lm")
    assert over_training("loss", loss).facet == of_statistic("loss", loss).facet == ASKED


def test_an_interval_that_reaches_0_is_no_interval_where_the_number_is_then_not_determined(rows):
    every, determined = rows(PROFILE, **SHARE, floor="x"), rows(PROFILE_DETERMINED, **SHARE, floor="x")
    kept = every["ci_low"] > 0
    assert kept.any() and determined["ci_high"].notna().tolist() == kept.tolist()
    unknown = (every["ci_low"] == 0) & (every["value"] > 0)
    assert determined["undetermined"].astype(bool).tolist() == unknown.tolist()
    assert of_statistic("subspaces", catalogue()["subspaces"].statistic("speed")).query == PROFILE_DETERMINED


def test_null_baselines_are_no_models_of_the_study(contents, figure, caption):
    assert facts(contents)[:2] == ["2 encoders and 1 decoder", "3 null baselines"]
    styles = {style.model: style for style in contents.scene.styles.models}
    assert list(styles) == ["bert", "bert (random-init)", "tuned", "gpt2", "gpt2 (random-init)", "gpt2 (shuffled)"]
    assert styles["gpt2 (shuffled)"].light == styles["gpt2"].light
    assert len({styles[name].dash for name in ("gpt2", "gpt2 (random-init)", "gpt2 (shuffled)")}) == 3
    drawn, axes = figure("convergence.rate"), []
    for baselines in (WITH, WITHOUT):
        assert re.fullmatch(r"bert: \S+ · tuned: \S+ · gpt2: \S+", caption(drawn, "nested", baselines=baselines))
        choice = replace(first_choice(contents.scene), baselines=baselines, picks={"axis": "close"})
        axes.append(axis_shown(drawn, contents.scene, choice))
    assert axes[0] != axes[1], "it reaches as far as what is seen"


def test_what_differs_by_scale_alone_is_one_figure_and_ranks_are_thinned_evenly(contents, figure, rows):
    assert "intrinsic_dimension.gride_1" not in {drawn.id for drawn in contents.charts}
    frame = figure("intrinsic_dimension.gride").frame
    assert sorted(set(frame["scale"])) == [1, 2, 4, 8, 16, 32, 64] and set(frame["kind"]) == {"measured", "floor"}
    ranks = sorted(set(rows("spectrum.curves", metric="spectrum")["rank"]))
    assert ranks[:4] == [1, 2, 3, 4] and ranks[-1] == 96 and len(ranks) < 22


def test_types_are_the_most_frequent_at_five_depths_of_the_last_checkpoint(rows):
    frame = rows("variance.types", metric="variance")
    assert set(frame["part"]) == {0, 0.25, 0.5, 0.75, 1}
    per_place = frame.groupby(["model", "corpus", "view", "part"])
    assert set(per_place.size()) == {300}
    cut = rows("SELECT DISTINCT count FROM token_types ORDER BY count DESC")["count"]
    assert per_place["count"].min().min() >= cut[min(299, len(cut) - 1)]
    assert set(frame.loc[frame["model"] == "gpt2", "checkpoint"]) == {"step600"}
    stored = rows("FROM layer_metrics WHERE statistic = 'tradeoff' AND model = 'tuned' AND layer = 2")
    middle = words_nested(frame[(frame["model"] == "tuned") & (frame["part"] == 0.5)])
    assert set(middle["rho"]) == {words_nested(stored)["value"].item()} and set(middle["layer"]) == {2}


def test_half_a_matrix_becomes_a_whole_one_and_a_heat_map_says_its_floor(rows, figure, caption):
    frame = rows(PAIRS, metric="layer_pairs")
    cka, knn = (frame[frame["statistic"] == name] for name in ("cka", "knn"))
    square = words_nested(cka[cka["pair"] == "gpt2 × gpt2"]).pivot(index="layer_a", columns="layer_b", values="value")
    assert square.shape == (7, 7) and (square == square.T).all(axis=None)
    other = words_nested(cka[cka["pair"] == "bert × gpt2"])
    assert len(other) == 5 * 7 and other["value"].min() < 0
    assert len(cka) + len(knn) == len(frame) and cka["floor"].eq(0).all() and knn["floor"].isna().all()
    pairs = figure("layer_pairs.pairs")
    reading = caption(pairs, "bert × gpt2", picks={"among": "bert with others"})
    assert reading == "chance level 0 · n = 500 · below 0 shown as 0 (lowest −0.05)"
    shows = next(pick for pick in pairs.picks if pick.name == "among").shows
    assert len(shows["inside each model"]) == 6 and len(shows["bert with others"]) == 5


def test_pairs_and_differences_have_a_panel_for_each_side_and_say_where_they_are_greatest(figure, caption, contents):
    drawn = figure("layer_pairs.beside_base")
    assert [panel.value for panel in drawn.panels] == ["tuned against bert, on nested", "tuned against bert, on simple"]
    line = drawn.frame[(drawn.frame["statistic"] == "cka") & (drawn.frame["view"] == "text tokens")].drop_duplicates(
        "layer"
    )
    places = line[["layer", "depth", "value"]].to_numpy()
    assert places == pytest.approx(np.array([[i, i / 4, i / 20 - 0.05] for i in range(5)]))  # as made up for both
    assert set(line["model"]) == {"tuned"}
    drawn = figure("angular_distance.runs")
    assert "angular_distance.pairs" not in [drawn.id for drawn in contents.charts], "one chart shows them"
    least = drawn.frame.query("least and model == 'bert' and statistic == 'tokens'")
    assert set(least["run"]) == {"1", "1–2", "1–3", "1–4"}
    assert caption(drawn, "bert") == "smallest angles: blocks 1 (0.1), 1–2 (0.2)"
    drawn = figure("convergence.differences")
    sides = ["simple − nested", "tuned − bert, on nested", "tuned − bert, on simple"]
    assert [panel.value for panel in drawn.panels] == sides
    assert all(axes["fixed"].low <= 0 <= axes["fixed"].high for axes in drawn.axes.values() if "fixed" in axes)
    assert list(drawn.picks[0].choices) == ["similarity"]
    blocks = figure("convergence.differences_of_blocks")  # as its tip names them
    assert list(blocks.picks[0].choices) == ["bound"] and blocks.options["blocks"]
    assert "relative depth of the block's input" in json.dumps(blocks.specs)
    assert drawn.captions["tuned − bert, on nested"].startswith("tuned: 0.04")
    assert set(figure("convergence.differences_of_models").frame["statistic"]) == {"rate"}


def test_correlations_over_too_few_models_are_called_so_and_cuts_of_sinks_say_where_they_matter(figure, caption):
    drawn = figure("convergence.correlations")
    assert caption(drawn, "nested", picks={"score": "loss.lm"}) == "n = 5 models"
    assert "fewer than 3 say nothing" in caption(drawn, "nested", picks={"score": "sst2"})
    table = correlation_rows(drawn.frame)
    assert table[0]["feature"] == "area" and table[0]["n"] == 5 and table[-1]["n"] == 2
    factor = {"rule": "factor", "statistic": "anisotropy.top_variance_share"}
    said = caption(figure("outliers.cuts"), "gpt2", picks=factor)
    assert said == "largest change 0.05 at layer 6 · leaves out 2–3 % of the tokens"
    dominance = {"rule": "dominance", "statistic": "anisotropy.mean_cosine"}
    assert "changes nothing" in caption(figure("outliers.cuts"), "gpt2", picks=dominance)


def test_main_charts_are_open_and_others_wait(contents):
    drawn = {drawn.id: drawn for section in contents.sections for drawn in section.charts}
    assert all(any(drawn.open for drawn in section.charts) for section in contents.sections)
    assert not drawn["variance.total"].open and all(one.open for one in drawn.values() if one.chart.main)


def test_a_title_names_the_base_of_differences_and_needs_no_such_columns_of_pairs_inside_one_model():
    metric = catalogue()["layer_pairs"]
    chart = {chart.id: chart for chart in of_tables("layer_pairs", metric.statistics, ("differences", "layer_pairs"))}
    pick = Pick("statistic", "Statistic", {"cka": "CKA"})

    def title(name, **columns):
        frame = pd.DataFrame({key: [value] for key, value in columns.items()})
        return Drawn(chart[f"layer_pairs.{name}"], "", frame, picks=[pick]).title

    assert title("pairs", model_a="m", model_b="m") == "CKA: layers against layers"
    assert title("differences", model="tuned", model_b="old") == "CKA: difference from old"
    assert title("differences", model="m", model_b="m") == "CKA: difference"
