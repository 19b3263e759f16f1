"""Corpora thinned to the size of another one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporter.texts import build as thinning
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import FileCorpus, InlineCorpus

WIKI = GeneratedCorpus(generate="random-words", texts=200, words=(3, 30))


def sized(spec, other="tweets"):
    return spec.model_copy(update={"size_of": other})


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
    one, other = build(sized(WIKI), **words(600)), build(sized(FileCorpus(file="a.txt")), **words(600))
    assert list(one) == list(other)[::-1]
    fewer = build(sized(WIKI), **words(200))
    assert set(fewer) < set(one), "a smaller draw lies within a larger one"


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
    whole, one, again = build(WIKI), build(sized(WIKI), **words(600)), build(sized(WIKI), "two", **words(600))
    build(sized(WIKI), **words(300))
    assert again.folder == one.folder != whole.folder and again.name == "two"
    assert len(list((tmp_path / "cache" / "texts").iterdir())) == 3
    kept = list(one)
    (one.folder / "texts.bin").unlink()
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
    kept, sums = thinning._rows_with_words(places, sizes, wanted), np.cumsum(sizes[np.argsort(places, kind="stable")])
    assert abs(sizes[kept].sum() - wanted) == np.abs(sums - wanted).min() and (np.diff(kept) > 0).all()
