"""What the report makes of every table: sites and null baselines apart, and charts of more than one statistic."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import vl_convert

from reporter.charts.chart import Drawn, filled
from reporter.charts.drawing import axis_shown, captions_of, first_choice, panels_shown
from reporter.charts.layout import ATTENTION, WITH, WITHOUT
from reporter.charts.models import PAIRS, correlation_rows
from reporter.charts.profile import PROFILE, TRAINING
from reporter.metrics.base import catalogue
from reporter.report.contents import Contents, read_contents
from reporter.report.site import facts
from reporter.store import Store

HERE = {"study": "whole"}


@pytest.fixture(scope="module")
def store(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return made_up.fill_whole(tmp_path_factory.mktemp("whole") / "results.duckdb", types=400, ranks=96)


@pytest.fixture(scope="module")
def whole(made_up: ModuleType, store: Store) -> Contents:
    with store.reading() as read:
        return read_contents(
            read, {"study": "whole", "views": None, "cells_cached": None}, made_up.known_metrics()
        ).drawn()


def rows(store: Store, query: Any, **values: str) -> pd.DataFrame:
    return store.frame(filled(query, **HERE, **values))


def figure(whole: Contents, name: str) -> Any:
    return next(f for f in whole.charts if f.id == name)


def query(name: str) -> str:
    """What a metric's own chart reads."""
    return next(chart.query for chart in catalogue()[name.partition(".")[0]].charts if chart.id == name)


def test_nothing_broke(whole: Contents) -> None:
    assert {f.id: f.error for f in whole.charts if f.error} == {}
    assert all(f.specs for f in whole.charts), "every one has numbers"


def caption(whole: Contents, drawn: Drawn, panel: str, **choice: Any) -> str:
    return captions_of(drawn, whole.scene, replace(first_choice(whole.scene), **choice)).get(panel, "")


def test_every_kind_passes_altairs_own_validation(whole: Contents) -> None:
    for one in {f.chart.kind: f for f in whole.charts}.values():
        for draw in one.chart.draw.values() if isinstance(one.chart.draw, Mapping) else [one.chart.draw]:
            spec = draw(one.frame.head(2000), whole.scene.styles).to_dict()
            vl_convert.vegalite_to_svg(spec, vl_version="6.4")


def test_only_a_profile_has_other_sites_and_it_tells_them_apart(store: Store, whole: Contents) -> None:
    for f in whole.charts:
        assert f.chart.kind == "profile" or f.frame is None or "site" not in f.frame
    name = {"metric": "anisotropy", "statistic": "top_variance_share"}
    profile = rows(store, PROFILE, **name, floor="x")
    assert set(profile["site"]) == {"embedding", "block", "final", "attention"}
    own = profile[profile["site"].isin(["embedding", "block"])]
    training = rows(store, TRAINING, **name)
    for (model, step, corpus, view), found in training[training["layer"].isna()].groupby(
        ["model", "step", "corpus", "view"]
    ):
        same = (own["model"] == model) & (own["step"] == step) & (own["corpus"] == corpus) & (own["view"] == view)
        assert found["value"].item() == pytest.approx(own[same]["value"].mean())


def test_captions_leave_the_closing_norm_and_attention_out(whole: Contents) -> None:
    drawn = figure(whole, "anisotropy.top_variance_share")
    path = caption(whole, drawn, "nested")
    assert path == drawn.captions["nested"] != caption(whole, drawn, "nested", site=ATTENTION)
    assert "depth 0.5" in path


def test_null_baselines_are_no_models_of_the_study(whole: Contents) -> None:
    assert facts(whole)[:2] == ["2 encoders and 1 decoder", "3 null baselines"]
    styles = {style.model: style for style in whole.scene.styles.models}
    assert list(styles) == ["bert", "bert (random-init)", "tuned", "gpt2", "gpt2 (random-init)", "gpt2 (shuffled)"]
    assert styles["gpt2 (shuffled)"].light == styles["gpt2"].light
    assert len({styles[name].dash for name in ("gpt2", "gpt2 (random-init)", "gpt2 (shuffled)")}) == 3
    drawn = figure(whole, "convergence.rate")
    axes = []
    for baselines in (WITH, WITHOUT):
        assert re.fullmatch(r"bert \S+ · tuned \S+ · gpt2 \S+", caption(whole, drawn, "nested", baselines=baselines))
        choice = replace(first_choice(whole.scene), baselines=baselines, picks={"axis": "close"})
        axes.append(axis_shown(drawn, panels_shown(drawn, whole.scene, choice), choice))
    assert axes[0] != axes[1], "it reaches as far as what is seen"


def test_what_differs_by_scale_alone_is_one_figure(whole: Contents) -> None:
    names = {f.id for f in whole.charts}
    assert "intrinsic_dimension.gride" in names and "intrinsic_dimension.gride_1" not in names
    frame = figure(whole, "intrinsic_dimension.gride").frame
    assert sorted(set(frame["scale"])) == [1, 2, 4, 8, 16, 32, 64] and set(frame["kind"]) == {"measured", "floor"}


def test_ranks_are_thinned_evenly_and_both_ends_stay(store: Store) -> None:
    frame = rows(store, query("spectrum.curves"), metric="spectrum")
    ranks = sorted(set(frame["rank"]))
    assert ranks[:4] == [1, 2, 3, 4] and ranks[-1] == 96 and len(ranks) < 22


def test_types_are_the_most_frequent_at_five_depths_of_the_last_checkpoint(store: Store) -> None:
    frame = rows(store, query("variance.types"), metric="variance")
    assert set(frame["part"]) == {0, 0.25, 0.5, 0.75, 1}
    per_place = frame.groupby(["model", "corpus", "view", "part"])
    assert set(per_place.size()) == {300}
    cut = store.frame("SELECT DISTINCT count FROM token_types ORDER BY count DESC")["count"]
    assert per_place["count"].min().min() >= cut[min(299, len(cut) - 1)]
    assert set(frame.loc[frame["model"] == "gpt2", "checkpoint"]) == {"step600"}
    here = "model = 'tuned' AND layer = 2 AND view = 'words' AND corpus = 'nested'"
    known = store.frame(f"SELECT value FROM layer_metrics WHERE statistic = 'tradeoff' AND {here}")["value"].item()
    own = frame[
        (frame["model"] == "tuned")
        & (frame["part"] == 0.5)
        & (frame["view"] == "words")
        & (frame["corpus"] == "nested")
    ]
    assert set(own["rho"]) == {known} and set(own["layer"]) == {2}


def test_half_a_matrix_becomes_a_whole_one_and_others_stay(store: Store) -> None:
    frame = rows(store, PAIRS, metric="layer_pairs")
    assert set(frame["statistic"]) == {"cka", "knn"}
    own = frame[(frame["view"] == "words") & (frame["corpus"] == "nested") & (frame["statistic"] == "cka")]
    square = own[own["pair"] == "gpt2 × gpt2"].pivot(index="layer_a", columns="layer_b", values="value")
    assert square.shape == (7, 7) and (square == square.T).all(axis=None)
    other = own[own["pair"] == "bert × gpt2"]
    assert len(other) == 5 * 7 and other["value"].min() < 0
    assert (
        frame.loc[frame["statistic"] == "cka", "floor"].eq(0).all()
        and frame.loc[frame["statistic"] == "knn", "floor"].isna().all()
    )


def test_a_heat_map_says_its_floor_and_what_it_cut_off(whole: Contents) -> None:
    figure_of_pairs = figure(whole, "layer_pairs.pairs")
    reading = caption(whole, figure_of_pairs, "bert × gpt2", picks={"among": "bert with others"})
    assert reading == "chance level 0 · n = 500 · below 0 shown as 0 (lowest −0.05)"
    among = next(pick for pick in figure_of_pairs.picks if pick.name == "among")
    assert next(iter(among.choices)) == "inside each model" and len(among.shows["inside each model"]) == 6
    assert len(among.shows["bert with others"]) == 5


def test_a_tuned_model_lies_beside_its_base_in_a_line_over_depth(whole: Contents) -> None:
    own = figure(whole, "layer_pairs.beside_base")
    assert [panel.value for panel in own.panels] == ["tuned beside bert, on nested", "tuned beside bert, on simple"]
    line = own.frame[(own.frame["statistic"] == "cka") & (own.frame["view"] == "words")].drop_duplicates("layer")
    assert set(line["model"]) == {"tuned"} and list(line["layer"]) == [0, 1, 2, 3, 4]
    assert list(line["value"]) == pytest.approx([i / 20 - 0.05 for i in range(5)])  # as made up for both at layer i
    assert list(line["depth"]) == [0, 0.25, 0.5, 0.75, 1]
    said = caption(whole, own, "tuned beside bert, on nested", picks={"statistic": "cka"})
    assert said == "tuned −0.05 → 0.15, highest at the end"


def test_runs_of_blocks_say_the_least_of_each_length(whole: Contents) -> None:
    own = figure(whole, "angular_distance.runs")
    assert "angular_distance.pairs" not in [f.id for f in whole.charts], "one chart shows them"
    least = own.frame[own.frame["least"] & (own.frame["model"] == "bert") & (own.frame["statistic"] == "tokens")]
    assert set(least["run"]) == {"1", "1–2", "1–3", "1–4"}
    reading = caption(whole, own, "bert")
    assert reading == "smallest angle at blocks 1: 0.1 · 1–2: 0.2"
    assert list(own.picks[0].choices) == ["tokens", "last_token"]


def test_differences_have_zero_on_their_axis_and_say_who(whole: Contents) -> None:
    own = figure(whole, "convergence.differences")
    assert [panel.value for panel in own.panels] == [
        "simple − nested",
        "tuned − bert, on nested",
        "tuned − bert, on simple",
    ]
    assert all(
        axis.low <= 0 <= axis.high for axes in own.axes.values() for name, axis in axes.items() if name == "fixed"
    )
    assert list(own.picks[0].choices) == ["similarity", "bound"], "in the order of the definitions"
    assert own.captions["tuned − bert, on nested"].startswith("tuned 0.04")
    assert set(figure(whole, "convergence.differences_of_models").frame["statistic"]) == {"rate"}


def test_correlations_over_too_few_models_are_called_so(whole: Contents) -> None:
    own = figure(whole, "convergence.correlations")
    assert caption(whole, own, "nested", picks={"score": "loss.lm"}) == "n = 5 models"
    assert "fewer than 3 say nothing" in caption(whole, own, "nested", picks={"score": "sst2"})
    table = correlation_rows(own.frame)
    assert table[0]["feature"] == "area" and table[0]["n"] == 5 and table[-1]["n"] == 2


def test_headlines_are_open_and_others_wait(whole: Contents) -> None:
    sections = {section.name: section for section in whole.sections}
    assert {"variance.shares", "variance.types"} <= {f.id for f in sections["variance"].open}
    assert all(f.open for section in sections.values() for f in section.charts if f.chart.headline)
    assert "variance.total" in [f.id for f in sections["variance"].more]
    assert all(section.open for section in whole.sections)


def test_data_come_as_scripts_beside_the_page(results: Path) -> None:
    for path in (results / "torn" / "data").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        body = re.fullmatch(r"reporterPart\(\"([^\"]*)\",(.*)\);\n", text, re.DOTALL)
        assert body and "<" not in body[2]
        assert body[1] == path.stem and json.loads(body[2])["data"]["rows"]
        assert path.with_suffix(".csv").exists()


def test_the_cuts_of_sinks_say_where_they_matter(whole: Contents, store: Store) -> None:
    cuts = figure(whole, "outliers.cuts")
    assert {pick.name for pick in cuts.picks} == {"statistic", "rule", "corpus"}
    factor = {"rule": "factor", "statistic": "anisotropy.top_variance_share"}
    assert (
        caption(whole, cuts, "gpt2", picks=factor) == "largest change 0.05 at layer 6 · leaves out 2–3 % of the tokens"
    )
    dominance = {"rule": "dominance", "statistic": "anisotropy.mean_cosine"}
    assert "changes nothing" in caption(whole, cuts, "gpt2", picks=dominance)
    assert len(rows(store, query("outliers.cuts"), metric="outliers")) == len(store.frame("FROM sink_cuts"))


def test_sinks_are_listed_and_names_are_no_markup(whole: Contents, store: Store) -> None:
    from reporter.report.look import ReportLook
    from reporter.report.site import study_page
    from reporter.report.templating import environment

    assert whole.sinks is not None
    assert {row["token"] for row in whole.sinks["rows"]} == {"the", "<script>alert(2)</script>"}
    (study,) = store.frame("FROM studies WHERE study = 'whole'").to_dict("records")
    templates = environment()
    templates.globals["look"] = ReportLook()
    html = study_page(replace(whole, study=study), templates)
    section = html[html.index('id="sinks"') :]
    assert "&lt;script&gt;alert(2)" in section and "<script>alert(2)" not in html
    assert "a token that is told apart" in section
    assert "The cut" in whole.sinks["said"]
    # encoders have a [CLS] at position 0 and decoders a word: the page says what hangs on it
    assert "compare encoders with decoders under no-sinks" in html
