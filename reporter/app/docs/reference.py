"""Pages that follow from what the program declares: metrics, analyses, tables, keys of a study, words, Python."""

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import reporter
from reporter.core import numbers
from reporter.core.progress import terminal_width
from reporter.core.table import Column, Table
from reporter.judge.claims import SHARE
from reporter.judge.questions.question import markdown_cell
from reporter.metrics._coverage import counted, texts_needed
from reporter.metrics._intervals import METHODS
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Definition, Metric, Statistic, Value, catalogue
from reporter.store.database import Store
from reporter.store.schema import tables
from reporter.store.views import VIEWS, View
from reporter.study import study_schema
from reporter.study.study import study_form

# The page of ``reporter metrics NAME``: definitions, options, and the columns where the numbers are found.


_PER = {
    "layer": "every layer 0..L (0 = input of the first block)",
    "step": "every block; block l + 1 is in the row of layer l",
    "model": "the whole model; layer is NULL",
    "pair": "every pair of layers, of one model or of two (table layer_pairs)",
}


def metric_page(metric: Definition) -> str:
    """Return the page of a metric or an analysis as text."""
    lines = [f"{metric.name}: {metric.title}", "", *wrapped(metric.summary)]
    for statistic in metric.statistics:
        facts = facts_of(metric, statistic).items()
        lines += _section(f"{metric.name}.{statistic.name}: {statistic.title}", [f"{a}: {b}" for a, b in facts])
    if published := [f"{part.name}: {part.published}" for part in metric.statistics if part.published]:
        lines += _section("In published code", published)
    options = []
    if not isinstance(metric, Metric):
        options.append(f"the keys under '{metric.name}' in a study: see `reporter validate --schema`")
    for option, info in metric.options.model_fields.items():
        default = "required" if info.is_required() else f"default {info.get_default(call_default_factory=True)!r}"
        options.append(f"{option} ({default}): {info.description or 'no description'}")
    lines += _section("options", options or ["none"])
    lines += ["", "columns"]
    for table in tables_of(metric):
        lines += wrapped(f"{table.name}: {table.comment}", "    ")
        for column in table.columns:
            lines += wrapped(f"{column.name}: {column.comment}", "      ")
    if isinstance(metric, Metric):
        lines += _section("reads", [", ".join(metric.needs) or "nothing"])
    lines += _section("cost", [metric.cost or "not stated"])
    if methods := methods_of(metric):
        lines += _section("methods", [f"{method}: {METHODS[method]}" for method in methods])
    if isinstance(metric, Metric) and metric.optional:
        lines += ["", *wrapped("`metrics: all` leaves it out. To compute it, list it under `metrics:`.")]
    return "\n".join(lines)


def _section(heading: str, paragraphs: Iterable[str]) -> list[str]:
    return ["", heading, *(line for paragraph in paragraphs for line in wrapped(paragraph, "    "))]


def methods_of(metric: Definition) -> list[str]:
    """Return the methods in ``METHODS`` to which intervals and effects of the corpus size of a metric refer."""
    texts = " ".join(statistic.interval for statistic in metric.statistics).lower()
    named = {"Corpus size": any(statistic.grows for statistic in metric.statistics)}
    named["Scale of an interval"] = any(word in texts for word in ("log scale", "logit scale", "fisher's z"))
    return [method for method in METHODS if named.get(method, method.lower() in texts)]


def search(word: str, metrics: Iterable[Definition]) -> list[str]:
    """Return a line for each statistic whose name, title or definition has a word; matches of names come first."""
    needle, named, described = word.lower(), list[str](), list[str]()
    for metric in metrics:
        for statistic in metric.statistics:
            full_name = f"{metric.name}.{statistic.name}"
            line = f"{full_name}: {statistic.title}"
            if needle in full_name.lower():
                named.append(line)
            elif needle in f"{statistic.title} {statistic.plainly} {statistic.definition}".lower():
                described.append(line)
    return named + described


def facts_of(metric: Definition, statistic: Statistic) -> dict[str, str]:
    """Return the facts of a number by label: definition, range, interval and so on."""
    low, high = statistic.bounds
    share = f"{100 * SHARE:g} % of the profile's mean size"
    smallest = share if statistic.smallest is None else f"{statistic.smallest:g}"
    smallest += f", or {share} if that is more" if statistic.relative else ""
    chance = f"{metric.name}.{statistic.name}_floor"
    if "Chance level" not in statistic.definition:
        chance += ": the value for an isotropic Gaussian of the same n and d"
    facts = {
        "meaning": statistic.plainly,
        "definition": statistic.definition,
        "computed for": _PER[statistic.per],
        "unit": statistic.unit or "none",
        "range": f"{'-∞' if low is None else low} to {'∞' if high is None else high}",
        "interval": _interval(metric.name, statistic),
        "chance level": chance if statistic.floor else "none",
        "fixed by definition": _fixed(statistic.fixed),
        "minimum meaningful difference": f"{smallest}; claims ignore smaller differences unless they state `at_least`",
        "source": "; ".join(f"{source.key}: {source.citation}" for source in statistic.works),
        "caution": statistic.trap,
        "corpus size": statistic.grows,
    }
    return {label: fact for label, fact in facts.items() if fact}


def _interval(metric: str, statistic: Statistic) -> str:
    if not statistic.interval:
        return "none"
    name = f"{metric}.{statistic.name}"
    if not (covered := counted(name)):
        return statistic.interval
    table = ", ".join(f"{share:.2f} with {texts} texts" for texts, share in covered.items())
    needed = f" Shown from {texts} texts on." if (texts := texts_needed(name)) else ""
    return f"{statistic.interval}{needed} Measured coverage: {table}."


def _fixed(ends: tuple[tuple[str, float], ...]) -> str:
    values = [f"{value:g} at the {end} layer" for end, value in ends]
    return f"{' and '.join(values)}; claims leave out numbers with this value" if values else ""


def tables_of(metric: Definition) -> tuple[Table, ...]:
    """Return the tables that a metric writes."""
    rows = () if all(statistic.per == "pair" for statistic in metric.statistics) else (Value,)
    return tuple(row.table for row in (*rows, *metric.tables))


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a text in lines of 100 characters at most, or as the terminal has room; the first begins further left."""
    return wrap(
        text,
        min(120, terminal_width() or 100),
        initial_indent=indent,
        subsequent_indent=indent + "  " * bool(indent),
        break_on_hyphens=False,  # a citation is searched for as it stands
        break_long_words=False,
    )


# The page of ``reporter sql --tables``: what SQL can ask, with the comments in full.


_TABLES = "SELECT table_name AS name, comment, estimated_size AS rows FROM duckdb_tables() WHERE {here}"
_COLUMNS = (
    "SELECT table_name, column_name AS name, data_type AS type, comment FROM duckdb_columns() WHERE {here} "
    "ORDER BY table_name, column_index"
)
_HERE = "database_name = current_database() AND NOT internal"


def described(path: Path) -> dict[str, Table]:
    """Return all tables and views by name: reporter's, and those that plug-ins left in a database.

    The name inside a table also has its number of rows, or what it is a view of.

    Raises:
        ReporterError: the database cannot be read, or is of a newer version.
    """
    stored: dict[str, dict[str, Any]] = {}
    columns: dict[str, tuple[Column, ...]] = {}
    if path.exists():
        store = Store(path)
        stored = {row["name"]: row for row in store.records(_TABLES.format(here=_HERE))}
        for row in store.records(_COLUMNS.format(here=_HERE)):
            column = Column(row["name"], row["type"], row["comment"] or "")
            columns[row["table_name"]] = (*columns.get(row["table_name"], ()), column)
    descriptions = {name: Table(name, row["comment"] or "", columns[name]) for name, row in stored.items()} | tables()
    for name, row in stored.items():
        descriptions[name] = replace(descriptions[name], name=f"{name} ({numbers.counted(row['rows'], 'row')})")
    for name, view in VIEWS.items():
        descriptions[name] = Table(f"{name} (view of {view.table}: begin here)", view.comment, view.columns)
    return dict(sorted(descriptions.items()))


def tables_page(descriptions: Mapping[str, Table]) -> str:
    """Return each table and view with what a row of it is, and the names of its columns."""
    lines = []
    for table in descriptions.values():
        lines += [table.name, *wrapped(table.comment, "    ")]
        lines += [*wrapped(f"columns: {', '.join(column.name for column in table.columns)}", "    "), ""]
    return "\n".join([*lines, "`reporter sql --tables NAME` explains the columns of a table."])


def table_page(table: Table) -> str:
    """Return all that is known of a table or a view: what a row is, and what each column holds."""
    lines = [table.name, "", *wrapped(table.comment)]
    if table.more:
        lines += ["", *table.more.splitlines()]
    lines += ["", "columns (* together they identify a row)"]
    for column in table.columns:
        lines += wrapped(f"{column.name}{' *' if column.key else ''} {column.type}: {column.comment}", "    ")
    return "\n".join(lines)


# How text of declarations is written in Markdown, as pages of the site have it.


_CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
_ROLE = re.compile(r":(?:class|mod|func|meth|attr):`~?([^`]+)`")
_SPECIAL = re.compile(r"([\\*_<>\[\]#~])")


def prose(text: str) -> str:
    """Return text on one line, of which nothing is Markdown but code between backticks."""
    parts = _CODE.split(" ".join(_ROLE.sub(r"`\1`", text).split()))
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def facts(entries: Mapping[str, str]) -> str:
    """Return a list of facts, each under what it is; those that are empty are left out."""
    return "\n".join(f"**{prose(label)}**\n: {fact}\n" for label, fact in entries.items() if fact)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(markdown_cell, line))} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Return text as code in a line."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


# The pages of every key of a study, from its JSON Schema.


Schema = Mapping[str, Any]
REQUIRED = "required"
_WORDS_OF_PAGE = 650
"""A key with more has pages for its parts, so that no page is longer than a few screens."""
_WORDS_OF_PART = 100
"""A shorter part stays on the page of its key."""


def keys_pages(schema: Schema, examples: Mapping[str, str]) -> dict[str, str]:
    """Return the pages, in Markdown: one for all short keys, one for each section, and for the parts of long ones.

    Args:
        schema: of a study.
        examples: for some keys a value as YAML.
    """
    parts, shown = schema["$defs"], {"Options"}
    short, sections, pages = list[str](), list[tuple[str, str]](), dict[str, str]()
    for key, form in schema["properties"].items():
        inside = [name for name in _reached(form, parts) if name not in shown and key != "metrics"]
        shown.update(inside)
        lead = f"{prose(form.get('description', ''))}\n\n"
        example = code(f"{key}: {examples[key]}") if key in examples else ""
        lead += facts({"Value": _holds(form, parts), "Default": _default(key, form, schema), "Example": example})
        if key == "metrics":
            lead += "\nEach metric lists its options on [its own page](metrics/index.md).\n"
        if not inside:
            short.append(f"(key-{key})=\n## {key}\n\n{lead}")
            continue
        texts = {name: _part(parts[name], parts) for name in inside}
        apart = {name for name, text in texts.items() if len(text.split()) > _WORDS_OF_PART}
        if sum(len(text.split()) for text in texts.values()) <= _WORDS_OF_PAGE:
            apart = set()
        here = [f"(part-{name})=\n## {_title_reference(name)}\n\n{texts[name]}" for name in inside if name not in apart]
        tree = ""
        for name in (name for name in inside if name in apart):
            path = f"{key}-{_title_reference(name).lower().replace(' ', '-')}"
            pages[f"keys/{path}.md"] = f"(part-{name})=\n# {key}: {_title_reference(name).lower()}\n\n{texts[name]}"
            tree += f"{path}\n"
        listed = "".join(f"- [{_title_reference(name)}](#part-{name})\n" for name in inside if name in apart)
        tree = f"\n```{{toctree}}\n:hidden:\n\n{tree}```\n" if tree else ""
        pages[f"keys/{key}.md"] = "\n".join([f"(key-{key})=\n# {key}\n\n{lead}", listed, *here]) + tree
        sections.append((f"[{key}](keys/{key}.md)", prose(form.get("description", ""))))
    tree = "\n".join(name.removesuffix(".md") for name in pages if name.removesuffix(".md")[5:] in schema["properties"])
    pages["keys.md"] = (
        "# Keys of a study\n\nOnly `study` and `models` are required. Paths are relative to the study file. "
        "`reporter validate --schema` prints all keys as a JSON Schema, for editors that complete and check YAML.\n\n"
        f"## Sections\n\n{table(('key', 'holds'), sections)}\n{chr(10).join(short)}\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )
    return pages


def _part(part: Schema, parts: Schema) -> str:
    lines = [f"{prose(part['description'])}\n"] if "description" in part else []
    keys = {}
    for key, form in part.get("properties", {}).items():
        default = _default(key, form, part)
        default = default and (default if default == REQUIRED else f"default: {default}")
        tail = "; ".join(words for words in (_holds(form, parts), default) if words)
        keys[code(key)] = f"{prose(form.get('description', ''))} ({tail})"
    return "\n".join([*lines, *(f"{key}\n: {fact}\n" for key, fact in keys.items())])


def _default(key: str, form: Schema, around: Schema) -> str:
    if key in around.get("required", ()):
        return REQUIRED
    default = form.get("default")
    return "" if default in (None, [], {}, "") else code(json.dumps(default, ensure_ascii=False))


def _holds(form: Schema, parts: Schema) -> str:
    """Return in words what may stand there."""
    if "$ref" in form:
        name = form["$ref"].rsplit("/", 1)[1]
        return f"[{_title_reference(name).lower()}](#part-{name})"
    if "anyOf" in form:
        options = [_holds(option, parts) for option in form["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    if "const" in form:
        return code(str(form["const"]))
    if "enum" in form:
        return ", ".join(code(str(option)) for option in form["enum"])
    kind = form.get("type")
    if kind == "array":
        return f"list of: {_holds(form['items'], parts)}" if isinstance(form.get("items"), Mapping) else "list"
    if kind == "object":
        inner = form.get("additionalProperties")
        return f"by name: {_holds(inner, parts)}" if isinstance(inner, Mapping) else "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
    least, most = form.get("minimum"), form.get("maximum")
    bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    return " ".join([words.get(str(kind), "anything"), *([", ".join(bounds)] if bounds else [])])


def _reached(form: Any, parts: Schema) -> Iterator[str]:
    waiting, reached = [form], set()
    while waiting:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(waiting.pop(0))):
            if name not in reached:
                reached.add(name)
                waiting.append(parts[name])
                yield name


def _title_reference(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.strip("_")).removesuffix(" Spec").removesuffix("Spec")
    return words.capitalize()


def reference_pages() -> dict[str, str]:
    """Return the pages, in MyST's Markdown, by path below the sources of the site."""
    from reporter.runs.studies import offer

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
            "An analysis reads items that a study defines (a text, pairs, a word list), or the weights. Each analysis "
            "has a key in the study. Each item is computed, cached and resumed separately.",
            looked_at,
        ),
        **_tables(),
        **keys_pages(study_schema(offer()), study_form(offer()).examples),
        "glossary.md": _glossary(),
        "python-names.md": _python(),
    }
    pages |= {f"metrics/{name}.md": definition_page(metric) for name, metric in measured.items()}
    return pages | {f"analyses/{name}.md": definition_page(analysis) for name, analysis in looked_at.items()}


def definition_page(metric: Definition) -> str:
    """Return the page of a metric or an analysis as Markdown, with the facts that ``reporter metrics NAME`` prints."""
    lines = [f"# {metric.name}\n", f"**{prose(metric.title)}.** {prose(metric.summary)}\n"]
    summary = {"Cost": prose(metric.cost or "not stated")}
    if isinstance(metric, Metric):
        summary["Reads"] = ", ".join(code(need) for need in metric.needs) or "nothing"
        optional = f"`metrics: [{metric.name}]`; `metrics: all` leaves it out"
        summary["In a study"] = optional if metric.optional else "part of `metrics: all`"
    else:
        summary["In a study"] = f"under {code(metric.name)}, see [its keys](#key-{metric.name})"
    summary["Tables"] = ", ".join(f"[{table_.name}](#table-{table_.name})" for table_ in tables_of(metric))
    lines += [facts(summary)]
    for statistic in metric.statistics:
        name = f"{metric.name}.{statistic.name}"
        lines += [f"({name})=\n## {prose(name)}\n", f"*{prose(statistic.title)}*\n"]
        lines += [facts({label.capitalize(): prose(fact) for label, fact in facts_of(metric, statistic).items()})]
        if statistic.published:
            lines += [facts({"In published code": prose(statistic.published)})]
    if isinstance(metric, Metric) and metric.options.model_fields:
        lines += ["## Options\n", "Written `metrics: [{" + metric.name + ": {option: value}}]`.\n"]
        options = {}
        for name, info in metric.options.model_fields.items():
            default = code(str(info.get_default(call_default_factory=True)))
            options[name] = "required" if info.is_required() else f"default {default}"
            options[name] += f"; {prose(info.description or '')}"
        lines += [facts(options)]
    return "\n".join(lines)


def _list(title: str, lead: str, definitions: Mapping[str, Definition]) -> str:
    rows = []
    for name, definition in definitions.items():
        keys = list(dict.fromkeys(source.key for statistic in definition.statistics for source in statistic.works))
        authors = ", ".join(keys[:4]) + " and others" * (len(keys) > 4)
        rows.append((f"[{name}]({name}.md)", prose(definition.summary), prose(authors)))
    tree = "\n".join(definitions)
    return f"# {title}\n\n{lead}\n\n{table(('name', 'asks', 'from'), rows)}\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


_QUERIED = (
    *("layers", "layer_metrics", "layer_pairs", "statistics", "models", "corpora", "cells", "studies"),
    *("comparisons", "claims", "findings", "sinks"),
)
"""What people query; the page of tables shows their columns, the others have pages of their own."""


def _tables() -> dict[str, str]:
    writers: dict[str, list[tuple[str, str]]] = {}
    for definition in (catalogue() | analyses()).values():
        for table_ in tables_of(definition):
            room = "metrics" if isinstance(definition, Metric) else "analyses"
            writers.setdefault(table_.name, []).append((definition.name, f"{room}/{definition.name}.md"))

    def shown(name: str, of: Table | View, level: str, room: str) -> str:
        by = [f"[{writer}]({room}{page})" for writer, page in writers.get(name, ())]
        columns, also = of.columns, ""
        if isinstance(of, View):
            columns, also = of.added, f"\nIt has the columns of [{of.table}](#table-{of.table}), and these:\n"
        rows = [
            (f"**{code(column.name)}**" if column.key else code(column.name), column.type, prose(column.comment))
            for column in columns
        ]
        head = f"(table-{name})=\n{level} {prose(name)}\n\n{prose(of.comment)}\n{also}"
        written = f"Written by {', '.join(by)}.\n\n" if 0 < len(by) < 8 else ""
        return f"{head}\n{written}{table(('column', 'type', 'holds'), rows)}"

    every: dict[str, Table | View] = {**tables(), **VIEWS}
    others = sorted(every.keys() - set(_QUERIED))
    listed = table(
        ("table", "a row is"),
        [(f"[{name}](tables/{name}.md)", prose(re.split(r"[.;:,(]", every[name].comment)[0])) for name in others],
    )
    lines = [
        "# Tables\n",
        "The tables of `results.duckdb` that people query, with their columns; `layers` is the view to "
        "[begin with](sql.md). Names are public. Bold columns together identify a row. The database has these texts "
        "as comments: `reporter sql --tables NAME`.\n",
        *(shown(name, every[name], "##", "") for name in _QUERIED),
        f"## Further tables\n\n{listed}",
        "```{toctree}\n:hidden:\n\n" + "\n".join(f"tables/{name}" for name in others) + "\n```",
    ]
    pages = {f"tables/{name}.md": shown(name, every[name], "#", "../") for name in others}
    return {"tables.md": "\n".join(lines) + "\n", **pages}


def _glossary() -> str:
    from reporter.report.templating import folder  # imports all of the report

    shown = (folder() / "glossary.html").read_text("utf-8")
    entries = re.findall(r"<dt[^>]*>([^{]*?)</dt><dd>(.*?)</dd>", shown)
    words = {html.unescape(word): prose(html.unescape(meaning)) for word, meaning in entries}
    words |= {method: prose(meaning) for method, meaning in METHODS.items()}
    return (
        f"# Glossary\n\nTerms of the reports.\n\n{facts(words)}\n## Words of the code\n\n"
        "```{include} parts/contributing/words.md\n```\n"
    )


def _python() -> str:
    """Return the page of what ``import reporter`` offers, from docstrings; Sphinx reads them."""
    lines = ["# Names in Python\n", "What `import reporter` offers, from its docstrings.\n", "```{eval-rst}"]
    for name in sorted(set(reporter.__all__) - {"geometry", "Field"}, key=str.lower):
        value = getattr(reporter, name)
        kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
        lines += [f".. auto{kind}:: reporter.{name}", ""]
    lines += ["```\n", "## reporter.geometry\n", "```{eval-rst}", ".. automodule:: reporter.geometry", "```"]
    return "\n".join(lines) + "\n"
