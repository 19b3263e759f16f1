"""Pages that follow from what the program declares: metrics, analyses, tables, keys of a study, words, Python."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

import reporter
from reporter.analyses.registry import analyses
from reporter.docs.keys import keys_page
from reporter.docs.markdown import code, facts, prose, table
from reporter.docs.metric_page import facts_of, tables_of
from reporter.metrics.base import Definition, Metric
from reporter.metrics.registry import catalogue
from reporter.report.templating import folder as templates
from reporter.runs.studies import offer
from reporter.spec import study_schema
from reporter.store.schema import tables


def reference_pages() -> dict[str, str]:
    """Return the pages, in MyST's Markdown, by path below the sources of the site."""
    measured, looked_at = catalogue(), analyses()
    pages = {
        "metrics/index.md": _list(
            "Metrics",
            "A number's full name is `metric.statistic`. `metrics: all` computes all but the optional ones, in one "
            "forward pass for each model and corpus.",
            measured,
        ),
        "analyses/index.md": _list(
            "Analyses",
            "What a study writes itself (a text, pairs, a word list) or the weights alone are looked at by an "
            "analysis, which has a key of its own in the study. Each item is a cell: cached, resumed, failing alone.",
            looked_at,
        ),
        "tables.md": _tables(),
        "keys.md": keys_page(study_schema(offer())),
        "glossary.md": _glossary(),
        "python-names.md": _python(),
    }
    pages |= {f"metrics/{name}.md": definition_page(metric) for name, metric in measured.items()}
    return pages | {f"analyses/{name}.md": definition_page(analysis) for name, analysis in looked_at.items()}


def definition_page(metric: Definition) -> str:
    """Return the page of a metric or of an analysis: what ``reporter metrics NAME`` prints, to be read and searched.

    Args:
        metric: the metric, or the analysis.
    """
    lines = [f"# {metric.name}\n", f"**{prose(metric.title)}.** {prose(metric.summary)}\n"]
    said = {"Cost": prose(metric.cost or "not stated")}
    if isinstance(metric, Metric):
        said["Reads"] = ", ".join(code(need) for need in metric.needs) or "nothing"
        said["In a study"] = (
            f"`metrics: [{metric.name}]`; `metrics: all` leaves it out" if metric.optional else "part of `metrics: all`"
        )
    else:
        said["In a study"] = f"under {code(metric.name)}, see [its keys](#key-{metric.name})"
    said["Tables"] = ", ".join(f"[{one.name}](#table-{one.name})" for one in tables_of(metric))
    lines += [facts(said)]
    for statistic in metric.statistics:
        name = f"{metric.name}.{statistic.name}"
        lines += [f"({name})=\n## {prose(name)}\n", f"*{prose(statistic.title)}*\n"]
        lines += [facts({label.capitalize(): prose(fact) for label, fact in facts_of(metric, statistic).items()})]
        if statistic.published:
            lines += [facts({"In published code": prose(statistic.published)})]
    if isinstance(metric, Metric) and metric.options.model_fields:
        lines += ["## Options\n", "Written `metrics: [{" + metric.name + ": {option: value}}]`.\n"]
        lines += [
            facts(
                {
                    name: (
                        (
                            "required"
                            if field.is_required()
                            else f"{code(str(field.get_default(call_default_factory=True)))} if left out"
                        )
                        + f"; {prose(field.description or '')}"
                    )
                    for name, field in metric.options.model_fields.items()
                }
            )
        ]
    return "\n".join(lines)


def _list(title: str, lead: str, found: Mapping[str, Definition]) -> str:
    rows = [(f"[{name}]({name}.md)", prose(one.summary), _authors(one)) for name, one in found.items()]
    tree = "\n".join(found)
    return f"# {title}\n\n{lead}\n\n{table(('name', 'asks', 'from'), rows)}\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def _authors(definition: Definition) -> str:
    keys = list(dict.fromkeys(source.key for one in definition.statistics for source in one.sources))
    return prose(", ".join(keys[:4]) + " and others" * (len(keys) > 4))


def _tables() -> str:
    lines = [
        "# Tables\n",
        "All tables of `results.duckdb`, with their columns. Names are public. Bold columns together tell rows apart. "
        "In the database the same stands in comments: `SELECT comment FROM duckdb_columns()`.\n",
    ]
    writers: dict[str, list[str]] = {}
    for definition in (catalogue() | analyses()).values():
        for one in tables_of(definition):
            room = "metrics" if isinstance(definition, Metric) else "analyses"
            writers.setdefault(one.name, []).append(f"[{definition.name}]({room}/{definition.name}.md)")
    for name, one in sorted(tables().items()):
        by = writers.get(name, [])
        lines += [f"(table-{name})=\n## {prose(name)}\n", f"{prose(one.comment)}\n"]
        lines += [f"Written by {', '.join(by)}.\n"] if 0 < len(by) < 8 else []
        rows = [
            (f"**{code(column.name)}**" if column.key else code(column.name), column.type, prose(column.comment))
            for column in one.columns
        ]
        lines += [table(("column", "type", "holds"), rows)]
    return "\n".join(lines)


def _glossary() -> str:
    shown = (templates() / "glossary.html").read_text("utf-8")
    words = {
        html.unescape(word): prose(html.unescape(meaning))
        for word, meaning in re.findall(r"<dt[^>]*>(.*?)</dt><dd>(.*?)</dd>", shown)
    }
    return (
        f"# Glossary\n\nThe words of the reports.\n\n{facts(words)}\n## Words of the code\n\n"
        "```{include} parts/contributing/words.md\n```\n"
    )


def _python() -> str:
    """Return the page of what ``import reporter`` offers, from docstrings; Sphinx reads them."""
    lines = ["# Names in Python\n", "What `import reporter` offers, from its docstrings.\n", "```{eval-rst}"]
    for name in sorted(set(reporter.__all__) - {"geometry", "Field"}, key=str.lower):
        kind = (
            "class"
            if isinstance(getattr(reporter, name), type)
            else "function"
            if callable(getattr(reporter, name))
            else "data"
        )
        lines += [f".. auto{kind}:: reporter.{name}", ""]
    lines += ["```\n", "## reporter.geometry\n", "```{eval-rst}", ".. automodule:: reporter.geometry", "```"]
    return "\n".join(lines) + "\n"
