"""How the variance of the states falls from axis to axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reporter.charts import Chart, Query, corpora, curves
from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import interval, reciprocal
from reporter.geometry.spectra import (
    ROOTS_ZERO,
    ZERO,
    decay_of,
    effective_rank_of,
    participation_ratio_of,
    rank_of_roots,
    stable_rank_of,
    thinned,
)
from reporter.metrics._growth import RARE_TYPES, per_doubling
from reporter.metrics._intervals import described
from reporter.metrics._sources import GAO, GARRIDO, ROY, RUDELSON, STRINGER
from reporter.metrics._spectra import eigenvalues, spectral_errors, uncentred_eigenvalues
from reporter.metrics.base import N, Options, Statistic, Value
from reporter.metrics.registry import metric
from reporter.table import UnderView, at_place, column

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

_SPECTRUM = (
    "λ_1 ≥ λ_2 ≥ … the eigenvalues of the covariance (1/n) of all token states, centred; the first min(d, n − 1) "
    f"of them, and those up to {ZERO:.0e} of Σλ count as zero"
)

STATISTICS = (
    Statistic(
        "effective_rank",
        "effective rank",
        f"exp(−Σ p log p), p = λ/Σλ, with {_SPECTRUM}",
        (ROY,),
        interval=described("log", "0.93 to 0.98"),
        floor=True,
        bounds=(1, None),
        headline=True,
        trap="The most forgiving of the three ranks of eigenvalues: many faint axes count for much. Eigenvalues are "
        "squared singular values: RankMe and the rank of Roy & Vetterli read far higher on the same states.",
        published="Roy & Vetterli define the effective rank by singular values: effective_rank_singular; RankMe keeps "
        "the mean besides: rankme. Code that takes eigenvalues of a covariance under either name computes this one.",
        grows=per_doubling("+4 to +10 %", "2.0 to 5.3", RARE_TYPES),
    ),
    Statistic(
        "effective_rank_singular",
        "effective rank of singular values",
        "exp(−Σ p log p), p = σ/Σσ, σ the singular values of the n × d matrix of all token states, centred: the square "
        f"roots of n·λ, with {_SPECTRUM}, here up to {ROOTS_ZERO:.0e}",
        (ROY,),
        floor=True,
        bounds=(1, None),
        trap="A square root lifts the faint axes: it reads higher than effective_rank of the same states, and what is "
        "left out or rounded at the end of the spectrum weighs more. It has no interval: the delta method, which knows "
        "only the axes that are there, covered 0.75 to 0.93 where measured.",
        published="Roy & Vetterli take the singular values of the matrix as it is given; whether a mean is taken off "
        "first is left to the user. Here it is; rankme is the same number without that.",
        grows=per_doubling("+2 to +4 %", "5.2 to 11.4", RARE_TYPES),
    ),
    Statistic(
        "rankme",
        "RankMe",
        "exp(−Σ p log p), p = σ/Σσ, σ the singular values of the n × d matrix of all token states, not centred: the "
        "square roots of n times the eigenvalues of covariance + μμᵀ; the first min(d, n) of these, and those up to "
        f"{ROOTS_ZERO:.0e} of the total variance count as zero",
        (GARRIDO,),
        floor=True,
        bounds=(1, None),
        trap="The common mean counts as an axis: a long one lowers the number whatever the other axes do. No interval, "
        "as for effective_rank_singular.",
        published="The paper adds ε = 1e-7 to each p, for 25,600 images in one matrix. Code under this name also "
        "centres first (effective_rank_singular) or takes eigenvalues (effective_rank): see which.",
        grows=per_doubling("+2 to +4 %", "5.1 to 10.5", RARE_TYPES),
    ),
    Statistic(
        "participation_ratio",
        "participation ratio",
        f"(Σλ)² / Σλ², with {_SPECTRUM}",
        (GAO,),
        interval=described("log", "0.97 to 0.98"),
        floor=True,
        bounds=(1, None),
        trap="IsoScore is this number stretched from 1…d to 0…1: (participation ratio − 1)/(d − 1).",
        grows=per_doubling("+2 to +8 %", "0.4 to 1.7", RARE_TYPES),
    ),
    Statistic(
        "stable_rank",
        "stable rank",
        f"Σλ / λ_1, with {_SPECTRUM}",
        (RUDELSON,),
        interval=described("logit", "0.93 to 1.00") + "; made of its reciprocal",
        floor=True,
        bounds=(1, None),
        trap="The reciprocal of anisotropy.top_variance_share: one giant axis, such as a sink token's, decides it.",
        grows=per_doubling("+1 to +2 %", "0.2 to 0.6", RARE_TYPES),
    ),
    Statistic(
        "decay",
        "decay of the spectrum",
        "α of λ_i ∝ i^−α: minus the slope of the least-squares line of log λ_i on log i over i = 1…⌊min(d, n − 1)/2⌋, "
        f"zeros left out, with weights 1/i, so that each octave of ranks weighs the same; {_SPECTRUM}; none for fewer "
        "than three eigenvalues",
        (STRINGER,),
        interval=described("plain", "0.95 to 0.98"),
        floor=True,
        bounds=(0, None),
        trap="An exponent says nothing where the curve is no line in the log-log chart. A finite sample steepens it: "
        "see the floor.",
        grows=per_doubling("−0.1 to −1.2 %", "0.1 to 0.7", RARE_TYPES),
    ),
)


class Eigenvalue(UnderView, table="spectra"):
    """One point of an eigenvalue curve: how much of the variance of the token states lies on one axis."""

    place: Place = at_place()
    rank: int = column("1 for the largest eigenvalue", key=True)
    value: float = column("the eigenvalue over the sum of all")
    n: int = column(N, "BIGINT")


# Three ranks to an octave: on a logarithmic axis the others would lie between them.
CURVES = Chart(
    "spectrum.curves",
    "eigenvalue curves",
    Query(
        "spectra",
        """
SELECT model, role, checkpoint, step, corpus, view, layer, depth, rank, value, n
FROM spectra
WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block') AND value > 0
QUALIFY rank <= 2 OR floor(3 * log2(rank)) > floor(3 * log2(rank - 1))
  OR rank = max(rank) OVER (PARTITION BY model, checkpoint, corpus, view, site, layer)
ORDER BY corpus, view, role, model, step, checkpoint, layer, rank
""",
    ),
    curves.spectra,
    kind="spectra",
    say=curves.of_spectra,
    keys=("view", "moment", "corpus"),
    facet="model",
    picks=corpora,
    legend="depth",
    definition="λ_i / Σλ against the rank i, λ_1 ≥ λ_2 ≥ … the eigenvalues of the centred covariance of the token "
    "states; a line is a layer. A straight line is a power law.",
    statistics=("*",),
    mind="With fewer tokens than dimensions the last eigenvalues are zero. Three ranks to an octave are drawn; the "
    "table spectra has them all.",
)


@metric(
    name="spectrum",
    title="Spectrum",
    summary="How many axes carry the variance of the states, and how fast it falls from axis to axis.",
    statistics=STATISTICS,
    needs=("moments", "gram", "tokens"),
    version=3,
    cost="a width × width product for each token and layer (about 1/12 of the forward pass), shared with anisotropy; "
    "the eigenvalues of two width × width matrices for each layer and view, and eigenvectors of one for the intervals",
    tables=(Eigenvalue,),
    charts=(CURVES,),
)
def spectrum(seen: Observed, options: Options) -> Iterator[Value | Eigenvalue]:
    """Yield the statistics and their floors at every place, and the curve of eigenvalues.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: none.
    """
    n = seen.tokens
    for place in seen.places:
        found, reason = eigenvalues(seen, place)
        if reason:
            for statistic in STATISTICS:
                yield Value(statistic.name, place, None, n, reason=reason)
            continue
        yield from _numbers(found, seen, place)
        total = found.sum()
        for rank in thinned(len(found)).tolist():
            yield Eigenvalue(place, rank, float(found[rank - 1] / total), n)


def _numbers(found: Floats, seen: Observed, place: Place) -> Iterator[Value]:
    n, width = seen.tokens, seen.width(place)
    isotropic = noise.eigenvalues(n, width, seen.seed)
    most, errors = min(width, n - 1), spectral_errors(seen, place)
    ranks = {
        "effective_rank": effective_rank_of,
        "participation_ratio": participation_ratio_of,
        "stable_rank": stable_rank_of,
    }
    for name, of in ranks.items():
        rank = max(1.0, of(found))
        if name == "stable_rank":  # the reciprocal of a share
            share = interval(1 / rank, errors["top_variance_share"], "logit", (1 / most, 1.0))
            ends = reciprocal(share)
        else:
            ends = interval(rank, errors[name], "log", (1.0, float(most)))
        yield Value(name, place, rank, n, *ends)
        yield Value(f"{name}_floor", place, max(1.0, of(isotropic)), n)
    # The second moment of n vectors is distributed as the centred one of n + 1: Wishart with n degrees of freedom.
    singular = {
        "effective_rank_singular": (found, isotropic),
        "rankme": (uncentred_eigenvalues(seen, place), noise.eigenvalues(n + 1, width, seen.seed)),
    }
    for name, (squares, of_noise) in singular.items():
        yield Value(name, place, rank_of_roots(squares, float(found.sum())), n)
        yield Value(f"{name}_floor", place, max(1.0, effective_rank_of(np.sqrt(of_noise))), n)
    exponent, floor = decay_of(found, most), decay_of(isotropic, most)
    if exponent is None:
        yield Value("decay", place, None, n, reason="fewer than three eigenvalues to fit")
        return
    yield Value("decay", place, exponent, n, *interval(exponent, errors["decay"], "plain", (0.0, np.inf)))
    yield Value("decay_floor", place, floor, n)
