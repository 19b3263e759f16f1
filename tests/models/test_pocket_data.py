"""Rows of training: what is shown, what is to be guessed, and that nothing is counted that is padding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from reporter.models.toy.model import IGNORED, Stream, held_out
from reporter.models.toy.training import write_tokenizer
from reporter.spec.recipes import Recipe
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

TEXTS = ("one two three", "four five six seven eight nine ten", "one", "two three four five six")
PAD, CLS, SEP, MASK = 0, 2, 3, 4

Make = Callable[..., tuple[Stream, Any]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(architecture: str, texts: tuple[str, ...] = TEXTS, **options: Any) -> tuple[Stream, Any]:
        from tokenizers import Tokenizer

        recipe = Recipe(
            **({"architecture": architecture, "train_on": "c", "steps": 1, "context": 6, "batch": 64} | options)
        )
        corpus = build_texts("c", InlineCorpus(texts=texts), tmp_path, tmp_path / "cache")
        write_tokenizer(recipe, corpus, tmp_path)
        tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        return Stream(recipe, corpus, 0, len(corpus), tokenizer), tokenizer

    return build


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_an_encoders_row_is_a_framed_part_of_one_text(make: Make) -> None:
    stream, tokenizer = make("bert")
    batch = stream.draw(generator())
    for ids, mask, labels in zip(batch.ids, batch.mask, batch.labels, strict=True):
        length = int(mask.sum())
        assert mask.tolist() == [1] * length + [0] * (len(mask) - length)
        assert (ids[0], ids[length - 1]) == (CLS, SEP)
        assert (ids[length:] == PAD).all()
        guess = labels != IGNORED
        assert guess[1 : length - 1].any()
        assert not guess[0] and not guess[length - 1 :].any()
        original = torch.where(guess, labels, ids)[1 : length - 1]
        assert tokenizer.decode(original.tolist(), skip_special_tokens=False) in {
            *("one two three", "one", "four five six seven", "five six seven eight", "six seven eight nine"),
            *("seven eight nine ten", "two three four five", "three four five six"),
        }


def test_the_shares_of_what_is_hidden(make: Make) -> None:
    words = " ".join(f"w{i}" for i in range(40))
    stream, _ = make("bert", texts=(words,) * 4, context=42, batch=400)
    batch = stream.draw(generator())
    guess = batch.labels != IGNORED
    assert guess.sum() / (400 * 40) == pytest.approx(0.3, abs=0.02)
    hidden, kept = batch.ids[guess] == MASK, batch.ids[guess] == batch.labels[guess]
    assert hidden.float().mean() == pytest.approx(0.8, abs=0.02)
    assert kept.float().mean() == pytest.approx(0.1 + 0.1 / 40, abs=0.02)


def test_what_is_held_out_is_always_hidden_and_every_token_is_there(make: Make) -> None:
    stream, _ = make("bert")
    batches = stream.all(generator())
    for batch in batches:
        guess = batch.labels != IGNORED
        assert (batch.ids[guess] == MASK).all()
    shown = sum(int(batch.mask.sum()) - 2 * len(batch.mask) for batch in batches)
    assert shown == 4 * len(stream.tokens)  # under four maskings


def test_a_decoders_rows_run_through_the_texts(make: Make) -> None:
    stream, tokenizer = make("gpt2", batch=200)
    whole = tokenizer.decode(stream.tokens.tolist(), skip_special_tokens=False)
    assert whole == " <|endoftext|> ".join(TEXTS) + " <|endoftext|>"
    batch = stream.draw(generator())
    assert batch.ids.shape == (200, 6)
    assert torch.equal(batch.ids, batch.labels)
    starts = {tuple(row) for row in batch.ids.tolist()}
    assert starts == {tuple(stream.tokens[i : i + 6].tolist()) for i in range(len(stream.tokens) - 5)}


def test_a_decoders_last_row_is_shorter_and_its_padding_is_not_predicted(make: Make) -> None:
    stream, _ = make("gpt2", context=6)
    (batch,) = stream.all(generator())
    assert len(stream.tokens) == 20
    predicted = batch.labels[batch.labels != IGNORED]
    assert predicted.tolist() == stream.tokens.tolist()
    assert (batch.labels[-1] != IGNORED).tolist() == [True, True, False, False, False, False]
    assert batch.mask[-1].tolist() == [1, 1, 0, 0, 0, 0]


def test_a_decoders_texts_may_be_shorter_than_its_context(make: Make) -> None:
    stream, _ = make("gpt2", texts=("one two",), context=16)
    assert stream.draw(generator()).ids.shape == (64, 3)


@pytest.mark.parametrize(
    ("texts", "expected"), [(1, 0), (2, 1), (20, 10), (32, 16), (320, 16), (1000, 50), (10**6, 256)]
)
def test_how_much_is_held_out(texts: int, expected: int) -> None:
    assert held_out(texts) == expected
