"""Sentences that declarations print on pages, in the terminal and in the documentation: short, plain, said once."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from report.reading import text_of

from reporter.charts.formulas import IN_DEFINITION, IN_GROWTH, IN_INTERVAL, folded
from reporter.metrics._intervals import METHODS
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Value, catalogue
from reporter.report.free_charts import explained, of_statistic, of_tables, over_training
from reporter.report.templating import folder

LONGEST, AVERAGE = 30, 18
"""Words of a sentence: of any, and of all on average."""
WHOLE = {"plainly": 14, "lead": 14, "trap": 25, "mind": 25, "glossary": 25, "method": 25}
"""Words of a text that pages show whole."""
FIRST = {"definition": IN_DEFINITION, "interval": IN_INTERVAL, "grows": IN_GROWTH}
"""Words that pages show of a text before a click."""
OF_TABLES = ("differences", "differences_of_models", "correlations", "layer_pairs", "layer_pairs_of_base")
PHRASES = re.compile(
    r"\b(told apart|hangs on|worth a word|anew|foretell|nobody|somebody|whoever|likewise|suffic\w+|will do|by itself|"
    r"so many|at one time|to be had|what is its own|is said|is told|stands? (?:on|under|beside|in|for)|lid|besides?|"
    r"floors?|isotropic noise|closing norm|runs? of blocks|turns? the states|of the same make|bring out)\b",
    re.IGNORECASE,
)
"""Phrases that readers of pages did not understand."""


class Text(NamedTuple):
    """A text that a declaration prints."""

    where: str
    kind: str
    text: str


def of(where: str, part: object, *kinds: str) -> Iterator[Text]:
    return (Text(where, kind, text) for kind in kinds if (text := getattr(part, kind)))


def of_charts() -> Iterator[Text]:
    """Yield the texts of every chart that a report can have."""
    kinds = ("title", "lead", "mind", "definition", "published", "grows", "interval")
    for name, metric in (catalogue() | analyses()).items():
        charts = [explained(chart, metric) for chart in metric.charts]
        alone = {statistic for chart in charts if chart.alone for statistic in chart.statistics}
        single = [statistic for statistic in metric.statistics if statistic.name not in alone]
        pages = [of_statistic(name, statistic) for statistic in single if statistic.per != "pair"]
        pages += [over_training(name, statistic) for statistic in single if statistic.main]
        for chart in [*charts, *pages, *of_tables(name, single, OF_TABLES)]:
            yield from of(chart.id, chart, *kinds)
            if chart.chapter is not None:
                yield from of(chart.chapter.name, chart.chapter, "title", "lead")
                yield from of(chart.chapter.page.name, chart.chapter.page, "title", "about")


def printed() -> Iterator[Text]:
    """Yield every text that a declaration prints."""
    yield from of_charts()
    kinds = ("title", "definition", "plainly", "trap", "published", "grows", "interval", "noise")
    for name, metric in (catalogue() | analyses()).items():
        yield from of(name, metric, "title", "summary", "cost")
        for statistic in metric.statistics:
            yield from of(f"{name}.{statistic.name}", statistic, *kinds)
        for option, field in metric.options.model_fields.items():
            yield Text(f"{name}.{option}", "option", field.description or "")
        for row in (Value, *metric.tables):
            yield Text(row.table.name, "table", row.table.comment)
            yield from (
                Text(f"{row.table.name}.{column.name}", "column", column.comment) for column in row.table.columns
            )
    yield from (Text(name, "method", meaning) for name, meaning in METHODS.items())
    terms = re.findall(r"<dt[^>]*>([^{]*?)</dt><dd>(.*?)</dd>", (folder() / "glossary.html").read_text("utf-8"))
    yield from (Text(term, "glossary", text_of(meaning)) for term, meaning in terms)


def sentences_of(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?:])\s+", text) if sentence]


def once(texts: Iterable[Text]) -> list[Text]:
    """Return texts without those that only repeat one of the same kind."""
    return list({(text.kind, text.text): text for text in texts}.values())


ALL = once(printed())


def test_sentences_are_short():
    lengths = {(text.where, text.kind, s): len(s.split()) for text in ALL for s in sentences_of(text.text)}
    assert not {sentence: words for sentence, words in lengths.items() if words > LONGEST}
    of_prose = [words for (_, kind, _), words in lengths.items() if kind in ("definition", "trap", "mind", "published")]
    assert len(of_prose) > 500 and sum(of_prose) / len(of_prose) <= AVERAGE


@pytest.mark.parametrize("kind", [*WHOLE, *FIRST])
def test_what_a_page_shows_at_once_is_short(kind):
    texts = [text for text in ALL if text.kind == kind]
    shown = {text: folded(text.text, FIRST[kind])[0] if kind in FIRST else text.text for text in texts}
    most = WHOLE.get(kind) or FIRST[kind]
    assert texts and not {text.where: first for text, first in shown.items() if len(first.split()) > most}


def test_no_phrase_of_the_house_is_left():
    assert not {text: found[0] for text in ALL if (found := PHRASES.search(text.text))}


def test_no_caution_is_said_twice():
    """Neither on pages nor by ``reporter metrics``."""
    for kind, texts in (("mind", of_charts()), ("trap", printed())):
        times = Counter(text.text for text in texts if text.kind == kind)
        assert len(times) > 70 and not [caution for caution, times in times.items() if times > 1]


def test_texts_are_sentences_and_name_no_file_that_their_reader_has_not():
    """Whoever joins them relies on it: the page writes "Caution:" before one."""
    prose = ("definition", "trap", "mind", "published", "interval", "grows", "plainly", "lead", "summary", "method")
    assert not [text for text in ALL if text.kind in prose and not text.text.endswith((".", "?", "!", ")"))]
    assert not [text for text in ALL if text.kind in ("trap", "mind") and text.text[0].islower()]
    assert not [text for text in ALL if text.kind in prose and ("tests/" in text.text or ".py" in text.text)]
