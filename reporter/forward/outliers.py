"""Outliers: massive activations, the largest activation of each place, sinks and their norms."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.batch import HiddenBatch, LayerStates
from reporter.forward.means import PerToken
from reporter.forward.moments import sum_of
from reporter.forward.observable import Field, Given, Largest, Observable, Sum
from reporter.forward.token_categories import SPECIAL, STRATA
from reporter.geometry.arrays import Floats, Ints
from reporter.models.places import Layout

# Massive activations by dimension and token type: how many, where in a text, from which layer to which, how large.


_REDUCED = (np.add, np.add, np.minimum, np.maximum, np.minimum, np.maximum)


def _first(*columns: Ints) -> Ints:
    """Return 1 for the first row of each distinct one, 0 for the others, shape (rows,)."""
    first = np.zeros(len(columns[0]), dtype=np.int64)
    first[np.unique(np.column_stack(columns), axis=0, return_index=True)[1]] = 1
    return first


class ByType(Observable):
    """Outliers by token type: facts by key, in order of the keys.

    Keys end in token id, whether at position 0, whether own. Columns of ``facts`` are texts, occurrences, first and
    last position, first and last layer, and a number that belongs to the largest size, which is the last column of
    ``sizes``.
    """

    fields: ClassVar[Mapping[str, Field]] = dict.fromkeys(("keys", "facts", "sizes"), Given())  # see ``merge``
    key_columns: ClassVar[int]
    size_columns: ClassVar[int]

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        self.layout, self.tokens = layout, {str(token): name for token, name in tokens.items()}
        self.keys: Ints = np.zeros((0, self.key_columns), dtype=np.int64)
        self.facts: Ints = np.zeros((0, len(_REDUCED) + 1), dtype=np.int64)
        self.sizes: Floats = np.zeros((0, self.size_columns))

    def add(self, keys: Ints, facts: Ints, sizes: Floats) -> None:
        """Take in entries, of which several may have a key; none of their texts came before."""
        keys, facts = np.concatenate([self.keys, keys]), np.concatenate([self.facts, facts])
        sizes = np.concatenate([self.sizes, sizes])
        self.keys, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        # The last of each group: of the largest absolute size, of equals the positive, of equals the smallest number.
        order = np.lexsort((-facts[:, -1], sizes[:, -1], np.abs(sizes[:, -1]), group))
        last = order[np.flatnonzero(np.diff(group[order], append=len(self.keys)))]
        self.facts, self.sizes = facts[last], sizes[last]
        for column, reduction in enumerate(_REDUCED):
            self.facts[:, column] = 0 if reduction is np.add else self.facts[:, column]
            reduction.at(self.facts[:, column], group, facts[:, column])
        for column in range(sizes.shape[1] - 1):
            np.maximum.at(self.sizes[:, column], group, sizes[:, column])

    def merge(self, other: Self) -> None:
        """Add what stands out in other texts."""
        super().merge(other)
        self.tokens = {**self.tokens, **other.tokens}
        self.add(other.keys, other.facts, other.sizes)

    def parameters(self) -> dict[str, Any]:
        """Return the layout and the tokens that are listed."""
        listed = {str(token) for token in self.keys[:, -3].tolist()}
        names = {token: name for token, name in self.tokens.items() if token in listed}
        return {"layout": self.layout.as_json(), "tokens": names}

    def _entry(self, i: int) -> dict[str, Any]:
        """Return the facts of one token type, by the columns of its table."""
        token, _, of_text = self.keys[i, -3:].tolist()
        names = ("texts", "count", "position_first", "position_last", "layer_first", "layer_last")
        facts = zip(names, self.facts[i, :-1].tolist(), strict=True)
        return {"token_id": token, "token": self.tokens.get(str(token), ""), "own": bool(of_text), **dict(facts)}


LARGE, MANY_MEDIANS = 100.0, 1000.0  # what a massive activation exceeds: Sun et al. 2024
_TOP = 4  # of a token's coordinates are looked at: models are known to have one to three such dimensions


class Activations(ByType):
    """Massive activations, the largest activation, and Σ u_j² of unit vectors u = x/‖x‖, by place and stratum.

    A token has a massive activation if some |x_j| > 100 and > 1000 times the median |x| over all entries of all tokens
    of its text at that place, special tokens included: a rule inside one text, so that neither batches nor views change
    it. With P places and S strata it holds ``massive`` (P, S): tokens with a massive activation; ``largest`` (P, S):
    max |x_j|; and for each place ``unit_squares`` (S, d): Σ u_j², which is what Σ over pairs of u_j v_j has too much
    when it is taken as (Σ u)_j².
    By type, on the path: the massive ones among the four largest coordinates of each token, by dimension
    and token type.
    """

    name = "activations"
    version = 5
    key_columns, size_columns = 4, 1  # keys begin with the dimension
    _sums: ClassVar[Mapping[str, Field]] = {"massive": Sum(), "largest": Largest(), "unit_squares": Sum()}
    fields: ClassVar[Mapping[str, Field]] = {**ByType.fields, **_sums}

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        super().__init__(layout, tokens)
        shape = (len(layout.places), len(STRATA))
        self.massive = torch.zeros(shape, dtype=torch.float64)
        self.largest = np.zeros(shape)
        self.unit_squares = [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths]
        self._text = torch.zeros(0, dtype=torch.int64)  # of each token of the batch at hand
        # Of this shard, by layer: facts of tokens, and where states are dimensions, values and which are massive.
        self._seen: list[tuple[int, Ints, tuple[torch.Tensor, ...]]] = []

    def start(self, batch: HiddenBatch) -> None:
        """Take in the largest activations, which are known."""
        super().start(batch)
        self._text = torch.as_tensor(batch.by_text[2], device=batch.device)
        for stratum, rows in enumerate(batch.rows):
            if batch.sizes[stratum]:
                self.largest[:, stratum] = np.maximum(self.largest[:, stratum], batch.peaks[:, rows].max(axis=1))

    def observe(self, layer: LayerStates) -> None:
        """Add one place of a batch."""
        index, batch = layer.index, layer.batch
        squares = torch.square(layer.units, out=batch.scratch(layer.units))
        for stratum, rows in enumerate(batch.rows):
            if batch.sizes[stratum]:
                self.unit_squares[index][stratum] += sum_of(squares[rows])
        self._add_massive(layer)

    def _add_massive(self, layer: LayerStates) -> None:
        """Count the massive activations at one place; in most models no token can have one."""
        batch, peaks = layer.batch, layer.batch.peaks[layer.index]
        large = np.flatnonzero(peaks > LARGE)
        if not len(large):
            return
        texts, _, of_token = batch.by_text
        device = layer.states.device
        rows, token_rows, strata = (
            torch.as_tensor(x, device=device) for x in (large, of_token[large], batch.strata[large])
        )
        x = layer.states[rows]
        top, dimensions = x.abs().topk(min(_TOP, x.shape[1]), dim=1)
        # What is not large decides nothing: its limit is below any median.
        limits = (top.double() / MANY_MEDIANS).where(top > LARGE, -1.0)
        tokens = np.bincount(of_token, minlength=len(texts))
        massive = limits > _medians_of_entries(layer.states, self._text, tokens)[token_rows][:, None]
        self.massive[layer.index].index_add_(0, strata, massive[:, 0].double())
        if layer.index <= self.layout.layers:
            facts = (batch.token_ids, batch.texts, batch.positions, batch.strata != SPECIAL)
            of_tokens = np.stack([fact[large].astype(np.int64) for fact in facts], axis=1)
            self._seen.append((layer.place.layer, of_tokens, (dimensions, x.gather(1, dimensions), massive)))

    def settle(self) -> None:
        """Bring what was gathered to the host, and list what was massive in this shard."""
        super().settle()
        parts = []
        for number, tokens, tensors in self._seen:
            dimensions, values, massive = (x.cpu().numpy() for x in tensors)
            row, column = np.nonzero(massive)
            sizes = values[row, column].astype(np.float64)
            parts.append((dimensions[row, column], *tokens[row].T, np.full(len(row), number), sizes))
        self._seen = []
        if parts:
            columns = (np.concatenate(column) for column in zip(*parts, strict=True))
            dimension, token, text, position, of_text, layer, sizes = columns
            keys = np.column_stack([dimension, token, position == 0, of_text])
            # A token counts once, though it has the activation at many layers; so does a text with several of them.
            count, texts = _first(dimension, text, position), _first(*keys.T, text)
            facts = np.column_stack([texts, count, position, position, layer, layer, layer])
            self.add(keys, facts, sizes[:, None])

    def listed(self) -> Iterator[dict[str, Any]]:
        """Yield the massive activations of the path by dimension and token type, the largest first."""
        for i in np.lexsort((*self.keys.T[::-1], -np.abs(self.sizes[:, 0]))).tolist():
            value, layer, dimension = (x.item() for x in (self.sizes[i, 0], self.facts[i, -1], self.keys[i, 0]))
            yield self._entry(i) | {"dimension": dimension, "value": value, "layer": layer}


def _medians_of_entries(x: torch.Tensor, text: torch.Tensor, tokens: Ints) -> torch.Tensor:
    """Return the median |entry| of each text, of an even number the mean of the middle two, (texts,) in float64.

    Floats that are not negative are ordered as their bits are. So all entries are sorted at once, by text and then by
    bits: nothing has to wait for the device.

    Args:
        x: states, (tokens, d).
        text: number of each token's text, from 0, (tokens,).
        tokens: of each text, (texts,).
    """
    bits = x.contiguous().abs().view(torch.int32)
    keys = (text[:, None] << 32 | bits).flatten()
    # NumPy sorts in a sixth of the time of torch.
    ordered = torch.from_numpy(np.sort(keys.numpy())) if keys.device.type == "cpu" else keys.sort().values
    count = torch.as_tensor(tokens * x.shape[1], device=x.device)
    start = count.cumsum(0) - count
    low, high = ((ordered[start + middle] & 0x7FFFFFFF).to(torch.int32) for middle in ((count - 1) // 2, count // 2))
    return (low.view(torch.float32).double() + high.view(torch.float32).double()) / 2


# Which tokens are sinks: how often, where in a text, from which block to which, and on which coordinate.


class SinkTokens(ByType):
    """Sinks by token type, those at position 0 apart, in at most two entries a type.

    The last of the ``facts`` is the dimension, and ``sizes`` are ratio and dominance. Beside them
    ``counts`` (2,): own tokens, and how many of them are sinks.
    """

    name = "sink_tokens"
    version = 4
    key_columns, size_columns = 3, 2
    fields: ClassVar[Mapping[str, Field]] = {**ByType.fields, "counts": Sum()}

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        super().__init__(layout, tokens)
        self.counts: Ints = np.zeros(2, dtype=np.int64)

    def start(self, batch: HiddenBatch) -> None:
        """Take in the sinks of a batch."""
        sinks, of_text = batch.sinks, batch.strata != SPECIAL
        self.counts += [of_text.sum(), (of_text & sinks.sink).sum()]
        rows = np.flatnonzero(sinks.sink)
        if not len(rows):
            return
        keys = np.stack([batch.token_ids[rows], batch.positions[rows] == 0, of_text[rows]], axis=1).astype(np.int64)
        # Of several sinks of a key in a text, the first counts for the text; a text is never in two batches.
        texts = _first(*keys.T, batch.texts[rows])
        chosen, positions = sinks.at(rows), batch.positions[rows]
        facts = [texts, np.ones_like(texts), positions, positions, chosen.first, chosen.last, chosen.dimension]
        self.add(keys, np.stack(facts, axis=1), np.stack([chosen.ratio, chosen.dominance], axis=1))

    def listed(self) -> Iterator[dict[str, Any]]:
        """Yield the sinks by type, those of most texts first."""
        keys, facts, sizes = self.keys, self.facts, self.sizes
        for i in np.lexsort((keys[:, 1], keys[:, 0], -facts[:, 1], -facts[:, 0])).tolist():
            (ratio, dominance), dimension = sizes[i].tolist(), int(facts[i, -1])
            more = {"norm_ratio": ratio, "dominance": dominance, "dimension": None if dimension < 0 else dimension}
            yield self._entry(i) | more


# How much longer sinks, and the token at position 0, are than the other tokens of their text.


class NormRatios(PerToken):
    """Norms over the median norm of the text's other tokens, those that are no sinks and not at position 0.

    - ``sink``: of a sink
    - ``first``: of the token at position 0, sink or not

    Undefined for all other tokens, in a text without others, and where their median is 0. Of an even number the median
    is the mean of the middle two; tokens that the tokenizer added are among them.
    """

    name = "norm_ratios"
    quantities = ("sink", "first")
    _ratios: torch.Tensor  # of the batch at hand, (places, tokens, 2)

    def start(self, batch: HiddenBatch) -> None:
        """Take the ratios, which follow from norms that are known on the host."""
        super().start(batch)
        norms = batch.known_norms[: len(self.places)]
        apart = np.stack([batch.sinks.sink, batch.positions == 0], axis=1)
        ordinary = np.flatnonzero(~apart.any(axis=1))
        ratios = norms / _medians(norms, batch.by_text[2], ordinary)
        self._ratios = torch.as_tensor(np.where(apart, ratios[:, :, None], np.float32(np.nan)), device=batch.device)

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return both ratios of every token, shape (tokens, 2)."""
        return self._ratios[layer.index]


def _medians(norms: NDArray[np.float32], text: Ints, inside: Ints) -> NDArray[np.float32]:
    """Return for each token the median norm of some tokens of its text; NaN where there are none or it is 0."""
    count = np.bincount(text[inside], minlength=int(text.max(initial=-1)) + 1)
    start = np.cumsum(count) - count
    medians = np.full((len(norms), len(count)), np.nan, dtype=np.float32)
    any_ = count > 0
    low, high = (start + (count - 1) // 2)[any_], (start + count // 2)[any_]
    of_text, values = text[inside], norms[:, inside]
    for place, row in enumerate(values):
        ordered = row[np.lexsort((row, of_text))]
        medians[place, any_] = (ordered[low] + ordered[high]) / 2
    medians[medians == 0] = np.nan
    return medians[:, text]
