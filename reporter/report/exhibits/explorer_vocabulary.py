"""The explorer of static embeddings."""

from __future__ import annotations

from reporter.report.exhibits import static_page, static_queries
from reporter.report.exhibits.page import ExhibitExplorer, explorer_of, read_page
from reporter.report.explorer import Read
from reporter.report.numbers import whole
from reporter.report.styles import Styles
from reporter.store.schema import find_table

ABOUT = "What does a model know of tokens and positions before it has read anything? Its tables of vectors say."


def read_vocabulary(read: Read, study: str, styles: Styles) -> ExhibitExplorer | None:
    """Read the explorer of a study's static embeddings; None where it has none.

    Args:
        read: runs a query.
        study: id of the study.
        styles: how its models are drawn.
    """
    page = read_page(read, study, static_page.exhibits(), styles)
    if page is None:
        return None
    facts = read(static_queries.FACTS.fill(study=study))
    tokens = int(read(static_queries.COUNT.fill(study=study))["n"].iloc[0])
    more = {
        "known": static_page.known(facts, [one.key for one in page.who]),
        "styles": styles.models,
        "rows": whole(tokens),
        "sql": static_queries.VOCABULARY.fill(study=study, model=page.who[0].model),
        "columns": [column for column in find_table("vocabulary").columns if column.field],
    }
    return explorer_of(
        page,
        styles,
        name="vocabulary",
        title="Static embeddings",
        about=ABOUT,
        headings=static_page.HEADINGS,
        more=more,
    )
