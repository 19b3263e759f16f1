"""Bounded samples of tokens and of texts with their states, chosen by hash so that they merge exactly.

A key is a hash (:mod:`reporter.forward.sampled_states`), so the sample sorted by key is in random order, and any run of
it is a shuffled batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch

from reporter.forward.batch import FEW_HALVES, HiddenBatch, Keys, LayerStates, groups_of, key_of
from reporter.forward.observable import Observable, Setting
from reporter.forward.readout import next_tokens
from reporter.forward.sampled_states import RoundedStates, Sample, Sampled
from reporter.forward.token_categories import STRATA, VIEWS
from reporter.geometry.arrays import Bools, Ints
from reporter.models.places import Layout, Place

# Columns of ``facts``: what is known of a kept token besides its key and its states; its text is the first one of its
# unit of observation. The last four are only in ``Tokens``: whether it is the first own token of its text,
# the bits of two float64, those of ``Sinks``, and the key of its context.
COUNT, EMBEDDING_CONTEXT, TOKEN, TEXT, POSITION, FIRST, RATIO, DOMINANCE, CONTEXT = range(9)
UNIT = POSITION  # of whole texts


class TokenSample(Sampled):
    """The ``size`` tokens with the smallest keys in each stratum; subclasses say what the key is.

    Memory: 4·size·d bytes for each place and stratum that fills up, half of that once the pass is finished.
    """

    version = 5
    columns: ClassVar[int] = 5
    rounded: ClassVar[bool] = True
    """Whether states are kept in 16 bits once the pass is finished."""

    def __init__(self, layout: Layout, size: int, seed: int) -> None:
        self.layout, self.size, self.seed = layout, size, seed
        # Of equal keys the first text of the corpus, not of the batch, so that neither batches nor merges change it.
        merging = {COUNT: np.add, TEXT: np.minimum}
        self.sample = Sample(layout.widths, self.columns, size, len(STRATA), merging)

    def keys(self, batch: HiddenBatch) -> Keys:
        """Return the key of each token of a batch, shape (tokens,): a hash of its place in the corpus."""
        return key_of(self.seed, batch.texts, batch.positions)

    def facts(self, batch: HiddenBatch) -> list[Ints]:
        """Return what is known of each token of a batch, column by column."""
        ones = np.ones(len(batch), dtype=np.int64)
        return [ones, batch.embedding_contexts.view(np.int64), batch.token_ids, batch.units, batch.positions]

    def start(self, batch: HiddenBatch) -> None:
        """Choose the tokens of a batch that enter the sample."""
        super().start(batch)
        facts = np.stack(self.facts(batch), axis=1)
        self.choose(batch.strata, self.keys(batch), facts, np.arange(len(batch)), batch.device)

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with states in 16 bits, without the tokens that no view draws.

        A view draws the smallest keys of all its strata together: few of a stratum that holds few tokens.
        """
        drawn = np.zeros(len(self.sample.keys), dtype=bool)
        for strata in VIEWS.values():
            inside = np.isin(self.sample.groups, strata)
            keys = np.unique(self.sample.keys[inside])[: self.size]
            drawn |= inside & (self.sample.keys <= keys.max(initial=0))
        return self.sample.tensors(drawn, self.rounded)

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        drawn = cls.drawn(setting, tokens)
        of_places = sum(RoundedStates.bytes(rows, width) for rows in drawn for width in setting.layout.widths)
        return of_places + 8 * (2 + cls.columns) * sum(drawn)

    @classmethod
    def drawn(cls, setting: Setting, tokens: Sequence[int]) -> list[int]:
        """Return how many of each stratum views draw, about."""
        totals = [(strata, max(1, sum(tokens[part] for part in strata))) for strata in VIEWS.values()]
        return [
            max(min(rows, setting.size * rows // total) for strata, total in totals if stratum in strata)
            for stratum, rows in enumerate(tokens)
        ]

    def select(self, strata: tuple[int, ...], size: int, device: str = "cpu") -> TokenSelection:
        """Return the ``size`` tokens with the smallest keys among some strata; a key found in two counts once."""
        rows = np.flatnonzero(np.isin(self.sample.groups, strata))
        keys, first, which = np.unique(self.sample.keys[rows], return_index=True, return_inverse=True)
        every = self.sample.facts[rows]
        facts = every[first]
        facts[:, COUNT] = 0
        np.add.at(facts[:, COUNT], which, every[:, COUNT])
        np.minimum.at(facts[:, TEXT], which, every[:, TEXT])
        return TokenSelection(self, keys[:size], facts[:size], self.sample.slots[rows][first[:size]], device)


class TokenSelection:
    """Some tokens of a sample, sorted by key."""

    def __init__(self, sample: TokenSample, keys: Keys, facts: Ints, slots: Ints, device: str) -> None:
        self._sample, self._slots, self._device = sample, slots, device
        self.keys, self.facts = keys, facts

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def texts(self) -> Ints:
        """The unit of observation of each token, by the place of its first text in the corpus, shape (n,)."""
        return self.facts[:, TEXT]

    def halves(self, seed: int) -> Bools:
        """Return which tokens each of 31 half-samples of the texts holds, shape (31, n): ``FEW_HALVES``."""
        return FEW_HALVES[:, groups_of(self.texts, seed)]

    def distinct(self) -> TokenSelection:
        """Return the first token of each context, counted as often as the selection holds that context.

        Dimension and neighbours are read off these, since equal states would be each other's nearest neighbours.
        """
        _, first, which = np.unique(self.facts[:, CONTEXT], return_index=True, return_inverse=True)
        order = np.argsort(first)
        distinct = self._take(first[order])
        distinct.facts[:, COUNT] = np.bincount(which, self.facts[:, COUNT], len(first))[order]
        return distinct

    def distinct_at(self, place: Place) -> tuple[Ints, int, str]:
        """Return the rows of distinct states at a place, the number of tokens, and a reason if most tokens repeat."""
        rows = np.arange(len(self))
        if place.layer == 0:  # where more tokens are equal than deeper down
            rows = np.sort(np.unique(self.facts[:, EMBEDDING_CONTEXT], return_index=True)[1])
        tokens = int(self.facts[:, COUNT].sum())
        repeat = f"{1 - len(rows) / max(tokens, 1):.0%} of the sampled tokens are duplicates"
        return rows, tokens, repeat if 2 * len(rows) < tokens else ""

    def shared(self, other: TokenSelection) -> tuple[TokenSelection, TokenSelection]:
        """Return both with only the tokens that both have, in the same order: those with equal keys."""
        _, mine, theirs = np.intersect1d(self.keys, other.keys, assume_unique=True, return_indices=True)
        return self._take(mine), other._take(theirs)

    def _take(self, rows: Ints) -> TokenSelection:
        return TokenSelection(self._sample, self.keys[rows], self.facts[rows], self._slots[rows], self._device)

    def states(self, place: Place) -> torch.Tensor:
        """Return the tokens' states at a place, float32 on the device, shape (n, width)."""
        return self._sample.sample.read(self._sample.layout.index[place], self._slots, self._device)


class Tokens(TokenSample):
    """A uniform sample of tokens as they occur, duplicates included."""

    name = "tokens"
    columns = 9

    def facts(self, batch: HiddenBatch) -> list[Ints]:
        """Add whether a token is the first own one of its text, how near it is to being a sink, and its context."""
        sinks = batch.sinks
        return [
            *super().facts(batch),
            batch.first_own.astype(np.int64),
            sinks.ratio.view(np.int64),
            sinks.dominance.view(np.int64),
            batch.contexts.view(np.int64),
        ]


# The last states of a sample of tokens, from which heads make the distributions of two models over the same tokens.

LAST = Place("embedding", 0)
"""The only place of the sample."""
NEXT = 5
"""Column of ``facts``: the token that follows, −1 where a decoder predicts none, and in encoders."""


class Outputs(TokenSample):
    """The states that the head reads of a uniform sample of tokens, after the final norm, and the next tokens.

    They are kept in float32. In bf16 they would add 3e-5 nats to the divergence of SmolLM2 from itself, half of what
    rounding all weights to bf16 does; in the 16 bits of other samples 3e-7 nats.
    """

    name = "outputs"
    version = 2
    columns = 6
    reads_head = True
    rounded = False

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing and has the place ``LAST`` alone."""
        layout = setting.layout
        return cls(Layout(0, layout.final_width or layout.width), setting.size, setting.seed)

    def facts(self, batch: HiddenBatch) -> list[Ints]:
        """Add the next token."""
        predicts = batch.readout is not None and batch.readout.predicts_next
        return [*super().facts(batch), next_tokens(batch) if predicts else np.full(len(batch), -1)]

    def start(self, batch: HiddenBatch) -> None:
        """Choose tokens, unless no head can read them."""
        self._rows = torch.zeros(0, dtype=torch.int64)
        if batch.readout is not None and not batch.readout.lens_problem:
            super().start(batch)

    def observe(self, layer: LayerStates) -> None:
        """Copy the chosen tokens' last states."""
        layout, readout = layer.batch.layout, layer.batch.readout
        final = layout.final_width is not None
        if readout is not None and len(self._rows) and layer.index == layout.layers + final:
            states = layer.states.index_select(0, self._rows)
            self.sample.write(0, self._slots, states if final else readout.model.close(states))

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        width = setting.layout.final_width or setting.layout.width
        return (4 * width + 8 * (2 + cls.columns)) * sum(cls.drawn(setting, tokens))


# Mean-pooled vectors of a bounded sample of texts, chosen so that any two models keep the same texts.


class Pooled(TokenSample):
    """Mean state of each text's tokens, at each place and stratum, for ``size`` texts of each stratum.

    What a :class:`TokenSample` does with tokens, this one does with texts: a text's key is a hash of the seed and its
    place in the corpus and of nothing else, so two models on one corpus keep the same texts. Of each stratum the texts
    with the smallest keys among those that have a token there are kept; so the texts with the smallest keys in any
    union of strata are there with all their tokens. A text that repeats an earlier one of the corpus is left out:
    the two are one observation, and would be each other's nearest neighbours. ``facts`` counts a text's tokens in the
    stratum, and has its unit of observation in place of a position.

    A text must come whole, in one batch, as it does in a pass. Memory: 4·size·d bytes for each place and stratum, half
    of that once the pass is finished.
    """

    name = "pooled"
    in_windows = "first"
    version = 5  # of its own, not of the sample that it is built on
    _tokens: torch.Tensor  # of the batch at hand, whose states enter the sample
    _text: torch.Tensor  # of each token, among the texts that enter it
    _count: torch.Tensor  # tokens of each of these texts

    @classmethod
    def drawn(cls, setting: Setting, tokens: Sequence[int]) -> list[int]:
        """Return how many texts of each stratum views draw, about: a text has tokens in several."""
        return [min(setting.texts, setting.size, rows) for rows in tokens]

    def keys(self, batch: HiddenBatch) -> Keys:
        """Return the key of each token's text, shape (tokens,)."""
        return key_of(self.seed, batch.texts)

    def start(self, batch: HiddenBatch) -> None:
        """Choose the texts of a batch that enter the sample."""
        self.follow(batch.device)
        tokens = np.flatnonzero(batch.texts == batch.originals)
        texts, _, text = batch.by_text
        parts = batch.strata[tokens] * len(texts) + text[tokens]  # of texts, by stratum
        _, first, part, count = np.unique(parts, return_index=True, return_inverse=True, return_counts=True)
        rows = tokens[first]
        facts = np.zeros((len(rows), self.columns), dtype=np.int64)
        facts[:, COUNT], facts[:, TEXT], facts[:, UNIT] = count, batch.texts[rows], batch.units[rows]
        chosen, slots = self.sample.admit(batch.strata[rows], self.keys(batch)[rows], facts)
        place = np.full(len(rows), -1)
        place[chosen] = np.arange(len(chosen))
        of_token = place[part]
        taken = of_token >= 0
        arrays = (tokens[taken], of_token[taken], count[chosen], slots)
        self._tokens, self._text, self._count, self._slots = (
            torch.from_numpy(array).to(batch.device) for array in arrays
        )

    def observe(self, layer: LayerStates) -> None:
        """Add up the chosen texts' states, in float64."""
        if len(self._slots):
            states = layer.states.index_select(0, self._tokens).double()
            sums = states.new_zeros(len(self._count), states.shape[1]).index_add_(0, self._text, states)
            self.sample.write(layer.index, self._slots, sums / self._count[:, None])

    def texts(self, strata: tuple[int, ...], size: int, device: str = "cpu") -> PooledTexts:
        """Return the ``size`` texts with the smallest keys among those that have a token in some of the strata."""
        kept = self.sample
        rows = np.flatnonzero(np.isin(kept.groups, strata))
        keys, first = np.unique(kept.keys[rows], return_index=True)
        keys, first = keys[:size], rows[first[:size]]
        counts = np.zeros((len(strata), len(keys)), dtype=np.int64)
        slots = np.zeros_like(counts)
        for index, stratum in enumerate(strata):
            rows = np.flatnonzero(kept.groups == stratum)
            _, text, places = np.intersect1d(keys, kept.keys[rows], assume_unique=True, return_indices=True)
            counts[index, text], slots[index, text] = kept.facts[rows[places], COUNT], kept.slots[rows[places]]
        return PooledTexts(self, kept.facts[first, TEXT], kept.facts[first, UNIT], counts, slots, device)


@dataclass(frozen=True, eq=False)
class PooledTexts:
    """Some texts of the sample under a view, in the random order of their keys."""

    pooled: Pooled
    texts: Ints
    units: Ints
    counts: Ints
    slots: Ints
    device: str = "cpu"

    def __len__(self) -> int:
        return len(self.texts)

    def shared(self, other: PooledTexts) -> tuple[PooledTexts, PooledTexts]:
        """Return both with only the texts that both have, in the same order."""
        _, mine, theirs = np.intersect1d(self.texts, other.texts, assume_unique=True, return_indices=True)
        order = np.argsort(mine)
        return self.take(mine[order]), other.take(theirs[order])

    def take(self, rows: Ints) -> PooledTexts:
        """Return some of the texts, in the order of ``rows``."""
        texts, units = self.texts[rows], self.units[rows]
        return replace(self, texts=texts, units=units, counts=self.counts[:, rows], slots=self.slots[:, rows])

    def vectors(self, place: Place) -> torch.Tensor:
        """Return the mean state of each text's tokens at a place, float64 on the device, shape (n, width)."""
        layout = self.pooled.layout
        index = layout.index[place]
        x = torch.zeros(len(self), layout.widths[index], dtype=torch.float64, device=self.device)
        for counts, slots in zip(self.counts, self.slots, strict=True):
            rows = np.flatnonzero(counts)
            if len(rows):
                states = self.pooled.sample.read(index, slots[rows], self.device).double()
                share = torch.from_numpy(counts[rows] / self.counts[:, rows].sum(axis=0)).to(self.device)
                x.index_add_(0, torch.from_numpy(rows).to(self.device), states * share[:, None])
        return x


# How the tokens of a corpus read, for numbers of single token types.


class TokenNames(Observable):
    """The tokens that occur in the corpus, as they read, by id."""

    name = "token_names"
    version = 2

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        self.layout, self.tokens = layout, {str(token): name for token, name in tokens.items()}

    def merge(self, other: TokenNames) -> None:
        """Take in the tokens of other texts."""
        self.tokens |= other.tokens
