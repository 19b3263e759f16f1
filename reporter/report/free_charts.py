"""Charts that every metric and analysis gets for free: of its statistics, pairs, differences and correlations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from reporter.charts import models, profile
from reporter.charts.axes import LOG, AxisLimits, which_axis
from reporter.charts.captions import of_statistic as say_statistic
from reporter.charts.captions import of_training
from reporter.charts.chart import Chart
from reporter.charts.layout import ASKED
from reporter.core.places import capital
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
        main=statistic.main,
        within_role=statistic.within_role,
        options={"blocks": True} if statistic.per == "step" else {},
    )


def over_training(metric: str, statistic: Statistic) -> Chart:
    """Return the chart that follows a statistic over the checkpoints of the models that have several."""
    of_model = statistic.per == "model"
    mean = "blocks" if statistic.per == "step" else "layers (embedding included)"
    unit = "block" if statistic.per == "step" else "layer"
    layers = (
        "" if of_model else f" The mean is over {mean}, without values that a definition fixes; or choose one {unit}."
    )
    return Chart(
        f"{metric}.{statistic.name}.training",
        statistic.title,
        profile.training_query(of_model, statistic.within_role),
        partial(profile.training, subject=statistic),
        kind="training",
        say=of_training,
        reach=AxisLimits(statistic.bounds, zero=None not in statistic.bounds, by="layer"),
        facet=ASKED if statistic.within_role else "corpus",
        picks=partial(profile.which_layer, step=statistic.per == "step"),
        definition=f"The number at each checkpoint, for models with several checkpoints.{layers} The axis of steps is "
        "logarithmic, and linear below the first step. Bands: 95 % t-interval of the mean over the models of a role, "
        "from three models on.",
        unit=statistic.unit,
    )


def of_tables(name: str, statistics: Sequence[Statistic], tables: Iterable[str]) -> list[Chart]:
    """Return the charts of a metric that rest on tables which any metric may have rows in."""
    charts = _of_pairs(name, [statistic for statistic in statistics if statistic.per == "pair"])
    charts["differences"] = _differences(name, "differences", "differences over depth", statistics)
    steps = [statistic.name for statistic in statistics if statistic.per == "step"]
    if steps:  # an axis counts layers or blocks
        charts["differences"] = replace(charts["differences"], query=profile.differences_of(steps, False))
        charts["differences_of_blocks"] = replace(
            _differences(name, "differences_of_blocks", "differences over blocks", statistics, per="step"),
            query=profile.differences_of(steps, True),
            say=partial(say_statistic, step=True),
            options={"blocks": True},
        )
    charts["differences_of_models"] = replace(
        _differences(name, "differences_of_models", "differences of the whole model", statistics, models.dots),
        query=profile.DIFFERENCES_OF_MODELS,
        kind="dots",
    )
    charts["correlations"] = Chart(
        f"{name}.correlations",
        f"{name}: correlations over models",
        models.CORRELATIONS,
        partial(models.correlations, titles={statistic.name: statistic.title for statistic in statistics}),
        naming=f"{name}: correlation with {{score}} over models",
        kind="correlations",
        say=models.of_correlations,
        picks=models.which_score,
        legend="methods",
        definition="Pearson's and Spearman's correlation between a feature of this metric and a score of the study, or "
        "the measured loss, over the models of the study. The models are few and not a random sample, and there "
        "are many features: some correlations look strong by chance.",
        sources=_sources(statistics),
        interval="95 % CI over models (Fisher's z).",
    )
    shown = set(tables)
    return [chart for table, chart in charts.items() if table.replace("_of_blocks", "") in shown]


def _of_pairs(name: str, statistics: Sequence[Statistic]) -> dict[str, Chart]:
    """Return the charts of two layers by what they show; none for a metric without such statistics."""
    if not statistics:
        return {}
    interval = " ".join(dict.fromkeys(statistic.interval for statistic in statistics if statistic.interval))
    title = "each layer against the same layer of the base"
    beside_base = replace(
        _differences(name, "beside_base", title, statistics, short="similarity"),
        naming="{statistic}: each layer against the same one of the base",
        query=profile.BESIDE_BASE,
        definition="Layer l of a model against layer l of its base, on the same texts. Similar layers may still "
        f"differ by a rotation of all axes; `change` compares the states themselves. {_definitions_of(statistics)}",
        interval=interval,
    )
    pairs = Chart(
        f"{name}.pairs",
        statistics[0].title if len(statistics) == 1 else "layers against layers",
        models.PAIRS,
        models.pairs,
        naming="{statistic}: layers against layers",
        kind="pairs",
        say=models.of_pairs,
        facet="pair",
        picks=models.which_pairs,
        legend="similarity",
        definition=_definitions_of(statistics),
        sources=_sources(statistics),
        interval=interval,
        mind=next((statistic.trap for statistic in statistics if statistic.trap), ""),
        grows=" ".join(f"`{statistic.name}`: {statistic.grows}" for statistic in statistics if statistic.grows),
    )
    return {"layer_pairs_of_base": beside_base, "layer_pairs": pairs}


def _differences(
    metric: str,
    name: str,
    title: str,
    statistics: Sequence[Statistic],
    draw: Callable[..., Any] = profile.difference,
    short: str = "difference",
    per: Literal["layer", "step"] = "layer",
) -> Chart:
    return Chart(
        f"{metric}.{name}",
        title,
        profile.DIFFERENCES,
        partial(draw, subject=Statistic(name, title, "", (), short=short, per=per)),
        naming="{statistic}: difference{base}",
        kind="differences",
        say=say_statistic,
        reach=AxisLimits(zero=True, by="statistic"),
        facet="comparison",
        picks=profile.which_statistic,
        definition="A statistic on the first side minus the statistic on the second. The sides are two corpora for "
        "one model, or a model and its base on one corpus. At 0 both sides are equal. Each difference is in the unit "
        "of its statistic.",
        sources=_sources(statistics),
        interval="95 % CI over texts, paired where both sides have the same texts.",
    )


def explained(chart: Chart, metric: Definition) -> Chart:
    """Return a chart that a metric or an analysis names, with definition, sources and terms filled in."""
    by_name = {statistic.name: statistic for statistic in metric.statistics}
    names = by_name if chart.statistics == ("*",) else chart.statistics
    statistics = [by_name[name] for name in names if name in by_name]
    sources = tuple(dict.fromkeys((*chart.sources, *_sources(statistics))))
    if not chart.columns:
        return replace(chart, definition=chart.definition or _definitions_of(statistics), sources=sources)
    table = find_table(chart.table)
    comments = {column.name: column.comment for column in table.columns}
    terms = [(f"{metric.name}.{statistic.name}", statistic.definition) for statistic in statistics]
    terms += [(name, comments[name]) for name in chart.columns]
    return replace(chart, definition=chart.definition or table.comment, sources=sources, terms=tuple(terms))


def _definitions_of(statistics: Iterable[Statistic]) -> str:
    """Return the definition of a statistic, or of several with their titles."""
    several = list(statistics)
    if len(several) == 1:
        return several[0].definition
    return " ".join(f"{capital(statistic.title)}: {statistic.definition}" for statistic in several)


def _sources(statistics: Iterable[Statistic]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for statistic in statistics for source in statistic.works))
