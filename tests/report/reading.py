"""What tests read of a page. Not a test."""

import csv
import io
import re
from html import unescape


def read(path):
    return path.read_text(encoding="utf-8")


def text_of(html):
    """What a reader sees, with one space between any two words."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def part_of(html, begin, end):
    """What stands from the first ``begin`` to the next ``end``."""
    return html[html.index(begin) :].partition(end)[0]


def values_of(html, tag, attribute):
    return [unescape(value) for value in re.findall(rf'<{tag}\b[^>]*?\s{attribute}="([^"]*)"', html)]


def queries_of(html):
    """The SQL that a page shows beside each file of data."""
    file = r'<div class="data">(?:(?!<pre>|<div class="data">).)*?href="data/([^"]+)\.csv"'
    found = re.findall(rf"{file}.*?<pre><code[^>]*>(.*?)</code>", html, re.DOTALL)
    return {name: unescape(sql) for name, sql in found}


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


PAGES = ("index", "layers", "training", "claims", "tokens", "method")


def read_pages(folder):
    """Return the pages of a study, without those on which a reader chooses a model, in the order of its bar."""
    return "\n".join(read(path) for name in PAGES if (path := folder / f"{name}.html").exists())
