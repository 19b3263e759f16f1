"""Figures that show more than one statistic, or rows of other tables than ``layer_metrics``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from reporter.metrics.base import Definition, Source, Statistic
from reporter.report import kinds
from reporter.report.kinds import Kind

SCALE = re.compile(r"(?P<family>[a-z]\w*?)_(?P<scale>\d+)")
"""A statistic that is measured at several scales has one name for each: ``gride_1``, ``gride_2``, …"""


@dataclass(frozen=True)
class Beside:
    """A figure to be read.

    Args:
        statistic: stands for all that it shows: heading, definition, sources, trap.
        kind: its chart.
    """

    statistic: Statistic
    kind: Kind


def families(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the families of statistics that differ by scale alone, three members or more, each by rising scale."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := SCALE.fullmatch(name):
            found.setdefault(match["family"], []).append((int(match["scale"]), name))
    return {family: [name for _, name in sorted(own)] for family, own in found.items() if len(own) > 2}


def besides(metric: Definition | None, names: Collection[str], tables: Collection[str]) -> list[Beside]:
    """Return the figures that a metric has besides those of its single statistics.

    Args:
        metric: its definitions; None where it is not installed.
        names: its statistics that have numbers in ``layer_metrics``.
        tables: the other tables that have rows of it; ``differences_of_models`` for rows of ``differences`` that
            have no layer.
    """
    known = {statistic.name: statistic for statistic in metric.statistics} if metric else {}
    figures = []
    if {"within_share", "between_share"} <= set(names):
        figures.append(Beside(_shares(known), kinds.SHARES))
    if "token_types" in tables:
        figures.append(Beside(_types(known), kinds.TYPES))
    if "spectra" in tables:
        figures.append(Beside(_curves(known), kinds.SPECTRA))
    figures += [Beside(_scales(family, members, known), kinds.SCALES) for family, members in families(names).items()]
    if "sink_cuts" in tables:
        figures.append(Beside(_cuts(known), kinds.CUTS))
    if "layer_pairs" in tables:
        figures.append(Beside(_pairs(known), kinds.PAIRS))
    if "differences" in tables:
        figures.append(Beside(_differences("differences", "over depth", known), kinds.DIFFERENCES))
    if "differences_of_models" in tables:
        name = "differences_of_models"
        figures.append(Beside(_differences(name, "of the whole model", known), kinds.DIFFERENCES_OF_MODELS))
    if "correlations" in tables:
        figures.append(Beside(_correlations(known), kinds.CORRELATIONS))
    return figures


def _shares(known: dict[str, Statistic]) -> Statistic:
    own = [known[name] for name in ("within_share", "between_share") if name in known]
    return Statistic(
        "shares",
        "variance within and between token types",
        _together(own) or "within_share and between_share of the total variance; together they are 1",
        _sources(own),
        bounds=(0, 1),
    )


def _types(known: dict[str, Statistic]) -> Statistic:
    return Statistic(
        "types",
        "norm of the mean against variance, by token type",
        "A mark is a token type t: to the right ‖μ_t‖, the norm of the mean of its states; upwards V(X_t) = "
        "E‖x − μ_t‖² over its occurrences; its area is how often it occurs. ρ is Spearman's correlation over all "
        "types that were kept.",
        _sources([known["tradeoff"]] if "tradeoff" in known else []),
        trap="Drawn are the 300 most frequent types at five depths of the last checkpoint, whatever the checkpoint "
        "slider says; the table token_types has them all. Axes differ between models.",
    )


def _curves(known: dict[str, Statistic]) -> Statistic:
    return Statistic(
        "curves",
        "eigenvalue curves",
        "λ_i / Σλ against the rank i, λ_1 ≥ λ_2 ≥ … the eigenvalues of the centred covariance of the token states; "
        "a line is a layer. A straight line is a power law.",
        _sources(known.values()),
        trap="With fewer tokens than dimensions the last eigenvalues are zero. Three ranks to an octave are drawn; "
        "the table spectra has them all.",
    )


def _scales(family: str, members: list[str], known: dict[str, Statistic]) -> Statistic:
    own = [known[name] for name in members if name in known]
    first = own[0] if own else None
    scale = first.name.removeprefix(f"{family}_") if first else ""
    return Statistic(
        family,
        "dimension by scale" if family == "gride" else f"{family} by scale",
        f"at scale {scale}: {first.definition}" if first else "not installed here; see the metric's own package",
        _sources(own),
        unit=first.unit if first else "",
        interval=first.interval if first else "",
        published=first.published if first else "",
        trap=(first.trap if first and first.trap else "")
        or "A dimension that falls with the scale tells of noise at small scales, one that rises of curvature or "
        "clusters; compare with the floor.",
    )


def _cuts(known: dict[str, Statistic]) -> Statistic:
    own = known.get("sink_sensitivity")
    return Statistic(
        "cuts",
        "numbers without sinks, cut elsewhere",
        "A line is a cut: the statistic over a text's own tokens without its first one and without those that exceed "
        "the cut at some block. By one coordinate: (x_j − m_j)² against all other coordinates together, of tokens "
        "longer than twice the median norm of their text; by the norm alone: in medians of the text. Where the lines "
        "lie on each other, the cut decides nothing.",
        _sources([own] if own else []),
        trap="Over a sample of tokens, so the numbers differ a little from those of all tokens.",
    )


def _pairs(known: dict[str, Statistic]) -> Statistic:
    own = [statistic for statistic in known.values() if statistic.per == "pair"]
    return Statistic(
        "pairs",
        own[0].title if len(own) == 1 else "layers beside layers",
        _together(own) or "a number for each two layers",
        _sources(own),
        per="pair",
        interval="; ".join(dict.fromkeys(statistic.interval for statistic in own if statistic.interval)),
        trap=" ".join(dict.fromkeys(statistic.trap for statistic in own if statistic.trap)),
    )


def _differences(name: str, where: str, known: dict[str, Statistic]) -> Statistic:
    return Statistic(
        name,
        f"differences {where}",
        "A statistic on the first side minus the same on the second: one model on two corpora, or a model minus its "
        "base on one corpus. At 0 both sides are alike.",
        _sources(known.values()),
        interval="as stored with each difference",
        trap="A difference is in the unit of its statistic, so the axes of two statistics cannot be compared.",
    )


def _correlations(known: dict[str, Statistic]) -> Statistic:
    return Statistic(
        "correlations",
        "correlations over models",
        "Pearson's and Spearman's correlation, over the models of the study, of a feature of this metric with a score "
        "that the study gives or with the measured loss.",
        _sources(known.values()),
        interval="as stored with each correlation",
        trap="The models are few and not drawn at random; many features are tried, so some will look strong by chance.",
    )


def _together(statistics: Iterable[Statistic]) -> str:
    return "; ".join(f"{statistic.title}: {statistic.definition}" for statistic in statistics)


def _sources(statistics: Iterable[Statistic]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for statistic in statistics for source in statistic.sources))
