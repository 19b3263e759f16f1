import csv
import io
import json
import re
import shutil
import subprocess
from decimal import Decimal

import duckdb
import numpy as np
import pytest
from browser.conftest import require
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from reporter.report.templating import folder
from reporter.store.formats import CSV_RULES, Result, csv_field, latex, pieces, write


def ask(sql, form):
    """Write the rows of a statement in chunks, as the process that runs queries does."""
    with duckdb.connect() as connection:
        cursor = connection.execute(sql)
        columns = tuple(column[0] for column in cursor.description)
        return "".join(pieces(columns, iter(lambda: cursor.fetchmany(1000), []), form))


def test_a_table_cuts_long_texts_and_many_rows():
    rows = "('bert', 0, 0.123456789, NULL), ('größer', 12, 1234567.8, true), ('日本', -3, 1e-9, false)"
    sql = f"SELECT * FROM (VALUES {rows}) AS t (model, layer, value, flag)"
    assert ask(sql, "table").splitlines() == [
        "model   layer        value  flag",
        "------  -----  -----------  -----",
        "bert        0     0.123457  NULL",
        "größer     12  1.23457e+06  true",
        "日本       -3        1e-09  false",
        "(3 rows)",
    ]
    lines = ask(f"SELECT range AS i, '{'x' * 80}' AS t FROM range(2500)", "table").splitlines()
    assert lines[2] == "  0  " + "x" * 59 + "…"
    assert len(lines) == 2 + 1000 + 1 and lines[-1].startswith("(1,000 of 2,500 rows;")
    assert ask("SELECT 1 AS i WHERE false", "table").splitlines() == ["i", "-", "(0 rows)"]


def test_a_table_on_a_terminal_wraps_texts_and_names_the_columns_that_have_no_room():
    result = Result(("model name", "within interval", "says"), [("a_long_name", 12, "One fact, 日本 " * 3)], 1)
    for width in (30, 38, 80, 120):
        *lines, count = write(result, "table", width).splitlines()
        assert max(map(cell_len, lines)) <= width and count == "(1 row)"
    assert write(result, "table", 42).splitlines() == [
        "model name          within  says",
        "                  interval",
        "-----------  -------------  --------------",
        "a_long_name             12  One fact, 日本",
        *["                            One fact, 日本"] * 2,
        "(1 row)",
    ]
    assert len(write(result, "table", 120).splitlines()) == 4 and write(result, "table", 120) == write(result, "table")
    narrow = write(result, "table", 20).splitlines()
    assert narrow[-1].startswith("(1 row; no room for says: ") and max(map(cell_len, narrow[:-1])) <= 20


def test_csv_keeps_every_digit_every_text_and_every_row():
    sql = """SELECT 0.1::DOUBLE + 0.2::DOUBLE AS value, 'a,"b"' || chr(13) || chr(10) AS quoted,
             NULL AS nothing, '' AS empty,
             TIMESTAMP '2026-01-02 03:04:05.5' AS moment, 1.50::DECIMAL(5, 2) AS price,
             true AS yes, [1, 2] AS list, {'k': 'é'} AS object"""
    text = ask(sql, "csv")
    head, row = csv.reader(io.StringIO(text, newline=""))
    assert head == ["value", "quoted", "nothing", "empty", "moment", "price", "yes", "list", "object"]
    assert float(row[0]) == 0.1 + 0.2
    assert row[1:] == ['a,"b"\r\n', "", "", "2026-01-02T03:04:05.500000", "1.50", "true", "[1, 2]", '{"k": "é"}']
    assert ',,"",' in text  # NULL and the empty text differ, as DuckDB reads them
    lines = ask("SELECT CASE WHEN range % 2 = 0 THEN range END AS i FROM range(2500)", "csv").split("\n")
    assert len(lines) == 2501 and lines[:3] == ["i", "0", '""'], "no row is an empty line"


def test_json_is_strict_and_typed():
    sql = """SELECT 'nan'::DOUBLE AS nan, 'inf'::DOUBLE AS inf, 0.1::DOUBLE AS x,
             12345678901234567890::HUGEINT AS big, 1.5::DECIMAL(5, 2) AS price, DATE '2026-01-02' AS day,
             TIMESTAMP '2026-01-02 03:04:05' AS moment,
             NULL AS nothing, false AS no, [1.5, 'nan'::DOUBLE] AS list, MAP {'a': 1} AS map,
             1 AS twice, 2 AS twice, '\x1b"é' AS text, INTERVAL 1 DAY AS span, 'ab'::BLOB AS bytes"""
    (row,) = json.loads(ask(sql, "json"), parse_constant=pytest.fail)
    assert row == {
        "nan": None, "inf": None, "x": 0.1, "big": 12345678901234567890, "price": 1.5,
        "day": "2026-01-02", "moment": "2026-01-02T03:04:05", "span": "1 day, 0:00:00",
        "nothing": None, "no": False, "list": [1.5, None], "map": {"a": 1},
        "twice": 1, "twice_1": 2, "text": '\x1b"é', "bytes": "6162",
    }  # fmt: skip
    assert ask("SELECT 1 AS i WHERE false", "json") == "[]"
    assert len(json.loads(ask("FROM range(2500)", "json"))) == 2500


VALUES = st.none() | st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), max_size=4))
def test_a_table_has_one_line_for_each_row_whatever_is_in_it(rows):
    text = write(Result(("a", "b"), rows, len(rows)), "table")
    assert len(text.split("\n")) == len(rows) + 3
    assert all(c.isprintable() or c == "\n" for c in text)


PAPERS = {
    "markdown": r"""
| =head | \[t | value | n | flag |
|---|---|---:|---:|---|
| =1+1 | a\|b | -2.5e-09 | -- | true |
| @x | 50 % of \$\_\{\} | 3 | 1 | false |""",
    "latex": r"""
\begin{tabular}{llrrl}
  \toprule
  =head & {}[t & value & n & flag \\
  \midrule
  =1+1 & a\textbar{}b & $-2.5 \times 10^{-9}$ & -- & true \\
  @x & 50 \% of \$\_\textbraceleft{}\textbraceright{} & 3 & 1 & false \\
  \bottomrule
\end{tabular}""",
}


def test_tables_for_papers_have_every_row_on_one_line():
    sql = """SELECT * FROM (VALUES ('=1+1', 'a|b', -2.5e-9, NULL, true), ('@x', '50 % of $_{}', 3.0, 1, false))
             AS t ("=head", "[t", value, n, flag)"""
    for (form, text), around in zip(PAPERS.items(), (2, 6), strict=True):
        assert ask(sql, form).splitlines() == text.strip().split("\n")
        assert len(ask("SELECT 'a' || chr(10) || '| b \\\\' AS t FROM range(2500)", form).splitlines()) == 2500 + around


FORMULAS = (
    "=1+1",
    "+cmd",
    "-cmd|' /C calc'!A0",
    "@SUM(A1)",
    "＝1+1",
    "＠x",
    "-5, b",
    " =1",
    "\u00a0=1",
    "\tabc",
    "\rx",
)
HARMLESS = ("-0.5", "+3", "-1e-7", "-inf", "a=1", "a;-5", "a;b", "", "'", "\x1b[31mred", "\u00a0y")
FIELDS = [  # a value, and the text that a spreadsheet sees
    *((text, f"'{text}") for text in FORMULAS), *((text, text) for text in HARMLESS),
    ("a;=HYPERLINK(1)", "a;'=HYPERLINK(1)"), ("a\n=1;+b", "a\n'=1;'+b"), ("a\r\n@x", "a\r\n'@x"), ("=1;-2", "'=1;-2"),
    ("\t=1", "'\t'=1"), (["=1"], '["=1"]'), (-0.5, "-0.5"), (3, "3"), (True, "true"), (None, ""),
]  # fmt: skip


def test_a_text_of_a_csv_is_no_formula_and_a_number_stays_one():
    for value, text in FIELDS:
        written = write(Result(("=head",), [(value,)], 1), "csv")
        assert list(csv.reader(io.StringIO(written, newline=""))) == [["'=head"], [text]]
        assert ";" not in text or '"' in written, "a reader that separates by semicolons sees one field"


def test_json_keeps_the_digits_of_a_decimal_number():
    values = (Decimal("12345678901234567890.123456789"), Decimal("1.50"), Decimal("NaN"), 2**63, 'a "b"')
    written = write(Result(("x", "x", "y", "z", "w"), [values], 1), "json")
    (read,) = json.loads(written, parse_float=Decimal)
    assert read == {"x": values[0], "x_1": values[1], "y": None, "z": 2**63, "w": 'a "b"'} and "1.50" in written


def test_pages_write_the_same_csv():
    require(shutil.which("node"), "Debian's nodejs")
    values = [value for value, _ in FIELDS if not isinstance(value, list)]
    script = f"""globalThis.CSV_RULES = {json.dumps(CSV_RULES)};
        const {{ csvOf }} = await import({json.dumps((folder() / "rows.js").as_uri())});
        process.stdout.write(csvOf([{{ rows: {len(values)}, "=head": {json.dumps(values)} }}]));"""
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, check=True)
    result = Result(("=head",), [(value,) for value in values], len(values))
    assert done.stdout.decode() == write(result, "csv") + "\n"


@given(st.text())
def test_latex_has_no_commands_of_a_text(text):
    written = latex(text)
    assert "\n" not in written
    # what is left without our own commands has no letter that LaTeX acts upon
    bare = re.sub(r"\\ifdefined\\Umathchar (.)\\else\\texttt\{U\+[0-9A-F]{4,6}\}\\fi\{\}", r"\1", written)
    bare = re.sub(r"\\((?:text[a-z]+|ldots|allowbreak)\{\}|[{}$&#%_])|\{\\ttfamily\\char34\}|\$[^$]+\$", "", bare)
    assert not set(bare) & set("\\{}$&#%_^")
    assert latex("α-ReQ") == r"$\alpha$-ReQ" and latex("Ρ") == "$P$" and latex("1–2") == "1--2"


def test_a_list_of_a_frame_is_a_list_in_csv():
    assert csv_field(np.array([0, 1, 6])) == csv_field([0, 1, 6]) == '"[0, 1, 6]"'
