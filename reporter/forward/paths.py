"""Quantities of a token's path through the layers, and of the path from token to token within a text."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from reporter.forward.batch import HALF_SAMPLES, HiddenBatch, LayerStates, samples_of, unpacked
from reporter.forward.means import PerText, PerToken
from reporter.forward.observable import Field, Given
from reporter.forward.token_categories import STRATA, VIEWS
from reporter.geometry.arrays import Ints
from reporter.geometry.noise import isotropic_cosine
from reporter.models.places import Layout

QUANTITIES = (
    "cosine_to_last",
    "violation",
    "norm",
    "step_length",
    "step_cosine",
    "update_ratio",
    "curvature",
    "cosine_to_final",
    "violation_to_final",
    "line_shape",
    "straightness",
)

_TINY = 1e-30  # below any length of a step that is not 0


class TextSums(PerToken):
    """Quantities of a token's path from layer to layer.

    With h_l the state of a token at layer l, the quantities at layer l are

    - ``cosine_to_last``: cos(h_l, h_L)
    - ``violation``: 1 if cos(h_l, h_L) > cos(h_{l+1}, h_L), else 0; l < L
    - ``norm``: ‖h_l‖
    - ``step_length``: ‖h_{l+1} − h_l‖; l < L
    - ``step_cosine``: cos(h_l, h_{l+1}); l < L
    - ``update_ratio``: ‖h_{l+1} − h_l‖ / ‖h_l‖; l < L
    - ``curvature``: angle between h_{l+1} − h_l and h_{l+2} − h_{l+1}, in radians; l < L − 1
    - the two with ``to_final``: the same with the state after the final norm in place of h_L; undefined where the
      model has none of its own or it has another width
    - ``line_shape``: L over ‖Σ_l s_l/‖s_l‖‖ with s_l = h_{l+1} − h_l, a step of length 0 adding nothing; at l = L
    - ``straightness``: ‖h_L − h_0‖ / Σ_l ‖s_l‖; at l = L

    A token for which a quantity is undefined (a zero vector) is left out of its sum and count.
    """

    name = "text_sums"
    version = 4
    quantities = QUANTITIES

    # Carried from a layer of the batch at hand to the next one: its step; Σ of the steps so far, their directions and
    # their lengths.
    _step: tuple[torch.Tensor, torch.Tensor] | None
    _turns: torch.Tensor
    _way: torch.Tensor

    def start(self, batch: HiddenBatch) -> None:
        """Give each (text, stratum) of the batch a row."""
        super().start(batch)
        self._step = None
        self._turns, self._way = torch.zeros_like(batch.states[0]), torch.zeros_like(batch.norms[0])

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, Q)."""
        batch, here, last = layer.batch, layer.index, self.layout.layers
        states, x, norm = batch.states, layer.states, layer.norms
        undefined = torch.full_like(norm, torch.nan)
        to_last, to_final = cosines_to_ends(batch, here)
        violation = violation_to_final = undefined
        step_length = step_cosine = update_ratio = curvature = line_shape = straightness = undefined
        if here < last:
            next_to_last, next_to_final = cosines_to_ends(batch, here + 1)
            violation, violation_to_final = _violation(to_last, next_to_last), _violation(to_final, next_to_final)
            step, step_length = self._step or _step(x, states[here + 1])
            step_cosine = batch.cosines(here, here + 1)
            update_ratio = (step_length / norm).where(norm > 0, undefined)
            self._turns.addcdiv_(step, step_length.clamp(min=_TINY)[:, None])
            self._way += step_length
            self._step = None
            if here < last - 1:
                self._step = _step(states[here + 1], states[here + 2])
                curvature = batch.cosine_of(step, self._step[0], step_length, self._step[1]).arccos()
        elif last:
            # Of a straight line both are 1 up to rounding.
            line_shape = (last / self._turns.norm(dim=1)).clamp(min=1)
            straightness = ((x - states[0]).norm(dim=1) / self._way).clamp(max=1)
        steps = (norm, step_length, step_cosine, update_ratio, curvature)
        return torch.stack([to_last, violation, *steps, to_final, violation_to_final, line_shape, straightness], dim=1)


def cosines_to_ends(batch: HiddenBatch, place: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each token's cosine of its state at a place with the last one, and with that after the final norm.

    The latter is NaN where the model has no such norm of its own, or the states have another width there.
    """
    last = batch.layout.layers
    to_last = batch.cosines(place, last)
    if batch.layout.final_width != batch.layout.width:
        return to_last, torch.full_like(to_last, torch.nan)
    return to_last, batch.cosines(place, last + 1)  # right after the path


def _violation(cosine: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return (cosine > following).float().masked_fill(~(cosine.isfinite() & following.isfinite()), torch.nan)


def _step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    step = y - x
    return step, step.norm(dim=1)


# Per text: the mean similarity of its tokens to their last state, and how rare tokens differ from frequent ones.


class TextMeans(PerText):
    """Means over the tokens of a text, at each place of the path.

    - ``cosine_to_last``: mean of cos(h_l, h_L) over the text's tokens
    - ``frequency_gap``: that mean over tokens of rare types minus that over tokens of frequent types, for texts that
      have both
    - the two with ``to_final``: the same with the state after the final norm in place of h_L; undefined where the
      model has none of its own or it has another width

    Tokens with a zero state are left out.
    """

    name = "text_means"
    quantities = ("cosine_to_last", "frequency_gap", "cosine_to_final", "frequency_gap_to_final")
    _frequent: torch.Tensor  # whether each token of the batch at hand is of a frequent type

    def start(self, batch: HiddenBatch) -> None:
        """Number the texts, and see which tokens are of frequent types."""
        super().start(batch)
        self._frequent = torch.as_tensor(batch.frequent, device=batch.device)

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the four quantities, shape (texts, views, 4)."""
        if layer.index > self.layout.layers:  # off the path
            return self.sums.new_full((len(self.texts), len(VIEWS), 4), torch.nan)
        return torch.cat([self._means(cosine) for cosine in cosines_to_ends(layer.batch, layer.index)], dim=2)

    def _means(self, cosine: torch.Tensor) -> torch.Tensor:
        defined, frequent = cosine.isfinite(), self._frequent
        masks = torch.stack([defined, defined & frequent, defined & ~frequent], dim=1).double()
        sums = self.by_view(torch.cat([cosine.nan_to_num(nan=0.0).double()[:, None] * masks, masks], dim=1))
        whole, often, rarely = (sums[:, :, :3] / sums[:, :, 3:]).unbind(dim=2)
        return torch.stack([whole, rarely - often], dim=2)


# How much the path from token to token turns, within each layer and text.


class TokenPath(PerText):
    """Mean over a text of the angle between its steps from token to token, at each place.

    ``curvature``: with x_t the states of three neighbouring tokens of a text, the angle between x_t − x_{t−1} and
    x_{t+1} − x_t, in radians. A token is read where it and both neighbours belong to the view: what a view leaves out
    cuts the path, and is not stepped over. Undefined where a step is zero, and for a text without three such tokens.
    """

    name = "token_path"
    quantities = ("curvature",)

    # Of the batch at hand: all rows token by token, and of the tokens with two neighbours their place among these,
    # their texts, and whether the three belong to each view.
    _order: torch.Tensor
    _middle: torch.Tensor
    _text: torch.Tensor
    _inside: torch.Tensor

    def start(self, batch: HiddenBatch) -> None:
        """Find the tokens with two neighbours."""
        super().start(batch)
        order = np.lexsort((batch.positions, batch.texts))
        texts, positions, strata = batch.texts[order], batch.positions[order], batch.strata[order]
        middle = np.arange(1, max(len(order) - 1, 1))
        near = (texts[middle - 1] == texts[middle]) & (texts[np.minimum(middle + 1, len(order) - 1)] == texts[middle])
        middle = middle[near]
        middle = middle[positions[middle + 1] - positions[middle - 1] == 2]
        of_view = np.stack([np.isin(strata, members) for members in VIEWS.values()], axis=1)
        inside = of_view[middle - 1] & of_view[middle] & of_view[middle + 1]
        device = batch.device
        self._order, self._middle, self._text = (
            torch.as_tensor(rows, device=device) for rows in (order, middle, batch.by_text[2][order][middle])
        )
        self._inside = torch.as_tensor(inside, device=device).double()

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the mean angle of each text in each view, shape (texts, views, 1)."""
        relative = layer.norms.max().clamp(min=torch.finfo(torch.float32).tiny)
        steps = layer.states[self._order].div_(relative).diff(dim=0)  # so that no product over- or underflows
        lengths = torch.linalg.vector_norm(steps, dim=1)
        cosine = (steps[:-1] * steps[1:]).sum(dim=1) / (lengths[:-1] * lengths[1:])  # at each token but two, row by row
        angle = cosine[self._middle - 1].clamp(-1, 1).arccos().double()
        defined = self._inside * angle.isfinite()[:, None]
        both = torch.stack([defined * angle.nan_to_num(nan=0.0)[:, None], defined])
        sums = both.new_zeros(2, len(self.texts), len(VIEWS)).index_add_(1, self._text, both)
        return (sums[0] / sums[1])[:, :, None]


# How much the tokens of a text point the same way as the text.


_ZERO = 1e-6  # of a text's root mean square norm: a mean vector shorter than this is what rounding leaves of zero


class IntraText(PerText):
    """Mean over a text's tokens of the cosine of a state to the text's mean state, both over the view's tokens.

    ``cosine``: with u_i = x_i/‖x_i‖ and m = Σ x_i: Σ cos(x_i, m) = (Σ u_i)·m/‖m‖. Undefined for fewer than two states
    that are not zero, and where the mean is zero. ``isotropic``: what isotropic Gaussian states read in a text of as
    many tokens; a token is part of the mean that it is compared with, so this is about 1/√n, not zero.
    """

    name = "intra_text"
    quantities = ("cosine", "isotropic")
    _count: torch.Tensor  # of states that are not zero, (places, texts, views), of the batch at hand
    _isotropic: torch.Tensor  # what they would read

    def start(self, batch: HiddenBatch) -> None:
        """Number the texts, and see how many states that are not zero each has."""
        super().start(batch)
        texts, _, of_token = batch.by_text
        row, rows = of_token * len(STRATA) + batch.strata, len(texts) * len(STRATA)
        counts = np.stack([np.bincount(row[norms > 0], minlength=rows) for norms in batch.known_norms])
        by_stratum = counts.reshape(len(counts), len(texts), len(STRATA)).astype(np.float64)
        count = np.stack([by_stratum[:, :, list(strata)].sum(axis=2) for strata in VIEWS.values()], axis=2)
        isotropic = np.empty_like(count)
        for width in set(self.layout.widths):
            places = np.flatnonzero(np.array(self.layout.widths) == width)
            isotropic[places] = isotropic_cosine(count[places], width)
        self._count, self._isotropic = (torch.as_tensor(x, device=batch.device) for x in (count, isotropic))

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return both quantities of each text in each view, shape (texts, views, 2)."""
        count, isotropic = self._count[layer.index], self._isotropic[layer.index]
        units = self.by_view(layer.units).double()
        # Relative to the largest norm of the batch, so that sums neither overflow nor underflow in float32.
        largest = layer.norms.max().clamp(min=torch.finfo(torch.float32).tiny)
        relative = torch.div(layer.states, largest, out=layer.batch.scratch(layer.states))
        total = self.by_view(relative).double()
        squares = self.by_view((layer.norms / largest).double().square()[:, None])[:, :, 0]
        length = torch.linalg.vector_norm(total, dim=2)
        cosine = ((units * total).sum(dim=2) / (length * count)).clamp(-1, 1)
        both = torch.stack([cosine, isotropic], dim=2)
        defined = (count >= 2) & (length > _ZERO * (squares * count).sqrt())
        return torch.where(defined[:, :, None], both, torch.nan)


# How near tokens of frequent and of rare types are to their last state, in the corpus and in half-samples of it.


class FrequencySplit(PerToken):
    """Cosines of tokens with their last state, split by whether their type is a frequent one.

    Which types are frequent hangs on the corpus, so the replicates are half-samples of its texts, each with the split
    of its own (``reporter.forward.batch``).

    - ``cosine_frequent``, ``cosine_rare``: cos(h_l, h_L) of tokens of frequent types, and of all others
    - the two with ``to_final``: the same with the state after the final norm in place of h_L; undefined where the
      model has none of its own or it has another width

    Tokens with a zero state are left out.
    """

    name = "frequency_split"
    fields: ClassVar[Mapping[str, Field]] = {**PerToken.fields, "splits": Given()}
    reads_types = True
    quantities = ("cosine_frequent", "cosine_rare", "cosine_to_final_frequent", "cosine_to_final_rare")

    def __init__(self, layout: Layout, seed: int, splits: Ints | None = None) -> None:
        super().__init__(layout, seed, HALF_SAMPLES)
        self.splits = np.zeros(0, dtype=np.int64) if splits is None else splits
        self._masks: tuple[torch.Tensor, ...] = ()
        self._of_places: list[torch.Tensor] = []

    def start(self, batch: HiddenBatch) -> None:
        """Look up in which samples each token is a frequent or a rare one."""
        self.follow(batch.device)
        bits = np.zeros(len(batch), dtype=np.int64)
        counted = batch.token_ids < len(self.splits)
        bits[counted] = self.splits[batch.token_ids[counted]]
        frequent, held = unpacked(bits), samples_of(batch.units, self.seed)
        kinds = (held & frequent, held & ~frequent)
        self._masks = tuple(torch.as_tensor(mask, device=batch.device).double() for mask in kinds)
        self._of_places = []

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return cos(h_l, h_L) and the cosine with the final state, NaN where undefined, shape (tokens, 2)."""
        return torch.stack(cosines_to_ends(layer.batch, layer.index), dim=1)

    def observe(self, layer: LayerStates) -> None:
        """Keep the cosines at one place until the batch is through."""
        if layer.index < len(self.places):
            self._of_places.append(self.of_tokens(layer))

    def finish(self, batch: HiddenBatch) -> None:
        """Add the cosines to the sums of each sample that holds the token."""
        values = torch.stack(self._of_places, dim=1)  # (tokens, places, cosines)
        defined = values.isfinite()
        both = torch.stack([values.where(defined, 0.0), defined], dim=1).double().flatten(1)
        for stratum, rows in enumerate(batch.rows):
            if not batch.sizes[stratum]:
                continue
            for kind, mask in enumerate(self._masks):
                sums = (mask[rows].T @ both[rows]).view(-1, 2, *values.shape[1:])  # the whole corpus is the last sample
                # This kind's cosine with the last and the final state.
                selection = (slice(None), stratum, slice(kind, None, 2))
                self.sums[selection] += sums[-1, 0]
                self.counts[selection] += sums[-1, 1]
                self.replicate_sums[:, *selection] += sums[:-1, 0]
                self.replicate_counts[:, *selection] += sums[:-1, 1]
        self._masks, self._of_places = (), []
