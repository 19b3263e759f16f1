import csv
import io
import json
import re

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reporter.store.formats import Result, latex, pieces, write


@pytest.fixture
def ask():
    """Return a function that writes the rows of a statement in chunks, as the process that runs queries does."""

    def run(sql, form):
        with duckdb.connect() as connection:
            cursor = connection.execute(sql)
            columns = tuple(column[0] for column in cursor.description)
            return "".join(pieces(columns, iter(lambda: cursor.fetchmany(1000), []), form))

    return run


def test_table(ask):
    sql = (
        "SELECT * FROM (VALUES ('bert', 0, 0.123456789, NULL), ('größer', 12, 1234567.8, true), "
        "('日本', -3, 1e-9, false)) AS t (model, layer, value, flag)"
    )
    assert ask(sql, "table").splitlines() == [
        "model   layer        value  flag",
        "------  -----  -----------  -----",
        "bert        0     0.123457  NULL",
        "größer     12  1.23457e+06  true",
        "日本       -3        1e-09  false",
        "(3 rows)",
    ]


def test_a_table_cuts_long_texts_and_many_rows(ask):
    lines = ask(f"SELECT range AS i, '{'x' * 80}' AS t FROM range(2500)", "table").splitlines()
    assert lines[2] == "  0  " + "x" * 59 + "…"
    assert len(lines) == 2 + 1000 + 1
    assert lines[-1].startswith("(1,000 of 2,500 rows;")
    assert ask("SELECT 1 AS i WHERE false", "table").splitlines() == ["i", "-", "(0 rows)"]


def test_csv_keeps_every_digit_and_every_text(ask):
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


def test_csv_keeps_all_rows_and_no_row_is_an_empty_line(ask):
    lines = ask("SELECT CASE WHEN range % 2 = 0 THEN range END AS i FROM range(2500)", "csv").split("\r\n")
    assert len(lines) == 2501
    assert lines[:3] == ["i", "0", '""']


def test_json_is_strict_and_typed(ask):
    sql = """SELECT 'nan'::DOUBLE AS nan, 'inf'::DOUBLE AS inf, 0.1::DOUBLE AS x,
             12345678901234567890::HUGEINT AS big, 1.5::DECIMAL(5, 2) AS price, DATE '2026-01-02' AS day,
             TIMESTAMP '2026-01-02 03:04:05' AS moment,
             NULL AS nothing, false AS no, [1.5, 'nan'::DOUBLE] AS list, MAP {'a': 1} AS map,
             1 AS twice, 2 AS twice, '\x1b"é' AS text, INTERVAL 1 DAY AS span, 'ab'::BLOB AS bytes"""

    def refuse(name):
        raise AssertionError(name)

    (row,) = json.loads(ask(sql, "json"), parse_constant=refuse)
    assert row == {
        "nan": None, "inf": None, "x": 0.1, "big": 12345678901234567890, "price": 1.5,
        "day": "2026-01-02", "moment": "2026-01-02T03:04:05", "span": "1 day, 0:00:00",
        "nothing": None, "no": False, "list": [1.5, None], "map": {"a": 1},
        "twice": 1, "twice_1": 2, "text": '\x1b"é', "bytes": "6162",
    }  # fmt: skip
    assert ask("SELECT 1 AS i WHERE false", "json") == "[]"
    assert len(json.loads(ask("FROM range(2500)", "json"))) == 2500


VALUES = st.none() | st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
ROWS = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), max_size=4))


def result_of(rows):
    width = len(rows[0]) if rows else 1
    return Result(tuple("abc"[:width]), rows, len(rows))


@settings(deadline=None)
@given(ROWS)
def test_a_table_has_one_line_for_each_row_whatever_is_in_it(rows):
    text = write(result_of(rows), "table")
    assert len(text.split("\n")) == len(rows) + 3
    assert all(c.isprintable() or c == "\n" for c in text)


TOKENS = """SELECT * FROM (VALUES ('=1+1', 'a|b', -2.5e-9, NULL, true), ('@x', '50 % of $_{}', 3.0, 1, false))
            AS t ("=head", "[t", value, n, flag)"""


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        (
            "markdown",
            r"""| =head | \[t | value | n | flag |
|---|---|---:|---:|---|
| =1+1 | a\|b | -2.5e-09 | -- | true |
| @x | 50 % of \$\_\{\} | 3 | 1 | false |""",
        ),
        (
            "latex",
            r"""\begin{tabular}{llrrl}
  \toprule
  =head & {}[t & value & n & flag \\
  \midrule
  =1+1 & a\textbar{}b & $-2.5 \times 10^{-9}$ & -- & true \\
  @x & 50 \% of \$\_\textbraceleft{}\textbraceright{} & 3 & 1 & false \\
  \bottomrule
\end{tabular}""",
        ),
    ],
)
def test_tables_for_papers(ask, form, lines):
    assert ask(TOKENS, form).splitlines() == lines.split("\n")


def test_a_text_for_papers_has_every_row_on_one_line(ask):
    for form, around in (("markdown", 2), ("latex", 6)):
        assert len(ask("SELECT 'a' || chr(10) || '| b \\\\' AS t FROM range(2500)", form).splitlines()) == 2500 + around


@pytest.mark.parametrize(
    ("text", "written"),
    [(text, f"'{text}") for text in ("=1+1", "+cmd", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1")]
    + [(text, text) for text in ("-0.5", "+3", "-1e-7", "-inf", "a=1", "", "'")],
)
def test_a_text_of_a_csv_is_no_formula_and_a_number_stays_one(text, written):
    ((field,),) = list(csv.reader(io.StringIO(write(Result(("t",), [(text,)], 1), "csv"))))[1:]
    assert field == written


@given(st.text())
def test_latex_has_no_commands_of_a_text(text):
    written = latex(text)
    assert "\n" not in written
    # what is left without our own commands has no letter that LaTeX acts upon
    bare = re.sub(r"\\ifdefined\\Umathchar (.)\\else\\texttt\{U\+[0-9A-F]{4,6}\}\\fi\{\}", r"\1", written)
    bare = re.sub(r"\\((?:text[a-z]+|ldots|allowbreak)\{\}|[{}$&#%_])|\{\\ttfamily\\char34\}|\$[^$]+\$", "", bare)
    assert not set(bare) & set("\\{}$&#%_^")


@pytest.mark.parametrize(
    ("text", "written"), [("α-ReQ", r"$\alpha$-ReQ"), ("λ", r"$\lambda$"), ("Ρ", "$P$"), ("1–2", "1--2")]
)
def test_latex_writes_greek_as_mathematics(text, written):
    assert latex(text) == written
