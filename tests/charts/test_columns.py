import json
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.columns import unpack_column

from reporter.charts.drawing import pack, pack_column, tidy

cell = st.one_of(st.none(), st.integers(-5, 5), st.floats(-1e6, 1e6).map(tidy), st.text(max_size=3))


@given(st.lists(cell, max_size=60))
def test_packing_loses_nothing(values):
    packed = json.loads(json.dumps(pack_column(values)))
    assert unpack_column(packed) == [tidy(value) for value in values]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.123456789, 0.123457),
        (3.0, 3),
        (math.nan, None),
        (math.inf, None),
        (pd.NA, None),
        (None, None),
        ("a", "a"),
        (1e300, 1e300),
    ],
)
def test_a_value_becomes_what_json_can_hold(value, expected):
    assert tidy(value) == expected


def test_keys_that_repeat_cost_next_to_nothing():
    frame = pd.DataFrame({"model": ["a-long-model-name"] * 500 + ["another"] * 500, "value": range(1000)})
    packed = pack(frame)
    assert packed["rows"] == 1000
    assert packed["columns"]["model"] == {"levels": ["a-long-model-name", "another"], "runs": [0, 500, 1, 500]}
