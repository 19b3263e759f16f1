"""What a pass warns of: a corpus of unknown tokens, and states at the end of float16's range."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from reporter.errors import ReporterError
from reporter.forward.measure import Counts, _check_finite
from reporter.forward.type_counts import TypeCounts
from reporter.runs.feeding import unknown_warning
from reporter.runs.passes import strained_warning


def warned(unknown: int, of: int = 100) -> str:
    tokenizer = SimpleNamespace(unk_token_id=1)
    counts = np.array([of - unknown, unknown, 0])
    counted = TypeCounts(counts, np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64))
    model = cast("Any", SimpleNamespace(tokenizer=tokenizer))
    return unknown_warning(model, "wiki", counted)


def test_unknown_tokens_are_said_above_a_twentieth() -> None:
    assert warned(5) == ""
    assert warned(6) == "6% of the tokens of corpus 'wiki' are unknown to its tokenizer"


def test_states_at_the_end_of_float16() -> None:
    assert strained_warning(Counts(tokens=100), "wiki") == ""
    said = strained_warning(Counts(tokens=100, strained=7), "wiki")
    assert said.startswith("7 of 100 tokens of corpus 'wiki' have a state within a tenth of the end of float16's range")


@pytest.mark.parametrize(("half", "advice"), [(True, "write `dtype: float32`"), (False, "weights may be damaged")])
def test_states_beyond_it_are_an_error_that_says_what_to_write(half: bool, advice: str) -> None:
    batch = cast("Any", SimpleNamespace(mask=np.ones((1, 2)), texts=np.array([3])))
    with pytest.raises(ReporterError, match=f"layer 1, text 3 of corpus 'wiki', token 0; .*{advice}"):
        _check_finite(np.array([[[1, 1]], [[np.inf, 1]]], dtype=np.float32), batch, "wiki", half)
