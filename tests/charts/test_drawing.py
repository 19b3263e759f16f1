"""Profiles are drawn once for each shape and then filled with words: that is what Altair makes of each of them."""

import json
import re
from functools import partial

import pandas as pd
import pytest

from reporter.charts import drawing, profile
from reporter.charts.styles import style_models
from reporter.metrics.base import Statistic

STYLES = style_models({"a": "encoder", "b": "decoder"}, {})
SUBJECTS = (
    Statistic("twonn", 'dimension "d" of \\ states', "", (), unit="bits"),
    Statistic("mean", "mean", "", (), per="step", short="a name that is so long that it takes two lines of an axis"),
)


def frame_of(name, **columns):
    rows = {"model": ["a", "b"], "checkpoint": ["final"] * 2, "statistic": [name, name], "layer": [0, 1]}
    rows |= {"depth": [0.0, 1.0], "value": [1.0, 2.0], "ci_low": [None, None], "ci_high": [None, None], "n": [5, 6]}
    return pd.DataFrame(rows | columns)


def plain(spec):
    """Return a chart with the names of its views, which Altair counts, numbered from 0."""
    text = json.dumps(spec, sort_keys=True)
    names = dict.fromkeys(re.findall(r'"(view_\d+)"', text))
    for number, name in enumerate(names):
        text = text.replace(f'"{name}"', f'"view {number}"')
    return text


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_profile_is_filled_with_words_as_altair_would_draw_it(subject, log):
    more = (
        {},
        {"ci_low": [0.5, None], "ci_high": [1.5, None]},
        {"site": ["block", "final"], "model_b": ["b", "b"]},
        {"statistic": [subject.name, f"{subject.name}_floor"], "undetermined": [True, False]},
    )
    drawn = partial(profile.profile, subject=subject, log=log)
    for columns in more:
        frame = frame_of(subject.name, **columns)
        expected = drawing.bare_spec(drawn(frame, STYLES))
        for _ in range(2):
            assert plain(drawing._spec(drawn, frame, STYLES)) == plain(expected)
