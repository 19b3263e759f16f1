"""Tokenizers of recipe models: words where they fit, sub-words where they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reporter.core.errors import ReporterError
from reporter.models.toy.training import SPECIAL_TOKENS, role_ids, write_tokenizer
from reporter.spec.recipes import Recipe
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(texts: list[str], architecture: str = "bert", vocabulary: int = 4096) -> Any:
        from transformers import AutoTokenizer

        corpus = build_texts("c", InlineCorpus(texts=tuple(texts)), tmp_path, tmp_path / "cache")
        recipe = Recipe(architecture=architecture, train_on="c", steps=1, vocabulary=vocabulary, context=16)
        write_tokenizer(recipe, corpus, tmp_path)
        return AutoTokenizer.from_pretrained(tmp_path)

    return build


def test_words_as_they_are_where_they_fit(make: Make) -> None:
    tokenizer = make(["The cat. the CAT"])
    assert tokenizer.tokenize("The cat. CAT dog") == ["The", "cat", ".", "CAT", "[UNK]"]


def test_words_in_lower_case_where_there_are_no_capitals(make: Make) -> None:
    assert make(["the cat."]).tokenize("The CAT.") == ["the", "cat", "."]


def test_words_in_lower_case_where_only_those_fit(make: Make) -> None:
    texts = [f"{''.join(chr(97 + int(d)) for d in str(i))} " for i in range(100, 160)]
    tokenizer = make([*texts, *(t.upper() for t in texts)], vocabulary=80)
    assert tokenizer.tokenize(texts[3].upper()) == [texts[3].strip()]
    assert len(tokenizer) == 65


def test_sub_words_where_words_do_not_fit(make: Make) -> None:
    texts = [f"number{i} and number{i + 1}" for i in range(0, 800, 2)]
    tokenizer = make(texts, vocabulary=320)
    assert len(tokenizer) == 320
    text = "number7 naïve 漢字"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]).strip() == text
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


def test_a_vocabulary_too_small_for_either(make: Make) -> None:
    with pytest.raises(ReporterError, match="a vocabulary of 64 is too small: corpus 'c' has more distinct words"):
        make([f"w{i}" for i in range(100)], vocabulary=64)


@pytest.mark.parametrize("architecture", SPECIAL_TOKENS)
def test_special_tokens_come_first_and_frame_a_text(make: Make, architecture: str) -> None:
    tokenizer = make(["one two"], architecture=architecture)
    special = role_ids(architecture)
    for role, token in SPECIAL_TOKENS[architecture].items():
        assert tokenizer.convert_tokens_to_ids(token) == special[role]
        assert getattr(tokenizer, f"{role}_token") == token
    framed = tokenizer("one two")["input_ids"]
    middle = tokenizer("one two", add_special_tokens=False)["input_ids"]
    if "cls" in special:
        assert framed == [special["cls"], *middle, special["sep"]]
        pair = tokenizer("one", "two")["input_ids"]
        assert len(pair) == 5
    else:
        assert framed == middle
    assert len(tokenizer("one two one two " * 9, truncation=True)["input_ids"]) == 16


def test_the_same_texts_give_the_same_tokenizer(make: Make, tmp_path: Path) -> None:
    texts = [f"number{i} and number{i + 1}" for i in range(0, 800, 2)]
    make(texts, vocabulary=320)
    before = (tmp_path / "tokenizer.json").read_bytes()
    make(texts, vocabulary=320)
    assert (tmp_path / "tokenizer.json").read_bytes() == before
