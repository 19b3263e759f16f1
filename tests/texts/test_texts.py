from __future__ import annotations

import hashlib
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporter.core.errors import ReporterError
from reporter.texts import build as writer
from reporter.texts import build_texts
from reporter.texts.build import TextsWriter
from reporter.texts.sources.stored import InlineCorpus
from reporter.texts.texts import open_texts


def write(folder: Path, texts, labels=None):
    with TextsWriter(folder / "done", labels is not None) as out:
        for i, text in enumerate(texts):
            out.add(text, len(text.split()), labels[i] if labels else None)
        out.finish(dropped=3)
    return open_texts(folder / "done", "mine", "inline", "here")


@given(st.lists(st.text(), min_size=1, max_size=30))
def test_any_unicode_comes_back_as_it_was(given_texts):
    wanted = [text.strip() for text in given_texts if text.strip()]
    with tempfile.TemporaryDirectory() as folder:
        if not wanted:
            with pytest.raises(ReporterError, match="no text is left"):
                build_texts("mine", InlineCorpus(texts=tuple(given_texts)), Path(folder), Path(folder))
            return
        texts = build_texts("mine", InlineCorpus(texts=tuple(given_texts)), Path(folder), Path(folder))
        assert list(texts) == wanted
        assert [texts[i] for i in range(len(texts))] == wanted
        assert texts.slice(0, len(wanted)) == wanted
        assert list(texts.lengths()) == [len(text.encode()) for text in wanted]
        assert texts.words == sum(len(text.split()) for text in wanted)
        assert texts.characters == sum(map(len, wanted))
        assert texts.dropped == len(given_texts) - len(wanted)


def test_access_by_place(tmp_path):
    wanted = [f"text {i}" for i in range(3000)]  # more than are read at once
    texts = write(tmp_path, wanted)
    assert len(texts) == 3000 and list(texts) == wanted and texts.dropped == 3
    assert texts[-1] == "text 2999" and texts.slice(5, 8) == wanted[5:8]
    assert texts.slice(2990, 5000) == wanted[2990:] and texts.slice(3000, 3001) == [] == texts.slice(7, 7)
    for outside in (3000, -3001):
        with pytest.raises(IndexError):
            texts[outside]


def test_the_files_are_as_documented(tmp_path):
    write(tmp_path, ["ab", "é"], ["x", None])
    folder = tmp_path / "done"
    assert (folder / "texts.bin").read_bytes() == b"ab\xc3\xa9"
    assert np.load(folder / "offsets.npy").tolist() == [0, 2, 4]
    assert np.load(folder / "offsets.npy").dtype == np.int64
    assert np.load(folder / "labels.npy").tolist() == [0, -1]


def test_the_hash_is_that_of_length_prefixed_texts(tmp_path):
    expected = hashlib.sha256()
    for text in ("ab", "é"):
        expected.update(len(text.encode()).to_bytes(8, "little") + text.encode())
    assert write(tmp_path, ["ab", "é"]).hash == expected.hexdigest()


def test_the_hash_tells_apart_what_differs(tmp_path):
    given = [
        (["ab", "c"], None),
        (["a", "bc"], None),
        (["c", "ab"], None),
        (["abc"], None),
        (["ab", "c"], ["x", "y"]),
        (["ab", "c"], ["y", "x"]),
        (["ab", "c"], ["x", None]),
        (["ab", "c"], ["x", ""]),
        (["ab", "c"], ["xy", ""]),
    ]
    hashes = [write(tmp_path / str(i), *each).hash for i, each in enumerate(given)]
    assert len(set(hashes)) == len(given)
    assert write(tmp_path / "again", *given[4]).hash == hashes[4]


def test_labels(tmp_path):
    texts = write(tmp_path, ["a", "b", "c"], ["sad", None, "joy"])
    assert texts.labels == ("sad", "joy")
    assert [texts.label(i) for i in range(3)] == ["sad", None, "joy"]
    assert write(tmp_path / "plain", ["a"]).label(0) is None


def test_too_many_labels_are_no_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MOST_LABELS", 2)
    write(tmp_path, ["a", "b", "c"], ["x", "y", "x"])
    with pytest.raises(ReporterError, match="more than 2 different values"):
        write(tmp_path / "more", ["a", "b", "c"], ["x", "y", "z"])


def test_half_a_character_is_refused(tmp_path):
    with pytest.raises(ReporterError, match=r"text 2 .* half a character \(U\+D83D, .*\) at position 1; repair"):
        write(tmp_path, ["fine", "a\ud83d"])
    assert list(tmp_path.iterdir()) == []


def test_texts_stay_readable_when_their_folder_is_removed(tmp_path):
    texts = write(tmp_path, ["one", "two"], ["x", "y"])
    for file in texts.folder.iterdir():
        file.unlink()
    assert list(texts) == ["one", "two"] and texts.label(1) == "y"


def test_no_folder_is_no_texts(tmp_path):
    assert open_texts(tmp_path / "nowhere", "mine", "inline", "here") is None


def test_lengths_are_differences_of_offsets(tmp_path):
    texts = write(tmp_path, ["x" * (i % 5 + 1) for i in range(2050)])
    ends = np.load(texts.folder / "offsets.npy").tolist()
    assert list(texts.lengths()) == [b - a for a, b in pairwise(ends)]
