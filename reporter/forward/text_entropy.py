"""Entropy of the spectrum of a text's states, for a bounded number of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from reporter.core.threads import spread
from reporter.forward.batch import HiddenBatch, key_of
from reporter.forward.observable import Observable, Rows, Setting
from reporter.forward.parts import poisson_weights
from reporter.forward.token_categories import VIEWS
from reporter.geometry.arrays import Bools, Floats, Ints
from reporter.geometry.entropy import FEWEST, FORMS, Bunch, batches_by_length, entropies_from, entropies_in, matrices
from reporter.geometry.entropy import of_views as by_view
from reporter.models.places import Layout, Place

if TYPE_CHECKING:
    from reporter.forward.observed import Observed

_WAITING = 2**27  # float64 numbers of matrices that wait on an accelerator for their eigenvalues: 1 GiB

_Work = tuple[int, torch.Tensor, Bunch]  # a place, its states, and texts


class TextEntropy(Observable):
    """−Σ p log p of each measured text, place and view, p = λ/Σλ, λ the eigenvalues of a Gram matrix in three forms.

    A text is measured if a hash of its place in the corpus, as a number from 0 to 1, is below ``count``/``total``,
    so that about ``count`` texts are, the same ones however a corpus is split, and those of a smaller number are
    among those of a larger one. For each it keeps ``originals`` (): its unit of observation; ``lengths`` (V,): tokens
    in each view; and ``entropies`` (P, V, F), F the ``FORMS``: NaN for fewer than three tokens and for states that are
    all equal.

    On a processor texts and places are spread over the cores. On an accelerator the eigenvalues of many places are one
    call, and nothing comes to the host before the observable is read.
    """

    name = "text_entropy"
    version = 4
    in_windows = "each"
    bounded = "at least"
    tells_views = True
    fields = dict.fromkeys(("texts", "originals", "lengths"), Rows())

    def __init__(self, layout: Layout, seed: int, count: int, total: int, views: Sequence[str]) -> None:
        self.layout, self.seed, self.count, self.total, self.views = layout, seed, count, total, list(views)
        self.texts: Ints = np.zeros(0, dtype=np.int64)
        self.originals: Ints = self.texts
        self.lengths: Ints = np.zeros((0, len(self.views)), dtype=np.int64)
        self._parts: list[torch.Tensor] = []  # entropies of some texts each, in the order of ``texts``
        self._bunches: dict[int, list[Bunch]] = {}  # texts of the batch at hand, by the width of the states
        self._measured = torch.zeros(0)  # entropies of the batch at hand

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is the number of texts to measure."""
        return cls(setting.layout, setting.seed, setting.size, setting.texts, setting.views)

    @property
    def entropies(self) -> Floats:
        """Entropies of the texts so far, shape (texts, P, V, F)."""
        self.settle()
        return np.asarray(self._parts[0].numpy())

    def settle(self) -> None:
        """Bring what was measured to the host, at the end of a shard."""
        none = torch.zeros(0, len(self.layout.places), len(self.views), len(FORMS), dtype=torch.float64)
        if len(self._parts) != 1 or self._parts[0].device != none.device:
            self._parts = [torch.cat([none, *(part.cpu() for part in self._parts)])]

    def start(self, batch: HiddenBatch) -> None:
        """Find the rows of each measured text in each view."""
        texts, first, _ = batch.by_text
        chosen = measured(texts, self.seed, self.count, self.total)
        texts, first = texts[chosen], first[chosen]
        order = np.argsort(batch.texts, kind="stable")
        starts, stops = (np.searchsorted(batch.texts[order], texts, side) for side in ("left", "right"))
        rows = [order[start:stop] for start, stop in zip(starts, stops, strict=True)]
        of_view = np.stack([np.isin(batch.strata, VIEWS[view]) for view in self.views])
        views = [of_view[:, of_text] for of_text in rows]
        lengths = np.array([view.sum(axis=1) for view in views], dtype=np.int64).reshape(len(rows), len(self.views))
        self.texts = np.concatenate([self.texts, texts])
        self.originals = np.concatenate([self.originals, batch.units[first]])
        self.lengths = np.concatenate([self.lengths, lengths])
        device = batch.device
        self._bunches = {width: batches_by_length(rows, views, width, device) for width in set(self.layout.widths)}
        shape = (len(rows), len(self.layout.places), len(self.views), len(FORMS))
        self._measured = torch.empty(shape, dtype=torch.float64, device=device)

    def finish(self, batch: HiddenBatch) -> None:
        """Measure the texts at all places."""
        places = enumerate(batch.states)
        work = [(place, states, bunch) for place, states in places for bunch in self._bunches[states.shape[1]]]
        if _on_cores(batch.states[0]):
            entropies_of_all = spread(lambda task: entropies_in(task[1], task[2]), work)
            for (place, _, bunch), entropies in zip(work, entropies_of_all, strict=True):
                self._measured[bunch.texts, place] = entropies
        else:
            self._in_few_calls(work)
        self._parts.append(self._measured)
        self._bunches = {}

    def _in_few_calls(self, work: list[_Work]) -> None:
        """Measure texts on an accelerator: of some places at once, so that there are few calls for eigenvalues."""
        by_bunch: dict[Bunch, list[tuple[int, torch.Tensor]]] = {}
        for place, states, bunch in work:
            by_bunch.setdefault(bunch, []).append((place, states))
        for bunch, places in by_bunch.items():
            room = max(1, _WAITING // bunch.numbers)
            for some in (places[start : start + room] for start in range(0, len(places), room)):
                forms, varies = zip(*(matrices(states, bunch) for _, states in some), strict=True)
                of_places = entropies_from(torch.cat(forms, dim=1), torch.cat(varies)).chunk(len(some))
                for (place, _), entropies in zip(some, of_places, strict=True):
                    self._measured[bunch.texts, place] = by_view(entropies, bunch)

    def merge(self, other: TextEntropy) -> None:
        """Add other texts."""
        super().merge(other)
        self._parts += other._parts

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``texts``, ``originals``, ``lengths`` and ``entropies``, by text; an undefined entropy is −1."""
        order = torch.from_numpy(np.argsort(self.texts, kind="stable"))
        entropies = torch.from_numpy(np.nan_to_num(self.entropies, nan=-1.0))
        return {name: rows[order] for name, rows in (super().tensors() | {"entropies": entropies}).items()}

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        numbers = 2 + len(setting.views) * (1 + len(setting.layout.places) * len(FORMS))
        return 8 * numbers * min(setting.size, setting.texts)

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        super().restore(tensors)
        entropies = tensors["entropies"]
        self._parts = [entropies.where(entropies >= 0, torch.nan)]


def _on_cores(states: torch.Tensor) -> bool:
    return states.device.type == "cpu"


def measured(texts: Ints, seed: int, count: int, total: int) -> Bools:
    """Return which texts are measured: those whose hash, from 0 to 1, is below ``count``/``total``."""
    if count >= total:
        return np.ones(len(texts), dtype=bool)
    return key_of(seed, texts) < np.uint64(count * 2**64 // total)


@dataclass(frozen=True)
class TextEntropies:
    """Entropies of the measured texts at one place in one view."""

    values: Floats
    lengths: Ints
    weights: Floats
    distinct: int
    texts: int
    short: int


def text_entropies(seen: Observed, place: Place, count: int) -> TextEntropies:
    """Return the entropies of about ``count`` texts, whatever larger number was measured."""
    kept = seen.get(TextEntropy)
    view = kept.views.index(seen.view)
    order = np.argsort(kept.texts, kind="stable")
    order = order[measured(kept.texts[order], kept.seed, count, kept.total)]
    weights = seen.once(
        ("entropy weights", count), lambda: poisson_weights(kept.originals[order], kept.seed).astype(np.float64).T
    )
    lengths, values = kept.lengths[order, view], kept.entropies[order, kept.layout.index[place], view]
    has = np.isfinite(values).all(axis=1)
    distinct, some = len(np.unique(kept.originals[order][has])), lengths[lengths > 0]
    short = int((some < FEWEST).sum())
    return TextEntropies(values[has], lengths[has], weights[:, has], distinct, len(some), short)
