"""Shards, tokens, windows and batches of a corpus: each text once, within its limits, and read back as it was."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fake_model import EDGE, FIRST_WORD, FakeTexts, FakeTokenizer

from reporter.core.errors import ReporterError
from reporter.texts import tokens
from reporter.texts.tokens import Shard, TokenisedText, Windows, batches, shards, tokenise, tokenise_corpus, windows_of


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 60), max_size=60), st.integers(1, 100), st.integers(1, 9))
def test_shards_cover_every_text_once_and_stay_small(lengths, characters, most):
    texts = FakeTexts("x" * length for length in lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "SHARD_CHARACTERS", characters)
        patch.setattr(tokens, "SHARD_TEXTS", most)
        result = shards(texts)
        assert shards(FakeTexts([*texts, "one more"]))[: len(result) - 1] == result[:-1]  # whatever follows
    assert [i for shard in result for i in range(shard.start, shard.stop)] == list(range(len(texts)))
    for number, shard in enumerate(result):
        inside = lengths[shard.start : shard.stop]
        assert shard.index == number and 1 <= len(inside) <= most
        assert sum(inside) <= characters or len(inside) == 1


def test_tokenise_cuts_keeps_the_closing_token_and_drops_texts_without_tokens():
    texts, whole = FakeTexts(["7", "1 2 3 4 5 6", "", "1 2"]), Shard(0, 0, 4)
    result = tokenise(texts, whole, FakeTokenizer(special=True), 4)
    two = [EDGE, FIRST_WORD + 1, FIRST_WORD + 2, EDGE]
    seven = [EDGE, FIRST_WORD + 7, EDGE]
    assert [(text.ids.tolist(), text.cut) for text in result] == [(seven, 0), (two, 1), ([EDGE, EDGE], 0), (two, 0)]
    assert result[1].special.tolist() == [True, False, False, True]
    bare = tokenise(texts, whole, FakeTokenizer(special=False), 4)
    assert [(text.index, len(text), text.cut) for text in bare] == [(0, 1, False), (1, 4, True), (3, 2, False)]
    (last,) = tokenise(texts, Shard(1, 2, 4), FakeTokenizer(special=False), 9)  # places are those in the corpus
    assert (last.index, last.ids.tolist()) == (3, two[1:3])


class Uncased(FakeTokenizer):
    """Reads numbers without the capitals and spaces around them, as uncased tokenizers read words."""

    def __call__(self, texts, **options):
        plain = [text.lower().replace("n", "") for text in ([texts] if isinstance(texts, str) else texts)]
        return super().__call__(plain[0] if isinstance(texts, str) else plain, **options)


@pytest.mark.parametrize("windows", [None, Windows(4, 2)])
@pytest.mark.parametrize("kept", [True, False])
def test_texts_are_the_same_if_the_model_reads_the_same_ids(tmp_path, kept, windows):
    texts = FakeTexts(["n1 2 3", "N1 2 3", "1  2 3", "1 2 3 4 5 6", "1 2 3 4 9 9", "7", "", "", "1 2 3 4 5 6"])
    corpus = tokenise_corpus(texts, Uncased(special=False), 4, tmp_path / "key" if kept else None, windows)
    same = 4 if windows else 3  # windows read what the limit cuts
    assert corpus.originals.tolist() == [0, 0, 0, 3, same, 5, 6, 6, 3]
    assert np.flatnonzero(corpus.representatives).tolist() == sorted({0, 3, same, 5})


@pytest.mark.parametrize("kept", [True, False])
def test_a_corpus_of_tokens_is_what_the_tokenizer_said(tmp_path, monkeypatch, kept):
    monkeypatch.setattr(tokens, "SHARD_TEXTS", 2)
    texts, tokenizer = FakeTexts(["7", "", "1 2 3 4 5 6", "1 2", "7"]), FakeTokenizer(special=False)
    folder = tmp_path / "cache" / "key" if kept else None
    corpus = tokenise_corpus(texts, tokenizer, 4, folder)
    if kept:  # it is read from disk: no tokenizer is asked again, but for damaged tokens
        whole = corpus.ids.tolist()
        (folder / "ids.bin").write_bytes(b"1234")
        assert tokenise_corpus(texts, tokenizer, 4, folder).ids.tolist() == whole
        corpus = tokenise_corpus(texts, None, 4, folder)
        assert {path.name for path in folder.parent.iterdir()} == {"key", "damaged-key"}
    assert list(corpus.shards) == shards(texts) and corpus.originals.tolist() == [0, 1, 2, 3, 0]
    for shard in corpus.shards:
        result, expected = (
            [(text.index, text.ids.tolist(), text.cut, text.special.tolist(), text.ids.dtype) for text in some]
            for some in (corpus.of(shard), tokenise(texts, shard, tokenizer, 4))
        )
        assert result == expected
    nothing = tokenise_corpus(FakeTexts([""]), FakeTokenizer(special=False), 9, folder and tmp_path / "empty")
    assert [nothing.of(shard) for shard in nothing.shards] == [[]]


def text(index, length):
    ids = np.arange(length) + 10 * index + 1
    return TokenisedText(index, ids, ids % 3 == 0, False)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 200))
def test_batches_hold_every_text_once_within_the_budget(lengths, budget):
    texts = [text(i, length) for i, length in enumerate(lengths)]
    result = list(batches(texts, budget, pad_id=9999))
    back = batches(texts[::-1], budget, pad_id=9999)  # the order of texts does not matter
    assert [batch.texts.tolist() for batch in result] == [batch.texts.tolist() for batch in back]
    assert sorted(i for batch in result for i in batch.texts) == list(range(len(texts)))
    widths = [batch.ids.shape[1] for batch in result]
    assert widths == sorted(widths, reverse=True)
    for batch in result:
        assert batch.ids.size <= budget or len(batch.texts) == 1
        assert batch.ids.shape == batch.mask.shape == batch.special.shape
        for row, index in enumerate(batch.texts):
            here, padding = texts[index], batch.ids.shape[1] - lengths[index]
            assert batch.mask[row].tolist() == [1] * lengths[index] + [0] * padding
            assert batch.ids[row].tolist() == [*here.ids, *[9999] * padding]
            assert batch.special[row].tolist() == [*here.special, *[False] * padding]


def test_a_text_is_padded_alike_in_every_batch():
    texts = [text(i, length) for i, length in enumerate([1, 7, 8, 9, 15, 16, 17, 30, 32, 31])]

    def widths(some, budget, longest):
        return {int(i): b.ids.shape[1] for b in batches(some, budget, 0, longest) for i in b.texts}

    whole = dict(enumerate([8, 8, 16, 16, 16, 24, 24, 32, 32, 32]))
    for budget in (1, 40, 100, 10_000):
        assert widths(texts, budget, 32) == whole
    for some in ([texts[1]], texts[::2]):
        assert widths(some, 10_000, 32).items() <= whole.items()
    # A text without padding never shares a batch with one that has some: the mask would be dropped or not.
    for batch in batches(texts, 10_000, 0, 32):
        assert len({bool(row.all()) for row in batch.mask}) == 1


# Windows over long texts.


@given(st.integers(0, 60), st.integers(0, 2), st.integers(0, 2), st.integers(5, 20), st.integers(1, 20))
def test_each_token_counts_once_and_with_the_context_that_was_promised(words, before, after, size, stride):
    special = np.array([True] * before + [False] * words + [True] * after, dtype=bool)
    windows = list(windows_of(special, Windows(size, min(stride, size))))
    assert sorted(np.concatenate([rows[~context] for rows, context in windows])) == list(range(len(special)))
    for number, (rows, context) in enumerate(windows):
        assert len(rows) <= size or not words
        assert special[rows].sum() == before + after or len(windows) == 1  # each stands as a text of its own
        if number:
            words_of_text = ~special[rows]
            begins = rows[words_of_text & ~context][0]
            assert begins - rows[words_of_text][0] == size - before - after - min(stride, size - before - after)


def test_a_window_without_room_for_a_word_says_so():
    with pytest.raises(ReporterError, match=r"no room for a word, .*adds 4 special tokens; use a larger `window`"):
        list(windows_of(np.array([True] * 2 + [False] * 9 + [True] * 2), Windows(4, 2)))


@pytest.mark.parametrize("kept", [True, False])
def test_a_corpus_of_windows_is_read_back_as_it_was_tokenised(tmp_path, kept):
    texts, tokenizer = FakeTexts(["1 2 3 4 5", "7", "1 2 3 4 5"]), FakeTokenizer(special=True)
    corpus = tokenise_corpus(texts, tokenizer, 9, tmp_path / "key" if kept else None, Windows(5, 2))
    if kept:
        corpus = tokenise_corpus(texts, None, 9, tmp_path / "key", Windows(5, 2))
    result = corpus.of(*corpus.shards)
    begin, end = ([1, 2, 3], [1, 1, 1, 1, 0]), ([3, 4, 5], [0, 0, 1, 1, 1])
    expected = ((0, *begin), (3, *end), (1, [7], [1, 1, 1]), (2, *begin), (5, *end))
    assert [(text.index, text.ids.tolist(), text.counted.tolist()) for text in result] == [
        (index, [EDGE, *(FIRST_WORD + word for word in words), EDGE], counted) for index, words, counted in expected
    ]
    assert corpus.windows == 5 and len(corpus) == 3 and not corpus.cut.any()
    # Windows of one text, and of one that says the same, are one observation.
    assert corpus.units[corpus.text_of(np.array([text.index for text in result]))].tolist() == [0, 0, 1, 0, 0]
    again = tokenise(texts, *shards(texts), tokenizer, 9, Windows(5, 2))
    assert [text.ids.tolist() for text in again] == [text.ids.tolist() for text in result]


def test_shuffling_keeps_what_counts():
    texts = FakeTexts(["1 2 3 4 5 6 7 8 9 10 11 12"])
    plain = tokenise(texts, *shards(texts), FakeTokenizer(special=True), 9, Windows(6, 2))
    moved = [text.shuffled(0) for text in plain]
    assert [text.ids.tolist() for text in plain] != [text.ids.tolist() for text in moved]
    counted, again = ([sorted(text.ids[text.counted]) for text in some] for some in (plain, moved))
    assert counted == again
