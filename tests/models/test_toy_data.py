"""What a recipe is trained on: words of its tokenizer, rows of its texts, and that no padding is counted."""

import pytest
import torch

from reporter.core.errors import ReporterError
from reporter.models.toy.model import IGNORED, Stream, held_out
from reporter.models.toy.training import SPECIAL_TOKENS, role_ids, write_tokenizer
from reporter.spec.recipes import Recipe
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

TEXTS = ("one two three", "four five six seven eight nine ten", "one", "two three four five six")
PAD, CLS, SEP, MASK = 0, 2, 3, 4


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a recipe's tokenizer and returns the recipe and its texts."""

    def build(architecture, texts, **options):
        recipe = Recipe(architecture=architecture, train_on="c", steps=1, **options)
        corpus = build_texts("c", InlineCorpus(texts=tuple(texts)), tmp_path, tmp_path / "cache")
        write_tokenizer(recipe, corpus, tmp_path)
        return recipe, corpus

    return build


@pytest.fixture
def tokenizer_of(write, tmp_path):
    def make(texts, architecture="bert", vocabulary=4096):
        from transformers import AutoTokenizer

        write(architecture, texts, vocabulary=vocabulary, context=16)
        return AutoTokenizer.from_pretrained(tmp_path)

    return make


@pytest.fixture
def stream_of(write, tmp_path):
    def make(architecture, texts=TEXTS, **options):
        from tokenizers import Tokenizer

        recipe, corpus = write(architecture, texts, **({"context": 6, "batch": 64} | options))
        tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        return Stream(recipe, corpus, 0, len(corpus), tokenizer), tokenizer

    return make


def generator():
    return torch.Generator().manual_seed(0)


SPELLED = ["".join(chr(97 + int(d)) for d in str(i)) for i in range(100, 160)]


@pytest.mark.parametrize(
    ("texts", "vocabulary", "text", "tokens"),
    [
        (["The cat. the CAT"], 4096, "The cat. CAT dog", ["The", "cat", ".", "CAT", "[UNK]"]),
        (["the cat."], 4096, "The CAT.", ["the", "cat", "."]),  # there are no capitals
        ([*SPELLED, *(word.upper() for word in SPELLED)], 80, SPELLED[3].upper(), [SPELLED[3]]),
    ],
)
def test_words_are_tokens_and_in_lower_case_where_only_those_fit(tokenizer_of, texts, vocabulary, text, tokens):
    tokenizer = tokenizer_of(texts, vocabulary=vocabulary)
    assert tokenizer.tokenize(text) == tokens
    assert vocabulary == 4096 or len(tokenizer) == 65


def test_sub_words_are_tokens_where_words_do_not_fit_and_always_the_same(tokenizer_of, tmp_path):
    texts = [f"number{i} and number{i + 1}" for i in range(0, 800, 2)]
    tokenizer = tokenizer_of(texts, vocabulary=320)
    before = (tmp_path / "tokenizer.json").read_bytes()
    assert len(tokenizer) == 320
    text = "number7 naïve 漢字"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]).strip() == text
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    tokenizer_of(texts, vocabulary=320)
    assert (tmp_path / "tokenizer.json").read_bytes() == before
    with pytest.raises(ReporterError, match="a vocabulary of 64 is too small for corpus 'c'; write `vocabulary: "):
        tokenizer_of([f"w{i}" for i in range(100)], vocabulary=64)


@pytest.mark.parametrize("architecture", SPECIAL_TOKENS)
def test_special_tokens_come_first_and_frame_a_text(tokenizer_of, architecture):
    tokenizer = tokenizer_of(["one two"], architecture=architecture)
    special = role_ids(architecture)
    for role, token in SPECIAL_TOKENS[architecture].items():
        assert tokenizer.convert_tokens_to_ids(token) == special[role]
        assert getattr(tokenizer, f"{role}_token") == token
    framed = tokenizer("one two")["input_ids"]
    middle = tokenizer("one two", add_special_tokens=False)["input_ids"]
    if "cls" in special:
        assert framed == [special["cls"], *middle, special["sep"]]
        assert len(tokenizer("one", "two")["input_ids"]) == 5
    else:
        assert framed == middle
    assert len(tokenizer("one two one two " * 9, truncation=True)["input_ids"]) == 16


def test_an_encoders_row_is_a_framed_part_of_one_text(stream_of):
    stream, tokenizer = stream_of("bert")
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
        row = tokenizer.decode(original.tolist(), skip_special_tokens=False)
        assert any(row == text or (len(row.split()) == 4 and row in text) for text in TEXTS)


def test_the_shares_of_what_is_hidden(stream_of):
    words = " ".join(f"w{i}" for i in range(40))
    stream, _ = stream_of("bert", texts=(words,) * 4, context=42, batch=400)
    batch = stream.draw(generator())
    guess = batch.labels != IGNORED
    assert guess.sum() / (400 * 40) == pytest.approx(0.3, abs=0.02)
    hidden, kept = batch.ids[guess] == MASK, batch.ids[guess] == batch.labels[guess]
    assert hidden.float().mean() == pytest.approx(0.8, abs=0.02)
    assert kept.float().mean() == pytest.approx(0.1 + 0.1 / 40, abs=0.02)


def test_what_is_held_out_is_always_hidden_and_every_token_is_there(stream_of):
    stream, _ = stream_of("bert")
    batches = stream.all(generator())
    for batch in batches:
        guess = batch.labels != IGNORED
        assert (batch.ids[guess] == MASK).all()
    shown = sum(int(batch.mask.sum()) - 2 * len(batch.mask) for batch in batches)
    assert shown == 4 * len(stream.tokens)  # under four maskings


def test_a_decoders_rows_run_through_the_texts_and_padding_is_not_predicted(stream_of):
    stream, tokenizer = stream_of("gpt2", batch=200)
    whole = tokenizer.decode(stream.tokens.tolist(), skip_special_tokens=False)
    assert whole == " <|endoftext|> ".join(TEXTS) + " <|endoftext|>"
    batch = stream.draw(generator())
    assert batch.ids.shape == (200, 6)
    assert torch.equal(batch.ids, batch.labels)
    starts = {tuple(row) for row in batch.ids.tolist()}
    assert starts == {tuple(stream.tokens[i : i + 6].tolist()) for i in range(len(stream.tokens) - 5)}
    (batch,) = stream_of("gpt2")[0].all(generator())
    assert len(stream.tokens) == 20
    assert batch.labels[batch.labels != IGNORED].tolist() == stream.tokens.tolist()
    assert (batch.labels[-1] != IGNORED).tolist() == [True, True, False, False, False, False]
    assert batch.mask[-1].tolist() == [1, 1, 0, 0, 0, 0]
    short, _ = stream_of("gpt2", texts=("one two",), context=16)  # texts shorter than the context
    assert short.draw(generator()).ids.shape == (64, 3)


@pytest.mark.parametrize(
    ("texts", "expected"), [(1, 0), (2, 1), (20, 10), (32, 16), (320, 16), (1000, 50), (10**6, 256)]
)
def test_how_much_is_held_out(texts, expected):
    assert held_out(texts) == expected
