"""What every metric and analysis gets for free: charts of its statistics, of pairs, differences and correlations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from reporter.charts.axes import LOG, which_axis
from reporter.charts.chart import Chart
from reporter.charts.correlations import CORRELATIONS, correlations, of_correlations, which_score
from reporter.charts.dots import DIFFERENCES_OF_MODELS, DOTS, dots
from reporter.charts.layout import ASKED
from reporter.charts.pairs import PAIRS, of_pairs, pairs, which_pairs
from reporter.charts.profile import BESIDE_BASE, DIFFERENCES, PROFILE, difference, profile, which_statistic
from reporter.charts.readings import over_comparisons, over_layers, over_moments
from reporter.charts.training import TRAINING, TRAINING_OF_MODELS, training, which_layer
from reporter.metrics.base import Definition, Statistic
from reporter.store.schema import find_table


def of_statistic(metric: str, statistic: Statistic) -> Chart:
    """Return the chart of one statistic: dots for a number of the whole model, else a profile over depth."""
    of_model = statistic.per == "model"
    draw = partial(dots if of_model else profile, of=statistic)
    query, panel = DOTS if of_model else PROFILE, "corpus"
    if statistic.within_role:
        query, panel = query.by_role(), ASKED
    return Chart(
        f"{metric}.{statistic.name}",
        statistic.title,
        query,
        {"": draw, LOG: partial(draw, log=True)},
        kind="dots" if of_model else "profile",
        say=partial(
            over_moments,
            name=statistic.name,
            bounds=statistic.bounds,
            noise=statistic.noise,
            panel=panel,
            step=statistic.per == "step",
        ),
        facet=panel,
        keys=(*([] if of_model else ["site"]), "view", "moment", "baselines"),
        picks=partial(which_axis, name=statistic.name, bounds=statistic.bounds),
        tall=not of_model,
        lead=statistic.plainly,
        definition=statistic.definition,
        sources=_citations([statistic]),
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
    one = "block" if statistic.per == "step" else "layer"
    layers = "" if of_model else f": the plain mean over {mean} whose value no definition fixes, or one {one}"
    return Chart(
        f"{metric}.{statistic.name}.training",
        statistic.title,
        TRAINING_OF_MODELS if of_model else TRAINING,
        partial(training, of=statistic),
        kind="training",
        say=partial(over_layers, bounds=statistic.bounds),
        keys=("view", "layer", "baselines"),
        picks=partial(which_layer, step=statistic.per == "step"),
        tall=True,
        definition=f"at each checkpoint of the models that have several{layers}. The step axis is logarithmic, and "
        "linear below the first step. A band is the 95 % t-interval of the mean over models (seeds, sizes) of a role, "
        "where there are three or more.",
        unit=statistic.unit,
    )


def of_tables(name: str, statistics: Sequence[Statistic], tables: Iterable[str]) -> list[Chart]:
    """Return the charts of a metric that rest on tables which any metric may have rows in.

    Args:
        name: name of the metric.
        statistics: its statistics, but for those that an own chart of the metric shows alone.
        tables: those of ``layer_pairs``, ``differences`` and ``correlations`` that have rows of it;
            ``differences_of_models`` for rows of ``differences`` that have no layer, ``layer_pairs_of_base`` for
            rows of ``layer_pairs`` of a model and its base.
    """
    made = {"layer_pairs_of_base": _beside_base, "layer_pairs": _pairs}
    made |= {"differences": _differences, "differences_of_models": _of_models}
    made["correlations"] = _correlations
    found = set(tables)
    if not any(statistic.per == "pair" for statistic in statistics):
        found -= {"layer_pairs", "layer_pairs_of_base"}  # an own chart shows them
    return [make(name, statistics) for table, make in made.items() if table in found]


def _pairs(name: str, statistics: Sequence[Statistic]) -> Chart:
    own = [statistic for statistic in statistics if statistic.per == "pair"]
    return Chart(
        f"{name}.pairs",
        own[0].title if len(own) == 1 else "layers beside layers",
        PAIRS,
        pairs,
        kind="pairs",
        say=of_pairs,
        keys=("view", "moment", "corpus", "statistic"),
        facet="pair",
        picks=which_pairs,
        legend="similarity",
        definition=_together(own) or "a number for each two layers",
        sources=_citations(own),
        interval="; ".join(dict.fromkeys(statistic.interval for statistic in own if statistic.interval)),
        mind=" ".join(dict.fromkeys(statistic.trap for statistic in own if statistic.trap)),
    )


def _differences(name: str, statistics: Sequence[Statistic]) -> Chart:
    own = Statistic("differences", "differences over depth", "", ())
    return Chart(
        f"{name}.differences",
        own.title,
        DIFFERENCES,
        partial(difference, of=own),
        kind="differences",
        say=over_comparisons,
        keys=("view", "moment", "statistic", "baselines"),
        facet="comparison",
        picks=which_statistic,
        tall=True,
        definition="A statistic on the first side minus the same on the second: one model on two corpora, or a model "
        "minus its base on one corpus. At 0 both sides are alike.",
        sources=_citations(statistics),
        interval="as stored with each difference",
        mind="A difference is in the unit of its statistic, so the axes of two statistics cannot be compared.",
    )


def _beside_base(name: str, statistics: Sequence[Statistic]) -> Chart:
    own = [statistic for statistic in statistics if statistic.per == "pair"]
    drawn = Statistic("beside_base", "each layer beside the same layer of the base", "", ())
    return replace(
        _differences(name, own),
        id=f"{name}.{drawn.name}",
        title=drawn.title,
        query=BESIDE_BASE,
        draw=partial(difference, of=drawn),
        definition=f"Layer l of a model beside layer l of its base, on the same texts. {_together(own)}",
        interval="; ".join(dict.fromkeys(statistic.interval for statistic in own if statistic.interval)),
        mind="Layers that are alike may still differ by a turn of all axes: `change` compares the states themselves.",
    )


def _of_models(name: str, statistics: Sequence[Statistic]) -> Chart:
    own = Statistic("differences_of_models", "differences of the whole model", "", ())
    draw = partial(dots, of=own)
    over_depth = _differences(name, statistics)
    return replace(
        over_depth,
        id=f"{name}.{own.name}",
        title=own.title,
        query=DIFFERENCES_OF_MODELS,
        draw=draw,
        kind="dots",
        tall=False,
    )


def _correlations(name: str, statistics: Sequence[Statistic]) -> Chart:
    return Chart(
        f"{name}.correlations",
        "correlations over models",
        CORRELATIONS,
        correlations,
        kind="correlations",
        say=of_correlations,
        keys=("view", "score"),
        picks=which_score,
        legend="methods",
        definition="Pearson's and Spearman's correlation, over the models of the study, of a feature of this metric "
        "with a score that the study gives or with the measured loss.",
        sources=_citations(statistics),
        interval="as stored with each correlation",
        mind="The models are few and not drawn at random; many features are tried, so some will look strong by chance.",
    )


def explained(chart: Chart, metric: Definition) -> Chart:
    """Return a chart that a metric or an analysis names, with definition, sources and terms filled in.

    Args:
        chart: as it was declared.
        metric: whose it is.
    """
    known = {statistic.name: statistic for statistic in metric.statistics}
    own = [known[name] for name in (known if chart.statistics == ("*",) else chart.statistics) if name in known]
    sources = tuple(dict.fromkeys((*chart.sources, *_citations(own))))
    if not chart.table:
        return replace(chart, definition=chart.definition or _together(own), sources=sources)
    table = find_table(chart.table)
    comments = {column.name: column.comment for column in table.columns}
    terms = [(f"{metric.name}.{statistic.name}", statistic.definition) for statistic in own]
    terms += [(name, comments[name]) for name in chart.columns]
    return replace(chart, definition=chart.definition or table.comment, sources=sources, terms=tuple(terms))


def _together(statistics: Iterable[Statistic]) -> str:
    return "; ".join(f"{statistic.title}: {statistic.definition}" for statistic in statistics)


def _citations(statistics: Iterable[Statistic]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source.citation for statistic in statistics for source in statistic.sources))
