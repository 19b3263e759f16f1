"""Excerpts of texts: short, and with the token that they are about."""

import pytest

from reporter.texts.excerpts import EXCERPT, around, begins

WORDS = ["the", "bank", "of", "river", "money", "sing", "##ing"]
TEXT = " ".join(["the bank of the river"] * 30 + ["singing money"] + ["the bank of the river"] * 30)
TOKENS = frozenset(word.removeprefix("##") for word in WORDS)


def test_what_stands_around_a_token_has_it_and_is_no_longer_than_a_beginning():
    for token, position, words in (("money", 153, "singing money the"), ("##ing", 152, "river singing money")):
        shown = around(TEXT, token, position, TOKENS)
        assert words in shown and len(shown) == EXCERPT and shown[0] == shown[-1] == "…"


def test_of_equal_tokens_the_nearest_to_the_position_is_shown():
    first, last = (around(TEXT, "river", position, TOKENS) for position in (5, 302))
    assert first.startswith("the bank") and first.endswith("…") and len(first) == EXCERPT
    assert last.endswith("the river") and last.startswith("…") and len(last) == EXCERPT


@pytest.mark.parametrize(("text", "token"), [(TEXT, "[CLS]"), (TEXT, ""), ("the bank", "bank"), ("", "bank")])
def test_without_the_token_and_of_a_short_text_the_beginning_is_shown(text, token):
    assert around(text, token, 1, TOKENS) == begins(text)
