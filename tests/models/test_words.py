"""Whole words of each kind of tokenizer, read without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.words import whole_words, word_tokens


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint("m", "final", "path", str(folder), "fingerprint", path=folder)


def written(folder: Path, model: dict[str, Any], special: tuple[str, ...] = ()) -> Checkpoint:
    added = [{"id": i, "content": token} for i, token in enumerate(special)]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": model}))
    return checkpoint(folder)


def ids(*tokens: str) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokens)}


def test_word_piece(tmp_path: Path) -> None:
    vocabulary = ids("[PAD]", "[unused1]", "the", "##ing", "a", "b", "I", "x2", "'", "dog", "中", "été")
    found = whole_words(written(tmp_path, {"type": "WordPiece", "vocab": vocabulary}, ("[PAD]",)))
    assert found == ["the", "a", "I", "dog", "été"]


def test_byte_level_bpe(tmp_path: Path) -> None:
    vocabulary = ids("<|endoftext|>", "the", "Ġthe", "ing", "Ġcaf", "ĠcafÃ©", "Ġ", "Ġ12", "ĠÃ", "Ġa", "Ġb")
    found = whole_words(written(tmp_path, {"type": "BPE", "vocab": vocabulary}, ("<|endoftext|>",)))
    assert found == ["the", "caf", "café", "a"]


def test_sentence_piece(tmp_path: Path) -> None:
    vocabulary = [["<s>", 0.0], ["▁the", -1.0], ["s", -2.0], ["▁", -2.5], ["▁dogs", -3.0]]
    assert whole_words(written(tmp_path, {"type": "Unigram", "vocab": vocabulary}, ("<s>",))) == ["the", "dogs"]


def test_word_level(tmp_path: Path) -> None:
    vocabulary = {"cat": 2, "dog": 1, "<unk>": 0, ".": 3}
    assert whole_words(written(tmp_path, {"type": "WordLevel", "vocab": vocabulary}, ("<unk>",))) == ["dog", "cat"]


def test_end_of_word_marks(tmp_path: Path) -> None:
    assert whole_words(written(tmp_path, {"type": "BPE", "vocab": ids("the</w>", "the", "do")})) == ["the"]


def test_a_list_of_lines(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\nthe\n##s\ndog\n", "utf-8")
    assert whole_words(checkpoint(tmp_path)) == ["the", "dog"]


def test_a_vocabulary_beside_merges(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps(ids("Ġthe", "dog", "Ġdog")), "utf-8")
    assert whole_words(checkpoint(tmp_path)) == ["the", "dog"]


def test_no_words_at_all(tmp_path: Path) -> None:
    with pytest.raises(ReporterError, match="model 'm': its tokenizer has no token that is a whole word"):
        whole_words(written(tmp_path, {"type": "WordLevel", "vocab": ids("1", "2")}))


def test_a_damaged_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ReporterError, match=r"model 'm': its tokenizer in .* cannot be read"):
        whole_words(checkpoint(tmp_path))


class Loaded:
    """What is asked of a loaded tokenizer."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens
        self.all_special_tokens = [tokens[0]]
        self.added_tokens_decoder: dict[int, str] = {}

    def get_vocab(self) -> dict[str, int]:
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
def test_tokens_that_belong_together(
    tokens: list[str], words: dict[int, str], goes_on: list[int], unfinished: list[int]
) -> None:
    found = word_tokens(Loaded(*tokens), len(tokens))
    assert found.words == words
    assert found.goes_on.nonzero()[0].tolist() == goes_on
    assert found.unfinished.nonzero()[0].tolist() == unfinished
    assert len(word_tokens(Loaded(*tokens), 2).goes_on) == 2
