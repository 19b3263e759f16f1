"""Charts that every metric and analysis gets for free: of its statistics, pairs, differences and correlations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from reporter.charts import models, profile
from reporter.charts.captions import LOG, AxisLimits, of_training, which_axis
from reporter.charts.captions import of_statistic as say_statistic
from reporter.charts.chart import Chart
from reporter.charts.layout import ASKED
from reporter.core.sources import Source
from reporter.metrics.base import Definition, Statistic
from reporter.store.schema import find_table


def of_statistic(metric: str, statistic: Statistic) -> Chart:
    """Return the chart of one statistic: dots for a number of the whole model, else a profile over depth."""
    of_model = statistic.per == "model"
    draw = partial(models.dots if of_model else profile.profile, subject=statistic)
    query = models.DOTS if of_model else profile.PROFILE
    if statistic.undetermined:
        query = profile.PROFILE_DETERMINED
    elif statistic.within_role:
        query = models.DOTS_BY_ROLE if of_model else profile.PROFILE_BY_ROLE
    return Chart(
        f"{metric}.{statistic.name}",
        statistic.title,
        query,
        {"": draw, LOG: partial(draw, log=True)},
        kind="dots" if of_model else "profile",
        say=partial(say_statistic, step=statistic.per == "step"),
        reach=AxisLimits(statistic.bounds, noise=statistic.noise),
        facet=ASKED if statistic.within_role else "corpus",
        picks=partial(which_axis, bounds=statistic.bounds),
        lead=statistic.plainly,
        definition=statistic.definition,
        sources=_sources([statistic]),
        mind=statistic.trap,
        published=statistic.published,
        grows=statistic.grows,
        unit=statistic.unit,
        interval=statistic.interval,
        headline=statistic.headline,
        within_role=statistic.within_role,
    )


def over_training(metric: str, statistic: Statistic) -> Chart:
    """Return the chart that follows a statistic over the checkpoints of the models that have several."""
    of_model = statistic.per == "model"
    mean = "blocks" if statistic.per == "step" else "layers (embedding included)"
    unit = "block" if statistic.per == "step" else "layer"
    layers = "" if of_model else f": the plain mean over {mean} whose value no definition fixes, or one {unit}"
    return Chart(
        f"{metric}.{statistic.name}.training",
        statistic.title,
        profile.training_query(of_model, statistic.within_role),
        partial(profile.training, subject=statistic),
        kind="training",
        say=of_training,
        reach=AxisLimits(statistic.bounds, by="layer"),
        facet=ASKED if statistic.within_role else "corpus",
        picks=partial(profile.which_layer, step=statistic.per == "step"),
        definition=f"at each checkpoint of the models that have several{layers}. The step axis is logarithmic, and "
        "linear below the first step. A band is the 95 % t-interval of the mean over models (seeds, sizes) of a role, "
        "where there are three or more.",
        unit=statistic.unit,
    )


def of_tables(name: str, statistics: Sequence[Statistic], tables: Iterable[str]) -> list[Chart]:
    """Return the charts of a metric that rest on tables which any metric may have rows in."""
    charts = _of_pairs(name, [statistic for statistic in statistics if statistic.per == "pair"])
    charts["differences"] = _differences(name, "differences", "differences over depth", statistics)
    charts["differences_of_models"] = replace(
        _differences(name, "differences_of_models", "differences of the whole model", statistics, models.dots),
        query=profile.DIFFERENCES_OF_MODELS,
        kind="dots",
    )
    charts["correlations"] = Chart(
        f"{name}.correlations",
        "correlations over models",
        models.CORRELATIONS,
        models.correlations,
        kind="correlations",
        say=models.of_correlations,
        picks=models.which_score,
        legend="methods",
        definition="Pearson's and Spearman's correlation, over the models of the study, of a feature of this metric "
        "with a score that the study gives or with the measured loss.",
        sources=_sources(statistics),
        interval="as stored with each correlation",
        mind="The models are few and not drawn at random; many features are tried, so some will look strong by chance.",
    )
    return [chart for table, chart in charts.items() if table in set(tables)]


def _of_pairs(name: str, statistics: Sequence[Statistic]) -> dict[str, Chart]:
    """Return the charts of two layers by what they show; none for a metric without such statistics."""
    if not statistics:
        return {}
    interval = "; ".join(dict.fromkeys(statistic.interval for statistic in statistics if statistic.interval))
    title = "each layer beside the same layer of the base"
    beside_base = replace(
        _differences(name, "beside_base", title, statistics),
        query=profile.BESIDE_BASE,
        definition=f"Layer l of a model beside layer l of its base, on the same texts. {_definitions_of(statistics)}",
        interval=interval,
        mind="Layers that are alike may still differ by a turn of all axes: `change` compares the states themselves.",
    )
    pairs = Chart(
        f"{name}.pairs",
        statistics[0].title if len(statistics) == 1 else "layers beside layers",
        models.PAIRS,
        models.pairs,
        kind="pairs",
        say=models.of_pairs,
        facet="pair",
        picks=models.which_pairs,
        legend="similarity",
        definition=_definitions_of(statistics),
        sources=_sources(statistics),
        interval=interval,
        mind=" ".join(dict.fromkeys(statistic.trap for statistic in statistics if statistic.trap)),
        grows=" ".join(f"{statistic.title}: {statistic.grows}." for statistic in statistics if statistic.grows),
    )
    return {"layer_pairs_of_base": beside_base, "layer_pairs": pairs}


def _differences(
    metric: str, name: str, title: str, statistics: Sequence[Statistic], draw: Callable[..., Any] = profile.difference
) -> Chart:
    return Chart(
        f"{metric}.{name}",
        title,
        profile.DIFFERENCES,
        partial(draw, subject=Statistic(name, title, "", ())),
        kind="differences",
        say=say_statistic,
        reach=AxisLimits(zero=True, by="statistic"),
        facet="comparison",
        picks=profile.which_statistic,
        definition="A statistic on the first side minus the same on the second: one model on two corpora, or a model "
        "minus its base on one corpus. At 0 both sides are alike.",
        sources=_sources(statistics),
        interval="as stored with each difference",
        mind="A difference is in the unit of its statistic, so the axes of two statistics cannot be compared.",
    )


def explained(chart: Chart, metric: Definition) -> Chart:
    """Return a chart that a metric or an analysis names, with definition, sources and terms filled in."""
    by_name = {statistic.name: statistic for statistic in metric.statistics}
    statistics = [
        by_name[name] for name in (by_name if chart.statistics == ("*",) else chart.statistics) if name in by_name
    ]
    sources = tuple(dict.fromkeys((*chart.sources, *_sources(statistics))))
    if not chart.columns:
        return replace(chart, definition=chart.definition or _definitions_of(statistics), sources=sources)
    table = find_table(chart.table)
    comments = {column.name: column.comment for column in table.columns}
    terms = [(f"{metric.name}.{statistic.name}", statistic.definition) for statistic in statistics]
    terms += [(name, comments[name]) for name in chart.columns]
    return replace(chart, definition=chart.definition or table.comment, sources=sources, terms=tuple(terms))


def _definitions_of(statistics: Iterable[Statistic]) -> str:
    return "; ".join(f"{statistic.title}: {statistic.definition}" for statistic in statistics)


def _sources(statistics: Iterable[Statistic]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for statistic in statistics for source in statistic.works))
