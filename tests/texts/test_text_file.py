from __future__ import annotations

import gzip

import pytest

from reporter.core.errors import ReporterError
from reporter.texts.sources.stored import FileCorpus

PROSE = "= Title =\n\nFirst line\nsecond line \n \t\n\n\nLast one\n"


def test_units(build, tmp_path):
    (tmp_path / "a.txt").write_text(PROSE)
    assert list(build(FileCorpus(file="a.txt"))) == ["= Title =", "First line", "second line", "Last one"]
    assert list(build(FileCorpus(file="a.txt", unit="paragraph"))) == [
        "= Title =",
        "First line second line",
        "Last one",
    ]
    assert list(build(FileCorpus(file="a.txt", unit="document"))) == [PROSE.strip()]


def test_blank_lines_are_no_texts_and_are_not_counted_as_dropped(build, tmp_path):
    (tmp_path / "a.txt").write_text(PROSE)
    texts = build(FileCorpus(file="a.txt", min_words=3))
    assert (list(texts), texts.dropped) == (["= Title ="], 3)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("unit", ["line", "paragraph", "document"])
def test_ends_of_lines_do_not_matter(build, tmp_path, end, unit):
    (tmp_path / "unix.txt").write_bytes(PROSE.encode())
    (tmp_path / "other.txt").write_bytes(b"\xef\xbb\xbf" + PROSE.replace("\n", end).encode())
    hashes = [build(FileCorpus(file=file, unit=unit)).hash for file in ("unix.txt", "other.txt")]
    assert hashes[0] == hashes[1]


def test_unusual_characters_do_not_break_lines(build, tmp_path):
    line = "a\x00b\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\ufeffi e\u0301"
    (tmp_path / "a.txt").write_bytes(f"{line}\nnext".encode())
    for unit in ("line", "paragraph"):
        assert build(FileCorpus(file="a.txt", unit=unit))[0].startswith(line)


def test_no_line_feed_at_the_end(build, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo")
    assert list(build(FileCorpus(file="a.txt"))) == ["one", "two"]


def test_gzip(build, tmp_path):
    (tmp_path / "a.txt").write_text(PROSE)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(PROSE.encode()))
    assert build(FileCorpus(file="a.txt.gz")).hash == build(FileCorpus(file="a.txt")).hash


@pytest.mark.parametrize("content", [b"not gzip at all", gzip.compress(PROSE.encode(), mtime=0)[:-12]])
def test_broken_gzip(build, tmp_path, content):
    (tmp_path / "a.txt.gz").write_bytes(content)
    with pytest.raises(ReporterError, match=r"corpus 'mine': .*a\.txt\.gz is not a whole gzip file"):
        build(FileCorpus(file="a.txt.gz"))


def test_an_unknown_ending_is_text(build, tmp_path):
    (tmp_path / "notes.md").write_text("one\n")
    (tmp_path / "README").write_text("two\n")
    assert list(build(FileCorpus(file="notes.md"))) + list(build(FileCorpus(file="README"))) == ["one", "two"]


def test_a_folder_or_a_pattern_of_documents(build, tmp_path):
    folder = tmp_path / "letters [old]"
    folder.mkdir()
    for name, text in {"b.txt": "two\nlines", "a.txt": "one", "c.md": "three"}.items():
        (folder / name).write_text(text)
    assert list(build(FileCorpus(file="letters [old]", unit="document"))) == ["one", "two\nlines"]
    (tmp_path / "more").mkdir()
    for name in ("x1.md", "x2.md", "y1.md"):
        (tmp_path / "more" / name).write_text(name)
    assert list(build(FileCorpus(file="more/x*.md", unit="document"))) == ["x1.md", "x2.md"]
    absolute = tmp_path.resolve() / "m*e" / "[xy]1.md"
    assert list(build(FileCorpus(file=absolute, unit="document"))) == ["x1.md", "y1.md"]


def test_a_file_whose_name_looks_like_a_pattern(build, tmp_path):
    (tmp_path / "a[1].txt").write_text("one")
    assert list(build(FileCorpus(file="a[1].txt"))) == ["one"]


def test_what_is_not_there(build, tmp_path):
    (tmp_path / "folder").mkdir()
    for spec, message in [
        (FileCorpus(file="no.txt"), r"there is no file .*no\.txt$"),
        (FileCorpus(file="folder"), r"folder is a folder; name a file, or write 'unit: document'"),
        (FileCorpus(file="folder", unit="document"), r"the folder .*folder holds no \.txt file"),
        (FileCorpus(file="*.txt"), r"is a pattern; patterns go with 'unit: document'"),
        (FileCorpus(file="*.txt", unit="document"), r"no file matches .*\*\.txt"),
    ]:
        with pytest.raises(ReporterError, match=r"^corpus 'mine': .*" + message):
            build(spec)


@pytest.mark.parametrize("key", ["column", "label"])
def test_columns_go_with_tables(build, tmp_path, key):
    (tmp_path / "a.txt").write_text("one")
    with pytest.raises(ReporterError, match=rf"'{key}' goes with a table .*a\.txt is read as plain text"):
        build(FileCorpus(file="a.txt", **{key: "text"}))


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_invalid_utf8_says_where(build, tmp_path, ending):
    content = b'text\n"good \xc3\xa9"\n"bad \xe9"\n'
    (tmp_path / f"a.{ending}").write_bytes(content)
    options = {} if ending == "txt" else {"column": "text"}
    message = rf"corpus 'mine': .*a\.{ending}:3: byte {content.index(0xE9)} \(0xe9\) is not UTF-8; save the file"
    if ending == "jsonl":
        content = b'{"text": "x"}\n\n{"text": "\xff"}\n'
        (tmp_path / "a.jsonl").write_bytes(content)
        message = rf"a\.jsonl:3: byte {content.index(0xFF)} \(0xff\) is not UTF-8"
    with pytest.raises(ReporterError, match=message):
        build(FileCorpus(file=f"a.{ending}", **options))


def test_utf16_is_recognised(build, tmp_path):
    (tmp_path / "a.txt").write_text("one", encoding="utf-16")
    with pytest.raises(ReporterError, match=r"a\.txt is UTF-16, not UTF-8; convert it: iconv -f UTF-16"):
        build(FileCorpus(file="a.txt"))


def test_location_is_as_the_study_says(build, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("one")
    assert build(FileCorpus(file="data/a.txt")).location == "data/a.txt"
