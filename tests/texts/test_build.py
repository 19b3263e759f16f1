"""Building a corpus: what is kept of it, once for the cache, and what an interrupted build leaves."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporter.study.corpora import with_shares
from reporter.texts import build as build_module
from reporter.texts.sources import generated
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import FileCorpus, InlineCorpus
from reporter.texts.texts import Record

GRAMMAR = GeneratedCorpus(generate="grammar", texts=5)
TWO = InlineCorpus(texts=("one two", "three"))


def folders(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache" / "texts").iterdir())


def test_filters_limit_and_counts(build, refused, tmp_path):
    given = ("", "  one ", "\n\t", "a b", "a b c d", "é e\n", "a b c", "too late")
    texts = build(InlineCorpus(texts=given, min_words=2, max_words=3, limit=3))
    assert list(texts) == ["a b", "é e", "a b c"]
    assert (texts.words, texts.characters, texts.dropped) == (7, 11, 4)  # "too late" was never read
    assert (texts.name, texts.source, texts.labels) == ("mine", "inline", None)
    says = r"no text of .*: 1 missing or empty, 1 .* `min_words` \(2\), 1 .* `max_words` \(3\); add texts, or"
    refused(says, InlineCorpus(texts=("", "one", "one two three four"), min_words=2, max_words=3), "small")
    assert folders(tmp_path) == [texts.folder.name]


def test_texts_are_built_once_in_silence_and_used_again(build, monkeypatch, tmp_path, capfd):
    writes, write = [], build_module._write
    monkeypatch.setattr(build_module, "_write", lambda *args: (writes.append(args), write(*args)))
    first = build(GRAMMAR, "one")
    os.utime(first.folder, (1, 1))
    again = build(GRAMMAR.model_copy(update={"max_tokens": 7}), "two")
    assert len(writes) == 1
    assert (again.name, again.hash, list(again)) == ("two", first.hash, list(first))
    assert folders(tmp_path) == [first.folder.name]
    assert first.folder.stat().st_mtime > time.time() - 3600  # use is noted for the cache
    assert capfd.readouterr() == ("", "")


def test_whatever_changes_the_texts_changes_the_key(build, tmp_path, monkeypatch):
    changes = [{}, {"seed": 1}, {"texts": 4}, {"words": (3, 9)}, {"limit": 2}, {"min_words": 20}]
    specs = [GRAMMAR.model_copy(update=change) for change in [*changes, {"generate": "random-words"}]]
    keys = {build(spec).folder for spec in specs}
    for kind in ("GRAMMAR", "RANDOM_WORDS"):
        monkeypatch.setattr(generated, f"{kind}_VERSION", -1)
    assert len(keys | {build(spec).folder for spec in (specs[0], specs[-1])}) == len(specs) + 2
    for content in ("one", "two"):
        (tmp_path / "a.txt").write_text(f"{content}\n")
        assert list(build(FileCorpus(file="a.txt"))) == [content]


@pytest.mark.parametrize("file", ["texts.bin", "offsets.npy", "meta.json"])
def test_a_damaged_folder_is_built_again(build, file):
    for harm in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-3])):
        harm(build(TWO).folder / file)
        assert list(build(TWO)) == ["one two", "three"]


def test_an_exception_half_way_leaves_nothing(build, tmp_path, monkeypatch):
    def broken(texts):
        yield Record("one")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build_module, "_records", broken)
        build(TWO)
    assert folders(tmp_path) == []
    assert list(build(TWO)) == ["one two", "three"]


def test_a_cache_that_cannot_be_written_is_a_plain_error(refused, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    refused(r"cannot write .*cache/texts", TWO)


def test_random_words_of_a_model(build, refused):
    spec = GeneratedCorpus(generate="random-words", texts=20, words=(5, 9), vocabulary="pocket")
    texts = build(spec, whole_words={"pocket": ["ant", "bee"]}.__getitem__)
    assert {word for text in texts for word in text.split()} == {"ant", "bee"}
    assert texts.location == "random-words, seed 0, words of pocket"
    other = build(spec, whole_words={"pocket": ["ant", "cow"]}.__getitem__)
    assert other.folder != texts.folder
    refused(" no whole words .* remove `vocabulary`", spec, whole_words={"pocket": []}.__getitem__)
    refused("the vocabulary of model 'pocket'", spec)


def test_only_some_labels_and_shares_by_label(build, refused, tmp_path):
    (tmp_path / "t.csv").write_text("text,mood\na b,joy\nc d,fear\ne f,joy\ng h,so so\n")
    plain = FileCorpus(file=Path("t.csv"), column="text", label="mood")
    joy = build(plain.model_copy(update={"only": ("joy",)}))
    assert (list(joy), joy.labels, joy.dropped) == (["a b", "e f"], ("joy",), 2)
    says = r"no text of t\.csv has the label "
    refused(f"{says}'anger'; labels: fear, joy, so so", plain.model_copy(update={"only": ("anger",)}))
    refused(rf"{says}'fera'; did you mean 'fear'\?", plain.model_copy(update={"only": ("joy", "fera")}))
    first = plain.model_copy(update={"only": ("joy", "later"), "limit": 2})
    assert list(build(first)) == ["a b", "e f"], "behind the limit a label may still come"
    whole = plain.model_copy(update={"by": ("joy", "so so")})
    shares = {name: list(build(part, name)) for name, part in with_shares({"t": whole}).items()}
    assert shares == {"t": ["a b", "c d", "e f", "g h"], "t.joy": ["a b", "e f"], "t.so-so": ["g h"]}
    assert build(whole, "t").folder == build(plain, "t").folder  # naming shares reads nothing again


def test_shares_of_a_chat_are_those_of_its_roles():
    chat = FileCorpus(file=Path("t.jsonl"), chat=True, by=("user", "assistant"), limit=5)
    shares = {name: (part.role, part.only, part.by, part.limit) for name, part in with_shares({"t": chat}).items()}
    assert shares == {"t": shares["t"], "t.user": ("user", None, (), 5), "t.assistant": ("assistant", None, (), 5)}


# Corpora thinned to the size of another one.


WIKI = GeneratedCorpus(generate="random-words", texts=200, words=(3, 30))


def sized(spec):
    return spec.model_copy(update={"size_of": "tweets"})


def words(number):
    return {"words_of": {"tweets": number}.__getitem__}


def test_the_words_come_within_a_text_of_those_wanted_and_the_order_stays(build):
    whole, thinned = build(WIKI), build(sized(WIKI), **words(500))
    assert thinned.words == sum(len(text.split()) for text in thinned) == pytest.approx(500, abs=30)
    places = [list(whole).index(text) for text in thinned]
    assert places == sorted(set(places)) and 50 < np.mean(places) < 150, "drawn from everywhere, not the beginning"
    assert (thinned.thinned, whole.thinned) == (len(whole) - len(thinned), 0)
    assert thinned.location == "random-words, seed 0, sampled to the size of tweets"
    assert thinned.hash != whole.hash


def test_the_draw_hangs_on_nothing_but_the_texts(build, tmp_path):
    whole = list(build(WIKI))
    (tmp_path / "a.txt").write_text("\n".join(reversed(whole)))
    first, other = build(sized(WIKI), **words(600)), build(sized(FileCorpus(file="a.txt")), **words(600))
    assert list(first) == list(other)[::-1]
    assert set(build(sized(WIKI), **words(200))) < set(first), "a smaller draw lies within a larger one"


def test_labels_stay_with_their_texts_and_what_comes_after_the_filters_is_thinned(build, tmp_path):
    rows = [f"text number {i},{i}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", "one,odd", *rows, "too late,odd"]))
    spec = FileCorpus(file="a.csv", column="text", label="label", min_words=2, limit=40)
    thinned = build(sized(spec), **words(30))
    assert (len(thinned), thinned.dropped, thinned.thinned) == (10, 1, 30) and "too late" not in list(thinned)
    assert list(map(thinned.label, range(10))) == [text.split()[-1] for text in thinned]


@pytest.mark.parametrize("text", ["same old text", "once more here", "twice told tale"])  # wherever its hash stands
def test_copies_of_a_text_are_thinned_like_the_others(build, text):
    spec = InlineCorpus(texts=(text,) * 300 + tuple(f"text number {i}" for i in range(100)))
    thinned = list(build(sized(spec), **words(600)))
    assert len(thinned) == 200 and thinned.count(text) == pytest.approx(150, abs=15)


def test_the_whole_corpus_is_built_once_for_all_sizes(build, tmp_path):
    whole, first, again = build(WIKI), build(sized(WIKI), **words(600)), build(sized(WIKI), "two", **words(600))
    build(sized(WIKI), **words(300))
    assert again.folder == first.folder != whole.folder and again.name == "two"
    assert len(list((tmp_path / "cache" / "texts").iterdir())) == 3
    kept = list(first)
    (first.folder / "texts.bin").unlink()
    assert list(build(sized(WIKI), **words(600))) == kept


def test_a_corpus_that_is_nearly_large_enough_stays_whole_and_a_smaller_one_is_told(build, refused):
    spec = InlineCorpus(texts=("one two", "three four"))
    assert build(sized(spec), **words(5)).thinned == 0
    says = r"it has 4 words, .* 'tweets' .* has 6\. Add texts.*`size_of: small` for corpus 'tweets'$"
    refused(says, sized(spec), "small", **words(6))
    refused("the size of corpus 'tweets' is unknown", sized(spec))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 400), st.integers(0, 2**32))
def test_no_other_number_of_texts_comes_nearer(lengths, wanted, seed):
    places = np.random.default_rng(seed).integers(0, 2**64, len(lengths), dtype=np.uint64)
    sizes = np.array(lengths)
    kept, sums = (
        build_module._rows_with_words(places, sizes, wanted),
        np.cumsum(sizes[np.argsort(places, kind="stable")]),
    )
    assert abs(sizes[kept].sum() - wanted) == np.abs(sums - wanted).min() and (np.diff(kept) > 0).all()
