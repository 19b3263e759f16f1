"""Texts from columns: CSV, TSV, JSON lines, JSON and Parquet."""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reporter.core.errors import ReporterError
from reporter.texts import build_texts
from reporter.texts.sources.stored import FileCorpus, InlineCorpus

ROWS = [
    ("a, b", "joy"),
    ('q"uote', "sad"),
    ("two\nlines", "joy"),
    (" pad ", "fear"),
    ("NULL", "sad"),
    ("2020-1-1", "x"),
]


def write_table(path: Path, rows, columns=("text", "label")) -> None:
    ending = path.suffixes[0]
    if ending in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, delimiter="\t" if ending == ".tsv" else ",", quoting=csv.QUOTE_ALL)
            table.writerow(columns)
            table.writerows(rows)
    elif ending == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    elif ending == ".json":
        path.write_text(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))
    else:
        with duckdb.connect() as connection:
            names = ", ".join('"' + name.replace('"', '""') + '" VARCHAR' for name in columns)
            connection.execute(f"CREATE TABLE t ({names})")
            connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
            connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.read_bytes()))


ENDINGS = ["csv", "tsv", "jsonl", "json", "parquet", "csv.gz", "tsv.gz", "jsonl.gz", "json.gz"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_texts_and_labels(build, tmp_path, ending):
    write_table(tmp_path / f"t.{ending}", ROWS)
    texts = build(FileCorpus(file=f"t.{ending}", column="text", label="label"))
    assert list(texts) == [text.strip() for text, _ in ROWS]
    assert [texts.label(i) for i in range(len(texts))] == [label for _, label in ROWS]
    assert texts.labels == ("joy", "sad", "fear", "x")
    assert texts.source == "file"


def test_the_hash_does_not_depend_on_the_kind_of_source(build, tmp_path):
    rows = [(text.replace("\n", " "), label) for text, label in ROWS]
    (tmp_path / "t.txt").write_text("\n".join(text for text, _ in rows))
    hashes = {
        build(InlineCorpus(texts=tuple(text for text, _ in rows))).hash,
        build(FileCorpus(file="t.txt")).hash,
    }
    labelled = set()
    for ending in ENDINGS:
        write_table(tmp_path / f"t.{ending}", rows)
        hashes.add(build(FileCorpus(file=f"t.{ending}", column="text")).hash)
        labelled.add(build(FileCorpus(file=f"t.{ending}", column="text", label="label")).hash)
    assert len(hashes) == len(labelled) == 1 and hashes != labelled


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=8),
    ending=st.sampled_from(ENDINGS[:5]),
)
def test_any_unicode_comes_back_as_it_was(rows, ending):
    rows = [("always one", "x"), *rows]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / f"t.{ending}", rows)
        spec = FileCorpus(file=f"t.{ending}", column="text", label="label")
        texts = build_texts("mine", spec, folder, folder / "cache")
        kept = [(text.strip(), label) for text, label in rows if text.strip()]
        assert list(zip(texts, map(texts.label, range(len(texts))), strict=True)) == kept


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_null_texts_are_dropped_and_null_labels_are_none(build, tmp_path, ending):
    write_table(tmp_path / f"t.{ending}", [("one", None), (None, "x"), ("two", "y")])
    texts = build(FileCorpus(file=f"t.{ending}", column="text", label="label"))
    assert (list(texts), texts.dropped) == (["one", "two"], 1)
    assert [texts.label(0), texts.label(1), texts.labels] == [None, "y", ("y",)]
    write_table(tmp_path / f"u.{ending}", [(None, "x"), ("", "x")])
    with pytest.raises(ReporterError, match=r"read 2 texts: 1 missing \(NULL\), 1 empty|does not hold text"):
        build(FileCorpus(file=f"u.{ending}", column="text"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_missing_column_lists_what_there_is(build, tmp_path, ending):
    write_table(tmp_path / f"t.{ending}", ROWS)
    for options, message in [
        ({"column": "Texts"}, r"has no column 'Texts' \(column\); did you mean 'text'\? It has text, label"),
        ({"column": "zzz"}, r"has no column 'zzz' \(column\)\. It has text, label"),
        ({"column": "text", "label": "labels"}, r"has no column 'labels' \(label\); did you mean 'label'\?"),
        ({}, r"is a table: say which column holds the texts, column: one of text, label"),
    ]:
        with pytest.raises(ReporterError, match=rf"^corpus 'mine': .*t\.{ending} {message}"):
            build(FileCorpus(file=f"t.{ending}", **options))


def test_a_unit_does_not_go_with_a_table(build, tmp_path):
    write_table(tmp_path / "t.csv", ROWS)
    with pytest.raises(ReporterError, match=r"t\.csv is a table, .* leave out 'unit' and name its 'column'"):
        build(FileCorpus(file="t.csv", column="text", unit="line"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_a_missing_table(build, ending):
    with pytest.raises(ReporterError, match=rf"^corpus 'mine': there is no file .*t\.{ending}$"):
        build(FileCorpus(file=f"t.{ending}", column="text"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_row_shows_what_separates_columns(build, tmp_path, delimiter):
    (tmp_path / "t.csv").write_text(f'"a,b;c"{delimiter}text\r\n1{delimiter}"x,y;z"\r\n\r\n2{delimiter}w\r\n')
    if delimiter == ",":
        assert list(build(FileCorpus(file="t.csv", column="text"))) == ["x,y;z", "w"]
    else:
        assert list(build(FileCorpus(file="t.csv", column="text", label="a,b;c"))) == ["x,y;z", "w"]


def test_one_column_and_a_mark_at_the_beginning(build, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbftext\nno separator here\n")
    assert list(build(FileCorpus(file="t.csv", column="text"))) == ["no separator here"]


def test_a_text_longer_than_the_readers_own_limit(build, tmp_path):
    long = "word " * 100_000
    write_table(tmp_path / "t.csv", [(long, "x")])
    assert build(FileCorpus(file="t.csv", column="text"))[0] == long.strip()


def test_malformed_rows_say_where(build, tmp_path):
    for content, message in [
        ("text,label\na,b\nc, d, e\n", r"t\.csv:3: this row has 3 columns, the first has 2; quote values"),
        ('text,label\na,b\n"x" y,c\n', r"t\.csv:3: not a valid CSV row .*check its quotes"),
        ('text,label\na,b\n"never closed,c\n', r"t\.csv:3: not a valid CSV row"),
        ("text,text\na,b\n", r"t\.csv has more than one column 'text'"),
        ("", r"t\.csv has no column 'text' \(column\)\. It has no columns"),
        ("text,label\n", r"no text is left of t\.csv: read 0 texts"),
    ]:
        (tmp_path / "t.csv").write_text(content)
        with pytest.raises(ReporterError, match=rf"^corpus 'mine': .*{message}"):
            build(FileCorpus(file="t.csv", column="text"))


def test_malformed_json_lines_say_where(build, tmp_path):
    for content, message in [
        ('{"text": "a"}\n{"text": \n', r"t\.jsonl:2: not valid JSON"),
        ('{"text": "a"}\n\n["a"]\n', r't\.jsonl:3: expected a JSON object such as .*, got \["a"\]'),
        ('{"text": "a"}\n{"text": 5}\n', r"t\.jsonl:2: 'text' is not text but 5"),
        ('{"text": "a", "label": [1]}\n', r"t\.jsonl:1: the label 'label' is not one value but \[1\]"),
        ('{"text": "a\\ud83d", "label": 1}\n', r"text 1 of those kept holds half a character \(U\+D83D"),
        ("\n", r"no text is left of t\.jsonl: read 0 texts"),
    ]:
        (tmp_path / "t.jsonl").write_text(content)
        with pytest.raises(ReporterError, match=rf"^corpus 'mine': .*{message}"):
            build(FileCorpus(file="t.jsonl", column="text", label="label"))


def test_json_objects_need_not_have_the_same_keys(build, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"id": 1}\n{"text": "a", "label": true}\n{"text": "b", "label": 1.50}\n')
    texts = build(FileCorpus(file="t.jsonl", column="text", label="label"))
    assert (list(texts), texts.dropped, texts.labels) == (["a", "b"], 1, ("true", "1.5"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 AS text, 'x' AS label", "the column 'text' does not hold text but INTEGER"),
        ("SELECT ['a'] AS text, 'x' AS label", r"the column 'text' does not hold text but VARCHAR\[\]"),
        ("SELECT 'a' AS text, ['x'] AS label", "the label column 'label' does not hold plain values but"),
    ],
)
def test_columns_of_the_wrong_type(build, tmp_path, query, message):
    for kind in ("parquet", "json"):
        duckdb.execute(f"COPY ({query}) TO '{tmp_path}/t.{kind}' (FORMAT {kind})")
        with pytest.raises(ReporterError, match=message.replace("INTEGER", "(INTEGER|BIGINT)")):
            build(FileCorpus(file=f"t.{kind}", column="text", label="label"))


def test_labels_of_other_types_become_text(build, tmp_path):
    duckdb.execute(f"COPY (SELECT 'a' AS text, 3 AS label) TO '{tmp_path}/t.parquet'")
    assert build(FileCorpus(file="t.parquet", column="text", label="label")).labels == ("3",)


@pytest.mark.parametrize(
    ("ending", "content"),
    [("parquet", b"no parquet"), ("json", b'[{"text": "a"}, {'), ("json", b'[{"text": "a \xe9"}]')],
)
def test_a_broken_file(build, tmp_path, ending, content):
    (tmp_path / f"t.{ending}").write_bytes(content)
    with pytest.raises(ReporterError, match=rf"^corpus 'mine': cannot read .*t\.{ending}: .*\S$"):
        build(FileCorpus(file=f"t.{ending}", column="text"))


def test_names_that_sql_and_patterns_would_trip_over(build, tmp_path):
    column = """it's a "column"; --"""
    for kind in ("parquet", "json"):
        name = f"it's [1]*?.{kind}"
        write_table(tmp_path / f"plain.{kind}", [("one", "x")], (column, "label"))
        (tmp_path / f"plain.{kind}").rename(tmp_path / name)
        assert list(build(FileCorpus(file=name, column=column))) == ["one"]


def test_rows_keep_their_order(build, tmp_path):
    wanted = [f"text {i}" for i in range(5000)]
    for ending in ("parquet", "json"):
        write_table(tmp_path / f"t.{ending}", [(text, "x") for text in wanted])
        assert list(build(FileCorpus(file=f"t.{ending}", column="text"))) == wanted
