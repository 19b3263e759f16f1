"""Which tokens a word names, for each way in which tokenizers split and mark words."""

from __future__ import annotations

import numpy as np
import pytest

from reporter.core.errors import ReporterError
from reporter.metrics._journey_steps import TokenText, followed
from reporter.metrics._static_vectors import classify

TEXT = "The mouse was gone. A mousepad, useless; the Mouse."


def word_piece():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    names = ["[UNK]", "[CLS]", "[SEP]", "the", "mouse", "##pad", "was", "gone", "a", "use", "##less", ".", ",", ";"]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer, ["[CLS]", "[SEP]"]


def byte_level():
    return trained("byte-level")


def sentence_piece():
    return trained("sentencepiece")


def trained(kind):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    if kind == "byte-level":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    # Rare words stay in pieces.
    tokenizer.train_from_iterator(
        ["The mouse was gone the mouse was a pad"] * 30 + [TEXT], trainers.BpeTrainer(min_frequency=20)
    )
    return tokenizer, []


def written(text, made, is_fast=True):
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made[0])
    tokenizer.add_special_tokens({"additional_special_tokens": made[1]})
    found = tokenizer(text, return_special_tokens_mask=True)
    strings = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    bare = [token.text for token in classify(strings, set(tokenizer.all_special_ids))]
    ids = np.array(found["input_ids"])
    return (
        TokenText(
            text,
            ids,
            np.array(found["special_tokens_mask"], dtype=bool),
            tuple(strings[i] for i in ids),
            tuple(strings[i] for i in ids),
            tuple(bare[i] for i in ids),
        ),
        tokenizer,
    )


class Slow:
    """A tokenizer that does not say where its tokens stand."""

    is_fast = False


def picked(words, text, made, slow=False):
    one, tokenizer = written(text, made)
    (found,) = followed(words, [one], Slow() if slow else tokenizer)
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
    assert plain(picked(["useless"], TEXT, made, slow), made) == ["useless"]
    assert len(picked(["useless"], TEXT, made, slow)) > 1
    assert plain(picked(["gone", "was"], TEXT, made, slow), made) == ["was", "gone"]


def test_capitals_count_where_they_are_written():
    made = byte_level()
    assert plain(picked(["mouse"], TEXT, made), made) == ["mouse"]
    assert plain(picked(["Mouse"], TEXT, made), made) == ["Mouse"]
    assert plain(picked(["MOUSE"], TEXT, made), made) == ["mouseMouse"]  # written so after the space
    assert plain(picked(["the"], "The cat", made), made) == ["The"]
    assert picked(["the"], TEXT, word_piece()) == ["the"]  # the second one, as it is written so


def test_tokens_as_the_tokenizer_writes_them():
    assert picked(["[CLS]"], TEXT, word_piece()) == ["[CLS]"]
    assert picked(["##less"], TEXT, word_piece()) == ["##less"]
    assert picked(["pad"], TEXT, word_piece()) == ["##pad"]  # no word, but a token without its mark
    assert picked(["Ġmouse"], TEXT, byte_level()) == ["Ġmouse", "Ġmouse"]
    assert picked(["▁was"], TEXT, sentence_piece()) == ["▁was"]
    assert picked(["."], TEXT, word_piece()) == [".", "."]


def test_several_words_and_expressions_between_marks():
    assert picked(["was gone"], TEXT, word_piece()) == ["was", "gone"]
    assert picked(["gone."], TEXT, word_piece()) == ["gone", "."]
    assert picked([], "a mouse", word_piece()) == ["[CLS]", "a", "mouse", "[SEP]"]


def test_each_text_is_looked_at_by_itself():
    made = word_piece()
    (one, tokenizer), (two, _) = written("The Mouse was a mouse", made), written("THE MOUSE", made)
    first, second = followed(["mouse"], [one, two], tokenizer)
    assert np.flatnonzero(first).tolist() == [5]
    assert np.flatnonzero(second).tolist() == [2]
    first, second = followed(["gone", "the"], [written("gone", made)[0], two], tokenizer)
    assert (np.flatnonzero(first).tolist(), np.flatnonzero(second).tolist()) == ([1], [1])


def test_a_text_that_was_cut():
    whole, tokenizer = written(TEXT, word_piece())
    short = tokenizer(TEXT, truncation=True, max_length=5, return_special_tokens_mask=True)
    cut = TokenText(
        TEXT,
        np.array(short["input_ids"]),
        np.array(short["special_tokens_mask"], dtype=bool),
        (*whole.tokens[:4], "[SEP]"),
        (*whole.raw[:4], "[SEP]"),
        (*whole.bare[:4], ""),
    )
    (found,) = followed(["mouse"], [cut], tokenizer)
    assert np.flatnonzero(found).tolist() == [2]
    with pytest.raises(ReporterError, match="'gone' is not in the text"):
        followed(["gone"], [cut], tokenizer)


def test_a_word_that_is_nowhere(monkeypatch):
    one, tokenizer = written("The mouse was gone.", word_piece())
    with pytest.raises(ReporterError, match=r"follow: 'dog' is not in the text; the tokens there are '\[CLS\]', 'the'"):
        followed(["mouse", "dog"], [one], tokenizer)
    with pytest.raises(ReporterError, match="'mous' is not in the 2 texts"):
        followed(["mous"], [one, one], tokenizer)
    monkeypatch.setattr("reporter.metrics._journey_steps._SHOWN", 2)
    with pytest.raises(ReporterError, match=r"tokens there are '\[CLS\]', 'the', and 5 more"):
        followed(["cat"], [one], tokenizer)
