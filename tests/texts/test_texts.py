"""Texts on disk: whatever was written comes back, by place and in order, and the hash is that of what is there."""

import hashlib

import numpy as np
import pytest

from reporter.core.errors import ReporterError
from reporter.texts import build as writer
from reporter.texts.build import TextsWriter
from reporter.texts.texts import open_texts, texts_at


def write(folder, texts, labels=None):
    with texts_at(folder / "done").filling() as fresh, TextsWriter(fresh, labels is not None) as out:
        for i, text in enumerate(texts):
            out.add(text, len(text.split()), labels[i] if labels else None)
        out.finish(dropped=3)
    return open_texts(folder / "done", "mine", "inline", "here")


def test_access_by_place(tmp_path):
    given_texts = [f"text {i}" for i in range(3000)]  # more than are read at once
    texts = write(tmp_path, given_texts)
    assert len(texts) == 3000 and list(texts) == given_texts and texts.dropped == 3
    assert list(texts.lengths()) == [len(text) for text in given_texts]
    assert texts[-1] == "text 2999" and texts.slice(5, 8) == given_texts[5:8]
    assert texts.slice(2990, 5000) == given_texts[2990:] and texts.slice(3000, 3001) == [] == texts.slice(7, 7)
    for outside in (3000, -3001):
        with pytest.raises(IndexError):
            texts[outside]
    assert open_texts(tmp_path / "nowhere", "mine", "inline", "here") is None


def test_the_files_and_the_hash_are_as_documented(tmp_path):
    texts = write(tmp_path, ["ab", "é"], ["x", None])
    folder = tmp_path / "done"
    assert (folder / "texts.bin").read_bytes() == b"ab\xc3\xa9"
    offsets, labels = (np.load(folder / f"{name}.npy") for name in ("offsets", "labels"))
    assert (offsets.tolist(), offsets.dtype, labels.tolist()) == ([0, 2, 4], np.int64, [0, -1])
    for file in folder.iterdir():  # texts stay readable when their folder is removed
        file.unlink()
    assert list(texts) == ["ab", "é"] and [texts.label(0), texts.label(1)] == ["x", None]
    expected = b"".join(len(text).to_bytes(8, "little") + text for text in (b"ab", "é".encode()))
    assert write(tmp_path / "plain", ["ab", "é"]).hash == hashlib.sha256(expected).hexdigest()


def test_the_hash_differs_where_texts_or_labels_do(tmp_path):
    labels = [["x", "y"], ["y", "x"], ["x", None], ["x", ""], ["xy", ""]]
    corpora = [(["ab", "c"], of) for of in (None, *labels)] + [(of,) for of in (["a", "bc"], ["c", "ab"], ["abc"])]
    hashes = [write(tmp_path / str(i), *corpus).hash for i, corpus in enumerate(corpora)]
    assert len(set(hashes)) == len(corpora)
    assert write(tmp_path / "again", *corpora[4]).hash == hashes[4]


def test_too_many_labels_are_no_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MOST_LABELS", 2)
    texts = write(tmp_path / "few", ["a", "b", "c", "d"], ["sad", None, "joy", "sad"])
    assert texts.labels == ("sad", "joy") and [texts.label(i) for i in range(4)] == ["sad", None, "joy", "sad"]
    with pytest.raises(ReporterError, match="more than 2 different values"):
        write(tmp_path / "more", ["a", "b", "c"], ["x", "y", "z"])
    assert write(tmp_path / "plain", ["a"]).label(0) is None
