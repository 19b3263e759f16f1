"""Block ablation: how little blocks turn the states, and the loss without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator, Field

from reporter.core.errors import ReporterError
from reporter.core.table import Comparable, OfModel, column, of_cell
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import percentile_interval
from reporter.metrics._intervals import BOOTSTRAP
from reporter.metrics._items import drawn_texts
from reporter.metrics.analysis import Context, analysis
from reporter.metrics.base import Size, Statistic, Value
from reporter.spec.offer import Reference, Section
from reporter.spec.part import AsTuple, Complaint, Name, Part, failure, no_repeats

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.readout import Readout
    from reporter.models.load import LoadedModel
    from reporter.texts.tokens import TokenBatch

PROPOSALS = 3  # sets of blocks that are tried for each number of them


def _positive(blocks: tuple[int, ...]) -> tuple[int, ...]:
    for place, many in enumerate(blocks):
        if many < 1:
            raise failure(Complaint(f"expected a number of blocks of at least 1, got {many}", (place,)))
    return blocks


class Skip(Part):
    """A corpus to measure the loss on, and how many blocks to leave out."""

    corpus: Name = Field(description="The corpus whose texts the model predicts.")
    blocks: Annotated[tuple[int, ...], AsTuple, AfterValidator(no_repeats), AfterValidator(_positive)] = Field(
        (1, 2, 4),
        min_length=1,
        description="Numbers of blocks to leave out; for each number the three best sets are run.",
    )
    texts: int = Field(60, ge=10, le=5000, description="Number of texts of the corpus.")


_mean = partial(Statistic, sources=("men2024shortgpt",), interval=BOOTSTRAP)
STATISTICS = (
    _mean(
        "influence",
        "block influence",
        "1 − mean over tokens of cos(h_l, h_{l+1}), for block l + 1. Stored at layer l = 0…L−1. All tokens of the "
        "texts themselves count, except tokens with a zero state. At most `texts` distinct texts are read.",
        per="step",
        bounds=(0, 2),
        trap="A block that rotates states little may still be needed; see the measured loss.",
        published="The paper's code averages over the tokens of each batch, padding included.",
    ),
    Size(
        "loss",
        "loss of the whole model on the sample",
        "Mean of −log p(token) in nats, as defined for loss.lm, over at most `texts` distinct texts.",
        ("men2024shortgpt",),
        short="loss",
        per="model",
        unit="nats",
        interval=BOOTSTRAP,
        smallest=0.01,
        headline=True,
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
        "reason of the proposal: 'angle' (the consecutive blocks that rotate states least; Gromov et al. 2025) or "
        "'influence' (the blocks that each rotate states least; Men et al. 2024)"
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


@dataclass(frozen=True)
class Proposal:
    """Blocks to leave out.

    Args:
        blocks: their numbers, 1…L, ascending.
        by: ``angle`` or ``influence``.
        angle: of a run.
    """

    blocks: tuple[int, ...]
    by: str
    angle: float | None


@analysis(
    title="Block ablation",
    summary="Which blocks rotate states least, alone or consecutively, and how much worse the model predicts without "
    "them.",
    statistics=STATISTICS,
    question="prediction",
    section=Section(
        Skip,
        "Block ablations, by a short name.",
        ("block ablation", "block ablations"),
        (Reference("corpus", "corpora"),),
    ),
    cost="a forward pass over the sample, and three more per number of blocks; for an encoder twice as many",
    version=3,
    tables=(SkippedBlocks,),
)
def skip(item: Skip, context: Context) -> Iterator[Value | SkippedBlocks]:
    """Yield the influence of each block, the loss of the model, and its loss without the blocks that are proposed."""
    from reporter.forward.measure import batched, tokenised_texts

    model, corpus = context.model, context.corpora[item.corpus]
    texts = drawn_texts(corpus, item.texts, context)
    if not texts:
        raise ReporterError(f"the tokenizer finds no token in any text of corpus '{item.corpus}'")
    cut = list(batched(tokenised_texts(texts, model, corpus.max_tokens), context.batch_tokens, model))
    readout, problem = _readout(model)

    def losses(look: Callable[[TokenBatch, list[Tensor]], None] | None = None) -> _Sums:
        """Return Σ −log p and the tokens predicted of each text, in the model as it is; ``look`` sees the states."""
        import torch

        sums, counts = np.zeros(len(texts)), np.zeros(len(texts))
        for batch in cut:
            with torch.inference_mode():
                ids, mask = (torch.as_tensor(x, device=model.device) for x in (batch.ids, batch.mask))
                captured = model.run(ids, mask)
                if look is not None:
                    look(batch, captured.path)
                if readout is None:
                    continue
                of_tokens = readout.token_losses(batch, captured.last, context.seed)
                finite = of_tokens.isfinite()
                if not bool((finite | of_tokens.isnan()).all()):
                    raise ReporterError("a loss is not finite; the weights may be damaged")
                sums[batch.texts] = of_tokens.where(finite, 0.0).sum(dim=1).cpu().numpy()
                counts[batch.texts] = finite.sum(dim=1).cpu().numpy()
        return _Sums(sums, counts)

    cosines, angles, look = _between_layers(len(texts), model.anatomy.layers + 1)
    whole = losses(look)
    influence = 1 - cosines.means()
    for block, place in enumerate(context.layout.path[:-1]):
        turned = _Sums(cosines.sums[:, block, block + 1], cosines.counts)
        ends = percentile_interval(1 - turned.replicates(context.seed), len(texts))
        yield Value("influence", place, float(influence[block, block + 1]), int(cosines.counts.sum()), *ends)
    if not whole.counts.sum():
        yield Value("loss", None, None, 0, reason=problem or "no token is predicted")
        return
    loss = whole.mean()
    drawn = whole.replicates(context.seed)
    yield Value("loss", None, loss, int(whole.counts.sum()), *percentile_interval(drawn, len(texts)))
    layers = model.anatomy.layers
    trials = [
        (many, proposal)
        for many in item.blocks
        if many < layers
        for proposal in proposals(angles.means(), influence, many)
    ]
    for done, (many, proposal) in enumerate(trials, 1):
        with model.skipping(proposal.blocks):
            without = losses()
        low, high = percentile_interval(without.replicates(context.seed) - drawn, len(texts))
        number = 1 + sum(before == many for before, _ in trials[: done - 1])
        least, left = float(sum(influence[block - 1, block] for block in proposal.blocks)), without.mean()
        which = (many, number, said(proposal.blocks), proposal.by, proposal.angle, least)
        yield SkippedBlocks(*which, left, left - loss, low, high, len(texts), int(without.counts.sum()))
        context.tell("sets of blocks", done, len(trials))


def _readout(model: LoadedModel) -> tuple[Readout | None, str]:
    from reporter.forward.readout import Readout
    from reporter.models.head import load_head

    try:
        # the model is loaded, so its files are on this machine
        readout = Readout(model, load_head(model.checkpoint, model, offline=True))
    except ReporterError as error:
        return None, str(error)
    return (None, readout.loss_problem) if readout.loss_problem else (readout, "")


def proposals(angles: Floats, influence: Floats, many: int) -> list[Proposal]:
    """Return the sets of so many blocks to try: the run that turns least, those that each turn least, further runs."""
    layers = len(angles) - 1
    runs = sorted(range(layers - many + 1), key=lambda first: float(angles[first, first + many]))
    ordered = [
        Proposal(tuple(range(first + 1, first + many + 1)), "angle", float(angles[first, first + many]))
        for first in runs
    ]
    of_block = influence[np.arange(layers), np.arange(1, layers + 1)]
    least = tuple(sorted(int(block) + 1 for block in np.argsort(of_block, kind="stable")[:many]))
    if all(least != proposal.blocks for proposal in ordered[:PROPOSALS]):
        run = next((proposal.angle for proposal in ordered if proposal.blocks == least), None)
        ordered.insert(1, Proposal(least, "influence", run))
    return ordered[:PROPOSALS]


def said(blocks: Sequence[int]) -> str:
    """Write blocks as people do: ``12–15``, ``3, 7–8``."""
    parts: list[list[int]] = []
    for block in blocks:
        if parts and block == parts[-1][-1] + 1:
            parts[-1].append(block)
        else:
            parts.append([block])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of a quantity over the tokens of each text, (texts, …), and how many tokens have it, (texts,)."""

    sums: Floats
    counts: Floats

    def mean(self) -> float:
        """Return the mean over tokens."""
        return float(self.sums.sum() / self.counts.sum())

    def means(self) -> Floats:
        """Return the mean over tokens of each quantity, (…)."""
        return np.asarray(self.sums.sum(axis=0) / max(self.counts.sum(), 1.0))

    def replicates(self, seed: int) -> Floats:
        """Return the mean under each set of Poisson weights of the texts, paired between calls, (R,)."""
        from reporter.forward.means import poisson_weights

        weights = poisson_weights(np.arange(len(self.counts)), seed).T.astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((weights @ self.sums) / (weights @ self.counts))


def _between_layers(texts: int, places: int) -> tuple[_Sums, _Sums, Callable[[TokenBatch, list[Tensor]], None]]:
    """Return cosines and angles between all layers by text, and what fills them from the states of a batch."""
    import torch

    from reporter.forward.between_layers import cosines_of_layers

    counts = np.zeros(texts)
    cosines, angles = (_Sums(np.zeros((texts, places, places)), counts) for _ in range(2))

    def look(batch: TokenBatch, path: list[Tensor]) -> None:
        text_tokens = (batch.mask == 1) & ~batch.special
        for row, text in enumerate(batch.texts.tolist()):
            positions = torch.from_numpy(np.flatnonzero(text_tokens[row])).to(path[0].device)
            if not len(positions):
                continue
            between = cosines_of_layers([state[row].index_select(0, positions) for state in path])
            between = between[between.isfinite().all(dim=2).all(dim=1)]
            cosines.sums[text] = between.sum(dim=0).cpu().numpy()
            angles.sums[text] = (between.arccos().sum(dim=0) / torch.pi).cpu().numpy()
            counts[text] = len(between)

    return cosines, angles, look
