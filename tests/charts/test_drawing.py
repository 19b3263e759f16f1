"""How a chart and its rows come to a page: columns are packed, and profiles are drawn once for each shape."""

import json
import math
import re
from functools import partial

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.columns import unpack_column

from reporter.charts import drawing, profile
from reporter.charts.drawing import tidy
from reporter.charts.styles import style_models
from reporter.metrics.base import Statistic

STYLES = style_models({"a": "encoder", "b": "decoder"}, {})
SUBJECTS = (
    Statistic("twonn", 'dimension "d" of \\ states', "", (), unit="bits"),
    Statistic("mean", "mean", "", (), per="step", short="a name that is so long that it takes two lines of an axis"),
)
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
    rows = {"model": ["a", "b"], "checkpoint": "final", "statistic": subject.name, "layer": [0, 1], "depth": [0.0, 1.0]}
    frame = pd.DataFrame(rows | {"value": [1.0, 2.0], "ci_low": None, "ci_high": None, "n": [5, 6]})
    more = (
        {},
        {"ci_low": [0.5, None], "ci_high": [1.5, None]},
        {"site": ["block", "final"], "model_b": ["b", "b"]},
        {"statistic": [subject.name, f"{subject.name}_floor"], "undetermined": [True, False]},
    )
    drawn = partial(profile.profile, subject=subject, log=log)
    for own in (frame.assign(**columns) for columns in more):
        expected = drawing.bare_spec(drawn(own, STYLES))
        for _ in range(2):
            assert plain(drawing._spec(drawn, own, STYLES)) == plain(expected)
