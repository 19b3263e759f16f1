"""The part of a layer's effect on states that is one linear map for all tokens, and how far it turns them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import acos
from typing import TYPE_CHECKING, Any

from reporter.geometry import noise
from reporter.geometry.intervals import Error, error_over_texts
from reporter.metrics._intervals import sampled
from reporter.metrics.base import OptionalOptions, Options, Statistic, Value, metric, undefined

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.observed import Observed, Place
    from reporter.geometry.linear import Directions, Joint, Similarity

_FIT = (
    "with A the least-squares map of X on {what}. X and Y are the centred states of all tokens at layer l and at "
    "{other}. {stored} Directions whose share of the correlation matrix of X is below 1e-6 are left out. So are "
    "dimensions whose deviation is at most 1e-6 of the root mean square of all deviations."
)
FEWEST = 8
"""Tokens to a dimension, of those that a map is fitted to, below which intervals cover less than they say."""
_ENOUGH = f"None with fewer than {FEWEST} tokens per dimension."
_HELD_OUT = (
    "1 − Σ‖y − map(x)‖²/Σ‖y − mean‖² over one half of the texts, map and mean fitted to the other half. The number is "
    "the mean over both directions. A hash of the text decides its half. "
)


def _scores(
    name: str, title: str, other: str, what: str, source: str, stored: str, held_out: str, **more: Any
) -> Iterator[Statistic]:
    """Yield a share that a linear map explains, on the tokens that it is fitted to and on others."""
    taken = f"({what})" if " " in what else what
    yield _consecutive(
        name,
        title,
        f"1 − ‖XA − {taken}‖²/‖{what}‖² in Frobenius norms, {_FIT.format(other=other, what=what, stored=stored)}",
        (source,),
        scale="logit",
        interval=_ENOUGH,
        floor=True,
        bounds=(0, 1),
        **more,
    )
    yield _consecutive(
        f"{name}_heldout",
        f"{title} (held out)",
        f"{_HELD_OUT}y are the rows of {what}, x the rows of X, with the map as in {name}.",
        (source,),
        scale="plain",
        interval=f"None if half of the texts have fewer than {FEWEST} tokens per dimension.",
        bounds=(None, 1),
        smallest=0.01,
        trap=held_out,
    )


_consecutive = partial(Statistic, per="step")

STATISTICS = (
    *_scores(
        "linearity",
        "linearity score",
        "layer l + 1",
        "Y",
        "razzhigaev2024linear",
        "Stored at layer l = 0…L−1.",
        "With few tokens per dimension the map fits noise and this falls below 0, which says nothing about the block.",
        main=True,
        plainly="How well one linear map predicts the next layer's states (1: exactly).",
        trap="The residual stream alone makes it high; see update_linearity. d directions fit n tokens by chance; "
        "compare the chance level and the held-out form.",
        published="The paper's code scales X and Y to Frobenius norm 1, fits by SVD and takes one batch of tokens. The "
        "number is the same. The code has no chance level.",
    ),
    *_scores(
        "update_linearity",
        "linearity score without the residual",
        "layer l + 1",
        "Y − X",
        "razzhigaev2024linear",
        "Stored at layer l = 0…L−1.",
        "Below 0 the corpus has too few tokens per dimension: the map of the update fits noise.",
        trap="In models whose blocks end in a norm (post-norm encoders) Y − X is not what a block adds.",
    ),
    *_scores(
        "to_last",
        "variance of the last layer explained by a linear map",
        "the last layer L",
        "Y",
        "din2024jump",
        "Computed for l = 0…L−1.",
        "Below 0 the corpus has too few tokens per dimension: the map to the last layer fits noise.",
        trap="The last layer is the last block's output before the final norm. A few dimensions of large variance "
        "dominate it.",
    ),
    _consecutive(
        "procrustes",
        "angle between consecutive layers (Procrustes)",
        "arccos(‖XᵀY‖_* / (‖X‖ ‖Y‖)), nuclear over Frobenius norms, with X and Y the centred states of all tokens at "
        "layers l and l + 1. Stored at layer l = 0…L−1.",
        ("williams2021generalized",),
        short="Procrustes angle",
        unit="radians",
        scale="logit",
        interval=f"{_ENOUGH} Derived from the interval of its cosine.",
        bounds=(0, 1.5707963267948966),
        trap="Rotation and scale are ignored: a block that rotates all states alike has 0.",
    ),
    _consecutive(
        "cka",
        "CKA of consecutive layers over tokens",
        "‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖) in Frobenius norms, with X and Y the centred states of all tokens at layers l and l + "
        "1. Stored at layer l = 0…L−1. layer_pairs.cka is debiased, and over mean states of texts.",
        ("kornblith2019similarity",),
        scale="logit",
        interval=_ENOUGH,
        bounds=(0, 1),
        trap="Axes of large variance dominate it: with a sink in each text it is near 1 whatever the other axes do.",
    ),
    _consecutive(
        "cca",
        "mean squared canonical correlation",
        "tr(Sxx⁺ Sxy Syy⁺ Syx) / min(rank X, rank Y), with S the covariances of the states of all tokens at layers l "
        "and l + 1. Stored at layer l = 0…L−1. The directions and dimensions that linearity.linearity leaves out are "
        "left out. SVCCA drops the faint directions first; this number does not.",
        ("raghu2017svcca", "kornblith2019similarity"),
        floor=True,
        bounds=(0, 1),
        trap="Every direction counts equally, however faint. d directions of n tokens agree by chance; compare the "
        "chance level.",
    ),
)

PROCRUSTES = next(statistic for statistic in STATISTICS if statistic.name == "procrustes")


@metric(
    title="Linearity",
    summary="How much of the next layer, of a block's update and of the last layer one linear map for all tokens "
    "explains. How far consecutive layers are from a rotation of each other.",
    statistics=STATISTICS,
    question="updates",
    needs=("moments", "cross", "tokens"),
    version=6,
    options=OptionalOptions,  # it keeps three matrices d × d for each layer
    cost="three width × width products per token and layer, about 1/4 of the forward pass. Six such matrices "
    "per layer and kind of token in memory and in the cache.",
)
def linearity(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the statistics of each layer with the next one and the last, and their floors."""
    following: _Directions | None = None
    for place in seen.path[:-1]:
        here = following or _Directions(seen.layout.index[place])
        following = _Directions(here.layer + 1)
        yield from _of_layer(seen, place, here, following)


class _Directions:
    """In which directions the states of a layer vary, over all texts or a half of them, found once for every map."""

    def __init__(self, layer: int) -> None:
        self.layer = layer
        self._held: dict[int | None, Directions] = {}

    def of(self, xx: Tensor, n: float, half: int | None = None) -> Directions:
        """Return them from the second moments of the layer over some texts."""
        from reporter.geometry.linear import directions

        if half not in self._held:
            self._held[half] = directions(xx, n)
        return self._held[half]


def _of_layer(seen: Observed, place: Place, here: _Directions, after: _Directions) -> Iterator[Value]:
    layer, last = here.layer, seen.layers
    following = _Pair.of(seen, layer, layer + 1)
    if not isinstance(following, _Pair):
        yield from undefined(STATISTICS, place, seen.tokens, following)
        return
    pairs = {
        "linearity": following,
        "update_linearity": _Pair.of(seen, layer, layer + 1, updates=True),
        "to_last": following if layer + 1 == last else _Pair.of(seen, layer, last),
    }
    for name, pair in pairs.items():
        if isinstance(pair, _Pair):
            yield from _fits(seen, place, pair, name, here)
        else:
            yield from undefined((name, f"{name}_heldout"), place, seen.tokens, pair)
    yield from _likeness(seen, place, following, here, after)


@dataclass(frozen=True, eq=False)
class _Pair:
    """The states of the same tokens at two layers, or at one and what the block adds.

    Args:
        joint: second moments of all tokens.
        halves: of each half of the texts; None where one has too few tokens.
        x: sampled states at the first layer, (m, d) in float64.
        y: of the same tokens on the other side.
        half: the half of the texts that each of them is in, (m,).
    """

    joint: Joint
    halves: tuple[Joint, Joint] | None
    x: Tensor
    y: Tensor
    half: Tensor

    @classmethod
    def of(cls, seen: Observed, layer: int, other: int, updates: bool = False) -> _Pair | str:
        """Return the pair, or why there is none."""
        import torch

        from reporter.forward.between_layers import Cross, half_of

        cross = seen.get(Cross)
        sample = sampled(seen)
        x, y = (sample.states(seen.path[index]).double() for index in (layer, other))
        joint, *parts = (
            None if part is None else part.to(x.device)
            for part in (cross.joint(layer, other, seen.strata, half, updates) for half in (None, 0, 1))
        )
        if joint is None or joint.n < 3:
            return "fewer than three tokens"
        if updates:
            y = y - x
            if not joint.moves:
                return "the block changes no state by more than rounding"
        if not joint.vary:
            return "all states are equal at one of the layers"
        first, second = (None if part is None or part.n < 3 or not part.vary else part for part in parts)
        halves = None if first is None or second is None else (first, second)
        return cls(joint, halves, x, y, torch.from_numpy(half_of(sample.texts, seen.seed)).to(x.device))


def _fits(seen: Observed, place: Place, pair: _Pair, name: str, here: _Directions) -> Iterator[Value]:
    from reporter.geometry.linear import explained, fit, held_out, push

    n, d = int(pair.joint.n), pair.joint.xx.shape[0]
    along = here.of(pair.joint.xx, pair.joint.n)
    best = fit(pair.joint, along)
    share, few = explained(best, pair.joint), _too_few_tokens(n, d)
    value = min(max(share, 0.0), 1.0)
    error = None if few else _over_texts(seen, push(best, along, pair.joint, share, pair.x, pair.y), pair)
    floor = noise.linear_fit(n, d, pair.joint.yy.shape[0], seen.seed)
    yield Value(name, place, value, n, reason=few, spread=error, floor=floor)
    if pair.halves is None:
        yield Value(f"{name}_heldout", place, None, n, reason="half of the texts have fewer than three tokens")
        return
    few = _too_few_tokens(int(min(part.n for part in pair.halves)), d, "half of the texts have ")
    axes = [here.of(part.xx, part.n, half) for half, part in enumerate(pair.halves)]
    share, influence = held_out(pair.halves, axes, pair.x, pair.y, pair.half)
    error = None if few else _over_texts(seen, influence, pair)
    yield Value(f"{name}_heldout", place, share, n, reason=few, spread=error)


def _too_few_tokens(n: int, d: int, who: str = "") -> str:
    few = f"no interval: {who}{n:,} tokens for {d:,} dimensions; the minimum is {FEWEST * d:,} tokens"
    return few if n < FEWEST * d else ""


def _over_texts(seen: Observed, influence: Tensor, pair: _Pair) -> Error | None:
    influence = influence - influence.mean()
    return error_over_texts(influence.cpu().numpy(), sampled(seen).texts, int(pair.joint.n), seen.texts)


def _likeness(seen: Observed, place: Place, pair: _Pair, here: _Directions, after: _Directions) -> Iterator[Value]:
    from reporter.geometry.linear import canonical, procrustes, token_cka

    n, d = int(pair.joint.n), pair.joint.xx.shape[0]
    few = _too_few_tokens(n, d)

    def error(alike: Similarity) -> Error | None:
        if few:
            return None
        return _over_texts(seen, alike.influence(pair.x - pair.joint.mean_x, pair.y - pair.joint.mean_y), pair)

    angle, same = procrustes(pair.joint), token_cka(pair.joint)
    low, high = PROCRUSTES.ends(angle.value, error(angle), within=(0.0, 1.0))
    least, most = (None, None) if low is None or high is None else (acos(high), acos(low))
    yield Value("procrustes", place, acos(angle.value), n, least, most, few)
    yield Value("cka", place, same.value, n, reason=few, spread=error(same))
    both = here.of(pair.joint.xx, pair.joint.n), after.of(pair.joint.yy, pair.joint.n)
    yield Value("cca", place, canonical(pair.joint, *both), n, floor=min(d / max(n - 1, 1), 1.0))
