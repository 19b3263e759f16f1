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
from reporter.geometry.intervals import half_sample_interval
from reporter.metrics._intervals import DENSER, per_doubling
from reporter.metrics.base import SampleOptions, Share, Size, Statistic, Value, metric, undefined, with_floor

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import Selection
    from reporter.geometry.ratios import Batch


_RATIO = "with μ_i = r2/r1 the ratio of the distances of state i to its second and first nearest neighbour"
_RELATIVE = (
    "Dimension is relative: an isotropic Gaussian of true dimension 50 reads about 33 at 4096 tokens. Compare "
    "with the floor and with other models at the same n, not with the width."
)
_DISTINCT = (
    "`sample` times `batches` tokens are drawn uniformly from the view and duplicates among them left out but for the "
    "first, a duplicate being decided by what the model saw: the same prefix of token ids (decoder), the same text and "
    "position (encoder), at layer 0 the same token id (and position where position vectors are added)"
)

# One batch in place of four: how much wider the interval is, and the most that the number moved within half of it.
# A doubling of the texts: the change of the number, and the same in standard deviations.
_MEASURED = {
    "twonn": ("1.7", "1.0", "−4 to +5 %", "0.3 to 0.6"),
    "twonn_published": ("1.8", "0.4", "−6 to +4 %", "0.6 to 0.8"),
    "twonn_ml": ("1.9", "0.8", "−4 to +2 %", "0.2 to 0.9"),
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
    note = ", at the scale that lies at the same distance there" if name in ("gride_16", "gride_32", "gride_64") else ""
    interval = (
        "95 %, value ± t standard deviations over 31 balanced half-samples of the texts, in each of which neighbours "
        f"are sought anew{note}; mean over batches. One batch, the default, in place of four moves the number by up to "
        f"{most} of half the interval, which is {wider} times as wide (six blocks of an encoder, 400 paragraphs)"
    )
    grows = per_doubling(change, deviations, DENSER)
    return Size(name, title, definition, sources, floor=True, interval=interval, grows=grows, **more)


STATISTICS = (
    _estimate(
        "twonn",
        "intrinsic dimension (TwoNN)",
        f"{_RATIO}, the ⌊(1 − `discard`)·N⌋ smallest μ (at most N − 1) sorted ascending, F_i = i/N: slope through the "
        f"origin of −log(1 − F) on log μ; {_DISTINCT}; float64, centred",
        ("facco2017estimating", "razzhigaev2024shape"),
        plainly="How many coordinates it takes to tell neighbouring states apart.",
        trap=_RELATIVE,
        published="Facco et al. leave out the largest tenth of μ, as is the default here; scikit-dimension and DADApy "
        "do the same and agree to rounding. The lineage of Razzhigaev et al. keeps the lowest fifth: "
        "twonn_published.",
    ),
    _estimate(
        "twonn_published",
        "intrinsic dimension (TwoNN of the lowest fifth)",
        f"{_RATIO}, the ⌊N/5⌋ smallest μ sorted ascending, F_i = i/N: slope through the origin of −log(1 − F) on log "
        f"μ, which is `twonn` with `discard: 0.8`, whatever `discard` says; {_DISTINCT}; float64, centred",
        ("razzhigaev2024shape", "facco2017estimating"),
        trap=_RELATIVE + " The smallest ratios are those of states with two neighbours about equally near; a fifth of "
        "the ratios makes an estimate that is less certain than `twonn`, and on clustered states another one. It feels "
        "most that states are kept in 16 bits: up to 5 % of the half width of its interval in a pretrained decoder of "
        "30 blocks, the other estimates less than 0.3 %.",
        published="The code of the same authors (LLM-Microscope: `intrinsic_dimension`, reduction_factor 5) does this "
        "with the first 4096 tokens in the order of the texts, every token in; states that repeat count in N and i but "
        "not in the fit, the last hidden state (after the closing norm) is left out. Here distinct states are drawn.",
    ),
    _estimate(
        "twonn_ml",
        "intrinsic dimension (TwoNN by maximum likelihood)",
        "(N − 1) / Σ log μ over all N states, mean over batches",
        ("denti2022generalized",),
        trap=_RELATIVE + " No μ is discarded, so outliers pull it down: two texts that say nearly the same made 8 into "
        "6 in an encoder, and the interval of a corpus without such a pair does not know of it.",
        published="The same as `TwoNN(method='mle', discard_fraction=0)` of scikit-dimension.",
    ),
    Share(
        "duplicates",
        "share of duplicates",
        "1 − (distinct states) / (tokens) in the sample, a duplicate" + _DISTINCT.partition("a duplicate")[2],
        ("facco2017estimating",),
        grows=per_doubling("0 to +0.07", "0 to 7", "at layer 0, where tokens of the same kind repeat"),
        trap="Above one half the dimension is not computed. Of the drawn tokens, not of the corpus: the "
        "smaller a part of it is drawn, the fewer of them repeat.",
    ),
    *(
        _estimate(
            f"gride_{n}",
            f"intrinsic dimension at scale {n} (GRIDE)",
            f"with μ_i = r{2 * n}/r{n} the ratio of the distances of state i to its neighbours {2 * n} and {n}: the d "
            f"that maximises the likelihood Π d·(μ^d − 1)^{n - 1} / μ^({2 * n - 1}·d + 1)"
            + (", that is N / Σ log μ; unlike twonn_ml it is not made unbiased by N − 1" if n == 1 else "")
            + f"; {_DISTINCT}; float64, centred; mean over batches",
            ("denti2022generalized",),
            trap=_RELATIVE + " Noise shows at small scales, curvature and clusters at large ones: look for a plateau.",
            published="DADApy solves for d with N − 1 in the place of N, which reads lower by about one part in N (1 % "
            "at 100 states, 0.02 % at 4096), and leaves out μ above q50 + 20·(q95 − q50), quantiles of μ.",
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
        description="share of the states whose μ is left out of the line of twonn, the largest first; 0.8 keeps the "
        "lowest fifth, as twonn_published does always",
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
    reach=AxisLimits((0, None), noise="isotropic noise"),
    facet="model",
    picks=corpora,
    legend="depth",
    definition=f"at scale {spectra.SCALES[0]}: {_GRIDE[0].definition}",
    statistics=tuple(statistic.name for statistic in _GRIDE),
    alone=True,
    interval=_GRIDE[0].interval,
    published=_GRIDE[0].published,
    mind=_GRIDE[0].trap,
)


@metric(
    title="Intrinsic dimension",
    summary="How many coordinates it takes to describe the states in the neighbourhood of a state, and how that "
    "changes as the neighbourhood grows.",
    statistics=STATISTICS,
    question="dimension",
    needs=("moments", "tokens"),
    options=DimensionOptions,
    version=9,
    cost="a bounded sample; sample² distances for each layer and batch, of all views together",
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
        if estimates.tokens:
            yield Value("duplicates", place, 1 - estimates.n / estimates.tokens, estimates.tokens)
        else:
            yield Value("duplicates", place, None, 0, reason="no token")


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
    batches: tuple[Batch, ...] = ()


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
        batches_of_views: list[list[Batch]] = [[] for _ in samples]
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


def _distinct(sample: Selection, place: Place) -> tuple[Ints, int, str]:
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
        ends = half_sample_interval(value, halves, seen.texts, (0.0, np.inf))
        # every layer has the same half-samples
        yield from with_floor(Value(name, place, value, n, *ends, spread=halves), floors[name], size)


def _reason_without_value(name: str, batches: Sequence[Batch], discard: float) -> str:
    if not name.startswith("gride_"):
        left_out = {"twonn": discard, "twonn_published": spectra.PUBLISHED, "twonn_ml": 0.1}[name]
        last = [batch.logs[spectra.kept_of(len(batch.logs), left_out) - 1, 0] for batch in batches]
        equal = any(ratio < spectra.EQUALLY_FAR for ratio in last)
        return "the first and the second neighbour are equally far" if equal else ""
    scale = int(name.removeprefix("gride_"))
    column = spectra.SCALES.index(scale)
    if any(batch.logs.shape[1] <= column for batch in batches):
        return f"no more than {2 * scale} distinct states in a batch"
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
    return {name: spectra.estimate(name, logs, discard) for name in spectra.NAMES[: 3 + logs.shape[1]]}
