"""The pages of a study besides its first: static embeddings and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from reporter.report.exhibits import static_page, static_queries
from reporter.report.exhibits.page import Page, read_page
from reporter.report.figures import Read
from reporter.report.numbers import whole
from reporter.report.styles import Styles
from reporter.store.schema import find_table

if TYPE_CHECKING:
    import pandas as pd



@dataclass(frozen=True)
class StaticPage:
    """The page of static embeddings.

    Args:
        page: its exhibits.
        facts: rows of the query ``vocabulary_facts``.
        tokens: how many rows the table ``vocabulary`` has of this study.
    """

    page: Page
    facts: pd.DataFrame
    tokens: int

    def html(self, title: str, styles: Styles, templates: Environment) -> str:
        """Return the page."""
        known = static_page.known(self.facts, [one.key for one in self.page.who])
        sql = static_queries.VOCABULARY.fill(study=self.page.study, model=self.page.who[0].model)
        return templates.get_template("vocabulary.html").render(
            title=title,
            page=self.page,
            styles=styles,
            headings=static_page.HEADINGS,
            known=known,
            rows=whole(self.tokens),
            sql=sql,
            columns=[(column.name, column.comment) for column in find_table("vocabulary").columns[5:]],
            script=self.page.for_script(styles),
        )


def read_static(read: Read, study: str, models: Sequence[Mapping[str, Any]], styles: Styles) -> StaticPage | None:
    """Read the page of static embeddings; None for a study without any."""
    page = read_page(read, study, static_page.exhibits(), models, styles)
    if page is None:
        return None
    facts = read(static_queries.FACTS.fill(study=study))
    tokens = int(read(static_queries.COUNT.fill(study=study))["n"].iloc[0])
    return StaticPage(page.drawn(styles), facts, tokens)
