"""Intrinsic dimension, in how many directions states vary locally: TwoNN (Facco et al. 2017) and GRIDE over scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from reporter.charts import AxisLimits, Chart, corpora, curves
from reporter.core.threads import spread
from reporter.geometry import noise, spectra
from reporter.geometry.arrays import Floats, Ints
from reporter.metrics._intervals import DENSER, per_doubling
from reporter.metrics.base import SampleOptions, Share, Size, Statistic, Value, metric, undefined, valued

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import TokenSelection
    from reporter.geometry.ratios import RatioBatch


_LINE = (
    "Slope through the origin of −log(1 − F_i) on log μ_i, with F_i = i/N and μ_i = r2/r1. r1 and r2 are the distances "
    "of state i to its first and second nearest neighbour."
)
_DUPLICATES = (
    "Duplicates are states of which the model saw the same: the same prefix of token ids (decoder), or the same text "
    "and position (encoder). At layer 0: the same token id, and the same position where position vectors are added."
)
_DISTINCT = (
    "`sample` times `batches` tokens are drawn uniformly from the token set. Of duplicates the first is kept. "
    f"{_DUPLICATES} States are in float64 and centred. The number is the mean over batches."
)

# One batch in place of four: how much wider the interval is, and the most that the number moved within half of it.
# A doubling of the texts: the change of the number, and the same in standard deviations.
_MEASURED = {
    "twonn": ("1.7", "1.0", "−4 to +5 %", "0.3 to 0.6"),
    "gride_1": ("1.9", "0.8", "−4 to +2 %", "0.2 to 0.9"),
    "gride_2": ("1.7", "1.0", "−10 to +5 %", "0.3 to 1.8"),
    "gride_4": ("1.8", "0.8", "−4 to +17 %", "0.4 to 3.7"),
    "gride_8": ("1.5", "1.0", "−4 to +21 %", "0.2 to 3.0"),
    "gride_16": ("1.4", "0.5", "−16 to +17 %", "0.8 to 3.3"),
    "gride_32": ("1.5", "0.6", "−16 to +13 %", "1.1 to 2.1"),
    "gride_64": ("1.2", "0.5", "−30 to +15 %", "0.4 to 8.2"),
}


def _estimate(name: str, title: str, definition: str, sources: tuple[str, ...], **more: Any) -> Statistic:
    wider, most, change, deviations = _MEASURED[name]
    note = ", at the scale with the same distance" if name in ("gride_16", "gride_32", "gride_64") else ""
    interval = (
        f"There are 31 of them, and in each neighbours are searched again{note}. One batch (the "
        f"default) instead of four moved the number by up to {most} of half the interval. It made the interval {wider} "
        "times as wide (six blocks of an encoder, 400 paragraphs)."
    )
    grows = per_doubling(f"Changes by {change}", deviations, DENSER)
    return Size(
        name, title, definition, sources, floor=True, method="half-samples", interval=interval, grows=grows, **more
    )


_PLATEAU = (
    "Noise dominates small scales, curvature and clusters large ones: look for a plateau. Compare models at equal n, "
    "not with the width."
)
_DADAPY = (
    "DADApy solves for d with N − 1 instead of N, which lowers d by about one part in N (1 % at 100 states, 0.02 % at "
    "4096). It also leaves out μ above q50 + 20·(q95 − q50), quantiles of μ."
)

STATISTICS = (
    _estimate(
        "twonn",
        "intrinsic dimension (TwoNN)",
        f"{_LINE} The ⌊(1 − `discard`)·N⌋ smallest μ (at most N − 1) are used, in ascending order. {_DISTINCT}",
        ("facco2017estimating", "razzhigaev2024shape"),
        plainly="Local dimension of the cloud of states.",
        trap="Underestimates: a 50-dimensional Gaussian gives about 33 with 4096 tokens. Compare models at equal n, "
        "not with the width.",
        published="Facco et al. leave out the largest tenth of μ, the default here. scikit-dimension and DADApy do the "
        "same and agree to rounding. Razzhigaev et al. and later work keep the lowest fifth (`discard: 0.8`). "
        "Their code (LLM-Microscope: `intrinsic_dimension`) takes the first 4096 tokens in the order of the texts, all "
        "tokens included. Repeated states count in N and i but not in the fit. The last hidden state is left out.",
    ),
    Share(
        "duplicates",
        "share of duplicates",
        f"1 − (distinct states) / (tokens), in the sample. {_DUPLICATES}",
        ("facco2017estimating",),
        grows=per_doubling("Rises by up to 0.07", "0 to 7", "It does so at layer 0, where token types repeat."),
        trap="Above one half no dimension is computed. It is about the sample: the smaller its part of the corpus, the "
        "fewer tokens repeat.",
    ),
    *(
        _estimate(
            f"gride_{n}",
            f"intrinsic dimension at scale {n} (GRIDE)",
            f"The d that maximises the likelihood Π d·(μ^d − 1)^{n - 1} / μ^({2 * n - 1}·d + 1). μ_i = r{2 * n}/r{n} "
            f"is the ratio of the distances of state i to its neighbours {2 * n} and {n}. "
            + ("This is N / Σ log μ; (N − 1) / Σ log μ has no bias. " if n == 1 else "")
            + _DISTINCT,
            ("denti2022generalized",),
            trap=_PLATEAU if n == 1 else "",
            published=_DADAPY,
        )
        for n in spectra.SCALES
    ),
)

_TOO_FEW = f"fewer than {spectra.FEWEST} distinct states"


class DimensionOptions(SampleOptions):
    """The number of tokens, and the share of ratios that is left out."""

    discard: float = Field(
        default=0.1,
        ge=0,
        le=0.9,
        description="share of the largest μ that twonn leaves out of its line; 0.8 keeps the lowest fifth, as in the "
        "code of Razzhigaev et al.",
    )


_GRIDE = tuple(statistic for statistic in STATISTICS if statistic.name.startswith("gride_"))
BY_SCALE = Chart(
    "intrinsic_dimension.gride",
    "dimension by scale",
    """
SELECT model, role, checkpoint, step, corpus, view, if(ends_with(statistic, '_floor'), 'floor', 'measured') AS kind,
  layer, depth, CAST(regexp_extract(statistic, '[0-9]+') AS INTEGER) AS scale, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND regexp_matches(statistic, '^gride_[0-9]+(_floor)?$')
  AND site IN ('embedding', 'block')
ORDER BY kind DESC, corpus, view, role, model, step, checkpoint, layer, scale
""",
    curves.scales,
    kind="scales",
    say=curves.of_scales,
    reach=AxisLimits((0, None), noise="random vectors"),
    facet="model",
    picks=corpora,
    legend="depth",
    definition="At scale n, the d that maximises the likelihood Π d·(μ^d − 1)^(n − 1) / μ^((2n − 1)·d + 1). μ_i is the "
    f"ratio of the distances of state i to its neighbours 2n and n. {_DISTINCT}",
    statistics=tuple(statistic.name for statistic in _GRIDE),
    alone=True,
    interval=_GRIDE[0].interval,
    published=_DADAPY,
    mind=_PLATEAU,
)


@metric(
    title="Intrinsic dimension",
    summary="How many coordinates describe the states in the neighbourhood of a state, and how this number changes as "
    "the neighbourhood grows.",
    statistics=STATISTICS,
    question="dimension",
    needs=("moments", "tokens"),
    options=DimensionOptions,
    version=11,
    cost="a bounded sample; sample² distances per layer and batch, shared by all token sets",
    charts=(BY_SCALE,),
)
def intrinsic_dimension(seen: Observed, options: DimensionOptions) -> Iterator[Value]:
    """Yield the estimates, their floors and the share of duplicates at every layer."""
    alongside = seen.alongside
    held = [view.held for view in alongside]
    of_views = seen.everywhere(("dimension", tuple(held), options), _measuring(alongside, options))
    measured = {place: of_place[held.index(seen.held)] for place, of_place in of_views.items()}
    _draw_floors(seen, of_views)
    for place in seen.places:
        estimates = measured[place]
        if estimates.reason:
            yield from undefined(spectra.NAMES, place, estimates.n, estimates.reason)
        else:
            yield from _estimates(seen, estimates, place, options)
        share = 1 - estimates.n / estimates.tokens if estimates.tokens else None
        yield valued("duplicates", place, share, estimates.tokens, "no token")


@dataclass(frozen=True)
class _Estimates:
    """The estimates of a view at a place.

    Args:
        n: distinct states.
        tokens: those whose states they are.
        reason: why there is no dimension; empty where there is one.
        batches: the ratios of each batch.
    """

    n: int
    tokens: int
    reason: str
    batches: tuple[RatioBatch, ...] = ()


def _measuring(views: Sequence[Observed], options: DimensionOptions) -> Callable[[Place], list[_Estimates]]:
    """Return what measures each view at a place; all of them share their searches."""
    samples = [view.context_sample(options.sample_size()) for view in views]
    keys, which = np.unique(np.concatenate([sample.keys for sample in samples]), return_inverse=True)
    rows = np.split(which, np.cumsum([len(sample) for sample in samples])[:-1])
    halves = [sample.halves(views[0].seed) for sample in samples]
    held = np.zeros((len(halves[0]), len(keys)), dtype=bool)
    for of_sample, chosen in zip(halves, rows, strict=True):
        held[:, chosen] = of_sample

    def measure(place: Place) -> list[_Estimates]:
        kept = [_distinct(sample, place) for sample in samples]
        batches = [
            [] if reason else [chosen[distinct[part]] for part in options.split(len(distinct))]
            for chosen, (distinct, _, reason) in zip(rows, kept, strict=True)
        ]
        batches_of_views: list[list[RatioBatch]] = [[] for _ in samples]
        if any(batches):
            import torch

            from reporter.geometry.ratios import batches_of

            given = [sample.states(place) for sample in samples]
            x = given[0].new_empty(len(keys), given[0].shape[1])
            for chosen, states in zip(rows, given, strict=True):
                x[torch.from_numpy(chosen).to(x.device)] = states
            for number in range(max(map(len, batches))):  # the next batch of each view, all from one search
                those = {view: chosen[number] for view, chosen in enumerate(batches) if number < len(chosen)}
                union = np.unique(np.concatenate(list(those.values())))
                parts = [torch.from_numpy(np.searchsorted(union, batch)).to(x.device) for batch in those.values()]
                halved = torch.from_numpy(held[:, union]).to(x.device)
                ratios = batches_of(x[torch.from_numpy(union).to(x.device)], halved, parts, options.discard)
                for view, ratio in zip(those, ratios, strict=True):
                    batches_of_views[view].append(ratio)
        return [
            _Estimates(len(distinct), tokens, reason, tuple(chosen))
            for (distinct, tokens, reason), chosen in zip(kept, batches_of_views, strict=True)
        ]

    return measure


def _distinct(sample: TokenSelection, place: Place) -> tuple[Ints, int, str]:
    kept, tokens, repeated = sample.distinct_at(place)
    few = _TOO_FEW if len(kept) < spectra.FEWEST else ""
    return kept, tokens, repeated or (few if len(kept) else "no token")


def _estimates(seen: Observed, measured: _Estimates, place: Place, options: DimensionOptions) -> Iterator[Value]:
    batches = measured.batches
    n, size = sum(len(batch.logs) for batch in batches), len(batches[0].logs)
    if min(len(batch.logs) for batch in batches) < spectra.FEWEST:
        yield from undefined(spectra.NAMES, place, n, _TOO_FEW)
        return
    floors = _floors_at(size, seen.width(place), seen.seed, options.discard)
    for name in spectra.NAMES:
        if reason := _reason_without_value(name, batches, options.discard):
            yield Value(name, place, None, n, reason=reason)
            continue
        value = float(np.mean([spectra.estimate(name, batch.logs, options.discard) for batch in batches]))
        halves = np.mean([batch.halves[name] for batch in batches], axis=0)
        yield Value(name, place, value, n, spread=halves, floor=floors[name], floor_n=size)


def _reason_without_value(name: str, batches: Sequence[RatioBatch], discard: float) -> str:
    if name == "twonn":
        last = [batch.logs[spectra.kept_of(len(batch.logs), discard) - 1, 0] for batch in batches]
        equal = any(ratio < spectra.EQUALLY_FAR for ratio in last)
        return "the first and the second neighbour are equally far" if equal else ""
    scale = int(name.removeprefix("gride_"))
    column = spectra.SCALES.index(scale)
    if any(batch.logs.shape[1] <= column for batch in batches):
        return f"at most {2 * scale} distinct states in a batch"
    if any(batch.logs[:, column].mean() < spectra.EQUALLY_FAR for batch in batches):
        return f"neighbours {scale} and {2 * scale} are equally far"
    return ""


def _draw_floors(seen: Observed, of_views: Mapping[Place, Sequence[_Estimates]]) -> None:
    sizes = {
        (seen.width(place), len(index.batches[0].logs))
        for place, of_place in of_views.items()
        for index in of_place
        if index.batches
    }
    searches: list[tuple[int, list[int]]] = []
    for d, n in sorted(sizes, reverse=True):
        if searches and searches[-1][0] == d and n >= _ALIKE * searches[-1][1][0]:
            searches[-1][1].append(n)
        else:
            searches.append((d, [n]))
    spread(lambda search: _of_noise(search[1], search[0], seen.seed), searches)


_ALIKE = 0.9  # of as many states: with fewer, candidates of the larger group are mostly no neighbours of the smaller
_MOST = 64  # draws whose ratios are kept
_NOISE: dict[tuple[int, int, int], Floats] = {}


def _of_noise(sizes: Sequence[int], d: int, seed: int) -> list[Floats]:
    """Return the log ratios of the first n of a row of Gaussian vectors, for each n; one search finds all of them."""
    import torch

    from reporter.geometry.ratios import log_ratios_within

    ratios = {n: _NOISE[n, d, seed] for n in sizes if (n, d, seed) in _NOISE}
    if new := sorted(set(sizes) - set(ratios)):
        x = torch.from_numpy(noise.first_gaussian(new[-1], d, seed))
        ratios |= zip(new, log_ratios_within(x, [torch.arange(n) for n in new]), strict=True)
        if len(_NOISE) > _MOST:
            _NOISE.clear()
        _NOISE.update({(n, d, seed): ratios[n] for n in new})
    return [ratios[n] for n in sizes]


@lru_cache(maxsize=256)
def _floors_at(n: int, d: int, seed: int, discard: float) -> Mapping[str, float]:
    (logs,) = _of_noise([n], d, seed)
    return {name: spectra.estimate(name, logs, discard) for name in spectra.NAMES[: 1 + logs.shape[1]]}
