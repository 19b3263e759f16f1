"""The explorer of sentences: groups, pairs, clouds and probes."""

from __future__ import annotations

from reporter.report.exhibits import sentence_page
from reporter.report.exhibits.page import ExhibitExplorer, explorer_of, read_page
from reporter.report.explorer import Read
from reporter.report.styles import Styles

ABOUT = "Where in a model do texts that mean the same come together, and is a difference in meaning a direction?"


def read_sentences(read: Read, study: str, styles: Styles) -> ExhibitExplorer | None:
    """Read the explorer of a study's groups, pairs, clouds and probes; None where it has none.

    Args:
        read: runs a query.
        study: id of the study.
        styles: how its models are drawn.
    """
    page = read_page(read, study, sentence_page.exhibits(), styles)
    if page is None:
        return None
    headings = sentence_page.HEADINGS
    return explorer_of(page, styles, name="sentences", title="Sentences", about=ABOUT, headings=headings)
