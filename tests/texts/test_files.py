"""Texts from files: plain text by line, paragraph and document, and columns of CSV, TSV, JSON lines, JSON, Parquet."""

import csv
import gzip
import json
import tempfile
import tracemalloc
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reporter.texts import build_texts
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import FileCorpus, InlineCorpus

PROSE = "= Title =\n\nFirst line\nsecond line \n \t\n\n\nLast one\n"
ROWS = [("a, b", "joy"), ('q"', "sad"), ("two\nlines", "joy"), (" p ", "fear"), ("NULL", "sad"), ("2020-1-1", "x")]
ENDINGS = ["csv", "tsv", "jsonl", "json", "parquet", "csv.gz", "tsv.gz", "jsonl.gz", "json.gz"]
BOTH = {"column": "text", "label": "label"}


def write_table(path, rows, columns=("text", "label")):
    ending = path.suffixes[0]
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    if ending in (".csv", ".tsv"):
        separator = "\t" if ending == ".tsv" else ","
        pd.DataFrame(rows, columns=columns).to_csv(path, sep=separator, quoting=csv.QUOTE_ALL, index=False)
    elif ending == ".parquet":
        duckdb.from_df(pd.DataFrame(objects, dtype="string")).write_parquet(str(path))
    else:
        path.write_text("\n".join(map(json.dumps, objects)) if ending == ".jsonl" else json.dumps(objects))
    if path.suffix == ".gz" and ending not in (".csv", ".tsv"):  # which pandas packs
        path.write_bytes(gzip.compress(path.read_bytes()))


def write_query(path, query):
    """Write the rows of a query as DuckDB does."""
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as database:
            database.execute(f"CREATE TABLE rows AS {query if query.startswith('SELECT') else f'SELECT {query}'}")
    else:
        duckdb.execute(f"COPY (SELECT {query}) TO '{path}' (FORMAT {path.suffix[1:]})")


def test_units_of_a_text_file(of, build):
    texts = of("a.txt", PROSE)
    assert build(InlineCorpus(texts=tuple(texts))).hash == texts.hash
    assert list(texts) == ["= Title =", "First line", "second line", "Last one"]
    assert (texts.source, texts.location) == ("file", "a.txt")
    assert list(of("a.txt", unit="paragraph")) == ["= Title =", "First line second line", "Last one"]
    assert list(of("a.txt", unit="document")) == [PROSE.strip()]
    few = of("a.txt", min_words=3)  # blank lines are no texts and are not counted as dropped
    assert (list(few), few.dropped) == (["= Title ="], 3)
    assert of("a.txt.gz", gzip.compress(PROSE.encode())).hash == texts.hash
    assert list(of("README", "two")) + list(of("a[1].md", "one\ntwo")) == ["two", "one", "two"]


@pytest.mark.parametrize("unit", ["line", "paragraph", "document"])
def test_ends_of_lines_do_not_matter_and_unusual_characters_break_none(of, unit):
    written = [PROSE, *(f"\ufeff{PROSE}".replace("\n", end) for end in ("\n", "\r\n", "\r"))]
    assert len({of("a.txt", content, unit=unit).hash for content in written}) == 1
    line = "a\x00b\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\ufeffi e\u0301"
    assert of("a.txt", f"{line}\nnext", unit=unit)[0].startswith(line)


def test_a_folder_or_a_pattern_of_documents(build, tmp_path):
    for folder, names in {"letters [old]": ("b.txt", "a.txt", "c.md"), "more": ("x1.md", "x2.md", "y1.md")}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text(name)
    absolute = tmp_path.resolve() / "m*e" / "[xy]1.md"
    for file, names in (("letters [old]", "ab"), ("more/x*.md", ["x1", "x2"]), (absolute, ["x1", "y1"])):
        documents = list(build(FileCorpus(file=file, unit="document")))
        assert [name.split(".")[0] for name in documents] == list(names)


def test_what_is_not_there_and_keys_that_do_not_go_with_the_kind_of_file_are_named(refused_file, tmp_path):
    (tmp_path / "folder").mkdir()
    refused_file(r"there is no file .*no\.txt; check the path$", "no.txt")
    refused_file(r"folder is a folder; .*`unit: document`", "folder")
    refused_file(r"the folder .*folder has no \.txt file; name another", "folder", unit="document")
    refused_file(r"is a pattern; add `unit: document`", "*.txt")
    refused_file(r"no file matches .*\*\.txt; check", "*.txt", unit="document")
    refused_file(r"there is no file .*t\.parquet; check the path$", "t.parquet", column="text")
    refused_file(r"`label` needs a table .*a\.txt is plain text; remove `label`", "a.txt", "one", label="text")
    refused_file(
        r"t\.csv is a table, .*remove `unit` and add `column: NAME`", "t.csv", "text\na\n", column="text", unit="line"
    )


def test_a_broken_gzip_and_invalid_utf8_are_named_by_line_and_byte(refused_file):
    for content in (b"not gzip at all", gzip.compress(PROSE.encode(), mtime=0)[:-12]):
        refused_file(r"a\.txt\.gz is not a complete gzip file", "a.txt.gz", content)
    bad = b'text\n"good \xc3\xa9"\n"bad \xe9"\n'
    for name, content in (("a.txt", bad), ("a.csv", bad), ("a.jsonl", b'{"text": "x"}\n\n{"text": "\xe9"}\n')):
        says = rf"{name}:3: byte {content.index(0xE9)} \(0xe9\) is not UTF-8"
        refused_file(says, name, content, column=None if name == "a.txt" else "text")
    refused_file(r"b\.txt is UTF-16, not UTF-8; .*iconv", "b.txt", "one".encode("utf-16"))
    refused_file(r"c\.txt is a binary file .*name a text file", "c.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")


@pytest.mark.parametrize("ending", ENDINGS)
def test_texts_and_labels_of_a_table_and_its_columns_where_one_is_missing(build, of, refused_file, tmp_path, ending):
    name = f"t.{ending}"
    write_table(tmp_path / name, ROWS)
    texts = of(name, **BOTH)
    assert list(texts) == [text.strip() for text, _ in ROWS]
    assert [*map(texts.label, range(6)), texts.labels] == [*(label for _, label in ROWS), ("joy", "sad", "fear", "x")]
    given = build(InlineCorpus(texts=tuple(text for text, _ in ROWS)))  # the hash is that of the texts alone
    assert of(name, column="text").hash == given.hash != texts.hash
    refused_file(
        rf"t\.{ending} has no column 'Texts' for `column`.* 'text'\? Columns: text, label", name, column="Texts"
    )
    refused_file(r"has no column 'zzz' for `column`\. Columns: text, label", name, column="zzz")
    refused_file(r"has no column 'labels' for `label`; did you mean 'label'\?", name, column="text", label="labels")
    refused_file(r"is a table; .*`column: NAME`\. Columns: text, label", name)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*[st.text(min_size=1)] * 2), min_size=1, max_size=8), st.sampled_from(ENDINGS[:5]))
def test_any_unicode_comes_back_as_it_was(rows, ending):
    rows = [("always one", "x"), *rows]
    kept = [(text.strip(), label.strip() or None) for text, label in rows if text.strip()]
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / f"t.{ending}", rows)
        texts = build_texts("mine", FileCorpus(file=f"t.{ending}", **BOTH), Path(folder), Path(folder) / "cache")
        assert list(zip(texts, map(texts.label, range(len(texts))), strict=True)) == kept


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_null_texts_are_dropped_and_null_labels_are_none(of, refused_file, tmp_path, ending):
    write_table(tmp_path / f"t.{ending}", [("one", None), (None, "x"), ("two", "y")])
    texts = of(f"t.{ending}", **BOTH)
    assert (list(texts), texts.dropped) == (["one", "two"], 1)
    assert [texts.label(0), texts.label(1), texts.labels] == [None, "y", ("y",)]
    write_table(tmp_path / f"u.{ending}", [(None, "x"), ("", "x")])
    refused_file(
        r"passes the filters: 2 missing or empty; add texts, or name another `column`", f"u.{ending}", column="text"
    )


def test_the_first_row_shows_what_separates_columns(of):
    for delimiter in ",;\t|":
        content = f'"a,b;c"{delimiter}text\r\n1{delimiter}"x,y;z"\r\n\r\n2{delimiter}w\r\n'
        assert list(of("t.csv", content, column="text", label="a,b;c")) == ["x,y;z", "w"]


def test_unusual_tables_are_read(of, tmp_path):
    assert list(of("t.csv", b"\xef\xbb\xbftext\nno separator here\n", column="text")) == ["no separator here"]
    long = "word " * 100_000  # longer than the reader's own limit
    write_table(tmp_path / "t.csv", [(long, "x")])
    assert of("t.csv", column="text")[0] == long.strip()
    # JSON objects need not have the same keys.
    texts = of("t.jsonl", '{"id": 1}\n{"text": "a", "label": true}\n{"text": "b", "label": 1.50}\n', **BOTH)
    assert (list(texts), texts.dropped, texts.labels) == (["a", "b"], 1, ("true", "1.50"))
    duckdb.execute(f"COPY (SELECT 'a' AS text, 3 AS label) TO '{tmp_path}/t.parquet'")
    assert of("t.parquet", **BOTH).labels == ("3",)
    column, many = """it's a "column"; --""", [f"text {i}" for i in range(5000)]
    for kind in ("parquet", "json"):  # which keep their order, and names that SQL and patterns would trip over
        write_table(tmp_path / f"it's [1]*?.{kind}", [(text,) for text in many], (column,))
        assert list(of(f"it's [1]*?.{kind}", column=column)) == many


def test_malformed_tables_are_named_by_line(refused_file):
    for name, content, message in (
        ("t.csv", "text,label\na,b\nc, d, e\n", r"t\.csv:3: this row has 3 columns, but the first row has 2; .*quotes"),
        ("t.csv", 'text,label\na,b\n"x" y,c\n', r"t\.csv:3: invalid CSV row .*quotes"),
        ("t.csv", "text,text\na,b\n", r"t\.csv has several columns 'text'; rename"),
        ("t.csv", "", r"t\.csv has no column 'text' for `column`\. Columns: none"),
        ("t.jsonl", '{"text": "a"}\n{"text": \n', r"t\.jsonl:2: invalid JSON"),
        ("t.jsonl", '{"text": "a"}\n\n["a"]\n', r"t\.jsonl:3: expected a JSON object .*, got a list"),
        ("t.jsonl", '{"text": "a"}\n{"text": 5}\n', r"t\.jsonl:2: the value of 'text' must be text, got 5"),
        ("t.jsonl", '{"text": "a", "label": [1]}\n', r"t\.jsonl:1: the label 'label' must be one value, got a list"),
        (
            "t.jsonl",
            '{"text": "a\\ud83d", "label": 1}\n',
            r"t\.jsonl:1: .*'text' has half of a character \(U\+D83D, .* position 1",
        ),
        ("t.jsonl", '{"text": "a", "label": "\\ud83d"}\n', r"t\.jsonl:1: the label 'label' has half of a character"),
        ("t.jsonl", "\n", r"t\.jsonl has no texts; add some"),
        ("t.parquet", b"no parquet", r"cannot read .*t\.parquet: .*\S$"),
        ("t.json", b'[{"text": "a"}, {', r"cannot read .*t\.json: .*\S$"),
    ):
        refused_file(message, name, content, **BOTH)


@pytest.mark.parametrize("kind", ["parquet", "json", "duckdb"])
def test_columns_of_the_wrong_type_are_named(refused_file, tmp_path, kind):
    for number, (query, says) in enumerate(
        (
            ("1 AS text, 'x' AS label", r"'text' must (hold|be) text, got (INTEGER|BIGINT|1); name another `column`"),
            ("['a'] AS text, 'x' AS label", r"'text' must (hold|be) text, got (VARCHAR\[\]|a list); name another"),
            ("'a' AS text, ['x'] AS label", r"the label 'label' must be one value, got .*; name another"),
        )
    ):
        write_query(tmp_path / f"{number}.{kind}", query)
        refused_file(says, f"{number}.{kind}", **BOTH)


# Memory does not grow with the corpus, while it is built and while it is read.


LINE = "some words of about a hundred characters so that ten times as many would be easy to see in memory"


def peak(folder, kind, texts):
    spec = GeneratedCorpus(generate="random-words", texts=texts, words=(15, 15))
    if kind != "random-words":
        write_table(folder / f"{texts}.{kind}", [(LINE, str(i % 4)) for i in range(texts)])
        spec = FileCorpus(file=f"{texts}.{kind}", column="text", label="label")
    tracemalloc.start()
    try:
        built = build_texts("mine", spec, folder, folder / "cache")
        assert sum(1 for _ in built) == sum(1 for _ in built.lengths()) == texts
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "random-words"])
def test_ten_times_the_corpus_takes_the_same_memory(tmp_path, kind):
    peak(tmp_path, kind, 10)  # imports and caches of the interpreter are no part of the corpus
    small, large = (peak(tmp_path, kind, texts) for texts in (400, 4000))
    # The buffers of labels and offsets (16,384 numbers) are all that can grow, and only so far.
    assert large < small + 300_000 < small + 4000 * len(LINE)
