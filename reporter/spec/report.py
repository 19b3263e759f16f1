"""How a study's report looks, and what of it is shown; nothing here changes what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reporter.spec.part import AsPath, AsTuple, Part, Text, no_repeats


class ReportSpec(Part):
    """Templates, theme and figures of the pages."""

    theme: Literal["system", "light", "dark"] = Field(
        "system", description="The theme that pages open in, until a reader chooses another one."
    )
    style: Annotated[Path, AsPath] | None = Field(
        None, description="A stylesheet of your own, beside the study, that comes after the report's."
    )
    templates: Annotated[Path, AsPath] | None = Field(
        None,
        description="A folder of Jinja templates, beside the study, that stand in for the report's of the same name; "
        'they can build on them: {% extends "reporter/study.html" %}.',
    )
    figures: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="The only figures to show, by full name (anisotropy.mean_cosine), and whole metrics (spectrum), in "
        "this order; all of them if left out.",
    )
    hide: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Parts to leave out: claims, findings, compared, answers, glance, models, sinks, corpora, samples "
        "(texts of the corpora), cells, provenance, glossary, a metric, or a page (journeys, vocabulary, sentences). "
        "The database keeps their numbers.",
    )
