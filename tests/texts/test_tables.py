"""The same table in every format gives the same texts, labels and clusters, or is refused with the place."""

import csv
import gzip
import json
import os
import random
import time
from contextlib import suppress

import duckdb
import pandas as pd
import pytest

from reporter.core.errors import ReporterError
from reporter.texts.sources.stored import FileCorpus
from reporter.texts.tables import read_table

LONG = "word " * 20_000
NASTY = [
    # text, label, author
    ('he said "hi"', "joy", "ann"),
    ('"all in quotes"', "joy", "ann"),
    ('"begins with one', "sad", "bob"),
    ('ends with one"', "sad", "bob"),
    ("a,b;c|d", " joy ", " ann"),
    ("NUL \0 inside", "joy\0", "b\0b"),
    ("\ufeffa byte order mark", "x\ufeff", None),
    ("emoji 👩‍👩‍👧 and e\u0301 and \u202eright to left\u202c", "ça", "e\u0301"),
    ("line\u2028separator \x0b \x0c \x85 \x1c", "a\u2028b", "z"),
    (LONG, "joy", "ann"),
    ("NA", "NA", "NaN"),
    ("null", "null", "None"),
    ("NULL", "NULL", "nan"),
    ("TRUE", "TRUE", "true"),
    ("007", "007", "0"),
    ("1e5", "1e5", "1.50"),
    ("2020-1-1", "2020-1-1", "01/02/2024"),
    ("no label", None, None),
    ("empty label", "", ""),
    ("label of white space", " \t ".replace("\t", " "), "  "),
    ("=1+1", "-", "#"),
    ("\\N", "\\N", "\\n"),
    ("{'a': 1}", "[1, 2]", '{"a": 1}'),
    ("back\\slash \\t \\n", "a\\", "b"),
]
LINES = [*NASTY, ("tab\tinside", "a\tb", "c"), ("two\nlines", "joy", "x"), ("a\rb", "joy", "y"), ("c\r\nd", "joy", "z")]
EXTRA = [f"k{number}" for number in range(300)]
COLUMNS = ("text", "label", "author", *EXTRA, "Text", "LABEL")
MARKED = {"column": "text", "label": "label", "cluster": "author"}


def rows_of(nasty):
    return [(*row, *("x" for _ in EXTRA), "other text", "other label") for row in nasty]


def separated(delimiter, quoting, before="", gap=""):
    def write(path, rows):
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(before)
            out = csv.writer(file, delimiter=delimiter, quoting=quoting, escapechar=None)
            for row in (COLUMNS, *rows):
                out.writerow(["" if value is None else gap + value for value in row])

    return write


def without_quotes(path, rows):
    cells = [["" if value is None else value for value in row] for row in (COLUMNS, *rows)]
    path.write_bytes("".join("\t".join(row) + "\r\n" for row in cells).encode())


def json_file(path, rows, before=b"", **options):
    # An absent key, as programs leave out what is missing; every second row has its null.
    objects = [
        {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None or number % 2}
        for number, row in enumerate(rows)
    ]
    if "json" in path.name and ".json" not in path.suffixes:
        data = "\n".join(json.dumps(row, **options) for row in objects)
    else:
        data = json.dumps(objects, **options)
    data = before + data.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def one_after_the_other(path, rows):
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    path.write_text("\n\n ".join(json.dumps(row, indent=1) for row in objects))


def duckdb_file(path, rows):
    # DuckDB takes names that differ in case alone for one, so the further columns stay away.
    frame = pd.DataFrame([row[:-2] for row in rows], columns=COLUMNS[:-2], dtype=object)  # noqa: F841 (read by SQL)
    target = str(path)
    with duckdb.connect(target if path.suffix == ".duckdb" else ":memory:") as database:
        if path.suffix == ".duckdb":
            database.execute("CREATE TABLE texts AS SELECT * FROM frame")
        else:
            database.execute(f"COPY (SELECT * FROM frame) TO '{target}' (FORMAT parquet)")


FORMATS = {
    "minimal.csv": separated(",", csv.QUOTE_MINIMAL),
    "all.csv": separated(",", csv.QUOTE_ALL),
    "bom.csv": separated(",", csv.QUOTE_ALL, before="\ufeff"),
    "semicolon.csv": separated(";", csv.QUOTE_MINIMAL),
    "minimal.tsv": separated("\t", csv.QUOTE_MINIMAL),
    "all.tsv": separated("\t", csv.QUOTE_ALL),
    "plain.tsv": without_quotes,
    "a.jsonl": json_file,
    "a.ndjson": json_file,
    "b.jsonl.gz": json_file,
    "bom.jsonl": lambda path, rows: json_file(path, rows, before=b"\xef\xbb\xbf"),
    "a.json": json_file,
    "indented.json": lambda path, rows: json_file(path, rows, indent=2, ensure_ascii=False),
    "bom.json": lambda path, rows: json_file(path, rows, before=b"\xef\xbb\xbf"),
    "b.json.gz": json_file,
    "sequence.json": one_after_the_other,
    "a.parquet": duckdb_file,
    "a.duckdb": duckdb_file,
}


def marks(texts):
    clusters = texts.clusters.tolist()
    return [(text, texts.label(row), clusters[row]) for row, text in enumerate(texts)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_of_nasty_rows_is_the_same_in_every_format(build, tmp_path, name):
    rows = NASTY if name == "plain.tsv" else LINES
    FORMATS[name](tmp_path / name, rows_of(rows))
    firsts, expected = {}, []
    for number, (text, label, author) in enumerate(rows):
        author = (author or "").strip() or None
        cluster = number if author is None else firsts.setdefault(author, number)
        expected.append((text.strip(), (label or "").strip() or None, cluster))
    assert marks(build(FileCorpus(file=name, **MARKED))) == expected


def test_folders_named_like_columns_decide_nothing(build, tmp_path):
    for folder in ("text=clean", "label=train", "author=a"):
        (tmp_path / folder).mkdir()
        for ending in ("parquet", "json", "jsonl"):
            FORMATS[f"a.{ending}"](tmp_path / folder / f"t.{ending}", rows_of(NASTY))
            texts = build(FileCorpus(file=f"{folder}/t.{ending}", **MARKED))
            assert (
                [*texts] == [text.strip() for text, *_ in NASTY]
                and "joy" in texts.labels
                and "train" not in texts.labels
            )
            assert (
                texts.units
                == len({author for *_, author in NASTY if author and author.strip()} | {*range(100, 104)}) - 1
            )


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_day_is_the_same_day_in_every_time_zone(build, tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        query = "SELECT 'a' AS text, TIMESTAMPTZ '2024-05-05 23:30:00+00' AS label, DATE '2024-01-02' AS author"
        duckdb.execute(f"COPY ({query}) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
        assert build(FileCorpus(file="t.parquet", **MARKED)).labels == ("2024-05-05 23:30:00+00",)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != "Asia/Tokyo"


def test_what_is_no_number_is_missing_in_typed_formats(build, tmp_path):
    query = (
        "SELECT 'text ' || i AS text, CASE WHEN i < 2 THEN 'nan'::DOUBLE WHEN i < 4 THEN NULL ELSE i / 2 END AS label, "
        "CASE WHEN i % 2 = 0 THEN 'nan'::FLOAT ELSE 1 END AS author FROM range(8) AS rows(i)"
    )
    duckdb.execute(f"COPY ({query}) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.execute(f"CREATE TABLE t AS {query}")
    objects = [
        (f"text {i}", "NaN" if i < 2 else "null" if i < 4 else str(i / 2), "NaN" if i % 2 == 0 else "1.0")
        for i in range(8)
    ]
    written = [f'{{"text": "{text}", "label": {label}, "author": {author}}}' for text, label, author in objects]
    (tmp_path / "t.jsonl").write_text("\n".join(written))
    (tmp_path / "t.json").write_text(f"[{', '.join(written)}]")
    (tmp_path / "t.csv").write_text(
        "text, label, author\n"
        + "".join(f"{text}, {label}, {author}\n" for text, label, author in objects)
        .replace("NaN", "")
        .replace("null", "")
    )
    for name in ("t.parquet", "t.duckdb", "t.jsonl", "t.json", "t.csv"):
        texts = build(FileCorpus(file=name, **MARKED))
        assert texts.labels == ("2.0", "2.5", "3.0", "3.5") and texts.label_codes.tolist()[:4] == [-1] * 4, name
        assert texts.clusters.tolist() == [0, 1, 2, 1, 4, 1, 6, 1], name


def tsv(*rows):
    return "".join("\t".join(row) + "\n" for row in (("score", "text"), *rows))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (tsv(("1", '"hello'), ("2", "a"), ("3", 'b"'), ("4", "c")), ['"hello', "a", 'b"', "c"]),
        (tsv(("1", '"hello"'), ("2", "a")), ['"hello"', "a"]),  # a writer quotes a column, or what needs it
        (tsv(("1", '"hello"'), ("2", '"a"')), ["hello", "a"]),
        (tsv(("1", '"say ""hi"""'), ("2", "a")), ['say "hi"', "a"]),
        (tsv(("1", '"a, b"'), ("2", "a")), ["a, b", "a"]),  # as spreadsheets write commas
        (tsv(("1", '"a, b"'), ("2", "c, d")), ['"a, b"', "c, d"]),
        (tsv(("1", '"a\tb"'), ("2", "c")), ["a\tb", "c"]),
        (tsv(("1", ""), ("2", '""'), ("3", "c")), ["c"]),
        ('text\na\n""\n', ["a"]),
        ('"text"\n"a\nb"\n', ["a\nb"]),
        ('text\n"begins\nand " within\nends"\n', ['"begins', 'and " within', 'ends"']),
        (tsv(("1", '"a\nb"'), ("2", "c")), ["a\nb", "c"]),
        (tsv(("1", '5" and 6" pipes'), ("2", '"ok" she said')), ['5" and 6" pipes', '"ok" she said']),
    ],
)  # fmt: skip
def test_quotes_of_a_tsv_file_are_what_they_are_in_the_whole_file(of, content, texts):
    assert list(of("t.tsv", content, column="text")) == texts


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_what_a_program_writes_is_read_or_refused(tmp_path, name, quoting):
    rng, marks, refused = random.Random(name), {"label": "label", "cluster": None}, 0
    for _ in range(150):
        columns = ("text", "label")[: rng.randint(1, 2)]
        pieces = ['"', ",", "\n", " ", "a", "é", '""', "word"]
        rows = [["".join(rng.choices(pieces, k=rng.randint(0, 5))) for _ in columns] for _ in range(rng.randint(1, 6))]
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, delimiter="\t" if name == "t.tsv" else ",", quoting=quoting)
            out.writerows([columns, *rows])
        with suppress(ReporterError):
            kind, named = name[2:], {key: key if key in columns else None for key in marks}
            records = [[*record][: len(columns)] for record in read_table(tmp_path / name, kind, "text", named)]
            read = [[(cell or "").strip() for cell in record] for record in records]
            expected = [[cell.strip() for cell in row] for row in rows]
            assert [row for row in read if row[0]] == [row for row in expected if row[0]]
            continue
        refused += 1
    assert refused < (1 if quoting else 75)


def test_rows_that_cannot_be_told_apart_are_refused_by_line(refused_file):
    for name, content, message in (
        ("a.tsv", 'text\n"he said ""hi"""\n"two\nlines"\n', r"a\.tsv:3: quotes may enclose values"),
        ("s.tsv", 'text\n"begins\nends"\n', r"s\.tsv:2: quotes may enclose values"),
        ("t.tsv", 'text\tx\n"a ""b"" c"\t1\n"\t2\n"\t3\n', r"t\.tsv:3: quotes may enclose values"),
        ("b.tsv", 'x\ttext\n1\t"a\n2\tb\tc\n', r"b\.tsv:3: .*"),
        ("c.json", '[{"text": "a"},\n{"text": "b"}', r"c\.json: line 2: the file ends within the list"),
        ("d.json", '[{"text": "a"},\n{"text": }]', r"d\.json: line 2: invalid JSON"),
        ("e.json", '[{"text": "a"} {"text": "b"}]', r"e\.json: line 1: unexpected"),
        ("f.json", '[{"text": "a"}] x', r"f\.json: line 1: unexpected 'x'"),
        ("g.json", b'[{"text": "\xe9"}]', r"g\.json:1: byte 11 \(0xe9\) is not UTF-8"),
        ("h.json", '{"text": {"0": "a", "1": "b"}}', r"h\.json:1: the value of 'text' must be text, got a mapping"),
        ("i.json", "[" * 100_000, r"i\.json: line 1: "),
        ("j.duckdb", b"no database", r"cannot read .*j\.duckdb: "),
        ("k.csv", 'text,label\n"begins,x\nends",x\nq,x\n', r"k\.csv:2: quotes join this line and the next ones"),
        ("l.csv", "text,label\na,x\n\ufefftext, label\nb,x\n", r"l\.csv:3: this row repeats the names"),
        (
            "m.jsonl",
            '{"x": 1, "x": 2, "text": "a"}\n{"text": "a", "text": "b"}',
            r"m\.jsonl:2: .*several values of this",
        ),
        ("n.json", '[{"text": "a", "text ": "b"}]', r"n\.json:1: .*several values of this name"),
        ("o.txt", "hello there".encode("utf-16-le"), r"o\.txt is a binary file with zero bytes, or UTF-16"),
        ("p.json", '[{"text": "a"}]'.encode("utf-16"), r"p\.json is UTF-16"),
        ("q.csv", gzip.compress(b"text\na\n"), r"q\.csv is compressed; add \.gz to its name"),
    ):
        refused_file(message, name, content, column=None if name.endswith("txt") else "text")


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.csv", '"\ufefftext",label\na,x\n', ["a"]),
        ("b.csv", "\ufeff\ufefftext,label\na,x\n", ["a"]),
        ("c.jsonl", '{" \ufefftext ": "a"}\n{"text": NaN}\n{"text": "b"}', ["a", "b"]),
        ("d.csv", 'text,label\n"one, two\nthree",x\n"a, b, c",x\n', ["one, two\nthree", "a, b, c"]),
        ("e.csv", 'text,label\n"one\n\ntwo",x\n', ["one\n\ntwo"]),
        ("f.csv", 'text\n"one\ntwo"\ntext\n', ["one\ntwo", "text"]),
    ],
)  # fmt: skip
def test_what_can_be_read_in_one_way_is_read(of, name, content, texts):
    assert list(of(name, content, column="text")) == texts


def test_a_database_is_read_in_the_order_of_its_rows_with_what_was_written_last(of, refused_file, tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT 'text ' || i AS text, 9 - i AS rowid FROM range(3) AS rows(i)")
    assert list(of("t.duckdb", column="text")) == ["text 0", "text 1", "text 2"]
    log = tmp_path / "t.duckdb.wal"
    for number in (3, 4):  # as the files are while another program has not finished, or after it was killed
        with duckdb.connect(str(tmp_path / "other.duckdb")) as database:
            database.execute(f"ATTACH '{tmp_path}/t.duckdb' AS t; SET checkpoint_threshold = '1TB'")
            database.execute(f"INSERT INTO t.t VALUES ('text {number}', 1)")
            files = [(path, path.read_bytes()) for path in (log, tmp_path / "t.duckdb")]
        for path, content in files:
            path.write_bytes(content)
        assert len(of("t.duckdb", column="text")) == number + 1
    with duckdb.connect(str(tmp_path / "twice.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT 'a' AS text, 'b' AS \"text \"")
    refused_file("has several columns 'text'", "twice.duckdb", column="text")


def test_a_table_of_a_database_is_named_where_there_are_several_and_nothing_in_it_runs(of, refused_file, tmp_path):
    with duckdb.connect(str(tmp_path / "two.duckdb")) as database:
        database.execute("CREATE TABLE a AS SELECT 'one' AS text; CREATE TABLE b AS SELECT 'two' AS text")
    assert list(of("two.duckdb", column="text", table="b")) == ["two"]
    refused_file(r"has 2 tables; name one with `table: NAME`: a, b", "two.duckdb", column="text")
    refused_file(r"has no table 'c'\. Tables: a, b", "two.duckdb", column="text", table="c")
    refused_file(r"`table` needs a \.duckdb file", "t.csv", "text\na\n", column="text", table="c")
    with duckdb.connect(str(tmp_path / "view.duckdb")) as database:
        database.execute("CREATE VIEW v AS SELECT content AS text FROM read_text('/etc/hostname')")
    refused_file(r"has a view 'v', which could run", "view.duckdb", column="text")


def test_a_value_longer_than_a_piece_of_the_file_is_read(of, refused_file, tmp_path, monkeypatch):
    monkeypatch.setattr("reporter.texts.tables._PIECE", 7)
    FORMATS["a.json"](tmp_path / "t.json", rows_of(NASTY[:9]))
    assert list(of("t.json", column="text")) == [text.strip() for text, *_ in NASTY[:9]]
    refused_file(r"u\.json: line 1: invalid JSON", "u.json", '[{"text": "a"}, {"text": "never ends', column="text")
