"""What a recipe is trained on: words of its tokenizer, rows of its texts, and that no padding is counted."""

import pytest
import torch

from reporter.core.errors import ReporterError
from reporter.models.toy.model import IGNORED, Stream, held_out
from reporter.models.toy.training import write_tokenizer
from reporter.study.recipes import Recipe
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

TEXTS = ("one two three", "four five six seven eight nine ten", "one", "two three four five six")
PAD, CLS, SEP, MASK = 0, 2, 3, 4


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a recipe's tokenizer and returns it and the rows that are drawn."""

    def make(texts=TEXTS, architecture="bert", **options):
        from transformers import AutoTokenizer

        recipe = Recipe(architecture=architecture, train_on="c", steps=1, **({"context": 6, "batch": 64} | options))
        corpus = build_texts("c", InlineCorpus(texts=tuple(texts)), tmp_path, tmp_path / "cache")
        write_tokenizer(recipe, corpus, tmp_path)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path)
        return tokenizer, Stream(recipe, corpus, 0, len(corpus), tokenizer.backend_tokenizer)

    return make


def generator():
    return torch.Generator().manual_seed(0)


def test_words_are_tokens_and_in_lower_case_where_only_those_fit(made):
    spelled = ["".join(chr(97 + int(d)) for d in str(i)) for i in range(100, 160)]
    for texts, vocabulary, text, tokens in (
        (["The cat. the CAT"], 4096, "The cat. CAT dog", ["The", "cat", ".", "CAT", "[UNK]"]),
        (["the cat."], 4096, "The CAT.", ["the", "cat", "."]),  # there are no capitals
        ([*spelled, *(word.upper() for word in spelled)], 80, spelled[3].upper(), [spelled[3]]),
    ):
        tokenizer, _ = made(texts, vocabulary=vocabulary)
        assert tokenizer.tokenize(text) == tokens
    assert len(tokenizer) == 65


def test_sub_words_are_tokens_where_words_do_not_fit_and_always_the_same(made, tmp_path):
    texts, text = [f"number{i} and number{i + 1}" for i in range(0, 800, 2)], "number7 naïve 漢字"
    tokenizer, _ = made(texts, vocabulary=320)
    before = (tmp_path / "tokenizer.json").read_bytes()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(tokenizer) == 320 and tokenizer.decode(ids).strip() == text and tokenizer.unk_token_id not in ids
    made(texts, vocabulary=320)
    assert (tmp_path / "tokenizer.json").read_bytes() == before
    with pytest.raises(ReporterError, match="a vocabulary of 64 is too small for corpus 'c'; write `vocabulary: "):
        made([f"w{i}" for i in range(100)], vocabulary=64)


def test_an_encoders_row_is_a_framed_part_of_one_text(made):
    tokenizer, stream = made()
    batch = stream.draw(generator())
    for ids, mask, labels in zip(batch.ids, batch.mask, batch.labels, strict=True):
        length = int(mask.sum())
        assert mask.tolist() == [1] * length + [0] * (len(mask) - length)
        assert (ids[0], ids[length - 1]) == (CLS, SEP) and (ids[length:] == PAD).all()
        guess = labels != IGNORED
        assert guess[1 : length - 1].any() and not guess[0] and not guess[length - 1 :].any()
        row = tokenizer.decode(torch.where(guess, labels, ids)[1 : length - 1].tolist())
        assert any(row == text or (len(row.split()) == 4 and row in text) for text in TEXTS)


def test_the_shares_of_what_is_hidden_and_what_is_held_out_is_always_hidden(made):
    _, stream = made((" ".join(f"w{i}" for i in range(40)),) * 4, context=42, batch=400)
    batch = stream.draw(generator())
    guess = batch.labels != IGNORED
    assert guess.sum() / (400 * 40) == pytest.approx(0.3, abs=0.02)
    hidden, kept = batch.ids[guess] == MASK, batch.ids[guess] == batch.labels[guess]
    assert hidden.float().mean() == pytest.approx(0.8, abs=0.02)
    assert kept.float().mean() == pytest.approx(0.1 + 0.1 / 40, abs=0.02)
    _, stream = made()
    batches = stream.all(generator())
    assert all((batch.ids[batch.labels != IGNORED] == MASK).all() for batch in batches)
    shown = sum(int(batch.mask.sum()) - 2 * len(batch.mask) for batch in batches)
    assert shown == 4 * len(stream.tokens)  # every token, under four maskings
    held = {1: 0, 2: 1, 20: 10, 32: 16, 320: 16, 1000: 50, 10**6: 256}
    assert {texts: held_out(texts) for texts in held} == held


def test_a_decoders_rows_run_through_the_texts_and_padding_is_not_predicted(made):
    tokenizer, stream = made(architecture="gpt2", batch=200)
    assert tokenizer.decode(stream.tokens.tolist()) == " <|endoftext|> ".join(TEXTS) + " <|endoftext|>"
    batch = stream.draw(generator())
    assert batch.ids.shape == (200, 6) and torch.equal(batch.ids, batch.labels)
    starts = {tuple(row) for row in batch.ids.tolist()}
    assert len(stream.tokens) == 20 and starts == {tuple(stream.tokens[i : i + 6].tolist()) for i in range(15)}
    (batch,) = stream.all(generator())
    assert batch.labels[batch.labels != IGNORED].tolist() == stream.tokens.tolist()
    assert (batch.labels[-1] != IGNORED).tolist() == batch.mask[-1].tolist() == [1, 1, 0, 0, 0, 0]
    _, short = made(("one two",), "gpt2", context=16)  # texts shorter than the context
    assert short.draw(generator()).ids.shape == (64, 3)
