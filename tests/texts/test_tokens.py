import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fake_model import EDGE, FIRST_WORD, FakeTexts, FakeTokenizer

from reporter.texts import tokens
from reporter.texts.tokens import Shard, TokenisedText, batches, shards, tokenise, tokenise_corpus


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 60), max_size=60), st.integers(1, 100), st.integers(1, 9))
def test_shards_cover_every_text_once_and_stay_small(lengths, characters, most):
    texts = FakeTexts("x" * length for length in lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "SHARD_CHARACTERS", characters)
        patch.setattr(tokens, "SHARD_TEXTS", most)
        found = shards(texts)
        assert shards(FakeTexts([*texts, "one more"]))[: len(found) - 1] == found[:-1]  # whatever follows
    assert [i for shard in found for i in range(shard.start, shard.stop)] == list(range(len(texts)))
    for number, shard in enumerate(found):
        inside = lengths[shard.start : shard.stop]
        assert shard.index == number and 1 <= len(inside) <= most
        assert sum(inside) <= characters or len(inside) == 1


def test_tokenise_cuts_keeps_the_closing_token_and_drops_texts_without_tokens():
    texts, whole = FakeTexts(["7", "1 2 3 4 5 6", "", "1 2"]), Shard(0, 0, 4)
    found = tokenise(texts, whole, FakeTokenizer(special=True), 4)
    two = [EDGE, FIRST_WORD + 1, FIRST_WORD + 2, EDGE]
    seven = [EDGE, FIRST_WORD + 7, EDGE]
    assert [(text.ids.tolist(), text.cut) for text in found] == [(seven, 0), (two, 1), ([EDGE, EDGE], 0), (two, 0)]
    assert found[1].special.tolist() == [True, False, False, True]
    bare = tokenise(texts, whole, FakeTokenizer(special=False), 4)
    assert [(text.index, len(text), text.cut) for text in bare] == [(0, 1, False), (1, 4, True), (3, 2, False)]
    (last,) = tokenise(texts, Shard(1, 2, 4), FakeTokenizer(special=False), 9)  # places are those in the corpus
    assert (last.index, last.ids.tolist()) == (3, two[1:3])


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
        found, expected = (
            [(text.index, text.ids.tolist(), text.cut, text.special.tolist(), text.ids.dtype) for text in some]
            for some in (corpus.of(shard), tokenise(texts, shard, tokenizer, 4))
        )
        assert found == expected
    nothing = tokenise_corpus(FakeTexts([""]), FakeTokenizer(special=False), 9, folder and tmp_path / "empty")
    assert [nothing.of(shard) for shard in nothing.shards] == [[]]


def text(index, length):
    ids = np.arange(length) + 10 * index + 1
    return TokenisedText(index, ids, ids % 3 == 0, False)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 200))
def test_batches_hold_every_text_once_within_the_budget(lengths, budget):
    texts = [text(i, length) for i, length in enumerate(lengths)]
    found = list(batches(texts, budget, pad_id=9999))
    back = batches(texts[::-1], budget, pad_id=9999)  # the order of texts does not matter
    assert [batch.texts.tolist() for batch in found] == [batch.texts.tolist() for batch in back]
    assert sorted(i for batch in found for i in batch.texts) == list(range(len(texts)))
    widths = [batch.ids.shape[1] for batch in found]
    assert widths == sorted(widths, reverse=True)
    for batch in found:
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
