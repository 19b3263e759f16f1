"""The range of activations, and the energy that rounding to 8 bits loses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.charts import Chart, parts
from reporter.charts.layout import corpora
from reporter.charts.styles import Styles, alt
from reporter.core.threads import spread
from reporter.geometry import noise
from reporter.geometry.intervals import error_over_texts, quantile
from reporter.metrics._intervals import LARGEST, per_doubling
from reporter.metrics.base import Options, Share, Size, Statistic, Value, metric, undefined

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place

SAMPLED = 1024
"""Tokens that are rounded."""
FORMATS = {"int8": ("INT8", 127, "the nearest whole number"), "fp8": ("FP8", 448, "the nearest number of E4M3")}
"""The title of each format, its largest number, and how it rounds."""
SCALES = {"token": "of the token", "channel": "of dimension j in the sample", "tensor": "of all tokens and dimensions"}
"""The numbers that share a scale, by name, and whose largest |x_j| sets it."""
LOSSES = tuple(f"{form}_{scale}" for form in FORMATS for scale in SCALES)
_TRAPS = {"int8_tensor": "One token can set the scale of all, so there is no interval."}
_TRAPS["int8_token"] = "The states between blocks are rounded here; kernels round the inputs of matrix products."


def _loss(name: str) -> Statistic:
    (title, most, rounding), scale = FORMATS[name.split("_")[0]], name.split("_")[1]
    definition = (
        f"Mean over {SAMPLED:,} sampled tokens of ‖x − Q(x)‖²/‖x‖², with Q(x)_j = s·round(x_j/s) and s = m/{most}. m "
        f"is the largest |x_j| {SCALES[scale]}. round gives {rounding}, of two the even one. A state of zeros loses "
        "0. Sinks would hide other tokens in a ratio of sums, so each token counts alike."
    )
    sources = ("xiao2023smoothquant", "micikevicius2022formats")[: 1 + name.startswith("fp8")]
    how: Mapping[str, Any] = {"scale": "log"} if scale == "token" else {}
    title, trap = f"energy lost by {title} with one scale per {scale}", _TRAPS.get(name, "")
    grows = per_doubling("Rises by up to 6 %", "0 to 0.7", "A maximum sets its scale.") if name == "int8_tensor" else ""
    return Share(name, title, definition, sources, floor=True, trap=trap, smallest=0.001, grows=grows, **how)


_RATIO = Size(
    "over_median",
    "largest activation over the median one",
    f"max |x_j| over all tokens and dimensions (outliers.largest), divided by the median |x_j| of {SAMPLED:,} sampled "
    "tokens. Chance level: the median of this ratio for Gaussian states.",
    ("sun2024massive",),
    floor=True,
    plainly="How many times the typical activation the largest one is.",
    grows=per_doubling("Rises by up to 3 %", "0 to 0.7", LARGEST),
)


def losses(frame: Any, styles: Styles) -> Any:
    """Draw the lost energy over layers, a line for each scale and format; ``value`` is its decimal logarithm."""
    lines = parts.NamedLines.of(frame, "scale", "value", [f"one scale per {name}" for name in SCALES])
    axis = alt.Axis(labelExpr=parts.typeset("(pow(10, datum.value) * (1 + 1e-9))"), **_ticks(*lines.reach))
    y = alt.Y("value:Q", title="energy lost", scale=alt.Scale(domain=list(lines.reach), nice=True), axis=axis)
    tooltip = parts.tooltips("kind", "scale", "layer", "lost")
    return parts.by_kind(lines, frame, {"INT8": [1, 0], "FP8": [1, 3]}, y, tooltip)


def _ticks(low: float, high: float) -> Mapping[str, Any]:
    """Return the ticks of an axis of logarithms: powers of ten, or where these are few 1, 2 and 5 times each."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = (1,) if high - low > 2 else (1, 2, 5)
    values = [value for power in powers for step in steps if low <= (value := power + math.log10(step)) <= high]
    return {"values": values} if len(values) > 1 else {}


_LOST = """
SELECT model, role, checkpoint, step, corpus, view, upper(split_part(statistic, '_', 1)) AS kind, n,
  'one scale per ' || split_part(statistic, '_', 2) AS scale, layer, depth, log10(nullif(value, 0)) AS value,
  value AS lost
FROM layer_metrics WHERE study = $study AND metric = $metric AND regexp_matches(statistic, '^(int8|fp8)_[a-z]+$')
  AND site IN ('embedding', 'block') ORDER BY corpus, view, role, model, step, checkpoint, kind DESC, scale, layer
"""
LOST = Chart(
    "ranges.lost",
    "energy lost by rounding to 8 bits",
    _LOST,
    losses,
    lead="Share of a state's squared length. Solid: INT8; dotted: FP8.",
    facet="model",
    picks=corpora,
    statistics=LOSSES,
    alone=True,
    key="scale",
)


@metric(
    title="Range of activations",
    summary="How large activations get, and how much energy a state loses when it is rounded to 8 bits.",
    statistics=(_RATIO, *map(_loss, LOSSES)),
    question="sinks",
    needs=("moments", "activations", "tokens"),
    cost="six roundings of the sampled states of each layer",
    charts=(LOST,),
)
def ranges(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the largest activation over the median, and the energy that each rounding loses, at every place."""
    from reporter.forward.outliers import Activations

    n, kept, sample = seen.tokens, seen.get(Activations), seen.token_sample(SAMPLED)

    def at(place: Place) -> Iterator[Value]:
        x, largest = sample.states(place), float(kept.largest[seen.layout.index[place], list(seen.strata)].max())
        if not largest:
            yield from undefined(("over_median", *LOSSES), place, n, "all states are zero" if n else "no token")
            return
        floors = _floors(n, seen.width(place), seen.seed)
        median = float(np.median(np.abs(x.cpu().numpy())))  # on the host, where a median is a selection and not a sort
        ratio, reason = (largest / median, "") if median else (None, "half of the activations are zero")
        yield Value("over_median", place, ratio, n, reason=reason, floor=floors["over_median"])
        for name, each in rounding_losses(x / largest, 1.0).items():
            value, m, of_token = float(each.mean()), len(each), name.endswith("_token")
            error = error_over_texts(each - value, sample.texts, m, seen.texts, sample.keys) if of_token else None
            why = "" if of_token else "a maximum sets the scale"
            yield Value(name, place, value, m, reason=why, spread=error, floor=floors[name])

    for of_place in spread(lambda place: list(at(place)), seen.places):
        yield from of_place


def rounding_losses(x: Any, largest: float) -> Mapping[str, Any]:
    """Return ‖x − Q(x)‖²/‖x‖² of each state by statistic, arrays (n,); ``largest`` is |x_j| at most over all tokens."""
    import torch

    size = (x := torch.as_tensor(x)).abs()
    peaks: Mapping[str, Any] = {"token": size.amax(dim=1)[:, None], "channel": size.amax(dim=0), "tensor": largest}
    energy, lost = x.square().sum(dim=1).clamp(min=1e-37), {}
    for name, (form, scale) in ((name, name.split("_")) for name in LOSSES):
        step = torch.as_tensor(peaks[scale] / FORMATS[form][1], device=x.device).clamp(min=1e-37)
        y = (x / step).round() if form == "int8" else (x / step).to(torch.float8_e4m3fn).float()
        lost[name] = ((y * step - x).square().sum(dim=1) / energy).double().cpu().numpy()
    return lost


@lru_cache(maxsize=256)
def _floors(n: int, d: int, seed: int) -> Mapping[str, float]:
    """Return each statistic of n isotropic Gaussian states; the largest number is the median of its distribution."""
    largest = quantile((1 + 0.5 ** (1 / (n * d))) / 2)
    lost = rounding_losses(noise.gaussian(min(n, SAMPLED), d, seed).astype(np.float32), largest)
    return {"over_median": largest / quantile(0.75), **{name: float(each.mean()) for name, each in lost.items()}}
