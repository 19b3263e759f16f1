"""Tokens of each kind of tokenizer, told apart by their own marks."""

from tokenizers.pre_tokenizers import ByteLevel

from reporter.metrics._static_vectors import Token, classify
from reporter.models.words import marks


def test_word_piece():
    tokens = ["[PAD]", "[unused12]", "the", "##ing", "##1", "mp3", "don't", "!", "##!", "1990", "中", "été", "##", None]
    found = classify(tokens, {0})
    assert marks(filter(None, tokens)) == "wordpiece"
    assert [t.kind for t in found] == [
        *("special", "unused", "alphabetic", "alphabetic", "numeric", "alphanumeric", "mixed", "punctuation"),
        *("punctuation", "numeric", "alphabetic", "alphabetic", "punctuation", "missing"),
    ]
    assert [t.subword for t in found][:6] == [None, None, False, True, True, False]
    assert found[3] == Token("ing", "alphabetic", True)
    assert found[12].text == "##"  # the mark alone is the text "##"
    assert found[13] == Token("", "missing", None)


def test_byte_level_bpe():
    encode = ByteLevel(add_prefix_space=False, use_regex=False)
    texts = [" the", "ing", " café", "中", " 12", "\n\n", " ", " привет", "naïve", "'s"]
    written = [encode.pre_tokenize_str(text)[0][0] for text in texts]
    tokens = ["<|endoftext|>", *written, written[3][:2], "<|im start|>"]
    found = classify(tokens, {0})
    assert [t.text for t in found[1:11]] == [*("the", "ing", "café", "中", "12", "\n\n", "", "привет", "naïve", "'s")]
    assert [t.kind for t in found] == [
        *("special", "alphabetic", "alphabetic", "alphabetic", "alphabetic", "numeric", "space", "space"),
        *("alphabetic", "alphabetic", "mixed", "bytes", "mixed"),
    ]
    assert [t.subword for t in found[:6]] == [None, False, True, False, True, False]
    assert found[11].subword is None


def test_sentence_piece():
    tokens = ["<s>", "▁the", "s", "▁", "▁▁", "<0x0A>", "▁Ärzte", "▁नमस्ते", "コーヒー", "<unused3>", "▁A1", "½"]
    found = classify(tokens, {0})
    assert [t.kind for t in found] == [
        *("special", "alphabetic", "alphabetic", "space", "space", "bytes", "alphabetic", "alphabetic", "alphabetic"),
        *("unused", "alphanumeric", "numeric"),
    ]
    assert [t.subword for t in found[1:4]] == [False, True, False]
    assert found[7] == Token("नमस्ते", "alphabetic", False)


def test_end_of_word_marks_none_and_unused():
    assert [t.subword for t in classify(["the</w>", "th", "e</w>"], ())] == [False, True, False]
    assert [t.subword for t in classify(["cat", "dog", "."], ())] == [None, None, None]
    assert marks(["cat"]) == marks([]) == "none"
    unused = ["[unused0]", "<unused99>", "madeupword0001", "<|reserved_special_token_12|>"]
    kinds = [token.kind for token in classify([*unused, "reserved", "unused"], ())]
    assert kinds == ["unused"] * 4 + ["alphabetic"] * 2
