"""The page of ``reporter metrics NAME``: definitions, options, and the columns where the numbers are found."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from reporter.metrics.base import Definition, Metric, Statistic, Value
from reporter.table import Table

_PER = {
    "layer": "every layer 0..L (0 = what enters the first block)",
    "step": "every step from layer l to l + 1, in the row of layer l",
    "model": "the model as a whole; layer is NULL",
    "pair": "every two layers, of one model or of two (table layer_pairs)",
}

_LEAST = ", up to which claims take a difference for none unless they state 'at_least'"


def metric_page(metric: Definition) -> str:
    """Return everything there is to know about a metric or an analysis, as text.

    Args:
        metric: the metric, or the analysis.
    """
    lines = [f"{metric.name}: {metric.title}", "", *wrapped(metric.summary)]
    for statistic in metric.statistics:
        lines += ["", f"{metric.name}.{statistic.name}: {statistic.title}"]
        for label, fact in facts_of(metric, statistic).items():
            lines += wrapped(f"{label}: {fact}", "    ")
    published = [statistic for statistic in metric.statistics if statistic.published]
    if published:
        lines += ["", "In published code"]
        for statistic in published:
            lines += wrapped(f"{statistic.name}: {statistic.published}", "    ")
    lines += ["", "options"]
    if not isinstance(metric, Metric):
        lines += wrapped(f"what a study writes under '{metric.name}': see `reporter schema`", "    ")
    for option, field in metric.options.model_fields.items():
        default = "required" if field.is_required() else f"default {field.get_default(call_default_factory=True)!r}"
        lines += wrapped(f"{option} ({default}): {field.description or 'no description'}", "    ")
    if isinstance(metric, Metric) and not metric.options.model_fields:
        lines += ["    none"]
    lines += ["", "columns"]
    for table in tables_of(metric):
        lines += wrapped(f"{table.name}: {table.comment}", "    ")
        for column in table.columns:
            lines += wrapped(f"{column.name}: {column.comment}", "      ")
    if isinstance(metric, Metric):
        lines += ["", "needs", *wrapped(", ".join(metric.needs) or "nothing", "    ")]
    lines += ["", "cost", *wrapped(metric.cost or "not stated", "    ")]
    if isinstance(metric, Metric) and metric.optional:
        lines += ["", *wrapped("`metrics: all` leaves it out: list it to have it.")]
    return "\n".join(lines)


def search(word: str, metrics: Iterable[Definition]) -> list[str]:
    """Return a line for each statistic whose name, title or definition has a word, those with it in the name first."""
    wanted, named, described = word.lower(), list[str](), list[str]()
    for metric in metrics:
        for statistic in metric.statistics:
            full_name = f"{metric.name}.{statistic.name}"
            line = f"{full_name}: {statistic.title}"
            if wanted in full_name.lower():
                named.append(line)
            elif wanted in f"{statistic.title} {statistic.plainly} {statistic.definition}".lower():
                described.append(line)
    return named + described


def facts_of(metric: Definition, statistic: Statistic) -> dict[str, str]:
    """Return what there is to say about a number, by what it is: its definition, its range, its interval and so on.

    Args:
        metric: the metric, or the analysis.
        statistic: one of its statistics.
    """
    low, high = statistic.bounds
    floor = (
        f"{metric.name}.{statistic.name}_floor is what it reads where there is nothing to see: on an isotropic "
        "Gaussian of the same n and d, unless it says otherwise"
    )
    facts = {
        "definition": statistic.definition,
        "one for": _PER[statistic.per],
        "unit": statistic.unit or "none",
        "range": f"{'-∞' if low is None else low} to {'∞' if high is None else high}",
        "interval": statistic.interval or "none",
        "floor": floor if statistic.floor else "none",
        "fixed by definition": _fixed(statistic.fixed),
        "smallest effect": (
            f"1 % of the numbers' mean size{_LEAST}"
            if statistic.smallest is None
            else f"{statistic.smallest:g}{_LEAST}"
        ),
        "source": "; ".join(f"{source.key}: {source.citation}" for source in statistic.sources),
        "beware": statistic.trap,
        "size of the corpus": statistic.grows,
    }
    return {label: fact for label, fact in facts.items() if fact}


def _fixed(ends: tuple[tuple[str, float], ...]) -> str:
    """Return which ends of a profile have a certain value by definition, or nothing."""
    told = [f"{value:g} at the {end} layer" for end, value in ends]
    return f"{' and '.join(told)}; claims leave it out where the number stored is that value" if told else ""


def tables_of(metric: Definition) -> tuple[Table, ...]:
    """Return the tables that a metric writes."""
    own = () if all(statistic.per == "pair" for statistic in metric.statistics) else (Value,)
    return tuple(row.table for row in (*own, *metric.tables))


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a text in lines of at most 100 characters, those after the first further to the right."""
    return wrap(
        text,
        100,
        initial_indent=indent,
        subsequent_indent=indent + "  " * bool(indent),
        break_on_hyphens=False,  # a citation is searched for as it stands
        break_long_words=False,
    )
