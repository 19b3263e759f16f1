"""Tokens of each kind of tokenizer: which are whole words, which go on with another, and how each reads."""

import json

import pytest

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.words import byte_alphabet, readable, whole_words, word_tokens

SIGN = {byte: sign for sign, byte in byte_alphabet().items()}


def words_of(folder, content, file="tokenizer.json"):
    (folder / file).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return whole_words(Checkpoint("m", "final", "path", str(folder), "fingerprint", path=folder))


def ids(*tokens):
    return {token: i for i, token in enumerate(tokens)}


WORD_PIECE = ("[PAD]", "[unused1]", "the", "##ing", "a", "b", "I", "x2", "'", "dog", "中", "été")
BYTES = ("<|endoftext|>", "the", "Ġthe", "ing", "Ġcaf", "ĠcafÃ©", "Ġ", "Ġ12", "ĠÃ", "Ġa", "Ġb")
PIECES = [["<s>", 0.0], ["▁the", -1.0], ["s", -2.0], ["▁", -2.5], ["▁dogs", -3.0]]


@pytest.mark.parametrize(
    ("kind", "vocabulary", "special", "words"),
    [
        ("WordPiece", ids(*WORD_PIECE), "[PAD]", ["the", "a", "I", "dog", "été"]),
        ("BPE", ids(*BYTES), "<|endoftext|>", ["the", "caf", "café", "a"]),
        ("BPE", ids("the</w>", "the", "do"), None, ["the"]),
        ("Unigram", PIECES, "<s>", ["the", "dogs"]),
        ("WordLevel", {"cat": 2, "dog": 1, "<unk>": 0, ".": 3}, "<unk>", ["dog", "cat"]),
    ],
)
def test_whole_words_of_each_kind_of_tokenizer(tmp_path, kind, vocabulary, special, words):
    added = [{"id": 0, "content": special}] if special else []
    assert words_of(tmp_path, {"added_tokens": added, "model": {"type": kind, "vocab": vocabulary}}) == words


@pytest.mark.parametrize(
    ("file", "content"),
    [("vocab.txt", "[PAD]\nthe\n##s\ndog\n"), ("vocab.json", json.dumps(ids("Ġthe", "dog", "Ġdog")))],
)
def test_whole_words_of_other_vocabulary_files(tmp_path, file, content):
    assert words_of(tmp_path, content, file) == ["the", "dog"]


def test_a_tokenizer_without_words_and_a_damaged_one_are_refused(tmp_path):
    with pytest.raises(ReporterError, match="model 'm': no token of its vocabulary is a whole word"):
        words_of(tmp_path, {"added_tokens": [], "model": {"type": "WordLevel", "vocab": ids("1", "2")}})
    with pytest.raises(ReporterError, match=r"model 'm': cannot read the tokenizer in"):
        words_of(tmp_path, "{")


class Loaded:
    """What is asked of a loaded tokenizer."""

    def __init__(self, *tokens):
        self.tokens, self.all_special_tokens, self.added_tokens_decoder = tokens, [tokens[0]], {}

    def get_vocab(self):
        return ids(*self.tokens)


@pytest.mark.parametrize(
    ("tokens", "words", "goes_on", "unfinished"),
    [
        (["[PAD]", "the", "##ing", "'", "2", "##", "it"], {1: "the", 6: "it"}, [2], []),
        (["</s>", "Ġthe", "ing", "'s", ".", "Ġdog", "2", "Ã", "Ġ"], {1: "the", 5: "dog"}, [2, 3, 6, 7], []),
        (["<s>", "▁the", "s", "’", ".", "▁12", "▁"], {1: "the"}, [2, 3], []),
        (["<s>", "the</w>", "do", "x</w>", "."], {1: "the"}, [], [2, 4]),
        (["<unk>", "cat", ".", "dogs"], {1: "cat", 3: "dogs"}, [], []),
    ],
)
def test_tokens_that_belong_together(tokens, words, goes_on, unfinished):
    result = word_tokens(Loaded(*tokens), len(tokens))
    assert result.words == words
    assert result.goes_on.nonzero()[0].tolist() == goes_on
    assert result.unfinished.nonzero()[0].tolist() == unfinished
    assert len(word_tokens(Loaded(*tokens), 2).goes_on) == 2


def in_bytes(text):
    """Return a text as byte-level BPE writes it."""
    return "".join(SIGN[byte] for byte in (text.encode() if isinstance(text, str) else text))


def test_byte_level_tokens_are_decoded():
    texts = [" the", "的", "café", " 😀", "\n\n", "\t", " Ġorġ", "na", "  "]
    parts = ["的".encode()[:2], b" \xf0\x9f", b"\x00"]
    tokens = [*map(in_bytes, [*texts, *parts]), "<|endoftext|>", None]
    assert readable(tokens, {12}) == (
        *("␣the", "的", "café", "␣😀", "⏎⏎", "⇥", "␣Ġorġ", "na", "␣␣"),
        *("<0xE7><0x9A>", "␣<0xF0><0x9F>", "<0x00>", "<|endoftext|>", None),
    )


@pytest.mark.parametrize("sign", [SIGN.get, chr], ids=["GPT-2's alphabet", "ByT5: characters of the same number"])
def test_every_single_byte_reads_otherwise(sign):
    tokens = [sign(byte) for byte in range(256)]
    shown = readable([*tokens, *([in_bytes(" the")] if sign is not chr else [])], ())
    assert len(set(shown)) == len(shown)
    assert shown[0xE7] == "<0xE7>" and shown[ord("A")] == "A" and shown[ord(" ")] == "␣"


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (["▁the", "s", "▁", "<0xE7>", "é", "▁▁"], ["␣the", "s", "␣", "<0xE7>", "é", "␣␣"]),
        (["the", "##ing", "##", "é", "a b"], ["the", "##ing", "##", "é", "a␣b"]),
        (["the</w>", "the", "é</w>"], ["the␣", "the", "é␣"]),
        (["cat", "的", "\x07", "\u0085"], ["cat", "的", "<0x07>", "<U+0085>"]),
    ],
    ids=["SentencePiece", "WordPiece", "end of word", "words"],
)
def test_how_tokens_of_other_tokenizers_read(tokens, shown):
    assert readable(tokens, ()) == tuple(shown)


def test_bytes_with_the_ends_of_words_marked():
    """CLIP: GPT-2's alphabet, and a mark at the end."""
    ends = [f"{sign}</w>" for sign in SIGN.values()]
    assert readable([*SIGN.values(), *ends, in_bytes("été") + "</w>"], ())[-1] == "été␣"
