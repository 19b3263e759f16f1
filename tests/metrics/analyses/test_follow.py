"""Which tokens a word names, for each way in which tokenizers split and mark words."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from reporter.core.errors import ReporterError
from reporter.metrics._journey_steps import TokenText, followed
from reporter.metrics._static_vectors import classify

TEXT = "The mouse was gone. A mousepad, useless; the Mouse."


def word_piece():
    names = ["[UNK]", "[CLS]", "[SEP]", "the", "mouse", "##pad", "was", "gone", "a", "use", "##less", ".", ",", ";"]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    return tokenizer, ["[CLS]", "[SEP]"]


def trained(pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    texts = ["The mouse was gone the mouse was a pad"] * 30 + [TEXT]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(min_frequency=20))  # rare words stay in pieces
    return tokenizer, []


byte_level = partial(trained, pre_tokenizers.ByteLevel(add_prefix_space=False))
sentence_piece = partial(trained, pre_tokenizers.Metaspace())


def written(text, made):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made[0])
    tokenizer.add_special_tokens({"additional_special_tokens": made[1]})
    encoding = tokenizer(text, return_special_tokens_mask=True)
    strings = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    bare = [token.text for token in classify(strings, set(tokenizer.all_special_ids))]
    ids, special = np.array(encoding["input_ids"]), np.array(encoding["special_tokens_mask"], dtype=bool)
    raw, names = (tuple(of[i] for i in ids) for of in (strings, bare))
    return TokenText(text, ids, special, raw, raw, names), tokenizer


def picked(words, text, made, slow=False):
    one, tokenizer = written(text, made)
    (found,) = followed(words, [one], SimpleNamespace(is_fast=False) if slow else tokenizer)
    return [one.tokens[i] for i in np.flatnonzero(found)]


def plain(tokens, made):
    """Return the words that tokens make up, where no two words without a mark follow each other."""
    if made[1]:
        return " ".join(tokens).replace(" ##", "").split()
    return "".join(tokens).replace("Ġ", " ").replace("▁", " ").split()


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("make", [word_piece, byte_level, sentence_piece])
def test_a_word_with_all_its_tokens_and_nothing_else(make, slow):
    made = make()
    assert plain(picked(["mouse"], "The mouse was gone. A mousepad.", made, slow), made) == ["mouse"]
    assert plain(picked(["gone", "was"], TEXT, made, slow), made) == ["was", "gone"]
    found = picked(["useless"], TEXT, made, slow)
    assert plain(found, made) == ["useless"] and len(found) > 1


@pytest.mark.parametrize(
    ("make", "words", "expected"),
    [
        (byte_level, "Mouse", "Mouse"),  # capitals count where they are written
        (byte_level, "MOUSE", "mouseMouse"),  # written so after the space
        (word_piece, "the", "the"),  # the second one, as it is written so
        (word_piece, "[CLS]", "[CLS]"),
        (word_piece, "pad", "##pad"),  # no word, but a token without its mark
        (byte_level, "Ġmouse", "mouse mouse"),
        (word_piece, "was gone", "was gone"),
        (word_piece, "gone.", "gone ."),
        (byte_level, "a", "A"),  # where only a capital stands
    ],
)
def test_which_tokens_a_word_names(make, words, expected):
    made = make()
    assert plain(picked([words], TEXT, made), made) == expected.split()


def test_each_text_is_looked_at_by_itself():
    made = word_piece()
    (one, tokenizer), (two, _) = written("The Mouse was a mouse", made), written("THE MOUSE", made)
    assert [np.flatnonzero(found).tolist() for found in followed(["mouse"], [one, two], tokenizer)] == [[5], [2]]


def test_a_text_that_was_cut_and_a_word_that_is_nowhere(monkeypatch):
    whole, tokenizer = written(TEXT, word_piece())
    short = tokenizer(TEXT, truncation=True, max_length=5, return_special_tokens_mask=True)
    ids, special = np.array(short["input_ids"]), np.array(short["special_tokens_mask"], dtype=bool)
    raw = (*whole.raw[:4], "[SEP]")
    cut = TokenText(TEXT, ids, special, raw, raw, (*whole.bare[:4], ""))
    (found,) = followed(["mouse"], [cut], tokenizer)
    assert np.flatnonzero(found).tolist() == [2]
    with pytest.raises(ReporterError, match=r"'gone' is not a token of the text; the tokens are '\[CLS\]', 'the'"):
        followed(["gone"], [cut], tokenizer)
    with pytest.raises(ReporterError, match="'mous' is not a token of the 2 texts"):
        followed(["mous"], [whole, whole], tokenizer)
    monkeypatch.setattr("reporter.metrics._journey_steps._SHOWN", 2)
    with pytest.raises(ReporterError, match=r"the tokens are '\[CLS\]', 'the', and 3 more"):
        followed(["cat"], [cut], tokenizer)
