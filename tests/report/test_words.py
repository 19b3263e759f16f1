"""Sentences that declarations print on pages, in the terminal and in the documentation: short, whole, said once."""

import re
from collections import Counter

from report.reading import text_of

from reporter.charts.formulas import IN_DEFINITION, IN_GROWTH, IN_INTERVAL, folded
from reporter.metrics._intervals import METHODS
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Value, catalogue
from reporter.report.free_charts import explained, of_statistic, of_tables, over_training
from reporter.report.templating import folder

LONGEST, AVERAGE = 30, 18  # words of a sentence: of any, and of all on average
# words of a text that pages show whole, and those that they show of it before a click
MOST = {"plainly": 14, "lead": 14, "trap": 25, "mind": 25, "glossary": 25, "method": 25}
FIRST = {"definition": IN_DEFINITION, "interval": IN_INTERVAL, "grows": IN_GROWTH}
OF_TABLES = ("differences", "differences_of_models", "correlations", "layer_pairs", "layer_pairs_of_base")


def printed():
    """Yield what each declaration prints, as its kind, its place and its words."""
    declared, tables = [], [Value.table]
    for name, metric in (catalogue() | analyses()).items():
        charts = [explained(chart, metric) for chart in metric.charts]
        alone = {statistic for chart in charts if chart.alone for statistic in chart.statistics}
        single = [statistic for statistic in metric.statistics if statistic.name not in alone]
        charts += [of_statistic(name, statistic) for statistic in single if statistic.per != "pair"]
        charts += [over_training(name, statistic) for statistic in single if statistic.main]
        charts += of_tables(name, single, OF_TABLES)
        chapters = [chart.chapter for chart in charts if chart.chapter is not None]
        declared += [(chart.id, "title lead mind definition published grows interval", chart) for chart in charts]
        declared += [(chapter.name, "title lead", chapter) for chapter in chapters]
        declared += [(chapter.page.name, "title about", chapter.page) for chapter in chapters]
        declared += [(name, "title summary cost", metric)]
        kinds = "title definition plainly trap published grows interval noise"
        declared += [(f"{name}.{own.name}", kinds, own) for own in metric.statistics]
        declared += [(f"{name}.{key}", "description", field) for key, field in metric.options.model_fields.items()]
        tables += [row.table for row in metric.tables]
    declared += [(table.name, "comment", part) for table in tables for part in (table, *table.columns)]
    for place, kinds, part in declared:
        yield from ((kind, place, text) for kind in kinds.split() if (text := getattr(part, kind)))
    yield from (("method", name, meaning) for name, meaning in METHODS.items())
    terms = re.findall(r"<dt[^>]*>([^{]*?)</dt><dd>(.*?)</dd>", (folder() / "glossary.html").read_text("utf-8"))
    yield from (("glossary", term, text_of(meaning)) for term, meaning in terms)


ALL = list(printed())


def test_sentences_are_short():
    sentences = {(kind, sentence) for kind, _, text in ALL for sentence in re.split(r"(?<=[.!?:])\s+", text)}
    lengths = {(kind, sentence): len(sentence.split()) for kind, sentence in sentences}
    assert not {sentence: words for sentence, words in lengths.items() if words > LONGEST}
    of_prose = [words for (kind, _), words in lengths.items() if kind in ("definition", "trap", "mind", "published")]
    assert len(of_prose) > 500 and sum(of_prose) / len(of_prose) <= AVERAGE


def test_what_a_page_shows_at_once_is_short():
    for kind, most in (MOST | FIRST).items():
        texts = [text for own, _, text in ALL if own == kind]
        shown = [folded(text, most)[0] if kind in FIRST else text for text in texts]
        assert shown and not [text for text in shown if len(text.split()) > most]


def test_texts_are_sentences_that_name_no_file_and_no_caution_is_said_twice():
    """Whoever joins them relies on it: the page writes "Caution:" before one."""
    prose = ("definition", "trap", "mind", "published", "interval", "grows", "plainly", "lead", "summary", "method")
    texts = {(kind, text) for kind, _, text in ALL if kind in prose}
    assert not [text for _, text in texts if not re.fullmatch(r"((?!tests/|\.py).)*[.?!)]", text)]
    for caution in ("mind", "trap"):
        times = Counter(text for kind, _, text in ALL if kind == caution)
        assert len(times) > 70 and set(times.values()) == {1} and not [text for text in times if text[0].islower()]
