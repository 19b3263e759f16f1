"""The spectrum of the states: the fall of their variance from axis to axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.charts import Chart, corpora, curves
from reporter.core.table import Comparable, UnderView, at_place, column
from reporter.geometry import noise, spectra
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import Error, reciprocal
from reporter.metrics._intervals import RARE_TYPES, Spectrum, per_doubling, spectrum_of
from reporter.metrics.base import N, Options, Share, Size, Statistic, Value, metric, undefined

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place

_LAMBDA = "λ_1 ≥ λ_2 ≥ … are the eigenvalues of the covariance (1/n) of all token states, centred."


def _spectrum(zero: float = spectra.ZERO) -> str:
    return f"{_LAMBDA} The first min(d, n − 1) eigenvalues count, and values up to {zero:.0e} of Σλ are taken as zero."


_PAGE = (
    "For n isotropic states in d dimensions the rank is d·exp(−d/2n) (Page 1993): 5 % low at n = 10 d. Uneven spectra "
    "need more. The share of the first axis needs far fewer tokens."
)
_WITHOUT_FIRST = (
    f"with p = λ_i/(λ_2 + λ_3 + …) over i ≥ 2. The first axis is thereby projected out of the states. {_spectrum()}"
)
_ON_RANK = "Derived from the interval of {rank}, whose logarithm it is."

_rank = partial(Statistic, bounds=(1, None), floor=True, skewed=True)
_entropy = partial(Share, floor=True, sources=("giraldo2015measures", "roy2007effective"))
_slope = partial(Size, floor=True, scale="plain")

STATISTICS = (
    _rank(
        "effective_rank",
        "effective rank",
        f"exp(−Σ p log p), with p = λ/Σλ. {_spectrum()} {_PAGE} Of the three ranks of eigenvalues it is the one in "
        "which faint axes count most.",
        ("roy2007effective", "page1993average"),
        scale="log",
        plainly="Over how many directions the variance is spread.",
        trap="Needs n ≫ d: at n = 10 d it is 5 % low. Ranks of singular values, such as RankMe, are far higher.",
        published="Roy & Vetterli define the effective rank by singular values: effective_rank_singular. RankMe also "
        "keeps the mean: rankme. Code that uses eigenvalues of a covariance under either name computes this number.",
        grows=per_doubling("Rises by 4 to 10 %", "2.0 to 5.3", RARE_TYPES),
    ),
    _rank(
        "effective_rank_without_first",
        "effective rank without the first axis",
        f"exp(−Σ p log p), {_WITHOUT_FIRST} {_PAGE} The share of the first axis, E1, is anisotropy.top_variance_share. "
        "The numbers without sinks show whether a sink causes it.",
        ("roy2007effective",),
        scale="log",
        trap="Read it with effective_rank: one giant axis lowers only effective_rank, a collapse of all axes lowers "
        "both. Compare at equal n.",
        published="Known values for 200,704 tokens in blocks of 512, first tokens included, at the end of training. "
        "Pythia-160m after block 4: 356.1, with the first axis 11.1, E1 0.696. Pythia-410m after block 9: 553.8, with "
        "the first axis 2.4, E1 0.910. Fewer tokens give lower values.",
        grows=per_doubling("Rises by 4 to 10 %", "2.3 to 7.4", RARE_TYPES),
    ),
    _entropy(
        "entropy",
        "spectral entropy",
        "−Σ p log p / log min(d, n − 1), with p = λ/Σλ. This is log effective_rank, scaled to 0…1. "
        f"{_spectrum()} All tokens of the corpus are one cloud. The entropy of the tokens of a text is entropy.prompt; "
        "the entropy of mean vectors of texts ('dataset entropy') is another number.",
        scale="log",
        interval=_ON_RANK.format(rank="effective_rank"),
        trap="A logarithm hides differences: 0.9 of log 576 is half of 576 directions. Depends on n as effective_rank "
        "does.",
        grows=per_doubling("Rises by 1 to 2 %", "2.1 to 5.3", RARE_TYPES),
    ),
    _entropy(
        "entropy_without_first",
        "spectral entropy without the first axis",
        f"−Σ p log p / log(min(d, n − 1) − 1), {_WITHOUT_FIRST}",
        scale="log",
        interval=_ON_RANK.format(rank="effective_rank_without_first"),
        trap="A minimum of spectral entropy that disappears here was due to a single axis.",
        grows=per_doubling("Rises by 1 to 2 %", "2.4 to 7.4", RARE_TYPES),
    ),
    _rank(
        "effective_rank_singular",
        "effective rank of singular values",
        "exp(−Σ p log p), with p = σ/Σσ and σ the singular values of the n × d matrix of all token states, centred: "
        f"the square roots of n·λ. {_spectrum(spectra.ROOTS_ZERO)} It has no interval: the delta method considers "
        "only the axes of the corpus and would cover too rarely.",
        ("roy2007effective",),
        trap="Faint axes weigh more than in effective_rank, so the number is higher, and rounding at the end of the "
        "spectrum matters more.",
        published="Roy & Vetterli take the singular values of the given matrix and leave centring to the user. Here "
        "the matrix is centred; rankme is the same number without centring.",
        grows=per_doubling("Rises by 2 to 4 %", "5.2 to 11.4", RARE_TYPES),
    ),
    _rank(
        "rankme",
        "RankMe",
        "exp(−Σ p log p), with p = σ/Σσ and σ the singular values of the n × d matrix of all token states, not "
        "centred. They are the square roots of n times the eigenvalues of covariance + μμᵀ. The first min(d, n) of "
        f"these eigenvalues count, and eigenvalues up to {spectra.ROOTS_ZERO:.0e} of their sum are taken as zero. It "
        "has no interval, as effective_rank_singular.",
        ("garrido2023rankme",),
        trap="The common mean counts as an axis: a long mean lowers the number whatever the other axes do.",
        published="The paper adds ε = 1e-7 to each p, for 25,600 images in one matrix. Some code under this name "
        "centres first (effective_rank_singular) or uses eigenvalues (effective_rank).",
        grows=per_doubling("Rises by 2 to 4 %", "5.1 to 10.5", RARE_TYPES),
    ),
    _rank(
        "participation_ratio",
        "participation ratio",
        f"(Σλ)² / Σλ². {_spectrum()}",
        ("gao2017theory",),
        scale="log",
        trap="IsoScore is the same number on another scale: (participation ratio − 1)/(d − 1).",
        grows=per_doubling("Rises by 2 to 8 %", "0.4 to 1.7", RARE_TYPES),
    ),
    _rank(
        "stable_rank",
        "stable rank",
        f"Σλ / λ_1. {_spectrum()}",
        ("rudelson2007sampling",),
        scale="logit",
        interval="Derived from the interval of its reciprocal.",
        trap="The reciprocal of anisotropy.top_variance_share: one giant axis, such as a sink's, decides it.",
        grows=per_doubling("Rises by 1 to 2 %", "0.2 to 0.6", RARE_TYPES),
    ),
    _slope(
        "decay",
        "decay of the spectrum",
        "α of λ_i ∝ i^−α: minus the slope of the least-squares line of log λ_i on log i, over i = 1…⌊min(d, n − 1)/2⌋. "
        f"The weights 1/i give each octave of ranks the same weight. {_spectrum(spectra.ROOTS_ZERO)} Not defined for "
        "fewer than three eigenvalues.",
        ("stringer2019high",),
        trap="Meaningless where the curve is not a line in the log-log chart. A finite sample steepens it; compare the "
        "chance level.",
        grows=per_doubling("Falls by 0.1 to 1.2 %", "0.1 to 0.7", RARE_TYPES),
        published="αReQ is the same fit over other ranks: alpha_req.",
    ),
    _slope(
        "alpha_req",
        "αReQ",
        "α of λ_i ∝ i^−α as in decay, fitted with weights 1/i over the ranks i = 12…100, as far as they exist. "
        f"{_spectrum(spectra.ROOTS_ZERO)} Not defined for fewer than three eigenvalues in these ranks. For images, "
        "values near 1 are called good; in language models the number changes during training (Li et al. 2025).",
        ("agrawal2022alpha", "li2025tracing"),
        smallest=0.01,
        trap="Ignores the first eleven axes, so sinks have no effect. Below about 150 dimensions the spectrum ends "
        "within its ranks and is steep.",
        published="The code for language models fits the indices 11…99 counted from 0, which are these ranks, on the "
        "last token of each text. The code for images fits the ranks 4…100. Both centre, as here.",
        grows=per_doubling("Falls by up to 10 %", "0.1 to 5.3", RARE_TYPES),
    ),
)

EFFECTIVE_RANK, PARTICIPATION_RATIO, STABLE_RANK = STATISTICS[0], STATISTICS[6], STATISTICS[7]


class Eigenvalue(UnderView, table="spectra"):
    """One point of an eigenvalue curve: the share of the variance of token states along one axis."""

    # A curve's other ranks lie between those of powers of two.
    compared = (Comparable(("value",), "corpus", of="'axis ' || rank", among="WHERE log2(rank) = floor(log2(rank))"),)

    place: Place = at_place()
    rank: int = column("1 for the largest eigenvalue", key=True)
    value: float = column("the eigenvalue divided by the sum of all eigenvalues")
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
    lead="One line per layer. A straight line is a power law.",
    definition=f"λ_i / Σλ against the rank i. {_LAMBDA} Three ranks per octave are drawn; the table spectra has all.",
    statistics=("*",),
    mind="With fewer tokens than dimensions the last eigenvalues are zero.",
)


@metric(
    title="Spectrum",
    summary="Over how many axes the variance of the states is spread, and how fast it falls from axis to axis.",
    statistics=STATISTICS,
    question="dimension",
    needs=("moments", "gram", "tokens"),
    version=8,
    cost="a width × width product per token and layer (about 1/12 of the forward pass), shared with anisotropy. The "
    "eigenvectors of one width × width matrix and the eigenvalues of another per layer and token set",
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
    ratio, floor = (max(1.0, spectra.participation_ratio_of(values)) for values in (eigenvalues, isotropic))
    error = errors["participation_ratio"]
    ends = PARTICIPATION_RATIO.ends(ratio, error, within=(1.0, float(most)))
    yield Value("participation_ratio", place, ratio, n, *ends, spread=error, floor=floor)
    rank, floor = (max(1.0, spectra.stable_rank_of(values)) for values in (eigenvalues, isotropic))
    ends = reciprocal(STABLE_RANK.ends(1 / rank, errors["top_variance_share"], within=(1 / most, 1.0)))
    yield Value("stable_rank", place, rank, n, *ends, floor=floor)
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
        yield Value(name, place, exponent, n, spread=error, floor=spectra.decay_of(isotropic, fitted))


def _ranks_of_roots(eigenvalues: Floats, seen: Observed, place: Place) -> Iterator[Value]:
    n, width = seen.tokens, seen.width(place)
    isotropic = noise.eigenvalues(n, width, seen.seed)
    # The second moment of n vectors is distributed as the centred one of n + 1: Wishart with n degrees of freedom.
    singular = {
        "effective_rank_singular": (eigenvalues, isotropic),
        "rankme": (_uncentred_eigenvalues(seen)[place], noise.eigenvalues(n + 1, width, seen.seed)),
    }
    for name, (squares, of_noise) in singular.items():
        rank = spectra.rank_of_roots(squares, float(eigenvalues.sum()))
        yield Value(name, place, rank, n, floor=max(1.0, spectra.effective_rank_of(np.sqrt(of_noise))))


def _uncentred_eigenvalues(seen: Observed) -> Mapping[Place, Floats]:
    """Return for each place the eigenvalues of E xxᵀ = covariance + μμᵀ, largest first; n tokens span n directions.

    They are the squared singular values of the matrix of states as they are, over n.
    """
    import torch

    def at(place: Place) -> Floats:
        moment, mean = torch.from_numpy(seen.covariance(place)), torch.from_numpy(seen.moments(place).mean)
        values: Floats = torch.linalg.eigvalsh(moment + mean.outer(mean)).flip(0)[: seen.tokens].numpy()
        return values

    return seen.everywhere(("uncentred", seen.held), at)


def _rank_and_entropy(
    which: str, place: Place, n: int, eigenvalues: Floats, isotropic: Floats, most: int, error: Error | None
) -> Iterator[Value]:
    """Yield exp(H) and H / log m of some eigenvalues, with their floors."""
    if not len(eigenvalues):
        yield from undefined((f"effective_rank{which}", f"entropy{which}"), place, n, "there is no second axis")
        return
    rank, floor = (max(1.0, spectra.effective_rank_of(values)) for values in (eigenvalues, isotropic))
    ends = EFFECTIVE_RANK.ends(rank, error, within=(1.0, float(most)))
    yield Value(f"effective_rank{which}", place, rank, n, *ends, spread=error, floor=floor)
    if most < 2:
        yield Value(f"entropy{which}", place, None, n, reason="the states have only one axis")
        return
    low, high = (None if end is None else spectra.entropy_of(end, most) for end in ends)
    entropy, floor = (spectra.entropy_of(number, most) for number in (rank, floor))
    yield Value(f"entropy{which}", place, entropy, n, low, high, floor=floor)
