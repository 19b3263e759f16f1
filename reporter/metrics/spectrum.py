"""The spectrum of the states: the fall of their variance from axis to axis."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.charts import Chart, corpora, curves
from reporter.core.table import Comparable, UnderView, at_place, column
from reporter.geometry import noise, spectra
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import Error, interval, reciprocal
from reporter.metrics._intervals import (
    RARE_TYPES,
    Spectrum,
    described,
    per_doubling,
    spectrum_of,
    uncentred_eigenvalues,
)
from reporter.metrics.base import N, Options, Share, Size, Statistic, Value, metric, undefined, with_floor

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place

_SPECTRUM = (
    "λ_1 ≥ λ_2 ≥ … the eigenvalues of the covariance (1/n) of all token states, centred; the first min(d, n − 1) "
    f"of them, and those up to {spectra.ZERO:.0e} of Σλ count as zero"
)

_PAGE = (
    "n isotropic states in d dimensions read d·exp(−d/2n) (Page 1993), 5 % low at n = 10 d, and uneven ones come in "
    "later still; the share of the first axis settles far earlier. Compare at equal n, and with the floor."
)
_WITHOUT_FIRST = f"p = λ_i/(λ_2 + λ_3 + …) over i ≥ 2, the states with their first axis projected out, with {_SPECTRUM}"
_ON_RANK = "; made of that of {rank}, whose logarithm it is"

_rank = partial(Statistic, bounds=(1, None), floor=True)
_entropy = partial(Share, floor=True, sources=("giraldo2015measures", "roy2007effective"))
_slope = partial(Size, floor=True, interval=described("plain"))

STATISTICS = (
    _rank(
        "effective_rank",
        "effective rank",
        f"exp(−Σ p log p), p = λ/Σλ, with {_SPECTRUM}",
        ("roy2007effective", "page1993average"),
        interval=described("log"),
        plainly="Over how many directions the variance is spread.",
        trap="The most forgiving of the three ranks of eigenvalues: many faint axes count for much. Eigenvalues are "
        "squared singular values: RankMe and the rank of Roy & Vetterli read far higher on the same states. And it is "
        f"not settled where n is a few times d: {_PAGE}",
        published="Roy & Vetterli define the effective rank by singular values: effective_rank_singular; RankMe keeps "
        "the mean besides: rankme. Code that takes eigenvalues of a covariance under either name computes this one.",
        grows=per_doubling("+4 to +10 %", "2.0 to 5.3", RARE_TYPES),
    ),
    _rank(
        "effective_rank_without_first",
        "effective rank without the first axis",
        f"exp(−Σ p log p), {_WITHOUT_FIRST}",
        ("roy2007effective",),
        interval=described("log"),
        trap="Beside effective_rank it tells a collapse of all axes from one giant axis: the latter alone leaves this "
        "number where it was. The giant's share, E1, is anisotropy.top_variance_share; whether it is a sink's, the "
        f"view 'no-sinks' says. {_PAGE[0].upper()}{_PAGE[1:]}",
        published="Known, of 200,704 tokens in blocks of 512, each block's first token in: Pythia-160m after block 4 "
        "at the end of training 356.1, with the first axis 11.1, E1 0.696; Pythia-410m after block 9 553.8 and 2.4, "
        "E1 0.910. Fewer tokens read lower.",
        grows=per_doubling("+4 to +10 %", "2.3 to 7.4", RARE_TYPES),
    ),
    _entropy(
        "entropy",
        "spectral entropy",
        f"−Σ p log p / log min(d, n − 1), p = λ/Σλ: log effective_rank, stretched to 0…1; {_SPECTRUM}",
        interval=described("log") + _ON_RANK.format(rank="effective_rank"),
        trap="Of all tokens of the corpus as one cloud: the entropy of the tokens of one text is entropy.prompt, that "
        "of mean vectors of texts ('dataset entropy') is neither. A logarithm hides much: 0.9 of log 576 is half of "
        "576 directions. Not settled in n, as effective_rank.",
        grows=per_doubling("+1 to +2 %", "2.1 to 5.3", RARE_TYPES),
    ),
    _entropy(
        "entropy_without_first",
        "spectral entropy without the first axis",
        f"−Σ p log p / log(min(d, n − 1) − 1), {_WITHOUT_FIRST}",
        interval=described("log") + _ON_RANK.format(rank="effective_rank_without_first"),
        trap="As effective_rank_without_first. A valley of the entropy that is gone here was one axis.",
        grows=per_doubling("+1 to +2 %", "2.4 to 7.4", RARE_TYPES),
    ),
    _rank(
        "effective_rank_singular",
        "effective rank of singular values",
        "exp(−Σ p log p), p = σ/Σσ, σ the singular values of the n × d matrix of all token states, centred: the square "
        f"roots of n·λ, with {_SPECTRUM}, here up to {spectra.ROOTS_ZERO:.0e}",
        ("roy2007effective",),
        trap="A square root lifts the faint axes: it reads higher than effective_rank of the same states, and what is "
        "left out or rounded at the end of the spectrum weighs more. It has no interval: the delta method knows "
        "only the axes that are there and covers too rarely.",
        published="Roy & Vetterli take the singular values of the matrix as it is given; whether a mean is taken off "
        "first is left to the user. Here it is; rankme is the same number without that.",
        grows=per_doubling("+2 to +4 %", "5.2 to 11.4", RARE_TYPES),
    ),
    _rank(
        "rankme",
        "RankMe",
        "exp(−Σ p log p), p = σ/Σσ, σ the singular values of the n × d matrix of all token states, not centred: the "
        "square roots of n times the eigenvalues of covariance + μμᵀ; the first min(d, n) of these, and those up to "
        f"{spectra.ROOTS_ZERO:.0e} of the total variance count as zero",
        ("garrido2023rankme",),
        trap="The common mean counts as an axis: a long one lowers the number whatever the other axes do. No interval, "
        "as for effective_rank_singular.",
        published="The paper adds ε = 1e-7 to each p, for 25,600 images in one matrix. Code under this name also "
        "centres first (effective_rank_singular) or takes eigenvalues (effective_rank): see which.",
        grows=per_doubling("+2 to +4 %", "5.1 to 10.5", RARE_TYPES),
    ),
    _rank(
        "participation_ratio",
        "participation ratio",
        f"(Σλ)² / Σλ², with {_SPECTRUM}",
        ("gao2017theory",),
        interval=described("log"),
        trap="IsoScore is this number stretched from 1…d to 0…1: (participation ratio − 1)/(d − 1).",
        grows=per_doubling("+2 to +8 %", "0.4 to 1.7", RARE_TYPES),
    ),
    _rank(
        "stable_rank",
        "stable rank",
        f"Σλ / λ_1, with {_SPECTRUM}",
        ("rudelson2007sampling",),
        interval=described("logit") + "; made of its reciprocal",
        trap="The reciprocal of anisotropy.top_variance_share: one giant axis, such as a sink token's, decides it.",
        grows=per_doubling("+1 to +2 %", "0.2 to 0.6", RARE_TYPES),
    ),
    _slope(
        "decay",
        "decay of the spectrum",
        "α of λ_i ∝ i^−α: minus the slope of the least-squares line of log λ_i on log i over i = 1…⌊min(d, n − 1)/2⌋, "
        f"with weights 1/i, so that each octave of ranks weighs the same; {_SPECTRUM}, here up to "
        f"{spectra.ROOTS_ZERO:.0e}; none for fewer than three eigenvalues",
        ("stringer2019high",),
        trap="An exponent says nothing where the curve is no line in the log-log chart. A finite sample steepens it: "
        "see the floor.",
        grows=per_doubling("−0.1 to −1.2 %", "0.1 to 0.7", RARE_TYPES),
        published="αReQ is the same fit over other ranks: alpha_req.",
    ),
    _slope(
        "alpha_req",
        "αReQ",
        "α of λ_i ∝ i^−α as in decay, fitted over the ranks i = 12…100 alone, as far as there are any, with weights "
        f"1/i; {_SPECTRUM}, here up to {spectra.ROOTS_ZERO:.0e}; none for fewer than three eigenvalues there",
        ("agrawal2022alpha", "li2025tracing"),
        smallest=0.01,
        trap="The first eleven axes, sinks among them, have no part in it. Near 1 is said to be good of pictures; of "
        "language models it moves with training (Li et al. 2025). Models of fewer than about 150 dimensions end "
        "within its ranks, where any spectrum is steep: see the floor.",
        published="The code for language models fits indices 11…99 counted from 0, which are these ranks, of the last "
        "token of each text; that for pictures the ranks 4…100. Both centre, as here.",
        grows=per_doubling("0 to −10 %", "0.1 to 5.3", RARE_TYPES),
    ),
)


class Eigenvalue(UnderView, table="spectra"):
    """One point of an eigenvalue curve: how much of the variance of the token states lies on one axis."""

    # A curve's other ranks lie between those of powers of two.
    compared = (Comparable(("value",), "corpus", of="'axis ' || rank", among="WHERE log2(rank) = floor(log2(rank))"),)

    place: Place = at_place()
    rank: int = column("1 for the largest eigenvalue", key=True)
    value: float = column("the eigenvalue over the sum of all")
    n: int = column(N, "BIGINT")


# Three ranks to an octave: on a logarithmic axis the others would lie between them.
CURVES = Chart(
    "spectrum.curves",
    "eigenvalue curves",
    """
SELECT model, role, checkpoint, step, corpus, view, layer, depth, rank, value, n
FROM spectra
WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block') AND value > 0
QUALIFY rank <= 2 OR floor(3 * log2(rank)) > floor(3 * log2(rank - 1))
  OR rank = max(rank) OVER (PARTITION BY model, checkpoint, corpus, view, site, layer)
ORDER BY corpus, view, role, model, step, checkpoint, layer, rank
""",
    curves.spectra,
    kind="spectra",
    say=curves.of_spectra,
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
    title="Spectrum",
    summary="How many axes carry the variance of the states, and how fast it falls from axis to axis.",
    statistics=STATISTICS,
    question="dimension",
    needs=("moments", "gram", "tokens"),
    version=7,
    cost="a width × width product for each token and layer (about 1/12 of the forward pass), shared with anisotropy; "
    "the eigenvectors of one width × width matrix and the eigenvalues of another for each layer and view",
    against_base=("effective_rank", "effective_rank_without_first", "participation_ratio", "decay", "alpha_req"),
    tables=(Eigenvalue,),
    charts=(CURVES,),
)
def spectrum(seen: Observed, options: Options) -> Iterator[Value | Eigenvalue]:
    """Yield the statistics and their floors at every place, and the curve of eigenvalues."""
    n = seen.tokens
    for place in seen.places:
        state_spectrum = spectrum_of(seen, place)
        if state_spectrum.reason:
            yield from undefined(STATISTICS, place, n, state_spectrum.reason)
            continue
        yield from _numbers(state_spectrum, seen, place)
        eigenvalues, total = state_spectrum.values, state_spectrum.values.sum()
        for rank in spectra.thinned(len(eigenvalues)).tolist():
            yield Eigenvalue(place, rank, float(eigenvalues[rank - 1] / total), n)


def _numbers(spectrum: Spectrum, seen: Observed, place: Place) -> Iterator[Value]:
    n, width, eigenvalues, errors = seen.tokens, seen.width(place), spectrum.values, spectrum.errors
    isotropic = noise.eigenvalues(n, width, seen.seed)
    most = min(width, n - 1)
    ratio, error = max(1.0, spectra.participation_ratio_of(eigenvalues)), errors["participation_ratio"]
    ends = interval(ratio, error, "log", (1.0, float(most)))
    number = Value("participation_ratio", place, ratio, n, *ends, spread=error)
    yield from with_floor(number, max(1.0, spectra.participation_ratio_of(isotropic)))
    rank = max(1.0, spectra.stable_rank_of(eigenvalues))  # the reciprocal of a share
    ends = reciprocal(interval(1 / rank, errors["top_variance_share"], "logit", (1 / most, 1.0)))
    yield from with_floor(Value("stable_rank", place, rank, n, *ends), max(1.0, spectra.stable_rank_of(isotropic)))
    yield from _rank_and_entropy("", place, n, eigenvalues, isotropic, most, errors["effective_rank"])
    rest = eigenvalues[1:], isotropic[1:], most - 1, errors["effective_rank_without_first"]
    yield from _rank_and_entropy("_without_first", place, n, *rest)
    if seen.wants("effective_rank_singular", "rankme"):
        yield from _ranks_of_roots(eigenvalues, seen, place)
    for name, fitted in {
        "decay": spectra.upper_half(eigenvalues, most),
        "alpha_req": spectra.tail(eigenvalues),
    }.items():
        exponent, error = spectra.decay_of(eigenvalues, fitted), errors[name]
        if exponent is None:
            yield Value(name, place, None, n, reason="fewer than three eigenvalues to fit")
            continue
        ends = interval(exponent, error, "plain", (0.0, np.inf))
        yield Value(name, place, exponent, n, *ends, spread=error)
        yield Value(f"{name}_floor", place, spectra.decay_of(isotropic, fitted), n)


def _ranks_of_roots(eigenvalues: Floats, seen: Observed, place: Place) -> Iterator[Value]:
    n, width = seen.tokens, seen.width(place)
    isotropic = noise.eigenvalues(n, width, seen.seed)
    # The second moment of n vectors is distributed as the centred one of n + 1: Wishart with n degrees of freedom.
    singular = {
        "effective_rank_singular": (eigenvalues, isotropic),
        "rankme": (uncentred_eigenvalues(seen)[place], noise.eigenvalues(n + 1, width, seen.seed)),
    }
    for name, (squares, of_noise) in singular.items():
        rank = spectra.rank_of_roots(squares, float(eigenvalues.sum()))
        yield from with_floor(Value(name, place, rank, n), max(1.0, spectra.effective_rank_of(np.sqrt(of_noise))))


def _rank_and_entropy(
    which: str, place: Place, n: int, eigenvalues: Floats, isotropic: Floats, most: int, error: Error | None
) -> Iterator[Value]:
    """Yield exp(H) and H / log m of some eigenvalues, with their floors."""
    if not len(eigenvalues):
        names = (f"effective_rank{which}", f"entropy{which}")
        yield from undefined(names, place, n, "there is no second axis")
        return
    rank, floor = (max(1.0, spectra.effective_rank_of(values)) for values in (eigenvalues, isotropic))
    ends = interval(rank, error, "log", (1.0, float(most)))
    yield from with_floor(Value(f"effective_rank{which}", place, rank, n, *ends, spread=error), floor)
    if most < 2:
        yield Value(f"entropy{which}", place, None, n, reason="one axis is all that there can be")
        return
    low, high = (None if end is None else spectra.entropy_of(end, most) for end in ends)
    yield from with_floor(
        Value(f"entropy{which}", place, spectra.entropy_of(rank, most), n, low, high), spectra.entropy_of(floor, most)
    )
