"""The run of blocks that turns the states least: the angle between layers l and l + n (Gromov et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast, get_args

import numpy as np

from reporter.charts import Chart
from reporter.charts import models as pairs
from reporter.core.table import HIGH, LOW, Comparable, Row, UnderView, column
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import FEWEST_TEXTS, quantile
from reporter.metrics.base import N, Options, PairValue, Share, metric

if TYPE_CHECKING:
    from reporter.forward.between_layers import Angles, Which
    from reporter.forward.observed import Observed

_ANGLE = "arccos(cos(h_l, h_{l+n}))/π, for all 0 ≤ l < l + n ≤ L. h_l is the state of a token at layer l."

_angle = partial(Share, sources=("gromov2025unreasonable",), per="pair", method="half-samples")

STATISTICS = (
    _angle(
        "tokens",
        "angular distance of two layers",
        f"Mean over tokens of {_ANGLE} Unrelated states have exactly ½.",
        plainly="How far the blocks between two layers rotate a token's state (½: unrelated).",
        trap="A small angle does not mean that the blocks are removable: the next block may need what little they add. "
        "Norms are ignored.",
    ),
    _angle(
        "last_token",
        "angular distance of two layers (last tokens)",
        f"Mean over texts, for the last token of each text, of {_ANGLE} Unrelated states have exactly ½. The last "
        "token of the token set `text tokens` is the last word or full stop.",
        trap="One token per text, so intervals are wider. `with special tokens` it may be a [SEP] or EOS of "
        "the tokenizer.",
        published="This is the authors' number. They cut texts at the length of the context; here texts keep their own "
        "length.",
    ),
)


class BlockRun(UnderView, table="block_runs"):
    """For each number of consecutive blocks, those that rotate the states least: the first candidates for pruning."""

    compared = (
        Comparable(("value",), "corpus", of="'the best run of ' || blocks || ' blocks, ' || which", interval=True),
        Comparable(("first",), "corpus", of="'the best run of ' || blocks || ' blocks, ' || which"),
    )

    which: str = column("'tokens' (all tokens of the token set) or 'last_token' (of each text)", key=True)
    blocks: int = column("how many consecutive blocks", key=True)
    first: int = column("the first of them, 1 = the block after the embedding")
    last: int = column("the last of them")
    value: float = column("angular distance between the states before and after these blocks, from 0 to 1")
    n: int = column(N, "BIGINT", last=True)
    as_good: str | None = column(
        "first blocks of the runs of this length that do not differ significantly from the best one, including it "
        f"(paired, 95 %, Bonferroni-corrected); NULL for fewer than {FEWEST_TEXTS} texts",
        default=None,
    )
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)


RUNS = Chart(
    "angular_distance.runs",
    "which consecutive blocks rotate the states least",
    """
SELECT model, checkpoint, corpus, view, statistic, layer_a, layer_b, layer_b - layer_a AS blocks,
  if(layer_b = layer_a + 1, '', (layer_a + 1) || '–') || layer_b AS run, value, ci_low, ci_high, n,
  value = min(value) OVER (
    PARTITION BY model, checkpoint, corpus, view, statistic, layer_b - layer_a
  ) AS least
FROM (SELECT *, model_a AS model, checkpoint_a AS checkpoint FROM layer_pairs
      WHERE study = $study AND metric = $metric AND value IS NOT NULL)
ORDER BY statistic DESC, corpus, view, model, checkpoint, blocks, layer_a
""",
    pairs.runs,
    kind="pairs",
    say=pairs.of_runs,
    facet="model",
    picks=pairs.which_runs,
    legend="angle",
    statistics=tuple(statistic.name for statistic in STATISTICS),
    alone=True,
    lead="Cell: consecutive blocks (x: first, y: how many). Dot: smallest angle for that many.",
    interval=STATISTICS[0].interval,
    mind=STATISTICS[0].trap,
    published=STATISTICS[1].published,
)


@metric(
    title="Angular distance of layers",
    summary="How far consecutive blocks rotate the states, and which blocks of each number rotate them least: "
    "candidates for pruning.",
    statistics=STATISTICS,
    question="updates",
    needs=("layer_angles",),
    version=2,
    cost="a product of each pair of layers per token; 2 to 4 % of the forward pass of a decoder of 30 blocks × 576",
    tables=(PairValue, BlockRun),
    charts=(RUNS,),
)
def angular_distance(seen: Observed, options: Options) -> Iterator[Row]:
    """Yield the angle of each two layers of the path, and of each length the run with the smallest angle."""
    from reporter.forward.between_layers import LayerAngles, Which

    for which in get_args(Which):
        angles = seen.get(LayerAngles).angles(cast("Which", which), seen.view)
        yield from _pairs(seen, which, angles)
        for blocks in range(1, seen.layers + 1):
            yield from _best(seen, which, angles, blocks)


def _pairs(seen: Observed, which: str, angles: Angles) -> Iterator[PairValue]:
    for first, second in zip(*np.triu_indices(seen.layers + 1, 1), strict=True):
        layers = int(first), int(second)
        n = int(angles.n[layers])
        if n:
            yield PairValue(which, *layers, float(angles.value[layers]), n, spread=angles.halves[:, *layers])
        else:
            yield PairValue(which, *layers, None, 0, reason="no token has a state at both layers that is not zero")


def _best(seen: Observed, which: str, angles: Angles, blocks: int) -> Iterator[BlockRun]:
    value, halves = np.diagonal(angles.value, blocks), np.diagonal(angles.halves, blocks, axis1=1, axis2=2)
    if not np.isfinite(value).any():
        return
    best = int(np.nanargmin(value))
    layers = best, best + blocks
    low, high = STATISTICS[0].ends(float(value[best]), halves[:, best], seen.texts)
    as_good = None if low is None else ", ".join(str(start + 1) for start in _not_apart(value, halves, best))
    yield BlockRun(
        which, blocks, best + 1, best + blocks, float(value[best]), int(angles.n[layers]), as_good, low, high
    )


def _not_apart(value: Floats, halves: Floats, best: int) -> list[int]:
    """Return which runs do not differ significantly from the best one."""
    finite = np.isfinite(value)
    difference = halves[:, finite] - halves[:, best, None]
    drawn = np.isfinite(difference).all(axis=1)
    level = 1 - 0.025 / max(int(finite.sum()) - 1, 1)
    half = quantile(level, int(drawn.sum())) * np.std(difference[drawn], axis=0)
    runs: list[int] = np.flatnonzero(finite)[value[finite] - value[best] <= half].tolist()
    return runs
