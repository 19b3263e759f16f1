"""Charts as they are drawn, with Altair's own validation, and as they and their rows, packed, come to a page."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from oracles.columns import unpack_column

from reporter.charts import drawing, parts
from reporter.charts.curves import explained, heights, of_types, types
from reporter.charts.drawing import bare_spec, tidy
from reporter.charts.layout import Scene
from reporter.charts.models import dots, pairs, which_score
from reporter.charts.profile import profile, ticks, training
from reporter.charts.styles import DECODER, ENCODER, LIGHT, style_models
from reporter.core.numbers import short
from reporter.metrics.base import Statistic
from reporter.metrics.probes import accuracies
from reporter.metrics.ranges import losses

STYLES = style_models({"bert": "encoder", "gpt2": "decoder"})
SCENE = Scene("s", STYLES, ["text tokens"], [], ["c"])
SHARE = Statistic("share", "Share", "a / b", (), interval="bootstrap", floor=True, bounds=(0, 1))
RATE = Statistic("rate", "Rate", "a / b", (), per="model")


def frame(statistic="share", layers=4, interval=True, floor=True):
    names = [statistic, f"{statistic}_floor"][: 1 + floor]
    keys = pd.DataFrame({"model": ["bert", "gpt2"], "role": ["encoder", "decoder"], "step": [0, 100]})
    rows = keys.merge(pd.DataFrame(product(names, range(layers + 1)), columns=["statistic", "layer"]), how="cross")
    rows = rows.assign(checkpoint="final", corpus="c", view="text tokens", n=10, depth=rows["layer"] / layers)
    value, half = 0.1 * rows["layer"], 0.02 if interval else math.nan
    return rows.assign(value=value.where(rows["layer"] != 1), ci_low=value - half, ci_high=value + half)


def encodings(spec, channel):
    return [layer["encoding"][channel] for layer in spec["layer"] if channel in layer.get("encoding", {})]


def drawn_svg(chart, **params):
    spec = chart.to_dict()
    for param in spec["params"]:
        param["value"] = params.get(param["name"], param.get("value"))
    return vl_convert.vegalite_to_svg(spec | {"width": params.get("width", 300)}, vl_version="6.4")


def compiled(chart):
    spec = chart.to_dict()
    vl_convert.vegalite_to_svg(spec, vl_version="6.4")
    return dict(spec)


def test_rows_that_are_laid_over_a_profile_are_one_dashed_line_without_marks_and_bands():
    own = frame()
    both = pd.concat([own, own.assign(value=own["value"] + 0.5, beside=True)])
    svg = {name: drawn_svg(profile(rows, STYLES, SHARE)) for name, rows in {"alone": own, "both": both}.items()}
    dashed = 'stroke-dasharray="7,3"'
    assert svg["both"].count(dashed) == 2 > svg["alone"].count(dashed)
    for part in ('aria-roledescription="point"', "mark-area", 'stroke-dasharray="3,3"'):
        assert svg["both"].count(part) == svg["alone"].count(part), part


def test_what_is_not_determined_is_an_open_mark_beside_a_band_with_a_gap():
    rows = frame(floor=False).assign(undetermined=lambda rows: rows["layer"] == 3)
    rows.loc[rows["undetermined"], ["ci_low", "ci_high"]] = None
    svg = drawn_svg(profile(rows, STYLES, SHARE), low=0, high=1)
    points = re.findall(r'<path[^>]*aria-roledescription="point"[^>]*>', svg)
    assert (len(points), sum("fill=" not in point for point in points)) == (8, 2), "one of four of each model is open"


def test_a_sink_of_great_norm_is_drawn_at_the_edge_of_the_axis():
    rows = pd.DataFrame({"norm_of_mean": [10.0 + i / 9 for i in range(30)] + [4000.0], "variance": 1.0, "count": 5})
    rows = rows.assign(model="bert", token="a", layer=3, rho=0.2)
    drawn = [float(x) for x in re.findall(r"‖mean‖: ([\d.]+);", drawn_svg(types(rows, STYLES)))]
    assert max(drawn) < 100 and "1 right of the axis" in of_types(rows, SCENE)


def test_lines_have_their_names_at_their_ends_apart_from_each_other():
    names = ("ada", "bert", "cora")
    styles = style_models(dict.fromkeys(names, "encoder"))
    rows = pd.concat([frame().assign(model=name, role="encoder") for name in names])
    labels = re.compile(r'translate\([\d.]+,([\d.]+)\)" font-family="[^"]*" font-size="11px"[^>]*>(ada|bert|cora)<')
    for log in (False, True):
        chart = profile(rows[rows["layer"] > 0], styles, SHARE, log=log)
        places = {name: float(y) for y, name in labels.findall(drawn_svg(chart, low=0.05, high=0.5))}
        ys = sorted(places.values())
        assert set(places) == set(names) and all(b - a > 11 for a, b in pairwise(ys)), "they end at one point"
        assert 0 <= ys[0] <= ys[-1] <= 160
        assert not labels.findall(drawn_svg(chart, low=0.05, high=0.5, width=180)), "no room"
    assert parts.room_for(STYLES) > 0 == parts.room_for(style_models({f"model {i}": "encoder" for i in range(7)}))


def test_a_dotted_line_has_no_marks_that_hide_its_dots():
    rows = pd.DataFrame(product(["accuracy", "floor"], range(5)), columns=["kind", "layer"])
    chart = accuracies("method", "accuracy", "floor")(rows.assign(method="raw", value=0.1, ci_low=0, ci_high=1), STYLES)
    marks = re.findall(r'<path aria-label="[^"]*kind: (\w+);[^>]*?fill="[^"]*"([^>]*)>', drawn_svg(chart))
    assert [kind for kind, look in marks if 'fill-opacity="0"' not in look] == ["accuracy"] * 5
    assert [kind for kind, look in marks if 'fill-opacity="0"' in look] == ["floor"] * 5, "they still say their number"


@pytest.mark.parametrize(("low", "high"), [(3e-5, 4e-4), (3e-6, 0.2), (0.015, 0.06)])
def test_an_axis_of_logarithms_has_round_ticks(low, high):
    rows = pd.DataFrame(product(["INT8", "FP8"], range(5)), columns=["kind", "layer"])
    rows = rows.assign(scale="one scale per token", value=np.linspace(math.log10(low), math.log10(high), 10), lost=0.1)
    (axis,) = {json.dumps(y["axis"]["values"]) for y in encodings(losses(rows, STYLES).to_dict(), "y") if "axis" in y}
    ticks = [10**value for value in json.loads(axis)]
    assert {f"{tick:.3e}"[:5] for tick in ticks} <= {"1.000", "2.000", "5.000"}
    assert len(ticks) > 1 and low <= min(ticks) and max(ticks) <= high


def test_a_profile_has_a_colour_for_each_model_and_runs_over_relative_depth_from_0_to_1():
    spec = compiled(profile(frame(), STYLES, replace(SHARE, title="a b", unit="nats")))
    expected = {"domain": ["bert", "gpt2"], "range": [LIGHT[ENCODER][0], LIGHT[DECODER][0]]}
    coloured = encodings(spec, "color")
    assert len(coloured) == 6, "band, chance level, name, overlaid line, line and points"
    assert all(channel["scale"] == expected and channel["legend"] is None for channel in coloured)
    assert encodings(spec, "shape")[0]["scale"]["range"] == ["circle", "triangle-up"]
    assert {channel["field"] for channel in encodings(spec, "x") if "field" in channel} == {"depth"}
    assert next(x["scale"] for x in encodings(spec, "x") if "scale" in x)["domain"] == [0, 1]
    assert {tuple(channel["title"]) for channel in encodings(spec, "y") if channel.get("title")} == {("a b (nats)",)}
    silent = {layer["mark"]["type"] for layer in spec["layer"] if layer["mark"].get("aria", True) is False}
    assert silent == {"area", "line", "text"}, "points alone are told to a screen reader"


def test_bands_and_floors_are_drawn_where_there_are_any():
    for interval, floor in ((True, True), (False, True), (False, False)):
        spec = profile(frame(interval=interval, floor=floor), STYLES, SHARE).to_dict()
        assert ("area" in [layer["mark"]["type"] for layer in spec["layer"]]) == interval
        assert ("share_floor" in json.dumps(spec["layer"])) == floor


def test_what_a_study_names_has_its_colours_in_that_order():
    columns = {"low": 0.0, "high": 1.0, "count": 1, "height": 1.0, "n": 9, "components": 1, "share": 0.5}
    rows = pd.DataFrame([{"part": part} | columns for part in ("tweets", "wiki", "wiki–tweets")])
    for draw in (heights, explained):
        spec = draw(rows, replace(STYLES, named=("wiki", "tweets"))).to_dict()
        domains = [one["scale"]["domain"] for one in encodings(spec, "color") if "scale" in one]
        assert domains and all(domain == ["wiki", "tweets", "wiki–tweets"] for domain in domains)


def test_a_logarithmic_profile_has_no_line_at_0_and_keeps_what_is_below_at_its_edge():
    spec = compiled(profile(frame(), STYLES, SHARE, log=True))
    assert not [layer for layer in spec["layer"] if layer["encoding"].get("y") == {"datum": 0}]
    scales = [channel["scale"] for channel in encodings(spec, "y") if "scale" in channel]
    assert scales and all(scale["type"] == "log" and scale["clamp"] for scale in scales)


def test_ticks_of_a_logarithmic_axis_are_written_as_all_other_numbers():
    numbers = [1e-12, 2e-9, 1e-5, 1e-4, 0.02, 0.5, 1, 20, 100, 1000, 1e6]
    scale = parts.alt.Scale(type="log", domain=[1e-12, 1e6])
    axis = parts.alt.Axis(values=numbers, **parts.TYPESET)
    chart = parts.alt.Chart(pd.DataFrame({"v": numbers})).mark_point()
    spec = chart.encode(y=parts.alt.Y("v:Q", scale=scale, axis=axis, title=None)).properties(height=900).to_json()
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", vl_convert.vegalite_to_svg(spec))
    assert set(texts) == {short(number) for number in numbers}


def test_models_stand_in_the_order_of_the_legend_and_layers_of_a_pair_and_steps_along_their_axes():
    rows = frame("rate")
    spec = compiled(dots(rows[rows["layer"] == 2], STYLES, RATE))
    assert encodings(spec, "y")[0]["scale"]["domain"] == ["bert", "gpt2"]
    rows = pd.DataFrame({"model_a": "bert", "layer_a": [0, 1], "model_b": "gpt2", "layer_b": [2, 3], "value": 0.5})
    encoding = compiled(pairs(rows, STYLES))["encoding"]
    assert (encoding["x"]["field"], encoding["y"]["field"]) == ("layer_b", "layer_a")
    steps = encodings(compiled(training(frame(), STYLES, SHARE)), "x")
    scale = next(channel["scale"] for channel in steps if channel.get("field") == "step")
    assert scale.items() >= {"type": "symlog", "constant": 100, "domain": [0, 100], "nice": False}.items()
    many = ticks(list(range(0, 1540, 10)))
    assert ticks([0, 50, 600]) == [0, 50, 600] and ticks([0, 30, 75, 80, 150, 160, 300]) == [0, 30, 75, 150, 300]
    assert len(many) <= 8 and (many[0], many[-1]) == (0, 1530)


def test_a_score_has_its_title():
    scene = replace(SCENE, statistics={"loss.lm": "language-model loss"})
    (pick,) = which_score(pd.DataFrame({"score": ["loss.lm of decoders", "sts"]}), scene)
    assert pick.choices == {"loss.lm of decoders": "language-model loss of decoders", "sts": "sts"}


def test_hostile_names_stay_text():
    name = '"); alert("x'
    statistic = Statistic(name, "<b>", "", (), floor=True)
    styles = style_models({"bert": 'encoder"', "gpt2": "decoder"})
    spec = compiled(profile(frame(name), styles, statistic))
    assert json.dumps(json.dumps(f"datum.statistic === {json.dumps(name)}"))[3:-3] in json.dumps(json.dumps(spec))


def test_the_bare_spec_leaves_data_and_theme_to_the_page():
    spec = bare_spec(profile(frame(), STYLES, SHARE))
    assert spec["data"] == {"name": "rows"}
    assert "config" not in spec and "0.30000000000000004" not in json.dumps(spec)
    rows = {"rows": json.loads(frame().to_json(orient="records"))}
    svg = vl_convert.vegalite_to_svg(spec | {"datasets": spec["datasets"] | rows, "width": 300}, vl_version="6.4")
    assert svg.count('aria-roledescription="point"') == 10 - 2, "a dot for each value that is not NULL"


COUNTS = [("layer", "layer", "024681012", 1), ("step", "block", "1357911", 11 / 12)]


@pytest.mark.parametrize(("per", "title", "labels", "end"), COUNTS)
def test_the_axis_counts_layers_or_blocks_where_all_models_have_as_many(per, title, labels, end):
    def axis_of(rows):
        spec = bare_spec(profile(rows, STYLES, replace(SHARE, per=per)))
        given = {"rows": json.loads(rows.to_json(orient="records"))}
        svg = vl_convert.vegalite_to_svg(spec | {"datasets": spec["datasets"] | given, "width": 600}, vl_version="6.4")
        axis = svg[svg.index("X-axis titled") :]
        name = re.search(r"X-axis titled '(.*?)' for", axis)
        return name and name[1], "".join(re.findall(r">([\d.]+)</text>", axis[: axis.index("role-axis-title")]))

    rows = frame(layers=12)
    assert axis_of(rows) == (title, labels)
    spec = compiled(profile(rows, STYLES, replace(SHARE, per=per)))
    scale = next(x["scale"] for x in encodings(spec, "x") if "scale" in x)
    assert scale["domain"] == [0, end], "it ends at the last layer or block"
    steps = [step for layer in spec["layer"] for step in layer.get("transform", ()) if step.get("as") == "depth"]
    assert float(steps[-1]["calculate"]) == end, "and names stand there, not beyond it"
    other = frame(layers=6)
    both = pd.concat([rows[rows["model"] == "bert"], other[other["model"] == "gpt2"]])
    assert axis_of(both)[1] == "00.250.50.751" and "depth" in axis_of(both)[0]


SUBJECTS = [Statistic("twonn", 'dimension "d" of \\ states', "", (), unit="bits")]
SUBJECTS += [Statistic("mean", "mean", "", (), per="step", short="a name so long that it takes two lines of an axis")]
cell = st.one_of(st.none(), st.integers(-5, 5), st.floats(-1e6, 1e6).map(tidy), st.text(max_size=3))


@given(st.lists(cell, max_size=60))
def test_packing_loses_nothing(values):
    packed = json.loads(json.dumps(drawing.pack_column(pd.Series(values, dtype=object))))
    assert unpack_column(packed) == [tidy(value) for value in values]


def test_a_value_becomes_what_json_can_hold_and_keys_that_repeat_cost_next_to_nothing():
    given = (0.123456789, 3.0, math.nan, math.inf, pd.NA, None, "a", 1e300)
    assert [tidy(value) for value in given] == [0.123457, 3, None, None, None, None, "a", 1e300]
    packed = drawing.pack(pd.DataFrame({"model": ["a-long-name"] * 500 + ["another"] * 500, "value": range(1000)}))
    assert packed["rows"] == 1000
    assert packed["columns"]["model"] == {"levels": ["a-long-name", "another"], "runs": [0, 500, 1, 500]}


def plain(spec):
    """Return a chart with the names of its views, which Altair counts, numbered from 0."""
    text = json.dumps(spec, sort_keys=True)
    for number, name in enumerate(dict.fromkeys(re.findall(r'"(view_\d+)"', text))):
        text = text.replace(f'"{name}"', f'"view {number}"')
    return text


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_profile_is_filled_with_words_as_altair_would_draw_it(subject, log):
    rows = {"model": ["bert", "gpt2"], "statistic": subject.name, "layer": [0, 1], "depth": [0.0, 1.0], "n": [5, 6]}
    frame = pd.DataFrame(rows | {"checkpoint": "final", "value": [1.0, 2.0], "ci_low": None, "ci_high": None})
    more = [{}, {"ci_low": [0.5, None], "ci_high": [1.5, None]}, {"site": ["block", "final"], "model_b": "gpt2"}]
    more += [{"statistic": [subject.name, f"{subject.name}_floor"], "undetermined": [True, False]}]
    drawn = partial(profile, subject=subject, log=log)
    for own in (frame.assign(**columns) for columns in more):
        twice = [plain(drawing._spec(drawn, own, STYLES)) for _ in range(2)]
        assert twice == [plain(bare_spec(drawn(own, STYLES)))] * 2
