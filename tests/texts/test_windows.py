"""Windows over long texts: which tokens each holds, and that a corpus of them is what it should be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.fake_model import EDGE, FIRST_WORD, FakeTexts, FakeTokenizer

from reporter.core.errors import ReporterError
from reporter.texts.tokens import Windows, shards, tokenise, tokenise_corpus, windows_of


@given(st.integers(0, 60), st.integers(0, 2), st.integers(0, 2), st.integers(5, 20), st.integers(1, 20))
def test_each_token_counts_once_and_with_the_context_that_was_promised(words, before, after, size, stride):
    special = np.array([True] * before + [False] * words + [True] * after, dtype=bool)
    windows = list(windows_of(special, Windows(size, min(stride, size))))
    assert sorted(np.concatenate([rows[~context] for rows, context in windows])) == list(range(len(special)))
    for number, (rows, context) in enumerate(windows):
        assert len(rows) <= size or not words
        assert special[rows].sum() == before + after or len(windows) == 1  # each stands as a text of its own
        if number:
            own = ~special[rows]
            begins = rows[own & ~context][0]
            assert begins - rows[own][0] == size - before - after - min(stride, size - before - after)


def test_a_window_without_room_for_a_word_says_so():
    with pytest.raises(ReporterError, match=r"no room for a word, .*adds 4 special tokens; use a larger `window`"):
        list(windows_of(np.array([True] * 2 + [False] * 9 + [True] * 2), Windows(4, 2)))


@pytest.mark.parametrize("kept", [True, False])
def test_a_corpus_of_windows_is_read_back_as_it_was_tokenised(tmp_path, kept):
    texts, tokenizer = FakeTexts(["1 2 3 4 5", "7", "1 2 3 4 5"]), FakeTokenizer(special=True)
    corpus = tokenise_corpus(texts, tokenizer, 9, tmp_path / "key" if kept else None, Windows(5, 2))
    if kept:
        corpus = tokenise_corpus(texts, None, 9, tmp_path / "key", Windows(5, 2))
    found = corpus.of(*corpus.shards)
    begin, end = ([1, 2, 3], [1, 1, 1, 1, 0]), ([3, 4, 5], [0, 0, 1, 1, 1])
    expected = ((0, *begin), (3, *end), (1, [7], [1, 1, 1]), (2, *begin), (5, *end))
    assert [(text.index, text.ids.tolist(), text.counted.tolist()) for text in found] == [
        (index, [EDGE, *(FIRST_WORD + word for word in words), EDGE], counted) for index, words, counted in expected
    ]
    assert corpus.windows == 5 and len(corpus) == 3 and not corpus.cut.any()
    # Windows of one text, and of one that says the same, are one observation.
    assert corpus.units[corpus.text_of(np.array([text.index for text in found]))].tolist() == [0, 0, 1, 0, 0]
    said = tokenise(texts, *shards(texts), tokenizer, 9, Windows(5, 2))
    assert [text.ids.tolist() for text in said] == [text.ids.tolist() for text in found]


def test_shuffling_keeps_what_counts():
    texts = FakeTexts(["1 2 3 4 5 6 7 8 9 10 11 12"])
    plain = tokenise(texts, *shards(texts), FakeTokenizer(special=True), 9, Windows(6, 2))
    moved = [text.shuffled(0) for text in plain]
    assert [text.ids.tolist() for text in plain] != [text.ids.tolist() for text in moved]
    counted, again = ([sorted(text.ids[text.counted]) for text in some] for some in (plain, moved))
    assert counted == again
