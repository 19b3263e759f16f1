"""The rules that verify writes down once more, on small cases and against what runs use."""

from types import SimpleNamespace

import numpy as np
import pytest

from reporter.app.verify.deviations import Stored, compare
from reporter.app.verify.reading import Found, Rule, context_keys, key, kinds_of_text, never_a_word, splitmix64
from reporter.forward.batch import context_keys as fast_keys
from reporter.forward.batch import key_of
from reporter.texts.tokens import ids_without_words


def test_a_massive_dimension_makes_a_sink_and_the_first_own_token_is_left_out():
    x = np.ones((6, 4))
    x[:, 1] = 3  # what all tokens share
    x[2, 1], x[3] = 40, 40  # one coordinate outweighs all others; all are large alike
    x[4, 1] = -5  # not twice the median norm
    special = np.array([True, False, False, False, False, False])
    found = kinds_of_text([np.ones((6, 4)), x], special, Rule())
    assert found.sink.tolist() == [False, False, True, False, False, False]
    assert (found.layer_first[2], found.layer_last[2], found.dimension[2]) == (2, 2, 1)
    assert found.weight[2] == pytest.approx(37**2 / 3) and found.weight[3] == pytest.approx(39**2 / 4800)
    assert found.view("no-sinks").tolist() == [False, False, False, True, True, True]
    assert found.view("words").tolist() == [False, True, True, True, True, True]
    assert kinds_of_text([x], special, Rule(4.0, None)).sink.tolist() == [False, False, True, True, False, False]
    # A text without an own token has no first one.
    assert not kinds_of_text([x], np.ones(6, dtype=bool), Rule()).first.any()


def test_special_strings_are_no_words_but_an_unknown_word_is_one():
    """Id 2 ends texts, so it is no word even where it stands for unknown ones, too; id 3 only pads."""
    ids = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": None, "sep_token_id": None, "mask_token_id": None}
    for unknown, expected in ((0, {1, 2, 3}), (2, {1, 2, 3}), (3, {1, 2})):
        tokenizer = SimpleNamespace(all_special_ids=sorted({1, 2, 3, unknown}), unk_token_id=unknown, **ids)
        assert never_a_word(tokenizer) == expected == set(ids_without_words(tokenizer).tolist())


def test_hashes_are_those_of_splitmix_and_of_runs():
    # The first outputs of SplitMix64 seeded with 1234567, as its authors' reference program prints them.
    hashes = [splitmix64((1234567 + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(2)]
    assert hashes == [6457827717110365317, 3203168211198807973]
    assert key(3, 17, 2) == int(key_of(3, np.array([17]), np.array([2]))[0])
    ids = np.array([[5, 9, 5, 2]])
    for causal in (True, False):
        assert context_keys([5, 9, 5, 2], causal, 7) == fast_keys(ids, np.array([4]), causal, 7)[0].tolist()


def test_what_bf16_products_move_a_state_by_is_no_deviation_of_a_small_distance():
    stored = {("distance", "words", None, None): Stored(0.0097, None)}

    def agrees(value, moved):
        again = [Found("distance", "words", None, value)]
        return compare("change", stored, again, "m", moved)["change.distance"].passed

    assert agrees(0.0071, moved=0.02) and not agrees(0.0397, moved=0.02)
    assert not agrees(0.0071, moved=0.0) and agrees(0.0097, moved=0.0)
