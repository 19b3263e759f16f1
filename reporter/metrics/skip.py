"""Block ablation: how little blocks turn the states, and the loss without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator, Field

from reporter.charts import Chart
from reporter.charts import models as heat_maps
from reporter.charts.layout import corpora
from reporter.core.errors import ReporterError
from reporter.core.places import ranges
from reporter.core.table import Comparable, OfModel, column, of_cell
from reporter.geometry.intervals import percentile_interval, simultaneous_intervals
from reporter.geometry.statistics import behind_best, fisher_interval, kendall, spearman
from reporter.metrics._block_sets import Look, between_layers, proposals
from reporter.metrics._items import drawn_texts
from reporter.metrics._unit_sums import UnitSums
from reporter.metrics.analysis import Context, analysis
from reporter.metrics.base import Cosine, Size, Statistic, Value, undefined
from reporter.study.offer import Reference, Section
from reporter.study.part import AsTuple, Name, Part, no_repeats, wrong

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.readout import Readout
    from reporter.geometry.arrays import Floats, Ints
    from reporter.models.load import Captured, LoadedModel
    from reporter.texts.tokens import TokenBatch

    Resume = Callable[..., Tensor]
    Edit = tuple[int, int, tuple[int, ...]]  # the block behind which the model starts, from which layer, without which

MOST_KEPT = 2**28
"""Bytes of states up to which passes of the whole model are kept until sets of blocks are left out."""
_NO_INTERVAL = "no interval: a jackknife over texts covers 72 % in a model of 4 blocks, and is too wide with 30 blocks"
FEWEST_BLOCKS = 10
"""From so many blocks on a rank correlation over blocks has an interval."""
_FEW_BLOCKS = f"no interval: the model has fewer than {FEWEST_BLOCKS} blocks"
NEGLIGIBLE = 0.01
"""A change of the loss in nats that is too small to matter: no one would keep a block for such a rise."""


def _positive(blocks: tuple[int, ...]) -> tuple[int, ...]:
    for place, many in enumerate(blocks):
        if many < 1:
            raise wrong(f"expected a number of blocks of at least 1, got {many}", place)
    return blocks


class Skip(Part):
    """A corpus to measure the loss on, and how many blocks to leave out."""

    corpus: Name = Field(description="The corpus whose texts the model predicts.")
    blocks: Annotated[tuple[int, ...], AsTuple, AfterValidator(no_repeats), AfterValidator(_positive)] = Field(
        (1, 2, 4), min_length=1, description="Numbers of blocks to leave out; for each number up to four sets are run."
    )
    texts: int = Field(60, ge=10, le=5000, description="Number of texts of the corpus.")
    every_block: bool = Field(True, description="Whether to measure the loss without each single block, too.")
    repeats: bool = Field(False, description="Whether to measure the loss with consecutive blocks that run twice, too.")


_mean = partial(Statistic, method="bootstrap")
_order = partial(Cosine, per="model")
STATISTICS = (
    _mean(
        "influence",
        "block influence on the texts of the ablation",
        "1 − mean over tokens of cos(h_l, h_{l+1}), for block l + 1. Stored at layer l = 0…L−1. All tokens of the "
        "texts themselves count, except tokens with a zero state. At most `texts` distinct texts are read.",
        ("men2024shortgpt",),
        per="step",
        bounds=(0, 2),
        trap="A block that rotates states little may still be needed; see the measured loss.",
        published="The paper's code averages over the tokens of each batch, padding included.",
    ),
    _mean(
        "change",
        "change of loss without the block",
        "Mean −log p(token) of the model without block l + 1, minus the mean of the whole model, on the same tokens. "
        "Stored at layer l = 0…L−1. The next block reads what entered block l + 1. No weights change.",
        ("hinostroza2026relevance",),
        per="step",
        unit="nats",
        smallest=NEGLIGIBLE,
        trap="Blocks that can go one at a time may not go together. Training afterwards repairs a part of the loss.",
        published="The paper takes the drop of the accuracy on tasks in place of the loss.",
    ),
    Size(
        "excess",
        "loss above the cheapest block",
        "skip.change of block l + 1 minus the smallest skip.change of all blocks. Stored at layer l = 0…L−1.",
        ("hinostroza2026relevance", "hsu1984best"),
        per="step",
        unit="nats",
        smallest=NEGLIGIBLE,
        interval="95 % CI for all blocks at once (Hsu's comparisons with the best); from 0 if it is not significant.",
        charted=False,
    ),
    *(
        _order(
            f"rank_{proxy}",
            f"{proxy} against measured loss",
            f"Spearman's correlation over blocks of skip.change and {measure}. Chance level: 0, for unrelated orders.",
            ("hinostroza2026relevance",),
            interval=f"95 % CI over blocks, of {FEWEST_BLOCKS} blocks or more (Fisher's z). The variance is "
            "(1 + ρ²/2)/(L − 3), of Bonett & Wright 2000, with blocks taken as independent.",
            trap=trap,
        )
        for proxy, measure, trap in (
            ("influence", "skip.influence", "Near 0 the influence of a block does not tell what its removal costs."),
            (
                "angle",
                "the mean over tokens of arccos(cos(h_l, h_{l+1}))/π",
                "Hardly differs from skip.rank_influence.",
            ),
        )
    ),
    _order(
        "stability",
        "stability of the order of blocks",
        "Mean over 1,000 resamplings of Kendall's τ between the orders of the blocks by skip.change in the resampling "
        "and on all texts. A text counts k times, k drawn from Poisson(1). Chance level: 0, for random orders.",
        ("kendall1938rank", "kim2026redundancy"),
        trap="Stable on other texts of this corpus only; other corpora may have another order.",
        grows="Rises with the number of texts, towards 1.",
    ),
    Size(
        "loss",
        "loss of the whole model on the sample",
        "Mean of −log p(token) in nats, as defined for loss.lm, over at most `texts` distinct texts.",
        ("men2024shortgpt",),
        short="loss",
        per="model",
        unit="nats",
        method="bootstrap",
        smallest=NEGLIGIBLE,
        main=True,
        plainly="How badly the whole model predicts the sample; lower is better.",
    ),
)


class SkippedBlocks(OfModel, table="skipped_blocks", metric="skip"):
    """A set of blocks that was left out of a model, and the model's loss without it."""

    compared = (
        Comparable(
            ("change",),
            "item",
            of="'proposal ' || proposal || ' to leave out ' || many",
            interval=("change_low", "change_high"),
        ),
        Comparable(("loss",), "item", of="'proposal ' || proposal || ' to leave out ' || many"),
    )

    item = of_cell("name of the trial in the study", part="corpus")
    many: int = column("number of blocks that were left out", key=True)
    proposal: int = column("rank of the proposal, 1 = first", key=True)
    blocks: str = column("the blocks, from 1, as 12–15 or 3, 7, 9")
    by: str = column(
        "reason: 'angle' (consecutive blocks that rotate states least), 'influence' (blocks that each rotate states "
        "least) or 'loss' (blocks whose removal one by one costs least)"
    )
    angle: float | None = column(
        "mean over tokens of arccos(cos(h_l, h_{l+n}))/π; NULL where the blocks are not consecutive"
    )
    influence: float = column("sum of the blocks' influences")
    loss: float = column("mean loss of the model without the blocks, in nats")
    change: float = column("this loss minus the loss of the whole model on the same texts")
    change_low: float | None = column("lower end of the 95 % interval of the change, paired over texts")
    change_high: float | None = column("upper end of this interval")
    texts: int = column("number of texts")
    tokens: int = column("number of predicted tokens")
    weights: int | None = column("number of weights of the blocks; NULL where blocks share weights", "BIGINT")
    products: float | None = column(
        "share of a pass's multiplications with weights, those of all blocks and of the head, that the blocks take; "
        "with experts, as if a token used all"
    )


class RepeatedBlocks(OfModel, table="repeated_blocks", metric="skip"):
    """Consecutive blocks that ran twice, one time after the other, and the change of the model's loss."""

    item = of_cell("name of the trial in the study", part="corpus")
    first: int = column("the first block that ran twice, from 1", key=True)
    last: int = column("the last block that ran twice", key=True)
    change: float = column("loss of the model with the repetition minus loss of the whole model, in nats")
    change_low: float | None = column("lower end of its 95 % interval, corrected for all repetitions tried (max |t|)")
    change_high: float | None = column("upper end of this interval")
    texts: int = column("number of texts")


REPEATS = Chart(
    "skip.repeats",
    "change of loss with blocks that run twice",
    """
SELECT model, checkpoint, item AS corpus, first - 1 AS layer_a, last AS layer_b, last - first + 1 AS blocks,
  first || '–' || last AS run, change AS value, change_low AS ci_low, change_high AS ci_high, texts AS n,
  change = min(change) OVER (PARTITION BY model, checkpoint, item) AS least
FROM repeated_blocks WHERE study = $study ORDER BY ALL
""",
    partial(heat_maps.runs, value="change of loss", n="texts"),
    kind="pairs",
    say=lambda rows, scene: heat_maps.of_repeats(rows),
    facet="model",
    picks=corpora,
    lead="Dark: no rise of the loss; yellow: +0.5 nats or more. Dot: smallest change.",
    columns=("first", "last", "change", "change_low"),
)


@analysis(
    title="Block ablation",
    summary="How much worse the model predicts without each block and without sets of blocks, and whether influence "
    "and angle tell this.",
    statistics=STATISTICS,
    question="prediction",
    section=Section(
        Skip,
        "Block ablations, by a short name.",
        ("block ablation", "block ablations"),
        (Reference("corpus", "corpora"),),
        example="{blocks: {corpus: CORPUS}}",
    ),
    cost="about L/2 passes through L blocks and L through the head, and at most four per number of blocks above one",
    version=8,  # parts of texts
    tables=(SkippedBlocks, RepeatedBlocks),
    charts=(REPEATS,),
)
def skip(item: Skip, context: Context) -> Iterator[Value | SkippedBlocks | RepeatedBlocks]:
    """Yield the influence of each block, the loss of the model, and its loss without each block and without sets."""
    from reporter.forward.reading import batched, run_batches, tokenised_texts

    model, corpus, seed = context.model, context.corpora[item.corpus], context.seed
    texts, unit = drawn_texts(corpus, item.texts, context)
    if not texts:
        raise ReporterError(f"the tokenizer finds no token in any text of corpus '{item.corpus}'")
    units = int(unit.max()) + 1
    batches = list(batched(tokenised_texts(texts, model, corpus.max_tokens), context.batch_tokens, model))
    readout, problem = _readout(model)
    states = 4 * sum(batch.ids.size for batch in batches) * sum(context.layout.widths)
    kept: dict[int, tuple[Captured, Resume]] = {}  # passes of the whole model, by batch, where they need little memory

    def losses_of(edits: Sequence[Edit | None], what: str, look: Look | None = None) -> UnitSums:
        """Return Σ −log p, (units, edits), of edited models; None is the whole model, and ``look`` sees its states."""
        import torch

        sums, counts, done = np.zeros((units, len(edits))), np.zeros(units), count(1)
        masked = readout is not None and not readout.predicts_next

        def read(batch: TokenBatch) -> tuple[list[Tensor], list[tuple[Floats, Ints]], tuple[Captured, Resume]]:
            """Return the states, of each edit Σ −log p of each text and of how many tokens it is, and the pass."""
            found = []
            with torch.inference_mode():
                ids, mask = (torch.as_tensor(x, device=model.device) for x in (batch.ids, batch.mask))
                path = model.run(ids, mask).path if masked and look is not None else []
                prediction = None if readout is None else readout.prediction(batch, seed)
                if masked and prediction is not None:
                    ids = torch.as_tensor(prediction.ids, device=model.device)
                whole = captured, resume = kept.get(id(batch)) or model.keep(ids, mask)
                if readout is None or prediction is None:
                    return captured.path, [], whole
                for edit in edits:
                    of_tokens = readout.losses(batch, captured.last if edit is None else resume(*edit), prediction)
                    finite = of_tokens.isfinite()
                    if int(finite.sum()) < len(prediction.tokens[0]):
                        raise ReporterError("a loss is not finite; the weights may be damaged")
                    losses = of_tokens.where(finite, 0.0).sum(dim=1).cpu().numpy()
                    found.append((losses, finite.sum(dim=1).cpu().numpy()))
                    context.tell(what, next(done), len(batches) * len(edits))
            return path or captured.path, found, whole

        for batch, (path, found, whole) in run_batches(read, batches, model, context.layout):
            if states <= MOST_KEPT:
                kept[id(batch)] = whole
            if look is not None:
                look(batch, path)
            rows = unit[batch.texts]
            for number, (losses, predicted) in enumerate(found):
                np.add.at(sums[:, number], rows, losses)
                if not number:
                    np.add.at(counts, rows, predicted)
        return UnitSums(sums, counts)

    layers = model.anatomy.layers
    (cosines, all_angles), look = between_layers(unit, layers + 1)
    single = [_without((block,)) for block in range(1, layers + 1)] if item.every_block and layers > 1 else []
    losses = losses_of([None, *single], "blocks", look)
    cosines, angles = (UnitSums(np.diagonal(sums.sums, 1, 1, 2), sums.counts) for sums in (cosines, all_angles))
    influence, turned = 1 - cosines.means(), 1 - cosines.replicates(seed)
    for block, place in enumerate(context.layout.path[:-1]):
        n = int(cosines.counts.sum())
        yield Value("influence", place, float(influence[block]), n, texts=units, spread=turned[:, block])
    tokens = int(losses.counts.sum())
    if not tokens:
        yield Value("loss", None, None, 0, reason=problem or "no token is predicted")
        return
    of_whole = losses.column(0)
    whole, drawn = float(of_whole.means()), of_whole.replicates(seed)
    yield Value("loss", None, whole, tokens, texts=units, spread=drawn)
    if single:
        yield from _of_blocks(losses, cosines, angles, context)
    propose = partial(proposals, all_angles.means(), influence, changes=losses.means()[1:] - whole)
    trials = [(many, *ranked) for many in item.blocks if many < layers for ranked in enumerate(propose(many), 1)]
    measured = {edit: losses.column(number) for number, edit in enumerate(single, 1)}
    edits = dict.fromkeys(_without(proposal.blocks) for *_, proposal in trials)
    if missing := [edit for edit in edits if edit not in measured]:
        of_sets = losses_of(missing, "sets of blocks")
        measured |= {edit: of_sets.column(number) for number, edit in enumerate(missing)}
    for many, rank, proposal in trials:
        without = measured[_without(proposal.blocks)]
        left = float(without.means())
        low, high = percentile_interval(without.replicates(seed) - drawn, units)
        least = float(sum(influence[block - 1] for block in proposal.blocks))
        which = (many, rank, ranges(proposal.blocks, commas=True), proposal.by, proposal.angle, least)
        size = (len(texts), tokens, *_savings(model, proposal.blocks))
        yield SkippedBlocks(*which, left, left - whole, low, high, *size)
    if item.repeats:
        for row in _repeats(of_whole, lambda edits: losses_of(edits, "repetitions"), layers, seed):
            yield replace(row, texts=len(texts))


def _repeats(
    whole: UnitSums, losses_of: Callable[[Sequence[Edit]], UnitSums], layers: int, seed: int
) -> Iterator[RepeatedBlocks]:
    """Yield the change of the loss with blocks i + 1…j run twice, on a grid of (i, j) and then all around the best."""
    step = max(1, round(layers / 8))
    edges = [*range(0, layers, step), layers]
    tried = [(i, j) for i in edges for j in edges if i < j]
    losses = whole.beside(losses_of([(*pair, ()) for pair in tried]))
    first, last = tried[int(losses.means()[1:].argmin())]
    near = range(1 - step, step)
    more = [(first + a, last + b) for a in near for b in near if 0 <= first + a < last + b <= layers]
    if new := [pair for pair in more if pair not in tried]:
        tried += new
        losses = losses.beside(losses_of([(*pair, ()) for pair in new]))
    (changes, drawn), texts = losses.changes(seed), len(losses.counts)
    intervals = simultaneous_intervals(changes, drawn, texts)
    for (i, j), change, (low, high) in zip(tried, changes.tolist(), intervals, strict=True):
        yield RepeatedBlocks(i + 1, j, change, low, high, texts)


def _of_blocks(losses: UnitSums, cosines: UnitSums, angles: UnitSums, context: Context) -> Iterator[Value]:
    """Yield what the loss without each block says, and how far proxies agree.

    Args:
        losses: of the whole model and without each block, (texts, 1 + L).
        cosines: of the states around each block, (texts, L).
        angles: of these states, (texts, L).
        context: of the analysis.
    """
    texts, tokens, layers = len(losses.counts), int(losses.counts.sum()), cosines.sums.shape[1]
    changes, drawn = losses.changes(context.seed)
    of_texts = losses.sums[:, 1:] - losses.sums[:, :1] - changes * losses.counts[:, None]
    gaps = behind_best(-changes - of_texts * texts / tokens)  # the mean of each is that over tokens
    for block, place in enumerate(context.layout.path[:-1]):
        yield Value("change", place, float(changes[block]), tokens, texts=texts, spread=drawn[:, block])
        ends = (None, None) if gaps is None else (float(gaps.low[block]), float(gaps.high[block]))
        yield Value("excess", place, float(changes[block] - changes.min()), tokens, *ends)
    if layers < 3:  # two have no order worth comparing
        names = ("rank_influence", "rank_angle", "stability")
        yield from undefined(names, None, 0, "the model has fewer than three blocks")
        return
    for name, proxy, sign in (("rank_influence", cosines, -1), ("rank_angle", angles, 1)):
        value = float(spearman(changes, sign * proxy.means()))
        low, high = fisher_interval(value, layers, "spearman") if layers >= FEWEST_BLOCKS else (None, None)
        why = _FEW_BLOCKS if layers < FEWEST_BLOCKS else "no interval: the orders are equal or opposite"
        yield Value(name, None, value, layers, low, high, reason=why if low is None else "")
    yield Value("stability", None, float(np.nanmean(kendall(drawn, changes))), texts, reason=_NO_INTERVAL)


def _without(blocks: tuple[int, ...]) -> Edit:
    return blocks[0], blocks[0] - 1, blocks[1:]


def _savings(model: LoadedModel, blocks: Sequence[int]) -> tuple[int | None, float | None]:
    """Return how many weights some blocks have, and their share of a pass's multiplications."""
    of_blocks = model.weights_of_blocks
    if not of_blocks:
        return None, None
    weights = sum(of_blocks[block - 1] for block in blocks)
    head = model.anatomy.vocabulary_size * model.anatomy.width
    return weights, weights / (sum(of_blocks) + head)


def _readout(model: LoadedModel) -> tuple[Readout | None, str]:
    from reporter.forward.readout import Readout
    from reporter.models.head import load_head

    try:
        # the model is loaded, so its files are on this machine
        readout = Readout(model, load_head(model.checkpoint, model, offline=True))
    except ReporterError as error:
        return None, str(error)
    return (None, readout.loss_problem) if readout.loss_problem else (readout, "")
