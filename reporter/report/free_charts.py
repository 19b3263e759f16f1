"""What every metric and analysis gets for free: charts of its statistics, of pairs, differences and correlations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from reporter.charts.captions import LOG, Reach, of_training, which_axis
from reporter.charts.captions import of_statistic as say_statistic
from reporter.charts.chart import Chart
from reporter.charts.layout import ASKED
from reporter.charts.models import (
    CORRELATIONS,
    DIFFERENCES_OF_MODELS,
    DOTS,
    DOTS_BY_ROLE,
    PAIRS,
    correlations,
    dots,
    of_correlations,
    of_pairs,
    pairs,
    which_pairs,
    which_score,
)
from reporter.charts.profile import (
    BESIDE_BASE,
    DIFFERENCES,
    PROFILE,
    PROFILE_BY_ROLE,
    TRAINING,
    TRAINING_OF_MODELS,
    difference,
    profile,
    training,
    which_layer,
    which_statistic,
)
from reporter.core.sources import Source
from reporter.metrics.base import Definition, Statistic
from reporter.store.schema import find_table


def of_statistic(metric: str, statistic: Statistic) -> Chart:
    """Return the chart of one statistic: dots for a number of the whole model, else a profile over depth."""
    of_model = statistic.per == "model"
    draw = partial(dots if of_model else profile, of=statistic)
    query = DOTS if of_model else PROFILE
    if statistic.within_role:
        query = DOTS_BY_ROLE if of_model else PROFILE_BY_ROLE
    return Chart(
        f"{metric}.{statistic.name}",
        statistic.title,
        query,
        {"": draw, LOG: partial(draw, log=True)},
        kind="dots" if of_model else "profile",
        say=partial(say_statistic, step=statistic.per == "step"),
        reach=Reach(statistic.bounds, noise=statistic.noise),
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
        TRAINING_OF_MODELS if of_model else TRAINING,
        partial(training, of=statistic),
        kind="training",
        say=of_training,
        reach=Reach(statistic.bounds, by="layer"),
        picks=partial(which_layer, step=statistic.per == "step"),
        definition=f"at each checkpoint of the models that have several{layers}. The step axis is logarithmic, and "
        "linear below the first step. A band is the 95 % t-interval of the mean over models (seeds, sizes) of a role, "
        "where there are three or more.",
        unit=statistic.unit,
    )


def of_tables(name: str, statistics: Sequence[Statistic], tables: Iterable[str]) -> list[Chart]:
    """Return the charts of a metric that rest on tables which any metric may have rows in."""
    made = {"layer_pairs_of_base": _beside_base, "layer_pairs": _pairs}
    made |= {"differences": _differences, "differences_of_models": _of_models}
    made["correlations"] = _correlations
    table_names = set(tables)
    if not any(statistic.per == "pair" for statistic in statistics):
        table_names -= {"layer_pairs", "layer_pairs_of_base"}  # an own chart shows them
    return [make(name, statistics) for table, make in made.items() if table in table_names]


def _pairs(name: str, statistics: Sequence[Statistic]) -> Chart:
    pair_statistics = [statistic for statistic in statistics if statistic.per == "pair"]
    return Chart(
        f"{name}.pairs",
        pair_statistics[0].title if len(pair_statistics) == 1 else "layers beside layers",
        PAIRS,
        pairs,
        kind="pairs",
        say=of_pairs,
        facet="pair",
        picks=which_pairs,
        legend="similarity",
        definition=_together(pair_statistics) or "a number for each two layers",
        sources=_sources(pair_statistics),
        interval="; ".join(dict.fromkeys(statistic.interval for statistic in pair_statistics if statistic.interval)),
        mind=" ".join(dict.fromkeys(statistic.trap for statistic in pair_statistics if statistic.trap)),
        grows=" ".join(f"{statistic.title}: {statistic.grows}." for statistic in pair_statistics if statistic.grows),
    )


def _differences(name: str, statistics: Sequence[Statistic]) -> Chart:
    statistic = Statistic("differences", "differences over depth", "", ())
    return Chart(
        f"{name}.differences",
        statistic.title,
        DIFFERENCES,
        partial(difference, of=statistic),
        kind="differences",
        say=say_statistic,
        reach=Reach(zero=True, by="statistic"),
        facet="comparison",
        picks=which_statistic,
        definition="A statistic on the first side minus the same on the second: one model on two corpora, or a model "
        "minus its base on one corpus. At 0 both sides are alike.",
        sources=_sources(statistics),
        interval="as stored with each difference",
        mind="A difference is in the unit of its statistic, so the axes of two statistics cannot be compared.",
    )


def _beside_base(name: str, statistics: Sequence[Statistic]) -> Chart:
    pair_statistics = [statistic for statistic in statistics if statistic.per == "pair"]
    drawn = Statistic("beside_base", "each layer beside the same layer of the base", "", ())
    return replace(
        _differences(name, pair_statistics),
        id=f"{name}.{drawn.name}",
        title=drawn.title,
        query=BESIDE_BASE,
        draw=partial(difference, of=drawn),
        definition=f"Layer l of a model beside layer l of its base, on the same texts. {_together(pair_statistics)}",
        interval="; ".join(dict.fromkeys(statistic.interval for statistic in pair_statistics if statistic.interval)),
        mind="Layers that are alike may still differ by a turn of all axes: `change` compares the states themselves.",
    )


def _of_models(name: str, statistics: Sequence[Statistic]) -> Chart:
    statistic = Statistic("differences_of_models", "differences of the whole model", "", ())
    draw = partial(dots, of=statistic)
    over_depth = _differences(name, statistics)
    return replace(
        over_depth,
        id=f"{name}.{statistic.name}",
        title=statistic.title,
        query=DIFFERENCES_OF_MODELS,
        draw=draw,
        kind="dots",
    )


def _correlations(name: str, statistics: Sequence[Statistic]) -> Chart:
    return Chart(
        f"{name}.correlations",
        "correlations over models",
        CORRELATIONS,
        correlations,
        kind="correlations",
        say=of_correlations,
        picks=which_score,
        legend="methods",
        definition="Pearson's and Spearman's correlation, over the models of the study, of a feature of this metric "
        "with a score that the study gives or with the measured loss.",
        sources=_sources(statistics),
        interval="as stored with each correlation",
        mind="The models are few and not drawn at random; many features are tried, so some will look strong by chance.",
    )


def explained(chart: Chart, metric: Definition) -> Chart:
    """Return a chart that a metric or an analysis names, with definition, sources and terms filled in."""
    by_name = {statistic.name: statistic for statistic in metric.statistics}
    statistics = [
        by_name[name] for name in (by_name if chart.statistics == ("*",) else chart.statistics) if name in by_name
    ]
    sources = tuple(dict.fromkeys((*chart.sources, *_sources(statistics))))
    if not chart.table:
        return replace(chart, definition=chart.definition or _together(statistics), sources=sources)
    table = find_table(chart.table)
    comments = {column.name: column.comment for column in table.columns}
    terms = [(f"{metric.name}.{statistic.name}", statistic.definition) for statistic in statistics]
    terms += [(name, comments[name]) for name in chart.columns]
    return replace(chart, definition=chart.definition or table.comment, sources=sources, terms=tuple(terms))


def _together(statistics: Iterable[Statistic]) -> str:
    return "; ".join(f"{statistic.title}: {statistic.definition}" for statistic in statistics)


def _sources(statistics: Iterable[Statistic]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for statistic in statistics for source in statistic.sources))
